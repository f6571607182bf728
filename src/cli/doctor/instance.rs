//! Whether a running instance is reached where its settings say.

use super::browser::{Browser, Reading};
use super::report::{Problem, Report};
use super::{Finding, oauth};
use crate::config::Config;
use crate::serve;

pub async fn examine(config: &Config, report: &mut Report) {
    let Ok(addresses) = serve::addresses(config, config.listen) else { return };
    let (base, browser) = (addresses.base.as_str(), Browser::new());
    let reached = reached(&browser, base).await;
    let is_reached = reached.is_ok();
    report.add("base URL", reached);
    if is_reached {
        report.add("writes", writes(&browser, base).await);
        oauth::discover(&browser, base, report).await;
    }
}

async fn reached(browser: &Browser, base: &str) -> Finding {
    let next = "start the server, or set --base-url (POSTHORN_BASE_URL) to the address it is reached at";
    match browser.get(&format!("{base}/healthz")).await {
        Ok(answer) if answer.status == 200 && answer.json().is_ok_and(|body| body["status"] == "ok") => {
            Ok(format!("a server answers at {base}").into())
        }
        Ok(answer) => Err(Problem::warning(
            format!("what answers {base}/healthz is not Posthorn: {}", answer.in_short()),
            "let the proxy pass everything on, and check --base-url (POSTHORN_BASE_URL)",
        )),
        Err(error) => Err(Problem::warning(format!("no server answers: {error}"), next)),
    }
}

async fn writes(browser: &Browser, base: &str) -> Finding {
    match browser.get(&format!("{base}/readyz")).await {
        Ok(answer) if answer.status == 200 => Ok("the server's store takes writes".into()),
        Ok(answer) => Err(Problem::failure(answer.in_short(), "look at the server's log: it says why writes fail")),
        Err(error) => Err(Problem::failure(error, "look at the server's log")),
    }
}
