//! What can be told of the machine without opening the store.

use std::path::Path;

use super::Finding;
use super::report::Problem;
use crate::config::Config;
use crate::db;
use crate::seal;
use crate::serve;

const MIB: u64 = 1 << 20;

/// Below this much free space somebody should know; below that, writes fail soon.
const LOW_SPACE: u64 = 1024 * MIB;
const NO_SPACE: u64 = 100 * MIB;

pub fn settings(config: &Config) -> Finding {
    let checked = config.check().and_then(|()| serve::addresses(config, config.listen));
    let addresses = checked.map_err(|error| Problem::failure(format!("{error:#}"), "correct this setting"))?;
    if !config.listen.ip().is_loopback() && config.base_url.is_none() {
        return Err(Problem::warning(
            format!("others can reach {}, but no address is set that they would use", config.listen),
            "set --base-url (POSTHORN_BASE_URL) to the address that clients use",
        ));
    }
    Ok(format!("the API is at {}, the dashboard at {}", addresses.base.as_str(), addresses.dashboard.as_str()).into())
}

pub fn folder(store: &Path) -> Finding {
    let folder = db::folder(store);
    let shown = folder.display();
    if !folder.is_dir() {
        return Err(Problem::failure(
            format!("there is no folder {shown}"),
            "start the server once, or set --data-dir (POSTHORN_DATA_DIR) to the folder that it uses",
        ));
    }
    match db::is_open_to_others(folder) {
        true => Err(Problem::warning(format!("others can look into {shown}"), format!("run: chmod 700 {shown}"))),
        false => Ok(format!("{shown} is its owner's alone").into()),
    }
}

pub fn files(store: &Path) -> Finding {
    let mut all = db::of(store).to_vec();
    all.push(seal::key_file(store));
    let open: Vec<String> =
        all.iter().filter(|file| db::is_open_to_others(file)).map(|file| file.display().to_string()).collect();
    match open.is_empty() {
        true => Ok("the store's files are their owner's alone".into()),
        false => Err(Problem::failure(
            format!("others can read {}", open.join(", ")),
            format!("run: chmod 600 {}", open.join(" ")),
        )),
    }
}

pub fn space(store: &Path) -> Finding {
    let folder = db::folder(store);
    let shown = folder.display();
    let found = rustix::fs::statvfs(folder);
    let found = found.map_err(|error| {
        Problem::warning(format!("the free space of {shown} is not known: {error}"), "check that the folder exists")
    })?;
    left(found.f_bavail.saturating_mul(found.f_frsize), &shown.to_string())
}

/// Whether so many bytes are enough.
fn left(free: u64, folder: &str) -> Finding {
    let left = format!("{} MiB are free below {folder}", free / MIB);
    match free {
        ..NO_SPACE => Err(Problem::failure(left, "make room: without it every write is refused")),
        NO_SPACE..LOW_SPACE => Err(Problem::warning(left, "make room before it runs out")),
        _ => Ok(left.into()),
    }
}

/// The log that commits are written to first.
pub fn log(store: &Path, config: &Config) -> Finding {
    let [_, log, _] = db::of(store);
    let size = std::fs::metadata(&log).map_or(0, |data| data.len());
    grown(size, u64::from(config.sqlite_log_limit) * MIB)
}

/// Whether a log of so many bytes is short, of those that it may have.
fn grown(size: u64, limit: u64) -> Finding {
    let told = format!("the log holds {} of {} MiB", size / MIB, limit / MIB);
    match size < limit / 4 {
        true => Ok(told.into()),
        false => Err(Problem::warning(
            format!("{told}: something keeps it from being carried to the store"),
            "end whatever reads the store for a long time (a copy, a shell), or restart the server",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Report;
    use super::*;

    /// A finding as the doctor's report has it.
    fn told(finding: Finding) -> String {
        let mut report = Report::new(true);
        report.add("it", finding);
        let check = report.to_json()["checks"][0].clone();
        let text = |field: &str| check[field].as_str().unwrap_or_default().to_owned();
        assert!(check["ok"] == true || !text("next").is_empty(), "{check}");
        format!("{} {}{}", text("status"), text("came"), text("expected"))
    }

    #[test]
    fn little_space_is_told_of_and_next_to_none_is_a_failure() {
        for (free, word) in [(0, "failed"), (NO_SPACE - 1, "failed"), (NO_SPACE, "warning"), (LOW_SPACE - 1, "warning")]
        {
            let shown = format!("{word} {} MiB are free below here", free / MIB);
            assert_eq!(told(left(free, "here")), shown);
        }
        assert_eq!(told(left(LOW_SPACE, "here")), "ok 1024 MiB are free below here");
    }

    #[test]
    fn a_log_that_has_grown_to_a_quarter_of_its_limit_is_told_of() {
        assert_eq!(told(grown(10 * MIB - 1, 40 * MIB)), "ok the log holds 9 of 40 MiB");
        let warning = told(grown(10 * MIB, 40 * MIB));
        assert!(warning.starts_with("warning the log holds 10 of 40 MiB: "), "{warning}");
    }
}
