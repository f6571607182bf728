//! The PostgreSQL to measure on, and pgbench, which tells how fast it takes
//! single rows.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use tokio_postgres::NoTls;

use crate::Plan;
use crate::store::Store;

const ADDRESS: &str = "POSTHORN_TEST_POSTGRES";
const CLIENTS: &str = "32";

/// One row, as an event would be stored, with ids that ascend as ours do.
const INSERT: &str = "\\set number random(1, 1000000000000)
INSERT INTO pgbench_rows (workspace_id, id, name, schema, created_at)
VALUES ('01890a5d-ac96-774b-bcce-b302099a8057', lpad(to_hex(nextval('pgbench_ids')), 32, '0')::uuid,
        'shop-' || :number || '.order.approved', '{\"amount\":\"number\",\"paid_at\":\"date\"}', 1700000000000000);
";

/// Whether the environment names a server.
pub fn in_reach() -> bool {
    std::env::var_os(ADDRESS).is_some()
}

/// Runs the same command again beside a throwaway server, which the test script
/// starts and stops.
pub fn with_a_server() -> anyhow::Result<()> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("test");
    let status = Command::new(script)
        .arg("run")
        .arg(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .status()
        .context("the test script, which starts a throwaway PostgreSQL, cannot be run")?;
    std::process::exit(status.code().unwrap_or(1));
}

/// A database of our own, dropped at the end.
pub struct Database {
    server: String,
    name: String,
    url: String,
}

impl Database {
    pub fn create() -> anyhow::Result<Database> {
        let server = std::env::var(ADDRESS).with_context(|| format!("{ADDRESS} names no server"))?;
        let name = format!("posthorn_load_{}", std::process::id());
        let (front, _) = server.rsplit_once('/').context("an address with a database")?;
        let url = format!("{front}/{name}");
        execute(&server, &format!("CREATE DATABASE {name}"))?;
        let database = Database { server, name, url };
        let careful = value(&database.url, "SELECT current_setting('fsync') || current_setting('synchronous_commit')")?;
        ensure!(careful == "onon", "fsync and synchronous_commit must be on");
        Ok(database)
    }

    pub fn store(&self) -> Store {
        Store::Postgres(self.url.clone())
    }

    /// A table like the product's, for pgbench.
    pub fn prepare(&self) -> anyhow::Result<()> {
        execute(&self.url, "CREATE TABLE pgbench_rows (LIKE events INCLUDING ALL)")?;
        execute(&self.url, "CREATE SEQUENCE pgbench_ids CACHE 32")
    }

    /// Lets the server write down what earlier runs left to be written.
    pub fn settle(&self) -> anyhow::Result<()> {
        execute(&self.url, "CHECKPOINT")
    }

    /// Rows a second that pgbench inserts, one a transaction.
    pub fn pgbench(&self, plan: &Plan) -> anyhow::Result<f64> {
        let script = tempfile::NamedTempFile::new()?;
        std::fs::write(script.path(), INSERT)?;
        let seconds = (plan.seconds.round() as u64).max(1).to_string();
        let output = Command::new(program("pgbench")?)
            .args(["-n", "-M", "prepared", "-c", CLIENTS, "-j", "2", "-T", &seconds, "-f"])
            .arg(script.path())
            .arg(&self.url)
            .output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "pgbench: {}", String::from_utf8_lossy(&output.stderr));
        ensure!(!said.lines().any(|line| line.contains("failed transactions: ") && !line.contains(": 0 ")), "{said}");
        let figure = said.lines().find_map(|line| line.strip_prefix("tps = ")).and_then(|rest| rest.split(' ').next());
        figure.with_context(|| format!("pgbench told no figure: {said}"))?.parse().context("a number")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = execute(&self.server, &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
    }
}

fn program(name: &str) -> anyhow::Result<PathBuf> {
    let on_path = std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    // Debian keeps the server's programs, by version, outside the PATH.
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let kept = versions.map(|version| version.path().join("bin"));
    let found = on_path.unwrap_or_default().into_iter().chain(kept).map(|folder| folder.join(name));
    match found.into_iter().find(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => bail!("{name} is missing; it comes with PostgreSQL"),
    }
}

fn execute(url: &str, sql: &str) -> anyhow::Result<()> {
    with_client(url, async |client| Ok(client.batch_execute(sql).await?))
}

fn value(url: &str, sql: &str) -> anyhow::Result<String> {
    with_client(url, async |client| Ok(client.query_one(sql, &[]).await?.try_get(0)?))
}

fn with_client<T>(
    url: &str,
    task: impl AsyncFnOnce(&tokio_postgres::Client) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        let link = tokio::spawn(connection);
        let result = task(&client).await;
        drop(client);
        link.await??;
        result
    })
}
