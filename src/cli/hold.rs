//! `posthorn hold` and `posthorn resume`.

use anyhow::Context;
use clap::Args;
use serde_json::json;

use super::{CommandContext, Output};
use crate::clock::rfc3339;
use crate::hold;

const LONGEST_REASON: usize = 200;

#[derive(Args, Debug)]
pub struct Hold {
    /// What to tell those who wonder why nothing is sent
    #[arg(long, default_value = "by an operator", value_name = "TEXT", value_parser = reason)]
    reason: String,
    #[command(flatten)]
    output: Output,
}

#[derive(Args, Debug)]
pub struct Resume {
    #[command(flatten)]
    output: Output,
}

impl Hold {
    pub async fn run(&self, context: &CommandContext) -> anyhow::Result<()> {
        context.db.commit(hold::set(&context.clock, &self.reason)).await?;
        let held = hold::Hold::find(&context.db).await?;
        let held = held.context("somebody has resumed at the same moment")?;
        let json = json!({ "held_since": rfc3339(held.since), "reason": held.reason });
        self.output.tell(&json, format!("{} What was begun is finished.", held.sentence()));
        Ok(())
    }
}

impl Resume {
    pub async fn run(&self, context: &CommandContext) -> anyhow::Result<()> {
        let held = hold::Hold::find(&context.db).await?;
        context.db.commit(hold::release()).await?;
        let since = held.as_ref().map(|held| rfc3339(held.since));
        let words = match &held {
            Some(held) => format!("It goes on; it was on hold since {} ({}).", rfc3339(held.since), held.reason),
            None => "It was not on hold.".into(),
        };
        self.output.tell(&json!({ "held_since": since }), words);
        Ok(())
    }
}

fn reason(given: &str) -> Result<String, String> {
    let is_fine = (1..=LONGEST_REASON).contains(&given.chars().count()) && !given.contains(char::is_control);
    match is_fine {
        true => Ok(given.to_owned()),
        false => Err(format!("allowed is one line of 1 to {LONGEST_REASON} characters")),
    }
}
