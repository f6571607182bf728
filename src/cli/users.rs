//! `posthorn users`: people who can log in.

use std::io::BufRead;

use anyhow::{Context, bail};
use clap::Subcommand;
use serde_json::json;

use super::{Desk, print_json, print_table};
use crate::accounts::{self, EmailAddress, Password, Role, store};
use crate::auth::password;
use crate::clock::rfc3339;
use crate::db::DbError;

#[derive(Subcommand, Debug)]
pub enum Users {
    /// Create a user; the first of a workspace becomes its owner
    Create {
        #[arg(long)]
        email: EmailAddress,
        /// Read the password from the first line of standard input
        #[arg(long, required = true)]
        password_stdin: bool,
        /// Id or name of the workspace, where there are several
        #[arg(long)]
        workspace: Option<String>,
        /// What the user may do there [default: owner for the first, else member]
        #[arg(long)]
        role: Option<Role>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the users
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Change a user's password
    Passwd {
        #[arg(long)]
        email: EmailAddress,
        /// Read the password from the first line of standard input
        #[arg(long, required = true)]
        password_stdin: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Users {
    pub async fn run(self, desk: &Desk) -> anyhow::Result<()> {
        match self {
            Users::Create { email, workspace, role, json, .. } => {
                create(desk, &email, workspace.as_deref(), role, json).await
            }
            Users::List { json } => list(desk, json).await,
            Users::Passwd { email, json, .. } => passwd(desk, &email, json).await,
        }
    }
}

pub(super) fn read_password() -> anyhow::Result<Password> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).context("standard input cannot be read")?;
    let typed = line.strip_suffix('\n').unwrap_or(&line);
    let typed = typed.strip_suffix('\r').unwrap_or(typed);
    typed.parse().map_err(|error| anyhow::anyhow!("--password-stdin: {error}"))
}

async fn create(
    desk: &Desk,
    email: &EmailAddress,
    workspace: Option<&str>,
    role: Option<Role>,
    as_json: bool,
) -> anyhow::Result<()> {
    let password = read_password()?;
    let workspace = desk.workspace(workspace).await?;
    let role = match role {
        Some(role) => role,
        None if store::has_members(&desk.db, &workspace.id).await? => Role::Member,
        None => Role::Owner,
    };
    let (user, batch) = accounts::new_user(&desk.clock, email, &password::hash(password.as_str()), &workspace, role);
    accounts::create_user(&desk.db, batch).await.with_context(|| format!("--email {}", email.as_str()))?;
    if as_json {
        print_json(&json!({
            "id": user.id, "email": user.email, "role": role.as_str(),
            "workspace": {"id": workspace.id, "name": workspace.name},
        }));
    } else {
        println!("Created {} as {role} of the workspace {}.", user.email, workspace.name);
    }
    Ok(())
}

async fn list(desk: &Desk, as_json: bool) -> anyhow::Result<()> {
    let users = store::users(&desk.db).await?;
    if as_json {
        let items: Vec<_> = users
            .iter()
            .map(|one| {
                json!({
                    "id": one.user.id, "email": one.user.email, "role": one.role, "workspace": one.workspace,
                    "created_at": rfc3339(one.user.created_at),
                })
            })
            .collect();
        print_json(&json!(items));
    } else {
        let rows: Vec<_> = users
            .into_iter()
            .map(|one| vec![one.user.email, one.role, one.workspace, rfc3339(one.user.created_at)])
            .collect();
        print_table(&["EMAIL", "ROLE", "WORKSPACE", "CREATED"], &rows);
    }
    Ok(())
}

async fn passwd(desk: &Desk, email: &EmailAddress, as_json: bool) -> anyhow::Result<()> {
    let hash = password::hash(read_password()?.as_str());
    match desk.db.commit(store::set_password(&email.key(), &hash)).await {
        Ok(_) if as_json => print_json(&json!({"email": email.as_str(), "changed": true})),
        Ok(_) => println!("Changed the password of {}.", email.as_str()),
        Err(DbError::Unexpected { .. }) => bail!("--email {}: there is no user with this address", email.as_str()),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
