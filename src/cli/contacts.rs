//! `posthorn contacts`: what is kept of one person, exported or erased.

use std::io::Write;

use anyhow::anyhow;
use clap::Subcommand;

use super::CommandContext;
use crate::auth::Operator;
use crate::config::Config;
use crate::contacts;

#[derive(Subcommand, Debug)]
pub enum Contacts {
    /// Print all that is kept of a person, as JSON
    Export {
        /// The address, or the contact's id
        address: String,
        /// Id or name of the workspace, where there are several
        #[arg(long)]
        workspace: Option<String>,
    },
    /// Erase a person: the contact, its events and runs, mail to and from the address
    Erase {
        /// The address, or the contact's id
        address: String,
        /// Put the address on the suppression list, so that it never gets mail again; otherwise only where the person
        /// has unsubscribed
        #[arg(long)]
        suppress: bool,
        /// Id or name of the workspace, where there are several
        #[arg(long)]
        workspace: Option<String>,
    },
}

impl Contacts {
    pub async fn run(self, context: CommandContext, config: Config) -> anyhow::Result<()> {
        let (Contacts::Export { address, workspace } | Contacts::Erase { address, workspace, .. }) = &self;
        let workspace_id = context.workspace(workspace.as_deref()).await?.id;
        let product = context.product(config)?;
        let operator = Operator { db: &product.db, workspace_id };
        let refused = |error: crate::error::Error| anyhow!("{address}: {}", error.message());
        let contact = contacts::find_named(&operator, address).await.map_err(refused)?;
        match &self {
            Contacts::Export { .. } => {
                let mut export = contacts::ContactExport::of(&product, workspace_id, contact);
                let mut out = std::io::stdout().lock();
                while let Some(piece) = export.next().await? {
                    out.write_all(piece.as_bytes())?;
                }
                Ok(out.flush()?)
            }
            Contacts::Erase { suppress, .. } => {
                let suppress = *suppress || contact.unsubscribed;
                contacts::erase(&operator, product.occurrences(), &contact, suppress).await.map_err(refused)?;
                while contacts::erasure_round(product.occurrences()).await? {}
                println!("Erased.");
                Ok(())
            }
        }
    }
}
