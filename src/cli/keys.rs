//! `posthorn keys`: API keys.

use anyhow::anyhow;
use clap::Subcommand;
use serde_json::json;

use super::{CommandContext, print_json, print_table};
use crate::clock::rfc3339;
use crate::credentials::{self as store, KeyName, NewKey, Permission};
use crate::db::DbError;

#[derive(Subcommand, Debug)]
pub enum Keys {
    /// Create a key and print it, this once, alone on its line
    Create {
        #[arg(long)]
        name: KeyName,
        #[arg(long, default_value = "full_access")]
        permission: Permission,
        /// Id or name of the workspace, where there are several
        #[arg(long)]
        workspace: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the keys
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete a key; from then on it is refused
    Delete {
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Keys {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<()> {
        match self {
            Keys::Create { name, permission, workspace, json } => {
                create(context, &name, permission, workspace.as_deref(), json).await
            }
            Keys::List { json } => list(context, json).await,
            Keys::Delete { id, json } => delete(context, &id, json).await,
        }
    }
}

async fn create(
    context: &CommandContext,
    name: &KeyName,
    permission: Permission,
    workspace: Option<&str>,
    as_json: bool,
) -> anyhow::Result<()> {
    let workspace = context.workspace(workspace).await?;
    let key = NewKey::make(&context.clock, workspace.id, name.as_str(), permission);
    context.db.commit(store::insert_key(&key)).await?;
    if as_json {
        print_json(&json!({
            "id": key.id, "name": key.name, "permission": permission.as_str(), "token": key.secret,
            "workspace": {"id": workspace.id, "name": workspace.name},
        }));
    } else {
        println!("{}", key.secret);
    }
    Ok(())
}

async fn list(context: &CommandContext, as_json: bool) -> anyhow::Result<()> {
    let keys = store::keys(&context.db).await?;
    if as_json {
        let items: Vec<_> = keys
            .iter()
            .map(|key| {
                json!({
                    "id": key.id, "name": key.name, "permission": key.permission, "prefix": key.prefix,
                    "workspace": key.workspace, "created_at": rfc3339(key.created_at),
                    "last_used_at": key.last_used_at.map(rfc3339),
                })
            })
            .collect();
        print_json(&json!(items));
    } else {
        let rows: Vec<_> = keys
            .into_iter()
            .map(|key| {
                let used = key.last_used_at.map_or("never".into(), rfc3339);
                vec![key.id.to_string(), key.name, key.permission, format!("{}…", key.prefix), key.workspace, used]
            })
            .collect();
        print_table(&["ID", "NAME", "PERMISSION", "KEY", "WORKSPACE", "LAST USED"], &rows);
    }
    Ok(())
}

async fn delete(context: &CommandContext, id: &str, as_json: bool) -> anyhow::Result<()> {
    let unknown = || anyhow!("{id}: there is no key with this id; `posthorn keys list` shows them");
    let key = id.parse().map_err(|_| unknown())?;
    match context.db.commit(store::delete_key(key)).await {
        Ok(_) if as_json => print_json(&json!({"id": id, "deleted": true})),
        Ok(_) => println!("Deleted the key {id}."),
        Err(DbError::Unexpected { .. }) => return Err(unknown()),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
