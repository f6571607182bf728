//! `posthorn hold` and `posthorn resume`.

use clap::Args;
use serde_json::json;

use super::{CommandContext, print_json};
use crate::clock::rfc3339;
use crate::hold;

const LONGEST_REASON: usize = 200;

#[derive(Args, Debug)]
pub struct Hold {
    /// What to tell those who wonder why nothing is sent
    #[arg(long, default_value = "by an operator", value_name = "TEXT", value_parser = reason)]
    reason: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub struct Resume {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Hold {
    pub async fn run(&self, context: &CommandContext) -> anyhow::Result<()> {
        context.db.commit(hold::set(&context.clock, &self.reason)).await?;
        let held = hold::Hold::find(&context.db).await?;
        match held {
            Some(held) if self.json => {
                print_json(&json!({ "held_since": rfc3339(held.since), "reason": held.reason }));
            }
            Some(held) => println!("{} What was begun is finished.", held.sentence()),
            None => anyhow::bail!("somebody has resumed at the same moment"),
        }
        Ok(())
    }
}

impl Resume {
    pub async fn run(&self, context: &CommandContext) -> anyhow::Result<()> {
        let held = hold::Hold::find(&context.db).await?;
        context.db.commit(hold::release()).await?;
        match held {
            _ if self.json => print_json(&json!({ "held_since": held.map(|held| rfc3339(held.since)) })),
            Some(held) => println!("It goes on; it was on hold since {} ({}).", rfc3339(held.since), held.reason),
            None => println!("It was not on hold."),
        }
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
