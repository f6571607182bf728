//! The server: opens the store, listens, answers, and stops without losing
//! what it has begun.

use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::accounts::setup;
use crate::app::{Addresses, App};
use crate::auth::session;
use crate::config::{Config, Role};
use crate::db::{Db, Location, clock, files};
use crate::hold::Hold;
use crate::seal::Seal;
use crate::web::gate::Gate;
use crate::web::idempotency;
use crate::{auth, automations, contacts, mail, oauth};

/// How long a client may take to send the head of a request.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);

/// How often the small chores are done.
const CHORES: Duration = Duration::from_secs(5);

/// Every so many times the larger ones are done too: once an hour.
const RARELY: u64 = 720;

/// Runs a server until it is told to stop. `Err` means that it could not start
/// or had to stop.
pub async fn serve(config: Config) -> anyhow::Result<()> {
    serve_behind(config, Gate::new).await
}

/// As [`serve`], behind a gate of the caller's choice.
pub async fn serve_behind(config: Config, gate: impl FnOnce(App) -> Gate) -> anyhow::Result<()> {
    config.check()?;
    // A worker alone takes no address, so it can run beside a server.
    let listener = match config.role.contains(&Role::Api) {
        true => Some(listen(&config).await?),
        false => None,
    };
    let listening = listener.as_ref().map_or(Ok(config.listen), TcpListener::local_addr)?;
    let addresses = addresses(&config, listening)?;
    let db = open_store(&config).await?;
    let (metrics, seal) = (metrics()?, Seal::of(&config)?);
    let (clock, keeper) = clock::open(&db).await?;
    tokio::spawn(keeper.keep());
    let app = App::new(config, addresses, db, clock, metrics, seal);
    seal_secrets(&app).await?;
    greet(&app).await?;
    tokio::spawn(do_chores(app.clone()));

    let signal = stop_signal()?;
    let (stop, stopping) = watch::channel(false);
    tokio::spawn(async move {
        signal.await;
        stop.send_replace(true);
    });
    let running = async {
        let (answered, ()) =
            tokio::join!(answer_if_told(&app, listener, gate, stopping.clone()), work(&app, stopping.clone()));
        answered
    };
    tokio::select! {
        answered = running => answered,
        () = app.db.failed() => anyhow::bail!("the store cannot write any more; the log says why"),
    }
}

/// Resolves when it is time to stop.
async fn stopped(mut stopping: watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// Answers HTTP until it is time to stop, if that is among this process's roles.
async fn answer_if_told(
    app: &App,
    listener: Option<TcpListener>,
    gate: impl FnOnce(App) -> Gate,
    stopping: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let Some(listener) = listener else {
        stopped(stopping).await;
        return Ok(());
    };
    let drain = Duration::from_secs(app.config.drain_seconds);
    answer(listener, Arc::new(gate(app.clone())), stopped(stopping), drain).await
}

/// Does the work that waits in the store until it is time to stop, if that is
/// among this process's roles.
async fn work(app: &App, stopping: watch::Receiver<bool>) {
    if !app.config.role.contains(&Role::Worker) {
        return;
    }
    let mail = mail::worker::run(app.clone(), stopping.clone());
    let runs = automations::engine::run(app.clone(), stopping.clone());
    let imports = contacts::imports::worker::run(app.clone(), stopping.clone());
    let worker = async { tokio::join!(mail, runs, imports) };
    let patience = async {
        stopped(stopping).await;
        tokio::time::sleep(Duration::from_secs(app.config.drain_seconds)).await;
    };
    tokio::select! {
        _ = worker => {}
        () = patience => tracing::warn!("some work did not finish in time; it is tried again when its lease is over"),
    }
}

async fn listen(config: &Config) -> anyhow::Result<TcpListener> {
    let bound = TcpListener::bind(config.listen).await;
    bound.with_context(|| format!("--listen {}: this address cannot be listened on", config.listen))
}

/// Opens the store that the settings name, making its folder if needed.
pub async fn open_store(config: &Config) -> anyhow::Result<Db> {
    let options = config.store();
    let open = async {
        if let Location::Sqlite(path) = &options.location {
            make_folder(path)?;
            files::make_private(path)?;
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
    let folder = files::folder(file);
    // What is in there is nobody else's business on this machine.
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.with_context(|| format!("the folder {} cannot be made", folder.display()))
}

/// What an earlier version kept as it was is sealed, and what another key has
/// sealed is sealed with today's.
async fn seal_secrets(app: &App) -> anyhow::Result<()> {
    let unopened = auth::reseal(&app.db, &app.seal).await? + automations::reseal(&app.db, &app.seal).await?;
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
        None => parse(format!("http://{listening}"))?,
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

/// Starts counting. The buckets of durations reach from 0.1 ms to 10 s.
fn metrics() -> anyhow::Result<PrometheusHandle> {
    let buckets = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0];
    Ok(PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &buckets)?
        .install_recorder()?)
}

/// Tells whoever started the server where to click.
async fn greet(app: &App) -> anyhow::Result<()> {
    let (base, dashboard) = (app.addresses.base.as_str(), app.addresses.dashboard.as_str());
    let store = match app.config.store().location {
        Location::Sqlite(path) => format!("SQLite, {}", path.display()),
        Location::Postgres(_) => "PostgreSQL".into(),
    };
    let mail = match app.config.smtp_url {
        Some(_) => "relayed by --smtp-url",
        None => "captured; nothing leaves this machine",
    };
    println!("Posthorn {}", env!("CARGO_PKG_VERSION"));
    println!("  API        {base}");
    println!("  Dashboard  {dashboard}");
    println!("  Reference  {base}/docs");
    println!("  Store      {store}");
    println!("  Mail       {mail}");
    if let Some(held) = Hold::find(&app.db).await? {
        println!("\n{}", held.sentence());
    }
    if let Some(token) = setup::new_link(&app.db, &app.clock).await? {
        println!("\nNobody has an account yet. Open this link once to create yours:");
        println!("  Set up     {dashboard}/setup/{token}");
    }
    Ok(())
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

/// Accepts connections until `stop`, then lets those in flight finish.
pub async fn answer(
    listener: TcpListener,
    gate: Arc<Gate>,
    stop: impl Future<Output = ()>,
    drain: Duration,
) -> anyhow::Result<()> {
    let graceful = GracefulShutdown::new();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => converse(stream, peer, gate.clone(), &graceful),
                Err(error) => {
                    // Out of descriptors: those in use will be given back.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            () = &mut stop => break,
        }
    }
    drop(listener);
    tracing::info!("stopping; requests in flight are finished first");
    if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not finish in time");
    }
    Ok(())
}

fn converse(stream: TcpStream, peer: SocketAddr, gate: Arc<Gate>, graceful: &GracefulShutdown) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let gate = gate.clone();
        async move { Ok::<_, std::convert::Infallible>(gate.handle(request.map(Body::new), peer.ip()).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .serve_connection(TokioIo::new(stream), service);
    let connection = graceful.watch(connection);
    tokio::spawn(async move {
        // A peer that breaks off or talks gibberish is its own affair.
        let _ = connection.await;
    });
}

/// What has to be done now and then, by every process: each chore is safe to
/// be done by several at once.
async fn do_chores(app: App) {
    let mut ticks = tokio::time::interval(CHORES);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for tick in 0_u64.. {
        ticks.tick().await;
        app.metrics.run_upkeep();
        app.limits.sweep(app.clock.steady());
        if let Err(error) = app.credentials.flush(&app.db).await {
            tracing::warn!(%error, "the last use of credentials could not be noted");
        }
        if let Err(error) = session::sweep(&app.db, app.clock.now()).await {
            tracing::warn!(%error, "sessions that ended could not be deleted");
        }
        if let Err(error) = oauth::sweep(&app.db, &app.clock).await {
            tracing::warn!(%error, "expired authorization requests could not be deleted");
        }
        if let Err(error) = app.db.commit(idempotency::sweep(app.clock.steady())).await {
            tracing::warn!(%error, "old keys of idempotency could not be deleted");
        }
        if let Err(error) = automations::engine::sweep(&app).await {
            tracing::warn!(%error, "what is left of deleted automations could not be deleted");
        }
        if tick % RARELY == 0
            && let Err(error) = oauth::sweep_clients(&app.db, &app.clock).await
        {
            tracing::warn!(%error, "clients that came to nothing could not be deleted");
        }
    }
}
