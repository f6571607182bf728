//! Postfix's programs: a sink that takes all mail, a source that sends it, and the mail server
//! itself. Where they are not installed, the package is unpacked below the build folder.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tempfile::TempDir;

use crate::mail::SENDER;

/// How long a server may take to listen.
const STARTING: Duration = Duration::from_secs(10);

/// Where the package lies, unpacked.
fn unpacked() -> anyhow::Result<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("tools");
    if folder.join("usr/sbin/smtp-sink").is_file() {
        return Ok(folder);
    }
    std::fs::create_dir_all(&folder)?;
    let run = |command: &mut Command| {
        let status = command.current_dir(&folder).stdout(Stdio::null()).status();
        let went_well = status.is_ok_and(|status| status.success());
        ensure!(went_well, "Postfix's smtp-sink is missing, and its package cannot be fetched by {command:?}");
        Ok(())
    };
    run(Command::new("apt-get").args(["download", "-q", "postfix"]))?;
    let packages = std::fs::read_dir(&folder)?.flatten().map(|entry| entry.path());
    let package = packages.filter(|path| path.extension().is_some_and(|end| end == "deb")).max();
    run(Command::new("dpkg").arg("-x").arg(package.context("a package of Postfix")?).arg("."))?;
    Ok(folder)
}

fn program(name: &str) -> anyhow::Result<Command> {
    let folder = unpacked()?;
    let mut command = Command::new(folder.join("usr").join(name));
    command.env("LD_LIBRARY_PATH", folder.join("usr/lib/postfix"));
    Ok(command)
}

/// A port on an address of this machine that is free at this moment.
pub fn free_port(address: &str) -> anyhow::Result<u16> {
    Ok(TcpListener::bind((address, 0))?.local_addr()?.port())
}

fn wait_for(address: SocketAddr, child: &mut Child) -> anyhow::Result<()> {
    let patience = Instant::now() + STARTING;
    while TcpStream::connect(address).is_err() {
        ensure!(Instant::now() < patience, "nobody listens on {address}");
        ensure!(child.try_wait()?.is_none(), "what was to listen on {address} has ended");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Takes all mail and throws it away.
pub struct Sink {
    child: Child,
    pub address: SocketAddr,
}

impl Sink {
    pub fn start() -> anyhow::Result<Sink> {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port("127.0.0.1")?));
        let mut command = program("sbin/smtp-sink")?;
        // It does not want to run as root.
        if rustix::process::geteuid().is_root() {
            command.args(["-u", "nobody"]);
        }
        // More connections than the bench has sites: whom it does not take waits, and that would be measured.
        command.args(["-m", "4096"]);
        let child = command.arg(address.to_string()).arg("256").stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let mut sink = Sink { child, address };
        wait_for(address, &mut sink.child)?;
        Ok(sink)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Mails a second that Postfix's source sends, by so many connections that are used again.
pub fn source(to: SocketAddr, connections: usize, size: usize, count: u64) -> anyhow::Result<f64> {
    let mut command = program("sbin/smtp-source")?;
    let counted = |flag: &str, number: String| [flag.to_owned(), number];
    command.arg("-d").args(counted("-s", connections.to_string())).args(counted("-l", size.to_string()));
    command.args(counted("-m", count.to_string())).args(["-f", SENDER, "-t", "somebody@example.com"]);
    let began = Instant::now();
    let output = command.arg(to.to_string()).stdin(Stdio::null()).output()?;
    ensure!(output.status.success(), "smtp-source: {}", String::from_utf8_lossy(&output.stderr));
    Ok(count as f64 / began.elapsed().as_secs_f64())
}

/// A whole Postfix that passes all mail on to a sink.
pub struct MailServer {
    child: Child,
    folder: TempDir,
    pub address: SocketAddr,
}

impl MailServer {
    pub fn start(sink: SocketAddr) -> anyhow::Result<MailServer> {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        let address = SocketAddr::from(([127, 0, 0, 1], free_port("127.0.0.1")?));
        configure(folder.path(), address, sink)?;
        let mut command = program("lib/postfix/sbin/master")?;
        command.env("MAIL_CONFIG", folder.path().join("etc")).args(["-d", "-c"]).arg(folder.path().join("etc"));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let mut server = MailServer { child, folder, address };
        if let Err(error) = wait_for(address, &mut server.child) {
            let told = std::fs::read_to_string(server.folder.path().join("log")).unwrap_or_default();
            bail!("Postfix does not start (it needs root): {error}\n{told}");
        }
        Ok(server)
    }

    /// How many mails wait in it.
    pub fn waiting(&self) -> usize {
        let count = |queue| files_below(&self.folder.path().join("queue").join(queue));
        ["maildrop", "incoming", "active", "deferred"].into_iter().map(count).sum()
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        // It ends those that it has started.
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

fn files_below(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { files_below(&entry.path()) } else { 1 }).sum()
}

/// With the settings of the package where speed is concerned: each mail is flushed before it is
/// answered, and 20 connections deliver.
fn configure(folder: &Path, listen: SocketAddr, sink: SocketAddr) -> anyhow::Result<()> {
    let (programs, own) = (unpacked()?.canonicalize()?, folder.canonicalize()?);
    let (programs, own) = (programs.display(), own.display());
    // Most of it does not run as root.
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))?;
    for name in ["etc", "data", "queue"] {
        std::fs::create_dir(folder.join(name))?;
    }
    let queues = ["active", "bounce", "corrupt", "defer", "deferred", "flush", "hold", "incoming", "private", "trace"];
    for name in queues.into_iter().chain(["maildrop", "public", "pid", "saved"]) {
        std::fs::create_dir(folder.join("queue").join(name))?;
    }
    // Who runs it need not be installed for it: any two accounts that the system has will do.
    let (owner, group) = ("mail", "games");
    let given =
        Command::new("chown").arg("-R").arg(owner).args([folder.join("data"), folder.join("queue")]).status()?;
    ensure!(given.success(), "Postfix needs root");
    Command::new("chown").arg("root").args([folder.join("queue"), folder.join("queue/pid")]).status()?;
    std::fs::write(
        folder.join("etc/main.cf"),
        format!(
            "compatibility_level = 3.6\nmyhostname = bench.example\nmydestination =\nalias_maps =\n\
             inet_interfaces = 127.0.0.1\ninet_protocols = ipv4\nmynetworks = 127.0.0.0/8\n\
             relayhost = [{}]:{}\nmail_owner = {owner}\nsetgid_group = {group}\nlocal_transport = error:none\n\
             queue_directory = {own}/queue\ndata_directory = {own}/data\nmaillog_file = {own}/log\n\
             maillog_file_prefixes = /\nshlib_directory = {programs}/usr/lib/postfix\n\
             daemon_directory = {programs}/usr/lib/postfix/sbin\ncommand_directory = {programs}/usr/sbin\n\
             smtpd_relay_restrictions = permit_mynetworks, reject\nsmtp_dns_support_level = disabled\n\
             import_environment = MAIL_CONFIG LD_LIBRARY_PATH PATH TZ MAIL_DEBUG MAIL_LOGTAG\n",
            sink.ip(),
            sink.port(),
        ),
    )?;
    let services = [
        ("cleanup unix n - n - 0", "cleanup"),
        ("qmgr unix n - n 300 1", "qmgr"),
        ("rewrite unix - - n - -", "trivial-rewrite"),
        ("bounce unix - - n - 0", "bounce"),
        ("defer unix - - n - 0", "bounce"),
        ("trace unix - - n - 0", "bounce"),
        ("flush unix n - n 1000? 0", "flush"),
        ("proxymap unix - - n - -", "proxymap"),
        ("smtp unix - - n - -", "smtp"),
        ("relay unix - - n - -", "smtp"),
        ("error unix - - n - -", "error"),
        ("retry unix - - n - -", "error"),
        ("anvil unix - - n - 1", "anvil"),
        ("scache unix - - n - 1", "scache"),
        ("postlog unix-dgram n - n - 1", "postlogd"),
    ];
    let listener = format!("{listen} inet n - n - - smtpd\n");
    let rest: String = services.iter().map(|(service, program)| format!("{service} {program}\n")).collect();
    Ok(std::fs::write(folder.join("etc/master.cf"), listener + &rest)?)
}
