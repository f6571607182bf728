//! The server: opens the store, listens, answers, and stops without losing
//! what it has begun.

mod chores;
mod greeting;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::app::{Addresses, App};
use crate::config::{Config, Role};
use crate::db::{self, Db, Location};
use crate::memory;
use crate::product::Product;
use crate::seal::{self, Seal};
use crate::smtp_server::Listeners;
use crate::web::{self, Bounds, Gate};
use crate::{
    accounts, automations, broadcasts, contacts, credentials, delivery, domains, inbound, limits, oauth, request_log,
    submission, tracking, upkeep, webhooks,
};

/// Open files that are not connections: the store, its log, what we call.
const OWN_FILES: u64 = 512;

/// How long a task that panicked rests.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// Runs a server until it is told to stop. `Err` means that it could not start
/// or had to stop.
pub async fn serve(config: Config) -> anyhow::Result<()> {
    serve_behind(config, Product::gate).await
}

/// As [`serve`], behind a gate of the caller's choice.
pub async fn serve_behind(config: Config, gate: impl FnOnce(&Product) -> Gate) -> anyhow::Result<()> {
    config.check()?;
    memory::keep_freed_for_a_moment();
    // A worker alone takes no address, so it can run beside a server.
    let listener = match config.role.contains(&Role::Api) {
        true => Some(listen(&config)?),
        false => None,
    };
    let (mail_in, reports_in) = match listener.is_some() {
        true => (submission::listen(&config)?, inbound::listen(&config)?),
        false => (Listeners::default(), Listeners::default()),
    };
    let listening = listener.as_ref().map_or(Ok(config.listen), TcpListener::local_addr)?;
    let addresses = addresses(&config, listening)?;
    let db = open_store(&config).await?;
    let (metrics, seal) = (metrics()?, Seal::of(&config)?);
    let (clock, keeper) = db::open_clock(&db).await?;
    tokio::spawn(keeper.keep());
    let app = Product::new(App::new(config, addresses, db, clock, metrics, seal));
    seal_secrets(&app).await?;
    greeting::print(&app, &mail_in, &reports_in).await?;
    let product = app.clone();
    keep_running("chores", move || chores::run(product.clone()));

    let signal = stop_signal()?;
    let (stop, stopping) = watch::channel(false);
    tokio::spawn(async move {
        signal.await;
        stop.send_replace(true);
    });
    if listener.is_some() {
        let product = app.clone();
        tokio::task::spawn_blocking(move || product.prepare());
    }
    let answering = answer_if_told(App::clone(&app), listener, gate(&app), stopping.clone());
    let taking = submission::run(mail_in, app.emails().clone(), stopping.clone());
    let hearing = inbound::run(reports_in, app.receiving().clone(), stopping.clone());
    let noting = request_log::run(App::clone(&app), app.request_log().clone(), stopping.clone());
    let noting = async move {
        noting.await;
        Ok(())
    };
    let refusals = oauth::note_refusals(app.oauth().clone(), stopping.clone());
    let refusals = async move {
        refusals.await;
        Ok(())
    };
    let answering: [Answering; 5] =
        [Box::pin(answering), Box::pin(taking), Box::pin(hearing), Box::pin(noting), Box::pin(refusals)];
    tokio::select! {
        answered = answer_and_work(answering, work(&app, stopping)) => answered,
        () = app.db.failed() => anyhow::bail!("the store cannot write any more; the log says why"),
    }
}

/// What accepts connections of one kind until it is time to stop.
type Answering = Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>>;

/// Accepting shares its task with nobody: whatever the workers do, it goes on.
/// Without it the process is of no use: it ends, and is started anew.
async fn answer_and_work<const N: usize>(
    answering: [Answering; N],
    working: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let answering = answering
        .map(tokio::spawn)
        .map(|task| async { task.await.context("the task that accepts connections panicked")? });
    let answered = futures_util::future::try_join_all(answering);
    let worked = async {
        working.await;
        Ok(())
    };
    tokio::try_join!(answered, worked).map(drop)
}

/// Resolves when it is time to stop.
async fn stopped(mut stopping: watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// Answers HTTP until it is time to stop, if that is among this process's roles.
async fn answer_if_told(
    app: App,
    listener: Option<TcpListener>,
    gate: Gate,
    stopping: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let Some(listener) = listener else {
        stopped(stopping).await;
        return Ok(());
    };
    let (bounds, drain) = (bounds(&app.config), Duration::from_secs(app.config.drain_seconds));
    web::answer_connections(listener, Arc::new(gate), bounds, stopped(stopping), drain).await
}

/// How many connections there may be: no more than the system lets us have open,
/// which is raised as far as it allows.
fn bounds(config: &Config) -> Bounds {
    let mut bounds = Bounds::of(config);
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.or(limit.current);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: most, maximum: limit.maximum });
    let allowed = if raised.is_ok() { most } else { limit.current };
    let of_mail = if config.submission.is_on() { submission::MOST_CONNECTIONS as u64 } else { 0 };
    let of_reports = if config.submission.inbound_listen.is_some() { inbound::MOST_CONNECTIONS as u64 } else { 0 };
    let others = OWN_FILES + of_mail + of_reports;
    let places = allowed.map_or(usize::MAX, |allowed| (allowed.saturating_sub(others)).max(16) as usize);
    if places < bounds.connections {
        tracing::warn!(
            "--max-connections {}: the system allows {} open files, so {places} connections are served at a time; \
             raise the limit (`LimitNOFILE` of systemd, `ulimit -n`)",
            bounds.connections,
            allowed.unwrap_or_default(),
        );
        bounds.connections = places;
    }
    bounds
}

/// Does the work that waits in the store until it is time to stop, if that is
/// among this process's roles.
async fn work(app: &Product, stopping: watch::Receiver<bool>) {
    if !app.config.role.contains(&Role::Worker) {
        return;
    }
    let each = || (app.occurrences().clone(), stopping.clone());
    let (imports, erasures, judging, tracked) = (each(), each(), each(), each());
    let checks = (app.domains().clone(), stopping.clone());
    let mail = (each(), app.domains().clone());
    let runs = (each(), app.domains().clone(), app.templates().clone());
    let audiences = (app.broadcasts().clone(), stopping.clone());
    let checks = keep_running("domains", move || domains::run_checks(checks.0.clone(), checks.1.clone()));
    let mail = keep_running("mail", move || {
        let ((occurrences, stopping), domains) = &mail;
        delivery::run(occurrences.clone(), domains.clone(), stopping.clone())
    });
    let runs = keep_running("runs", move || {
        let ((occurrences, stopping), domains, templates) = &runs;
        automations::run_engine(occurrences.clone(), domains.clone(), templates.clone(), stopping.clone())
    });
    let hooks = (App::clone(app), stopping.clone());
    let hooks = keep_running("webhooks", move || {
        let (app, stopping) = &hooks;
        webhooks::run(app.clone(), Box::new(delivery::OwnMail(app.clone())), stopping.clone())
    });
    let audiences =
        keep_running("broadcasts", move || broadcasts::run_audiences(audiences.0.clone(), audiences.1.clone()));
    // Files are read row by row, which takes long: not on the threads that answer.
    let importing = move || contacts::run_imports(imports.0.clone(), imports.1.clone());
    let imports = keep_running("imports", move || limits::aside("imports", importing()));
    let erasures = keep_running("erasures", move || contacts::run_erasures(erasures.0.clone(), erasures.1.clone()));
    let judging = keep_running("segments", move || contacts::run_judging(judging.0.clone(), judging.1.clone()));
    let upkeep = (App::clone(app), stopping.clone());
    let upkeep = keep_running("upkeep", move || upkeep::run(upkeep.0.clone(), upkeep.1.clone()));
    let tracked = keep_running("tracking", move || tracking::run(tracked.0.clone(), tracked.1.clone()));
    let patience = async {
        stopped(stopping.clone()).await;
        tokio::time::sleep(Duration::from_secs(app.config.drain_seconds)).await;
    };
    tokio::select! {
        _ = async { tokio::join!(mail, runs, hooks, audiences, imports, erasures, judging, checks, upkeep, tracked) } => {}
        () = patience => tracing::warn!("some work did not finish in time; it is tried again when its lease is over"),
    }
}

/// Runs something in a task of its own, and again if it panics: one defect must
/// not end everything else that the process does.
fn keep_running<F: Future<Output = ()> + Send + 'static>(
    name: &'static str,
    run: impl Fn() -> F + Send + 'static,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        while let Err(error) = tokio::spawn(run()).await {
            tracing::error!(%error, task = name, "a task panicked; it begins anew");
            tokio::time::sleep(AFTER_PANIC).await;
        }
    })
}

fn listen(config: &Config) -> anyhow::Result<TcpListener> {
    let bound = web::bind(config.listen);
    bound.with_context(|| format!("--listen {}: this address cannot be listened on", config.listen))
}

/// Opens the store that the settings name, making its folder if needed.
pub async fn open_store(config: &Config) -> anyhow::Result<Db> {
    let options = config.store();
    let open = async {
        if let Location::Sqlite(path) = &options.location {
            make_folder(path)?;
            db::make_private(path, &seal::key_file(path))?;
        }
        Db::open(&options).await
    };
    open.await.with_context(|| match &config.database_url {
        Some(given) => format!("--database-url {given}"),
        None => format!("--data-dir {}", config.data_dir.display()),
    })
}

/// Makes the folder of an SQLite file, if need be.
pub fn make_folder(file: &Path) -> anyhow::Result<()> {
    let folder = db::folder(file);
    // What is in there is nobody else's business on this machine.
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.with_context(|| format!("the folder {} cannot be made", folder.display()))
}

/// What an earlier version kept as it was is sealed, and what another key has
/// sealed is sealed with today's.
async fn seal_secrets(app: &App) -> anyhow::Result<()> {
    let unopened = credentials::reseal(&app.db, &app.seal).await?
        + automations::reseal(&app.db, &app.seal).await?
        + domains::reseal(&app.db, &app.seal).await?
        + webhooks::reseal(&app.db, &app.seal).await?
        + accounts::reseal(&app.db, &app.seal).await?;
    if unopened > 0 {
        tracing::warn!(unopened, "some secrets in the store cannot be opened; `posthorn doctor` says what to do");
    }
    if !app.seal.has_key() {
        tracing::warn!("secrets in the store are not sealed: set --secret (POSTHORN_SECRET)");
    }
    Ok(())
}

/// The public addresses, from the settings or from where we listen.
pub fn addresses(config: &Config, listening: SocketAddr) -> anyhow::Result<Addresses> {
    let parse = |text: String| text.parse().map_err(|error| anyhow::anyhow!("{text}: {error}"));
    let base = match &config.base_url {
        Some(base) => base.clone(),
        None => parse(format!("http://{}", reachable(listening)))?,
    };
    let dashboard = match &config.dashboard_url {
        Some(dashboard) => dashboard.clone(),
        None => parse(format!("{}/dashboard", base.as_str()))?,
    };
    anyhow::ensure!(
        base != dashboard,
        "--dashboard-url {}: must differ from --base-url in its host or its path",
        dashboard.as_str(),
    );
    Ok(Addresses { base, dashboard })
}

/// An address that can be called: "every address" is none, but this machine's own is among them.
fn reachable(listening: SocketAddr) -> SocketAddr {
    let own: IpAddr = match listening.ip() {
        IpAddr::V4(any) if any.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(any) if any.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        one => one,
    };
    SocketAddr::new(own, listening.port())
}

/// Starts counting. The buckets of durations reach from 0.1 ms to 10 s.
fn metrics() -> anyhow::Result<PrometheusHandle> {
    let buckets = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0];
    Ok(PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &buckets)?
        .install_recorder()?)
}

/// Resolves when the process is asked to stop.
fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn issue_10_a_task_that_panics_begins_anew_until_it_ends_by_itself() {
        let begun = Arc::new(AtomicUsize::new(0));
        let count = begun.clone();
        let run = move || {
            let turn = count.fetch_add(1, Ordering::SeqCst);
            async move { assert!(turn > 0, "the first time") }
        };
        keep_running("test", run).await.expect("no panic gets out");
        assert_eq!(begun.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn issue_10_accepting_goes_on_beside_work_that_holds_its_thread() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let answering = async move {
            for number in 0..20_u8 {
                let (mut caller, _) = listener.accept().await?;
                tokio::io::AsyncWriteExt::write_all(&mut caller, &[number]).await?;
            }
            Ok(())
        };
        let (stuck, is_stuck) = tokio::sync::oneshot::channel();
        let (release, held) = std::sync::mpsc::channel::<()>();
        let working = async move {
            stuck.send(()).expect("somebody waits");
            // As a turn does that looks at one thing for minutes.
            let _ = held.recv();
        };
        let calling = tokio::spawn(async move {
            is_stuck.await.expect("the work has begun");
            for number in 0..20_u8 {
                let mut caller = tokio::net::TcpStream::connect(address).await.expect("a connection");
                let answer = tokio::io::AsyncReadExt::read_u8(&mut caller);
                let answer = tokio::time::timeout(Duration::from_secs(20), answer).await;
                assert_eq!(answer.expect("in time").expect("an answer"), number);
            }
            release.send(()).expect("it is still held");
        });
        answer_and_work([Box::pin(answering)], working).await.expect("all is well");
        calling.await.expect("all were answered");
    }
}
