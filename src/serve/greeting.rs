//! What a server prints when it starts.

use crate::accounts;
use crate::app::App;
use crate::config::TransportKind;
use crate::db::Location;
use crate::hold::Hold;
use crate::smtp_server::Listeners;

/// Tells whoever started the server where to click.
pub(super) async fn print(app: &App, mail_in: &Listeners, reports_in: &Listeners) -> anyhow::Result<()> {
    let (base, dashboard) = (app.addresses.base.as_str(), app.addresses.dashboard.as_str());
    let store = match app.config.store().location {
        Location::Sqlite(path) => format!("SQLite, {}", path.display()),
        Location::Postgres(_) => "PostgreSQL".into(),
    };
    let mail = match app.config.transport() {
        TransportKind::Capture => "captured; nothing leaves this machine",
        TransportKind::Relay => "relayed by --smtp-url",
        TransportKind::Direct => "delivered to the servers of its recipients",
    };
    println!("Posthorn {}", env!("CARGO_PKG_VERSION"));
    println!("  API        {base}");
    if app.config.base_url.is_none() && app.config.listen.ip().is_unspecified() {
        println!("             on every address of this machine; name the one that others use with --base-url");
    }
    println!("  Dashboard  {dashboard}");
    println!("  Reference  {base}/docs");
    println!("  Store      {store}");
    println!("  Mail       {mail}");
    for address in mail_in.addresses() {
        println!("  Submission {address}");
    }
    for address in reports_in.addresses() {
        println!("  Inbound    {address}");
    }
    if let Some(held) = Hold::find(&app.db).await? {
        println!("\n{}", held.sentence());
    }
    if let Some(token) = accounts::new_setup_link(&app.db, &app.clock).await? {
        println!("\nNobody has an account yet. Open this link once to create yours:");
        println!("  Set up     {dashboard}/setup/{token}");
    }
    Ok(())
}
