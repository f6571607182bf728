//! Servers to measure, each a process of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::empty;
use crate::store::Store;

/// How long a server may take to stop before it is killed.
const STOPPING: Duration = Duration::from_secs(12);

pub struct Server {
    child: Child,
    /// Kept open, because a server that cannot greet does not start.
    stdout: BufReader<ChildStdout>,
    pub address: SocketAddr,
}

/// What a process holds and at most held in memory, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory {
    pub now: u64,
    pub peak: u64,
}

/// The product, as it is built for packages.
pub fn posthorn() -> Command {
    clean(Command::new(env!("CARGO_BIN_EXE_posthorn")))
}

/// Only what the benchmark says counts, not what the caller's shell has set.
fn clean(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("POSTHORN_")) {
        command.env_remove(name);
    }
    command
}

impl Server {
    pub fn real(store: &Store) -> anyhow::Result<Server> {
        Server::start(posthorn(), store)
    }

    pub fn with_settings(store: &Store, settings: &[String]) -> anyhow::Result<Server> {
        let mut command = posthorn();
        command.args(settings);
        Server::start(command, store)
    }

    pub fn empty(store: &Store) -> anyhow::Result<Server> {
        let mut command = clean(Command::new(std::env::current_exe()?));
        command.arg(empty::MODE);
        Server::start(command, store)
    }

    /// With the settings a user gets. The log is written in full, and thrown
    /// away by the system.
    fn start(mut command: Command, store: &Store) -> anyhow::Result<Server> {
        command.args(store.arguments()).args(["--listen", "127.0.0.1:0"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("a server could not be started")?;
        let stdout = child.stdout.take().context("a server without output")?;
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Server { child, stdout: BufReader::new(stdout), address: nowhere };
        let mut line = String::new();
        while server.stdout.read_line(&mut line)? > 0 {
            if let Some(url) = line.trim().strip_prefix("API").map(str::trim) {
                server.address = url.trim_start_matches("http://").parse().context("an address to call")?;
                return Ok(server);
            }
            line.clear();
        }
        bail!("a server ended before it listened");
    }

    /// The processor time that the server has used, in all its threads.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name in parentheses may hold anything; the fields after it are numbers.
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let ticks = |at: usize| fields.get(at).and_then(|ticks| ticks.parse::<u64>().ok()).context("no times");
        Ok(Duration::from_millis((ticks(11)? + ticks(12)?) * 10))
    }

    pub fn memory(&self) -> anyhow::Result<Memory> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let field = |name: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
        };
        let (now, peak) = (field("VmRSS:"), field("VmHWM:"));
        Ok(Memory { now: now.context("no VmRSS")?, peak: peak.context("no VmHWM")? })
    }
}

impl Drop for Server {
    /// Asks the process to stop, and ends it if it doesn't.
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let patience = Instant::now() + STOPPING;
        while Instant::now() < patience {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(20)),
                _ => return,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
