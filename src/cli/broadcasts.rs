//! `posthorn broadcasts`: sends one by command, and shows how far it is. A server on the same store takes its
//! audience and delivers it.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Subcommand;

use super::CommandContext;
use crate::broadcasts::{self, Watched};
use crate::config::Config;
use crate::id::BroadcastId;
use crate::product::Product;

/// How often it is looked at, on a terminal and elsewhere.
const LIVELY: Duration = Duration::from_millis(500);
const CALM: Duration = Duration::from_secs(5);

/// How long the bar is.
const BAR: i64 = 30;

#[derive(Subcommand, Debug)]
pub enum Broadcasts {
    /// Send a draft now
    Send {
        /// Its id
        id: BroadcastId,
        /// Show how far it is until it has ended
        #[arg(long)]
        watch: bool,
    },
}

impl Broadcasts {
    pub async fn run(self, context: CommandContext, config: Config) -> anyhow::Result<()> {
        let Broadcasts::Send { id, watch } = self;
        let product = context.product(config)?;
        let sent = broadcasts::send_as_operator(product.broadcasts(), id).await;
        sent.map_err(|refusal| anyhow!("it was not sent: {}", refusal.message()))?;
        match watch {
            true => follow(&product, id).await,
            false => {
                println!("It is being sent.");
                Ok(())
            }
        }
    }
}

/// Shows how far it is, in one line that changes or, where nobody sees it change, in many.
async fn follow(product: &Product, id: BroadcastId) -> anyhow::Result<()> {
    let is_terminal = std::io::stdout().is_terminal();
    let mut last = String::new();
    loop {
        let watched = broadcasts::watch(product.broadcasts(), id).await;
        let watched = watched.map_err(|error| anyhow!("it cannot be read: {}", error.message()))?;
        let line = told(&watched, is_terminal);
        if is_terminal {
            print!("\r\x1b[K{line}");
            std::io::stdout().flush()?;
        } else if line != last {
            println!("{line}");
        }
        last = line;
        match watched.state {
            "preparing" | "sending" | "scheduled" | "paused" => {}
            state => {
                if is_terminal {
                    println!();
                }
                return match (state, watched.reason) {
                    ("draft", reason) => bail!("{}", reason.unwrap_or_else(|| "it is a draft again".into())),
                    ("canceled", _) => bail!("it was canceled"),
                    _ => Ok(()),
                };
            }
        }
        tokio::time::sleep(if is_terminal { LIVELY } else { CALM }).await;
    }
}

fn told(watched: &Watched, has_bar: bool) -> String {
    let Some(progress) = &watched.progress else { return watched.state.to_owned() };
    let (all, ended) = (progress.recipients, progress.recipients - progress.counts.waiting());
    let mut line = format!("{} {ended} of {all}", watched.state);
    if has_bar {
        let full = usize::try_from(if all > 0 { ended * BAR / all } else { 0 }).unwrap_or_default();
        let bar: String = (0..BAR as usize).map(|at| if at < full { '#' } else { '-' }).collect();
        line = format!("[{bar}] {line}");
    }
    for (count, word) in [
        (progress.counts.bounced, "bounced"),
        (progress.counts.failed, "failed"),
        (progress.counts.uncertain, "uncertain"),
        (progress.counts.suppressed, "suppressed"),
    ] {
        if count > 0 {
            line += &format!(", {count} {word}");
        }
    }
    if progress.rate > 0.0 {
        line += &format!(", {} a second", progress.rate);
    }
    if let Some(seconds) = progress.seconds_left.filter(|_| watched.state == "sending") {
        line += &format!(", about {seconds} s left");
    }
    line
}
