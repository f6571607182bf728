//! The command line: the server, and commands that work beside it.

mod api;
mod backup;
mod broadcasts;
mod clients;
mod contacts;
mod doctor;
mod help;
mod hold;
mod keys;
mod oauth;
mod password;
mod send;
mod status;
mod templates;
mod users;

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use anyhow::bail;
use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::{Value, json};

use crate::accounts::{self, Workspace};
use crate::app::App;
use crate::clock::Clock;
use crate::config::Config;
use crate::db::{Batch, Db, DbError, Location};
use crate::product::Product;
use crate::seal::Seal;
use crate::{db, log, product, serve};

/// An e-mail platform you run yourself.
#[derive(Parser, Debug)]
#[command(name = "posthorn", version, about, long_about = None, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    config: Config,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run the server (also without a command)
    Serve,
    /// People who can log in
    #[command(subcommand)]
    Users(users::Users),
    /// API keys
    #[command(subcommand)]
    Keys(keys::Keys),
    /// OAuth clients
    #[command(subcommand)]
    Clients(clients::Clients),
    /// Send a mail and watch its way, beside a running server
    Send(send::Send),
    /// Mail to everybody in a segment
    #[command(subcommand)]
    Broadcasts(broadcasts::Broadcasts),
    /// What is kept of one person
    #[command(subcommand)]
    Contacts(contacts::Contacts),
    /// Templates of mail as files
    #[command(subcommand)]
    Templates(templates::Templates),
    /// Make one call of the HTTP API and print the answer
    Api(api::Api),
    /// The health and the keys of OAuth
    #[command(subcommand)]
    Oauth(oauth::Oauth),
    /// Check settings, store, machine and the running server; say what is wrong and what to do
    Doctor(doctor::Doctor),
    /// Whether the server answers, on which store, and what waits there
    Status(status::Status),
    /// Make the store or bring its schema up to date, and stop
    Migrate,
    /// Copy the SQLite store to a file, also while the server runs
    Backup(backup::Backup),
    /// Put a backup in the place of the SQLite store; it is on hold until `posthorn resume`
    Restore(backup::Restore),
    /// Send nothing and let no timer fire until `posthorn resume`
    Hold(hold::Hold),
    /// Go on after a hold
    Resume(hold::Resume),
    /// Print the API's description (OpenAPI)
    Openapi,
    /// Print what lets a shell complete commands and flags
    Completions {
        #[arg(value_enum)]
        shell: Shell,
    },
}

impl Cli {
    /// What was asked for on the command line and in the environment. Ends the
    /// process where that cannot be understood.
    pub fn from_command_line() -> Cli {
        let matches = help::command_line().try_get_matches();
        let read = matches.and_then(|matches| Cli::from_arg_matches(&matches));
        read.unwrap_or_else(|error| hide_secrets(error).exit())
    }

    pub fn run(self) -> ExitCode {
        match block_on(self.run_command()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("posthorn: {error:#}");
                ExitCode::FAILURE
            }
        }
    }

    async fn run_command(self) -> anyhow::Result<()> {
        let config = self.config;
        let context = || CommandContext::open(&config);
        match self.command.unwrap_or(Command::Serve) {
            Command::Serve => {
                let _log = log::start(&config)?;
                serve::serve(config).await
            }
            Command::Openapi => {
                let addresses = serve::addresses(&config, config.listen)?;
                println!("{:#}", product::openapi(addresses.base.as_str()));
                Ok(())
            }
            Command::Completions { shell } => {
                clap_complete::generate(shell, &mut Cli::command(), "posthorn", &mut io::stdout());
                Ok(())
            }
            // It goes to a server, which may be elsewhere.
            Command::Api(api) => api.run(&config).await,
            // Doctors change nothing: they do not open the store as others do.
            Command::Status(status) => status.run(&config).await,
            Command::Doctor(doctor) => doctor.run(&config).await,
            Command::Oauth(oauth::Oauth::Doctor(doctor)) => doctor.run(&config).await,
            // A copy must not change the store, nor a restore find one that was made for it.
            Command::Backup(command) => command.run(&config),
            Command::Restore(command) => command.run(&config).await,
            // An instance without a browser begins with its first user.
            Command::Users(command @ users::Users::Create(_)) => {
                command.run(&CommandContext::open_or_make(&config).await?).await
            }
            Command::Users(command) => command.run(&context().await?).await,
            Command::Keys(command) => command.run(&context().await?).await,
            Command::Clients(command) => command.run(&context().await?).await,
            Command::Send(command) => command.run(context().await?, config.clone()).await,
            Command::Broadcasts(command) => command.run(context().await?, config.clone()).await,
            Command::Contacts(command) => command.run(context().await?, config.clone()).await,
            Command::Templates(command) => command.run(context().await?, config.clone()).await,
            Command::Hold(command) => command.run(&context().await?).await,
            Command::Resume(command) => command.run(&context().await?).await,
            Command::Oauth(oauth::Oauth::RotateKeys(output)) => {
                oauth::rotate_keys(&context().await?, &config, output).await
            }
            Command::Migrate => {
                serve::open_store(&config).await?;
                println!("The store is up to date.");
                Ok(())
            }
        }
    }
}

/// An error names the value that it is about; that of a secret is nobody's business.
fn hide_secrets(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(about)) = error.get(ContextKind::InvalidArg) else { return error };
    let mut command = Cli::command();
    command.build();
    let is_secret = command.get_arguments().any(|arg| arg.is_hide_env_values_set() && arg.to_string() == *about);
    if is_secret {
        error.insert(ContextKind::InvalidValue, ContextValue::String("(not shown)".into()));
    }
    error
}

/// Runs the process's one task on a thread for every core.
pub fn block_on(task: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(task)
}

/// What a command works with.
pub struct CommandContext {
    pub db: Db,
    pub clock: Clock,
}

impl CommandContext {
    /// Opens a store that is there: whoever is in the wrong folder wants to hear of it.
    async fn open(config: &Config) -> anyhow::Result<CommandContext> {
        if let Location::Sqlite(file) = config.store().location
            && !file.exists()
        {
            bail!(
                "there is no store at {}. Name yours with --data-dir or --database-url; `posthorn serve`, \
                 `posthorn users create` and `posthorn migrate` make a new one",
                file.display()
            );
        }
        CommandContext::open_or_make(config).await
    }

    async fn open_or_make(config: &Config) -> anyhow::Result<CommandContext> {
        let db = serve::open_store(config).await?;
        let (clock, _) = db::open_clock(&db).await?;
        Ok(CommandContext { db, clock })
    }

    /// The product as a server with these settings has it, without anything that runs by itself.
    fn product(self, config: Config) -> anyhow::Result<Product> {
        config.check()?;
        let addresses = serve::addresses(&config, config.listen)?;
        let (seal, metrics) = (Seal::of(&config)?, PrometheusBuilder::new().build_recorder().handle());
        Ok(Product::new(App::new(config, addresses, self.db, self.clock, metrics, seal)))
    }

    /// Commits a batch; `missing` where it does not find what it is about.
    async fn commit(&self, batch: impl Into<Batch>, missing: impl FnOnce() -> anyhow::Error) -> anyhow::Result<()> {
        match self.db.commit(batch.into()).await {
            Err(DbError::Unexpected { .. }) => Err(missing()),
            settled => Ok(settled.map(drop)?),
        }
    }

    /// The workspace that was named by its id or its name; unnamed, the only
    /// one, which an empty store gets first.
    async fn workspace(&self, named: Option<&str>) -> anyhow::Result<Workspace> {
        let Some(named) = named else {
            return match accounts::only_workspace(&self.db, &self.clock).await? {
                Some(workspace) => Ok(workspace),
                None => bail!("there are several workspaces; name one with --workspace"),
            };
        };
        let all = accounts::workspaces(&self.db).await?;
        let mut found: Vec<_> =
            all.into_iter().filter(|one| one.id.to_string() == named || one.name == named).collect();
        match (found.pop(), found.is_empty()) {
            (Some(workspace), true) => Ok(workspace),
            (Some(_), false) => bail!("--workspace {named}: several workspaces have this name; give the id"),
            (None, _) => bail!("--workspace {named}: there is no workspace with this id or name"),
        }
    }
}

/// How a command tells what came of it.
#[derive(Args, Debug, Clone, Copy)]
pub struct Output {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Output {
    fn tell(self, json: &Value, words: impl Display) {
        if self.json { print_json(json) } else { println!("{words}") }
    }

    /// A list: of each item what programs read, or its cells below the headings.
    fn list<T>(self, items: &[T], json: impl Fn(&T) -> Value, headings: &[&str], cells: impl Fn(&T) -> Vec<String>) {
        match self.json {
            true => print_json(&json!(items.iter().map(json).collect::<Vec<_>>())),
            false => print_table(headings, &items.iter().map(cells).collect::<Vec<_>>()),
        }
    }
}

/// Prints rows as aligned columns under headings.
fn print_table(headings: &[&str], rows: &[Vec<String>]) {
    let mut widths: Vec<usize> = headings.iter().map(|heading| heading.len()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: Vec<&str>| {
        let padded: Vec<String> =
            cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}", width = *width)).collect();
        println!("{}", padded.join("  ").trim_end());
    };
    line(headings.to_vec());
    rows.iter().for_each(|row| line(row.iter().map(String::as_str).collect()));
}

fn print_json(value: &Value) {
    println!("{value:#}");
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANUAL: &str = include_str!("../../docs/configuration.md");

    fn longs(command: &clap::Command) -> Vec<String> {
        let own = command.get_arguments().filter(|arg| !arg.is_hide_set());
        own.filter_map(|arg| arg.get_long().map(str::to_owned)).filter(|long| long != "help").collect()
    }

    /// Every command below this one, with the words that lead to it.
    fn commands(command: &clap::Command, before: &str) -> Vec<(String, clap::Command)> {
        let below = command.get_subcommands().flat_map(|one| {
            let words = format!("{before} {}", one.get_name());
            let mut found = commands(one, &words);
            found.push((words, one.clone()));
            found
        });
        below.collect()
    }

    #[test]
    fn no_command_takes_a_flag_away_from_the_settings() {
        let cli = Cli::command();
        let settings = longs(&cli);
        for (words, command) in commands(&cli, "posthorn") {
            for long in longs(&command) {
                assert!(!settings.contains(&long), "`{words} --{long}` hides a setting");
            }
        }
        let line = ["posthorn", "users", "create", "--email", "a@b", "--password-stdin", "--as", "admin"];
        assert!(Cli::try_parse_from(line).is_ok());
    }

    #[test]
    fn the_manual_has_a_row_for_every_setting_and_a_line_for_every_command() {
        for setting in Cli::command().get_arguments().filter(|arg| arg.get_env().is_some()) {
            let flag = format!("`--{}`", setting.get_long().unwrap_or_default());
            let variable = format!("`{}`", setting.get_env().and_then(|name| name.to_str()).unwrap_or_default());
            let row =
                MANUAL.lines().find(|line| line.starts_with('|') && line.contains(&flag) && line.contains(&variable));
            let row = row.unwrap_or_else(|| panic!("docs/configuration.md has no row with {flag} and {variable}"));
            for default in setting.get_default_values() {
                let default = default.to_string_lossy();
                assert!(row.contains(&format!("`{default}`")), "{flag}: the default is {default}");
            }
        }
        for (words, command) in commands(&Cli::command(), "posthorn") {
            assert!(MANUAL.contains(&words), "docs/configuration.md does not mention `{words}`");
            for long in longs(&command) {
                assert!(MANUAL.contains(&format!("--{long}")), "docs/configuration.md does not mention --{long}");
            }
        }
    }
}
