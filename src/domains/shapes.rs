//! What domains look like in answers.

use serde::Serialize;
use utoipa::ToSchema;

use super::domain::{Capability, Region, TlsPolicy};
use super::records::{DMARC_VALUE, Expected, dmarc_name};
use super::status::{Finding, Findings, RecordStatus, Status};
use super::store::Stored;

use super::verification::{DMARC, NAME};
use crate::clock::rfc3339;
use crate::config::TransportKind;
use crate::id::DomainId;

/// A domain as lists show it.
#[derive(Serialize, ToSchema)]
#[schema(as = DomainItem)]
pub struct Item {
    #[schema(value_type = Uuid)]
    id: DomainId,
    #[schema(example = "example.com")]
    name: String,
    status: Status,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(value_type = Region)]
    region: String,
    capabilities: Capabilities,
    open_tracking: bool,
    click_tracking: bool,
    /// Left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "links")]
    tracking_subdomain: Option<String>,
    #[schema(value_type = TlsPolicy)]
    tls: String,
    /// The subdomain to which bounces go.
    #[schema(example = "send")]
    custom_return_path: String,
    /// How its mail leaves; null: as the server does it. The addresses of relays are not told.
    #[schema(required = true, pattern = "^(capture|relay|direct)$")]
    transport: Option<&'static str>,
    /// Mails on the first day of a warm-up; null: there is none.
    #[schema(required = true)]
    warm_up: Option<i64>,
    /// When DNS was last looked at.
    #[schema(format = DateTime, required = true)]
    checked_at: Option<String>,
}

/// What a domain does.
#[derive(Serialize, ToSchema)]
#[schema(as = DomainCapabilities)]
pub struct Capabilities {
    sending: Capability,
    receiving: Capability,
}

impl From<&Stored> for Item {
    fn from(domain: &Stored) -> Item {
        Item {
            id: domain.id,
            name: domain.name.clone(),
            status: domain.status,
            created_at: rfc3339(domain.created_at),
            region: domain.region.clone(),
            capabilities: Capabilities {
                sending: Capability::of(domain.sending),
                receiving: Capability::of(domain.receiving),
            },
            open_tracking: domain.open_tracking,
            click_tracking: domain.click_tracking,
            tracking_subdomain: domain.tracking_subdomain.clone(),
            tls: domain.tls.clone(),
            custom_return_path: domain.return_path.clone(),
            transport: domain.transport.map(TransportKind::as_str),
            warm_up: domain.warm_up,
            checked_at: domain.checked_at.map(rfc3339),
        }
    }
}

/// A domain with the records that its owner has to set.
#[derive(Serialize, ToSchema)]
#[schema(as = Domain)]
pub struct DomainDetail {
    #[schema(pattern = "^domain$")]
    object: &'static str,
    #[serde(flatten)]
    item: Item,
    /// What keeps the whole name from being verified, if anything does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    advice: Option<String>,
    pub(super) records: Vec<Record>,
    dmarc: Dmarc,
}

/// A record to set.
#[derive(Serialize, ToSchema)]
#[schema(as = DomainRecord)]
pub struct Record {
    #[schema(pattern = "^(SPF|DKIM|Receiving MX|Tracking|TrackingCAA)$", example = "SPF")]
    record: &'static str,
    /// The whole name. Many DNS providers add the domain by themselves: there, leave it out.
    #[schema(example = "send.example.com")]
    name: String,
    #[serde(rename = "type")]
    #[schema(pattern = "^(MX|TXT|CNAME)$", example = "TXT")]
    kind: &'static str,
    #[schema(pattern = "^Auto$")]
    ttl: &'static str,
    status: RecordStatus,
    #[schema(example = "v=spf1 a:mail.example.com ~all")]
    value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = 10)]
    priority: Option<u16>,
    #[serde(flatten)]
    told: Told,
}

/// What DNS said of a record.
#[derive(Serialize, ToSchema)]
#[schema(as = DomainRecordFinding)]
pub struct Told {
    /// What stands there now; left out where nothing was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    found: Option<String>,
    /// What to change; left out where all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    advice: Option<String>,
}

/// What a domain says of mail that only claims to be from it. Nothing depends on it here; large receivers ask for it.
#[derive(Serialize, ToSchema)]
#[schema(as = DomainDmarc)]
pub struct Dmarc {
    #[schema(example = "_dmarc.example.com")]
    name: String,
    #[serde(rename = "type")]
    #[schema(pattern = "^TXT$")]
    kind: &'static str,
    status: RecordStatus,
    /// What to begin with, where nothing is there.
    #[schema(example = "v=DMARC1; p=none;")]
    value: &'static str,
    #[serde(flatten)]
    told: Told,
}

impl DomainDetail {
    pub fn new(domain: &Stored, expected: &[Expected]) -> DomainDetail {
        let findings = &domain.findings;
        DomainDetail {
            object: "domain",
            item: domain.into(),
            advice: findings.get(NAME).and_then(|finding| finding.advice.clone()),
            records: expected.iter().map(|record| Record::new(record, findings)).collect(),
            dmarc: Dmarc::new(&domain.name, findings),
        }
    }
}

/// What is known under a name.
fn known(findings: &Findings, key: &str) -> (RecordStatus, Told) {
    match findings.get(key) {
        Some(Finding { status, found, advice, .. }) => (*status, Told { found: found.clone(), advice: advice.clone() }),
        None => (RecordStatus::NotStarted, Told { found: None, advice: None }),
    }
}

impl Record {
    fn new(record: &Expected, findings: &Findings) -> Record {
        let (status, told) = known(findings, &record.key);
        Record {
            record: record.purpose.record(),
            name: record.name.clone(),
            kind: record.purpose.kind(),
            ttl: "Auto",
            status,
            value: record.value.clone(),
            priority: record.purpose.priority(),
            told,
        }
    }
}

impl Dmarc {
    fn new(name: &str, findings: &Findings) -> Dmarc {
        let (status, told) = known(findings, DMARC);
        Dmarc { name: dmarc_name(name), kind: "TXT", status, value: DMARC_VALUE, told }
    }
}
