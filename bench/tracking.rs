//! Opens and clicks of tracked mail: how fast they are taken, each committed before it is answered.

use anyhow::Context;
use clap::Parser;
use metrics_exporter_prometheus::PrometheusBuilder;
use uuid::Uuid;

use posthorn::app::App;
use posthorn::clock::Clock;
use posthorn::config::Config;
use posthorn::db::Db;
use posthorn::domains::Tracking;
use posthorn::seal::Seal;
use posthorn::tracking::{Keys, LinkWriter, Place};
use posthorn::{cli, serve};

use crate::Plan;
use crate::report::Report;
use crate::rows::{Side, compare, load, measure};
use crate::server::Server;
use crate::store::Store;
use crate::workload::Workload;

/// How many recipients take turns: each is counted so often a minute and no more.
const RECIPIENTS: u32 = 50_000;

const PAGE: &str = "<a href=\"https://shop.example/orders/1\">Your order</a>";

#[derive(Parser)]
struct Settings {
    #[command(flatten)]
    config: Config,
}

pub fn image(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    taken(plan, report, "GET /t/image, SQLite, 256 connections", ("src=\"", 200))
}

pub fn link(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    taken(plan, report, "GET /t/link, SQLite, 256 connections", ("href=\"", 302))
}

fn taken(plan: &Plan, report: &mut Report, what: &str, (attribute, expected): (&str, u16)) -> anyhow::Result<()> {
    let empty = if expected == 200 { "/t/image/none" } else { "/t/link/none" };
    compare(
        plan,
        report,
        (what, "empty handler", 0.4),
        || load(plan, Server::empty, &Store::sqlite()?, 256, |_| Ok(Workload::visit(vec![empty.into()], expected))),
        || -> anyhow::Result<Side> {
            let store = Store::sqlite()?;
            store.key()?;
            let paths = paths(&store, attribute)?;
            measure(plan, &Server::real(&store)?, 256, &mut Workload::visit(paths, expected))
        },
    )
}

/// The addresses that mails to so many recipients lead to. What these do comes to nothing: the mails are gone.
fn paths(store: &Store, attribute: &str) -> anyhow::Result<Vec<String>> {
    let arguments = std::iter::once("load".to_owned()).chain(store.arguments());
    let config = Settings::parse_from(arguments).config;
    let mut paths = Vec::new();
    cli::block_on(async {
        let (addresses, seal) = (serve::addresses(&config, config.listen)?, Seal::of(&config)?);
        let (db, metrics) = (Db::open(&config.store()).await?, PrometheusBuilder::new().build_recorder().handle());
        let app = App::new(config, addresses, db, Clock::system(), metrics, seal);
        let keys = Keys::default().get(&app).await?;
        let tracking = Tracking { opens: true, clicks: true, host: None };
        let path = |number: u32| -> anyhow::Result<String> {
            let place = Place { email_id: Uuid::from_u128(1).into(), number };
            let links = LinkWriter::new(keys.clone(), &app.addresses.base, &tracking, place, &[]);
            let html = std::sync::Arc::new(links).rewriter().rewrite(PAGE);
            let url = html.split(attribute).nth(1).and_then(|rest| rest.split('"').next()).context("an address")?;
            Ok(url.strip_prefix(app.addresses.base.as_str()).context("an address of ours")?.to_owned())
        };
        paths = (0..RECIPIENTS).map(path).collect::<anyhow::Result<_>>()?;
        Ok(())
    })?;
    Ok(paths)
}
