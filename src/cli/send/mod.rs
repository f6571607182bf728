//! `posthorn send`: a mail by command, and its way as it happens. It is queued as any other mail,
//! and a server on the same store delivers it.

mod watch;

use std::io::{IsTerminal, Read};
use std::time::Duration;

use anyhow::{anyhow, bail, ensure};
use clap::Args;
use serde_json::{Map, Value, json};

use super::{CommandContext, print_json};
use crate::config::Config;
use crate::emails;
use watch::Watch;

/// How much is read from standard input.
const LONGEST_BODY: u64 = 10 << 20;

const USUAL_TEXT: &str = "This mail was sent with `posthorn send`. Whoever reads it knows that it arrived.\n";

#[derive(Args, Debug)]
pub struct Send {
    /// Whom it is from: an address, or "Name <address>"
    #[arg(long, value_name = "ADDRESS")]
    from: String,
    /// Whom it goes to; can be repeated
    #[arg(long, value_name = "ADDRESS", required = true)]
    to: Vec<String>,
    #[arg(long, default_value = "A mail to see whether mail arrives")]
    subject: String,
    /// Its body as plain text [default: standard input]
    #[arg(long)]
    text: Option<String>,
    /// Its body as HTML
    #[arg(long)]
    html: Option<String>,
    /// How long to watch it; it is delivered afterwards as well
    #[arg(long, default_value = "60", value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=86_400))]
    wait: u64,
    /// Id or name of the workspace, where there are several
    #[arg(long)]
    workspace: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Send {
    /// `Err` where it is not delivered, with the reason.
    pub async fn run(self, context: CommandContext, config: Config) -> anyhow::Result<()> {
        let workspace = context.workspace(self.workspace.as_deref()).await?;
        let fields = self.fields()?;
        let product = context.product(config)?;
        let handed_in = emails::hand_in(product.emails(), workspace.id, fields).await;
        let id = handed_in.map_err(|refusal| anyhow!("it was not accepted: {}", refusal.message()))?;
        let mut watch = Watch::new(&product, id, self.json);
        watch.say("accepted", &format!("its id is {id}"));
        watch.follow(Duration::from_secs(self.wait)).await?;
        let undelivered = watch.undelivered().await?;
        if self.json {
            print_json(&watch.to_json(undelivered.is_empty()));
        }
        match undelivered.is_empty() {
            true => Ok(()),
            false => bail!("it is not delivered: {}", undelivered.join("; ")),
        }
    }

    /// The mail as `POST /emails` takes it.
    fn fields(&self) -> anyhow::Result<Map<String, Value>> {
        let text = match (&self.text, &self.html) {
            (None, None) => Some(body()?),
            (text, _) => text.clone(),
        };
        let fields = [
            ("from", json!(self.from)),
            ("to", json!(self.to)),
            ("subject", json!(self.subject)),
            ("text", json!(text)),
            ("html", json!(self.html)),
        ];
        Ok(fields.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.into(), value)).collect())
    }
}

fn body() -> anyhow::Result<String> {
    let input = std::io::stdin();
    if input.is_terminal() {
        return Ok(USUAL_TEXT.into());
    }
    let mut body = String::new();
    input.lock().take(LONGEST_BODY + 1).read_to_string(&mut body)?;
    ensure!(body.len() as u64 <= LONGEST_BODY, "standard input: allowed are {} MiB at most", LONGEST_BODY >> 20);
    Ok(if body.is_empty() { USUAL_TEXT.into() } else { body })
}
