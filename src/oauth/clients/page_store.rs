//! Clients that the people of a workspace have registered.

use super::client::Client;
use super::store::{delete_client, verify_client};
use crate::clock::Clock;
use crate::db::{Batch, Sql, statements};
use crate::id::{UserId, WorkspaceId};

statements! {
    functions {
        /// Says whose page a client was registered on. Others neither see it in theirs nor delete it.
        pub fn claim(id: &str, workspace_id: WorkspaceId) expects 1 = Sql::both(
            "UPDATE oauth_clients SET workspace_id = $2 WHERE id = $1");
        /// Finds its row where the client is the workspace's own.
        fn is_own(id: &str, workspace_id: WorkspaceId) expects 1 = Sql::both(
            "UPDATE oauth_clients SET workspace_id = workspace_id WHERE id = $1 AND workspace_id = $2");
        /// Holds where the user runs this server: owns the workspace that was there first.
        pub fn runs_server(workspace_id: WorkspaceId, user_id: UserId) = Sql::both(
            "SELECT 1 FROM memberships WHERE workspace_id = $1 AND user_id = $2 AND role = 'owner'
               AND workspace_id = (SELECT id FROM workspaces ORDER BY id LIMIT 1)");
    }
    reads {
        pub fn of_workspace(workspace_id: WorkspaceId) -> Vec<Client> = Sql::both(
            "SELECT id, name, redirect_uris, scopes, grants, auth_method, client_uri, logo_uri,
                    verified_host, disabled_at, created_at
             FROM oauth_clients WHERE workspace_id = $1 ORDER BY created_at DESC, id LIMIT 200");
    }
}

/// Deletes a client of a workspace everywhere at once.
pub fn delete(workspace_id: WorkspaceId, id: &str, clock: &Clock) -> Batch {
    let mut batch = Batch::from(is_own(id, workspace_id));
    batch.append(delete_client(id, clock));
    batch
}

/// Vouches for a client of a workspace when it sends people to this host, or no longer does.
pub fn verify((workspace_id, user_id): (WorkspaceId, UserId), id: &str, host: Option<&str>) -> Batch {
    let mut batch = Batch::from(is_own(id, workspace_id)).when(runs_server(workspace_id, user_id));
    batch.append(verify_client(id, host));
    batch
}
