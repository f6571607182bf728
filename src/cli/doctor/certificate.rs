//! The certificate by which those know this server who hand in mail or bring it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Finding;
use super::report::Problem;
use crate::app::Addresses;
use crate::clock::rfc3339;
use crate::config::Config;
use crate::tls::About;

/// Who renews certificates by itself has done so by then.
const SOON: Duration = Duration::from_secs(14 * 24 * 3600);

const RENEW: &str = "renew the certificate of --submission-cert (POSTHORN_SUBMISSION_CERT) and its key; the files are read \
                     again when they change";

/// `None` where nobody is shown a certificate.
pub fn examine(config: &Config, addresses: &Addresses, helo: &str) -> Option<Finding> {
    let settings = &config.submission;
    let is_shown = settings.is_on() || settings.inbound_listen.is_some();
    let (file, _) = settings.certificate().filter(|_| is_shown)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(match About::read(file) {
        Ok(about) => judge(&about, &[helo, addresses.mail_host()], now),
        Err(error) => Err(Problem::failure(format!("{error:#}"), "name the file of a certificate in PEM")),
    })
}

/// Of several flaws, the one that keeps most others out. `hosts` are the names under which this server is known.
fn judge(about: &About, hosts: &[&str], now: Duration) -> Finding {
    let until = day(about.until);
    if about.until <= now {
        return Err(Problem::failure(format!("the certificate expired on {until}"), RENEW));
    }
    if about.from > now {
        let came = format!("the certificate is valid from {} on, and this machine has {}", day(about.from), day(now));
        return Err(Problem::failure(came, "set this machine's clock, or wait until then"));
    }
    let Some(host) = hosts.iter().find(|host| about.is_for(host)) else {
        let names = match about.names() {
            names if names.is_empty() => "no name".to_owned(),
            names => names.join(", "),
        };
        let came = format!("the certificate is for {names}, and this server calls itself {}", hosts[0]);
        let next =
            format!("get a certificate for {}, or set --helo (POSTHORN_HELO) to a name that it is for", hosts[0]);
        return Err(Problem::warning(came, next));
    };
    match about.until - now < SOON {
        true => Err(Problem::warning(format!("the certificate expires on {until}"), RENEW)),
        false => Ok(format!("it is for {host}, until {until}").into()),
    }
}

/// The day of a moment.
fn day(moment: Duration) -> String {
    let written = rfc3339(i64::try_from(moment.as_micros()).unwrap_or(i64::MAX));
    written.split('T').next().unwrap_or_default().to_owned()
}
