//! `posthorn users`: people who can log in.

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use serde_json::json;

use super::password::PasswordInput;
use super::{CommandContext, Output};
use crate::accounts::{self, EmailAddress, ListedUser, Role};
use crate::audit::{self, DoneBy, Entry};
use crate::auth;
use crate::clock::rfc3339;
use crate::db::Batch;
use crate::id::{Id, UserId};

#[derive(Subcommand, Debug)]
pub enum Users {
    /// Create a user; the first of a workspace becomes its owner
    Create(Create),
    /// List the users
    List(Output),
    /// Shut a user out: no log-in, and an end to their sessions and to the apps they let in
    Disable(One),
    /// Let a user log in again; what disabling ended stays ended
    Enable(One),
    /// Take a user out of a workspace, and end there what they let apps do
    Remove {
        #[command(flatten)]
        one: One,
        /// Id or name of the workspace, where there are several
        #[arg(long)]
        workspace: Option<String>,
    },
    /// Take the second factor from a user who has lost it; the password is then enough
    ResetSecondFactor(One),
    /// Change a user's password and sign them out everywhere
    Passwd {
        #[arg(long)]
        email: EmailAddress,
        #[command(flatten)]
        password: PasswordInput,
        #[command(flatten)]
        output: Output,
    },
}

#[derive(Args, Debug)]
pub struct Create {
    #[arg(long)]
    email: EmailAddress,
    #[command(flatten)]
    password: PasswordInput,
    /// Id or name of the workspace, where there are several
    #[arg(long)]
    workspace: Option<String>,
    /// What the user may do there [default: owner for the first, else member]
    // `--role` is taken: it says what a process does.
    #[arg(long = "as", id = "as", value_name = "ROLE")]
    role: Option<Role>,
    #[command(flatten)]
    output: Output,
}

/// A user, named by the address.
#[derive(Args, Debug)]
pub struct One {
    #[arg(long)]
    email: EmailAddress,
    #[command(flatten)]
    output: Output,
}

impl Users {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<()> {
        match self {
            Users::Create(new) => create(context, new).await,
            Users::List(output) => list(context, output).await,
            Users::Disable(one) => {
                let id = find(context, &one.email).await?;
                let mut batch = noted(context, id, "user.disabled");
                batch.append(accounts::disable_user(id, &context.clock));
                change(context, &one, batch, "disabled").await
            }
            Users::Enable(one) => {
                let id = find(context, &one.email).await?;
                let mut batch = noted(context, id, "user.enabled");
                batch.append(accounts::enable_user(id));
                change(context, &one, batch, "enabled").await
            }
            Users::ResetSecondFactor(one) => {
                let id = find(context, &one.email).await?;
                change(context, &one, accounts::reset_second_factor(id, &context.clock), "reset").await
            }
            Users::Remove { one, workspace } => {
                let workspace = context.workspace(workspace.as_deref()).await?;
                let id = find(context, &one.email).await?;
                let entry = Entry { target_id: Some(id.uuid()), ..Entry::new("member.removed", DoneBy::Command) };
                let mut batch = Batch::from(audit::note(workspace.id, &context.clock, &entry));
                batch.append(accounts::remove_member(workspace.id, id, &context.clock));
                change(context, &one, batch, "removed").await
            }
            Users::Passwd { email, password, output } => passwd(context, &email, password, output).await,
        }
    }
}

async fn create(context: &CommandContext, new: Create) -> anyhow::Result<()> {
    let hash = auth::hash_password(new.password.read_new()?.as_str());
    let workspace = context.workspace(new.workspace.as_deref()).await?;
    let (user, mut batch) = accounts::new_user(&context.clock, &new.email, &hash, &workspace, new.role);
    batch.append(noted(context, user.id, "user.created"));
    accounts::create_user(&context.db, batch).await.with_context(|| format!("--email {}", new.email.as_str()))?;
    let role = match new.role {
        Some(role) => role,
        None => accounts::memberships(&context.db, user.id).await?.first().map_or(Role::Member, |one| one.role),
    };
    let json = json!({
        "id": user.id, "email": user.email, "role": role.as_str(),
        "workspace": {"id": workspace.id, "name": workspace.name},
    });
    new.output.tell(&json, format!("Created {} as {role} of the workspace {}.", user.email, workspace.name));
    Ok(())
}

async fn list(context: &CommandContext, output: Output) -> anyhow::Result<()> {
    let item = |one: &ListedUser| {
        json!({
            "id": one.user.id, "email": one.user.email, "role": one.role, "workspace": one.workspace,
            "created_at": rfc3339(one.user.created_at),
        })
    };
    let cells = |one: &ListedUser| {
        vec![one.user.email.clone(), one.role.clone(), one.workspace.clone(), rfc3339(one.user.created_at)]
    };
    output.list(&accounts::users(&context.db).await?, item, &["EMAIL", "ROLE", "WORKSPACE", "CREATED"], cells);
    Ok(())
}

/// The log of every workspace of a user tells what a command does.
fn noted(context: &CommandContext, user_id: UserId, action: &str) -> Batch {
    let entry = Entry { target_id: Some(user_id.uuid()), ..Entry::new(action, DoneBy::Command) };
    audit::note_of_user(user_id, &context.clock, &entry).into()
}

async fn find(context: &CommandContext, email: &EmailAddress) -> anyhow::Result<UserId> {
    let found = accounts::find_user(&context.db, &email.key()).await?;
    found.with_context(|| format!("--email {}: there is no such user", email.as_str()))
}

async fn change(context: &CommandContext, one: &One, batch: Batch, what: &str) -> anyhow::Result<()> {
    let email = one.email.as_str();
    context.commit(batch, || anyhow!("--email {email}: there is no such user (in this workspace)")).await?;
    one.output.tell(&json!({ "email": email, what: true }), format!("{email}: {what}."));
    Ok(())
}

async fn passwd(
    context: &CommandContext,
    email: &EmailAddress,
    password: PasswordInput,
    output: Output,
) -> anyhow::Result<()> {
    let hash = auth::hash_password(password.read_new()?.as_str());
    let user_id = accounts::find_user(&context.db, &email.key()).await?;
    let (mut set, email) = (accounts::set_password(&email.key(), &hash), email.as_str());
    user_id.into_iter().for_each(|id| set.append(noted(context, id, "password.changed")));
    context.commit(set, || anyhow!("--email {email}: there is no user with this address")).await?;
    let words = format!("Changed the password of {email}, who is signed out everywhere.");
    output.tell(&json!({"email": email, "changed": true}), words);
    Ok(())
}
