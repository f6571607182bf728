//! Mails on their way to Postfix's sink, which takes all of them and throws them away: how fast
//! they leave, what signing costs, and what one site that never answers costs the others.

use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use posthorn::mime::DkimKey;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::Plan;
use crate::client::{self, Outcome};
use crate::dns::{Names, TARPIT, TARPIT_ADDRESS};
use crate::login::post_json;
use crate::mail::{BATCH, SENDER, SIZE, body};
use crate::postfix::{Sink, source};
use crate::report::{MAIL_MEMORY_BAR, Report};
use crate::rows::{Seen, Side, compare_within};
use crate::server::Server;
use crate::store::Store;
use crate::workload::Workload;

/// How many connections a relay gets.
const CONNECTIONS: usize = 16;

const LARGE: usize = 100 << 10;
/// Mails of that size that have to arrive in a second.
const LEAST_LARGE: f64 = 230.0;

const SITES: u64 = 1000;
/// The share of all mail that goes to the site that never answers.
const TARPIT_SHARE: u64 = 10;

/// How long mail may take to leave before it has failed to.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Mail that does not wait for a site that never answers.
const OTHERS: &str = "line <> 'direct tarpit.example'";
pub const ALL: &str = "TRUE";

/// A store in which mail waits, and how it leaves from there.
pub struct Outbox {
    store: Store,
    key: String,
    settings: Vec<String>,
}

impl Outbox {
    pub fn new(settings: Vec<String>) -> anyhow::Result<Outbox> {
        let store = Store::sqlite()?;
        Ok(Outbox { key: store.key()?, store, settings })
    }

    /// Whose mail goes by a relay, for anybody who sends it.
    pub fn to_relay(relay: SocketAddr) -> anyhow::Result<Outbox> {
        let url = format!("smtp://{relay}?tls=none");
        Outbox::new(["--smtp-url", &url, "--senders", "any"].map(str::to_owned).into())
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn connection(&self) -> anyhow::Result<Connection> {
        let connection = Connection::open(self.store.file().context("only an SQLite store is looked into")?)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        Ok(connection)
    }

    /// Hands mails in, past nobody, to a server that does not deliver them.
    pub fn fill(&self, count: u64, to: impl Fn(u64) -> String) -> anyhow::Result<()> {
        let settings = [&self.settings[..], &["--role".to_owned(), "api".to_owned()]].concat();
        let server = Server::with_settings(&self.store, &settings)?;
        for start in (0..count).step_by(BATCH) {
            let mails: Value = (start..count.min(start + BATCH as u64)).map(|n| body(&to(n), SIZE)).collect();
            post_json(server.address, "/emails/batch", &self.key, &mails)?;
        }
        drop(server);
        self.store.settle()
    }

    /// A domain that signs with RSA alone, as if its records had been seen.
    pub fn verify(&self, domain: &str) -> anyhow::Result<()> {
        let server = Server::real(&self.store)?;
        post_json(server.address, "/domains", &self.key, &json!({ "name": domain }))?;
        drop(server);
        let connection = self.connection()?;
        connection.execute(
            "UPDATE domains SET status = 'verified', is_owned = TRUE, may_send = TRUE, due_at = NULL,
                                revision = revision + 1",
            [],
        )?;
        let seen = connection.execute("UPDATE dkim_keys SET seen_at = created_at WHERE algorithm = 'rsa'", [])?;
        ensure!(seen == 1, "{seen} keys of RSA");
        Ok(())
    }

    /// A server that delivers.
    pub fn serve(&self, more: &[String]) -> anyhow::Result<Server> {
        Server::with_settings(&self.store, &[&self.settings, more].concat())
    }

    /// Waits until none of these waits any more, which each must have been delivered.
    pub fn wait_until_delivered(&self, which: &str) -> anyhow::Result<()> {
        let connection = self.connection()?;
        let left = format!(
            "SELECT COUNT(*) FROM (SELECT 1 FROM email_recipients INDEXED BY email_recipients_due
             WHERE due_at IS NOT NULL AND {which} LIMIT 1)"
        );
        let mut left = connection.prepare(&left)?;
        let patience = Instant::now() + PATIENCE;
        while left.query_row([], |row| row.get::<_, i64>(0))? > 0 {
            ensure!(Instant::now() < patience, "mail still waits after {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        let failed = format!("SELECT COUNT(*) FROM email_recipients WHERE state <> 40 AND {which}");
        let failed: i64 = connection.query_row(&failed, [], |row| row.get(0))?;
        ensure!(failed == 0, "{failed} mails were not delivered");
        Ok(())
    }

    /// How fast a server delivers what waits.
    fn drain(&self, count: u64, which: &str) -> anyhow::Result<Side> {
        let began = Instant::now();
        let server = self.serve(&[])?;
        self.wait_until_delivered(which)?;
        side(&server, count, began.elapsed())
    }
}

/// So many mails in this time.
pub fn side(server: &Server, count: u64, took: Duration) -> anyhow::Result<Side> {
    let per_second = count as f64 / took.as_secs_f64();
    let outcome = Outcome { answered: count, per_second, p50: Duration::ZERO, p99: Duration::ZERO };
    let seen = Seen { outcome, memory: server.memory()?, cpu: server.cpu()?.div_f64(count as f64) };
    Ok(Side { per_second, server: Some(seen) })
}

pub fn customer(n: u64) -> String {
    format!("customer-{n}@example.com")
}

pub fn unsigned(plan: &Plan, sink: &Sink) -> anyhow::Result<Side> {
    let outbox = Outbox::to_relay(sink.address)?;
    outbox.fill(plan.mails, customer)?;
    outbox.drain(plan.mails, ALL)
}

pub fn plain(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let sink = Sink::start()?;
    compare_within(
        MAIL_MEMORY_BAR,
        plan,
        report,
        ("mails delivered to smtp-sink, 2 KiB, SQLite, 16 connections", "smtp-source, 16 connections", 0.3),
        || Ok(Side { per_second: source(sink.address, CONNECTIONS, SIZE, plan.mails)?, server: None }),
        || unsigned(plan, &sink),
    )
}

pub fn signed(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let sink = Sink::start()?;
    let cores = std::thread::available_parallelism()?.get() as f64;
    compare_within(
        MAIL_MEMORY_BAR,
        plan,
        report,
        ("the same signed with RSA-2048", "unsigned, and signatures on all cores", 0.8),
        || {
            let unsigned = unsigned(plan, &sink)?.per_second;
            let signing = time_of_signature()?.as_secs_f64() / cores;
            Ok(Side { per_second: 1.0 / (1.0 / unsigned + signing), server: None })
        },
        || {
            let outbox = Outbox::to_relay(sink.address)?;
            let (_, domain) = SENDER.split_once('@').context("an address")?;
            outbox.verify(domain)?;
            outbox.fill(plan.mails, customer)?;
            outbox.drain(plan.mails, ALL)
        },
    )
}

/// How long one signature takes with a key of 2048 bits.
fn time_of_signature() -> anyhow::Result<Duration> {
    const COUNT: u32 = 500;
    let key = RsaKeyPair::from_pkcs8(&DkimKey::generate_rsa().to_bytes()).map_err(|_| anyhow::anyhow!("a key"))?;
    let (random, mut signature) = (SystemRandom::new(), vec![0; key.public().modulus_len()]);
    let began = Instant::now();
    for _ in 0..COUNT {
        let signed = key.sign(&RSA_PKCS1_SHA256, &random, &[7; 512], &mut signature);
        signed.map_err(|_| anyhow::anyhow!("a signature"))?;
    }
    Ok(began.elapsed() / COUNT)
}

/// Mails of 100 KiB from the request to the sink. What is not delivered when the requests end is
/// waited for.
pub fn large(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let sink = Sink::start()?;
    compare_within(
        MAIL_MEMORY_BAR,
        plan,
        report,
        ("mails of 100 KiB, POST /emails to smtp-sink, SQLite, 16 connections", "230 a second", 1.0),
        || Ok(Side { per_second: LEAST_LARGE, server: None }),
        || {
            let outbox = Outbox::to_relay(sink.address)?;
            let server = outbox.serve(&[])?;
            let mut workload = Workload::email(outbox.key(), LARGE);
            let began = Instant::now();
            let outcome = client::run(server.address, CONNECTIONS, &mut workload, Duration::ZERO, plan.measured())?;
            outbox.wait_until_delivered(ALL)?;
            side(&server, outcome.answered, began.elapsed())
        },
    )
}

/// Mail to a thousand sites, of which one takes connections and says nothing.
pub fn tarpit(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let (names, sink) = (Names::start()?, Sink::start()?);
    let port = sink.address.port();
    // Nobody accepts what is taken by the system: it is a server that never says anything.
    let _tarpit = TcpListener::bind((TARPIT_ADDRESS, port)).context("the tarpit's port")?;
    let settings = || -> Vec<String> {
        let (names, port) = (names.address.to_string(), port.to_string());
        let ways = ["--transport", "direct", "--dns-server", &names, "--mx-port", &port, "--private-mx"];
        ways.into_iter().chain(["--senders", "any"]).map(str::to_owned).collect()
    };
    let others = plan.mails - plan.mails / TARPIT_SHARE;
    let deliver = |has_tarpit: bool| {
        let outbox = Outbox::new(settings())?;
        let to = |n: u64| match has_tarpit && n.is_multiple_of(TARPIT_SHARE) {
            true => format!("customer-{n}@{TARPIT}"),
            false => format!("customer-{n}@site-{}.example", n % (SITES - 1)),
        };
        outbox.fill(if has_tarpit { plan.mails } else { others }, to)?;
        outbox.drain(others, OTHERS)
    };
    compare_within(
        MAIL_MEMORY_BAR,
        plan,
        report,
        ("mails to 999 sites beside a tarpit with a tenth of all mail, SQLite", "without the tarpit", 0.95),
        || deliver(false),
        || deliver(true),
    )
}
