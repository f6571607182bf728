//! DANE (RFC 7672): what DNSSEC says of a mail server's certificate decides whether it is the
//! right one; nobody else has to vouch for it.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256, Sha512};

use crate::dns::TlsaRecord;

/// DANE-TA: the certificate is below one that is named.
const ANCHOR: u8 = 2;
/// DANE-EE: the certificate is the one that is named.
const END_ENTITY: u8 = 3;

const WHOLE: u8 = 0;
const KEY: u8 = 1;

const EXACT: u8 = 0;
const SHA_256: u8 = 1;
const SHA_512: u8 = 2;

/// What the certificate of a mail server has to match.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Dane {
    /// One of these has to be in a certificate that is below one that is named.
    names: Vec<String>,
    /// Those that can be used, at least one.
    records: Vec<TlsaRecord>,
}

/// Tells connections apart that were made on other terms.
impl fmt::Debug for Dane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dane({:?}", self.names)?;
        for TlsaRecord { usage, selector, matching, data } in &self.records {
            write!(f, " {usage} {selector} {matching} {}", Hex(data))?;
        }
        f.write_str(")")
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Dane {
    /// `None` where no record can be used: those of the usages 0 and 1 ask for public authorities
    /// as well, which mail servers need not have (RFC 7672, 3.1.3), and others nobody knows.
    pub fn new(names: Vec<String>, mut records: Vec<TlsaRecord>) -> Option<Dane> {
        records.retain(is_usable);
        (!records.is_empty()).then_some(Dane { names, records })
    }

    fn of_usage(&self, usage: u8) -> impl Iterator<Item = &TlsaRecord> {
        self.records.iter().filter(move |record| record.usage == usage)
    }

    /// Whether a certificate is one that is named; then neither its name nor its age matter.
    fn names_end_entity(&self, certificate: &CertificateDer<'_>) -> bool {
        self.of_usage(END_ENTITY).any(|record| matches(record, certificate))
    }

    /// Those that are named and may vouch for others: shown by the server, or in DNS as a whole.
    fn anchors(&self, shown: &[CertificateDer<'_>]) -> RootCertStore {
        let mut anchors = RootCertStore::empty();
        for record in self.of_usage(ANCHOR) {
            let in_dns = (record.selector == WHOLE && record.matching == EXACT)
                .then(|| CertificateDer::from_slice(&record.data).into_owned());
            let found = shown.iter().find(|certificate| matches(record, certificate));
            // What cannot be read as a certificate vouches for nobody.
            let _ = in_dns.or_else(|| found.map(|found| found.clone().into_owned())).map(|one| anchors.add(one));
        }
        anchors
    }
}

fn is_usable(record: &TlsaRecord) -> bool {
    let length = record.data.len();
    let is_whole = match record.matching {
        EXACT => length > 0,
        SHA_256 => length == 32,
        SHA_512 => length == 64,
        _ => false,
    };
    is_whole && matches!(record.usage, ANCHOR | END_ENTITY) && matches!(record.selector, WHOLE | KEY)
}

fn matches(record: &TlsaRecord, certificate: &CertificateDer<'_>) -> bool {
    let is_data = |shown: &[u8]| match record.matching {
        EXACT => *shown == *record.data,
        SHA_256 => Sha256::digest(shown)[..] == *record.data,
        SHA_512 => Sha512::digest(shown)[..] == *record.data,
        _ => false,
    };
    match record.selector {
        WHOLE => is_data(certificate),
        KEY => ParsedCertificate::try_from(certificate)
            .is_ok_and(|certificate| is_data(&certificate.subject_public_key_info())),
        _ => false,
    }
}

#[derive(Debug)]
pub(super) struct Verifier {
    dane: Arc<Dane>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    pub(super) fn new(dane: Arc<Dane>) -> Verifier {
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        Verifier { dane, algorithms }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.dane.names_end_entity(end_entity) {
            return Ok(ServerCertVerified::assertion());
        }
        let anchors = self.dane.anchors(intermediates);
        if anchors.is_empty() {
            return Err(CertificateError::ApplicationVerificationFailure.into());
        }
        let certificate = ParsedCertificate::try_from(end_entity)?;
        verify_server_cert_signed_by_trust_anchor(&certificate, &anchors, intermediates, now, self.algorithms.all)?;
        let is_named = |name: &String| {
            ServerName::try_from(name.as_str()).is_ok_and(|name| verify_server_name(&certificate, &name).is_ok())
        };
        match self.dane.names.iter().any(is_named) {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::NotValidForName.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, Issuer, KeyPair};

    use super::*;

    const HOST: &str = "mx.example.com";

    /// A certificate for a host, those that vouch for it, and one of somebody else.
    struct Chain {
        leaf: CertificateDer<'static>,
        middle: CertificateDer<'static>,
        root: CertificateDer<'static>,
        other: CertificateDer<'static>,
    }

    fn authority() -> CertificateParams {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
    }

    fn key() -> KeyPair {
        KeyPair::generate().expect("a key")
    }

    fn chain() -> Chain {
        let root = CertifiedIssuer::self_signed(authority(), key()).expect("a root");
        let middle = CertifiedIssuer::signed_by(authority(), key(), &root).expect("one between");
        let leaf = |issuer: &Issuer<'_, KeyPair>| {
            let params = CertificateParams::new(vec![HOST.to_owned()]).expect("a host");
            params.signed_by(&key(), issuer).expect("a certificate").der().clone()
        };
        let other = CertifiedIssuer::self_signed(authority(), key()).expect("another");
        Chain { leaf: leaf(&middle), middle: middle.der().clone(), root: root.der().clone(), other: leaf(&other) }
    }

    fn record(usage: u8, selector: u8, matching: u8, of: &CertificateDer<'static>) -> TlsaRecord {
        let shown = match selector {
            KEY => ParsedCertificate::try_from(of).expect("a certificate").subject_public_key_info().to_vec(),
            _ => of.to_vec(),
        };
        let data = match matching {
            SHA_256 => Sha256::digest(&shown).to_vec(),
            SHA_512 => Sha512::digest(&shown).to_vec(),
            _ => shown,
        };
        TlsaRecord { usage, selector, matching, data }
    }

    /// Whether the chain is taken, with the name in the certificate or another one.
    fn is_taken(records: Vec<TlsaRecord>, chain: &Chain, shown: &[CertificateDer<'static>], name: &str) -> bool {
        let dane = Dane::new(vec![name.to_owned()], records).expect("records that can be used");
        let anybody = ServerName::try_from("anybody.example").expect("a name");
        Verifier::new(Arc::new(dane)).verify_server_cert(&chain.leaf, shown, &anybody, &[], UnixTime::now()).is_ok()
    }

    #[test]
    fn a_certificate_is_taken_where_a_record_names_it_or_one_above_it() {
        let chain = chain();
        let all = [chain.middle.clone(), chain.root.clone()];
        for selector in [WHOLE, KEY] {
            for matching in [EXACT, SHA_256, SHA_512] {
                let of = |usage, certificate| vec![record(usage, selector, matching, certificate)];
                // Usage 3: the one that is named, and neither its name nor who vouches for it matter.
                assert!(is_taken(of(END_ENTITY, &chain.leaf), &chain, &[], "another.example"));
                assert!(!is_taken(of(END_ENTITY, &chain.other), &chain, &all, HOST));
                assert!(!is_taken(of(END_ENTITY, &chain.middle), &chain, &all, HOST));
                // Usage 2: below the one that is named, and with the right name.
                for above in [&chain.middle, &chain.root] {
                    assert!(is_taken(of(ANCHOR, above), &chain, &all, HOST), "{selector} {matching}");
                    assert!(!is_taken(of(ANCHOR, above), &chain, &all, "another.example"));
                }
                assert!(!is_taken(of(ANCHOR, &chain.other), &chain, &all, HOST));
                // One that the server does not show has to stand in DNS as a whole.
                let is_whole = (selector, matching) == (WHOLE, EXACT);
                assert_eq!(is_taken(of(ANCHOR, &chain.root), &chain, &all[..1], HOST), is_whole);
                // One record of several is enough.
                let several = [of(END_ENTITY, &chain.other), of(END_ENTITY, &chain.leaf)].concat();
                assert!(is_taken(several, &chain, &[], HOST));
            }
        }
    }

    #[test]
    fn one_who_shows_the_anchor_without_being_below_it_is_not_taken() {
        let chain = chain();
        let stranger = Chain { leaf: chain.other.clone(), ..chain };
        let records = vec![record(ANCHOR, WHOLE, SHA_256, &stranger.middle)];
        let shown = [stranger.middle.clone(), stranger.root.clone()];
        assert!(!is_taken(records, &stranger, &shown, HOST));
    }

    #[test]
    fn records_that_cannot_be_used_are_none() {
        let chain = chain();
        let good = record(END_ENTITY, KEY, SHA_256, &chain.leaf);
        let unusable = [
            TlsaRecord { usage: 0, ..good.clone() },
            TlsaRecord { usage: 1, ..good.clone() },
            TlsaRecord { usage: 255, ..good.clone() },
            TlsaRecord { selector: 2, ..good.clone() },
            TlsaRecord { matching: 3, ..good.clone() },
            TlsaRecord { data: vec![1; 31], ..good.clone() },
            TlsaRecord { matching: SHA_512, ..good.clone() },
            TlsaRecord { matching: EXACT, data: vec![], ..good.clone() },
        ];
        assert_eq!(Dane::new(vec![], unusable.to_vec()), None);
        let mixed = [&unusable[..], &[good]].concat();
        assert_eq!(Dane::new(vec![], mixed).map(|dane| dane.records.len()), Some(1));
    }
}
