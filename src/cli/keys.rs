//! `posthorn keys`: API keys.

use anyhow::anyhow;
use clap::{Args, Subcommand};
use serde_json::json;

use super::{CommandContext, Output};
use crate::audit::{self, DoneBy};
use crate::clock::rfc3339;
use crate::credentials::{self as store, KeyName, Listed, NewKey, Permission};
use crate::db::Batch;

#[derive(Subcommand, Debug)]
pub enum Keys {
    /// Create a key and print it, this once, alone on its line
    Create(Create),
    /// List the keys
    List(Output),
    /// Delete a key; from then on it is refused
    Delete {
        id: String,
        #[command(flatten)]
        output: Output,
    },
}

#[derive(Args, Debug)]
pub struct Create {
    #[arg(long)]
    name: KeyName,
    #[arg(long, default_value = "full_access")]
    permission: Permission,
    /// Id or name of the workspace, where there are several
    #[arg(long)]
    workspace: Option<String>,
    #[command(flatten)]
    output: Output,
}

impl Keys {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<()> {
        match self {
            Keys::Create(new) => create(context, new).await,
            Keys::List(output) => list(context, output).await,
            Keys::Delete { id, output } => delete(context, &id, output).await,
        }
    }
}

async fn create(context: &CommandContext, new: Create) -> anyhow::Result<()> {
    let workspace = context.workspace(new.workspace.as_deref()).await?;
    let key = NewKey::make(&context.clock, workspace.id, new.name.as_str(), new.permission);
    let noted = audit::note_of_key(key.id, &context.clock, "key.created", DoneBy::Command);
    context.db.commit(Batch::from(store::insert_key(&key)).and(noted)).await?;
    let json = json!({
        "id": key.id, "name": key.name, "permission": key.permission.as_str(), "token": key.secret,
        "workspace": {"id": workspace.id, "name": workspace.name},
    });
    new.output.tell(&json, key.secret);
    Ok(())
}

async fn list(context: &CommandContext, output: Output) -> anyhow::Result<()> {
    let item = |key: &Listed| {
        json!({
            "id": key.id, "name": key.name, "permission": key.permission, "prefix": key.prefix,
            "workspace": key.workspace, "created_at": rfc3339(key.created_at),
            "last_used_at": key.last_used_at.map(rfc3339),
        })
    };
    let cells = |key: &Listed| {
        let (id, start) = (key.id.to_string(), format!("{}…", key.prefix));
        let used = key.last_used_at.map_or("never".into(), rfc3339);
        vec![id, key.name.clone(), key.permission.clone(), start, key.workspace.clone(), used]
    };
    let headings = ["ID", "NAME", "PERMISSION", "KEY", "WORKSPACE", "LAST USED"];
    output.list(&store::keys(&context.db).await?, item, &headings, cells);
    Ok(())
}

async fn delete(context: &CommandContext, id: &str, output: Output) -> anyhow::Result<()> {
    let unknown = || anyhow!("{id}: there is no key with this id; `posthorn keys list` shows them");
    let key = id.parse().map_err(|_| unknown())?;
    let mut batch = Batch::from(audit::note_of_key(key, &context.clock, "key.deleted", DoneBy::Command));
    batch.append(store::delete_key(key));
    context.commit(batch, unknown).await?;
    output.tell(&json!({"id": id, "deleted": true}), format!("Deleted the key {id}."));
    Ok(())
}
