//! The stores that the tests run on, and a side door to each: what a test
//! asserts about the store it reads here, not through the product.

use std::fmt::Display;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use posthorn::db::{Db, Location, Options};
use tempfile::TempDir;
use tokio::sync::OnceCell;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// A store of one test's own. Clones share it.
#[derive(Clone)]
pub struct Store(Arc<Place>);

enum Place {
    Sqlite(TempDir),
    Postgres { name: String },
}

/// A lock on the store, held until it is dropped.
pub enum Locked {
    Sqlite(rusqlite::Connection),
    Postgres(Client),
}

impl Locked {
    /// What was done under the lock is there from now on.
    pub async fn commit(self) {
        match self {
            Locked::Sqlite(connection) => connection.execute_batch("COMMIT").expect("a commit"),
            Locked::Postgres(client) => client.batch_execute("COMMIT").await.expect("a commit"),
        }
    }

    pub async fn release(self) {
        if let Locked::Postgres(client) = self {
            client.batch_execute("ROLLBACK").await.expect("a lock that can be released");
        }
    }
}

impl Store {
    pub fn sqlite() -> Store {
        Store(Arc::new(Place::Sqlite(TempDir::new().expect("a temporary folder"))))
    }

    /// A copy of a migrated template: cheaper than migrating each anew.
    pub async fn postgres() -> Store {
        let template = template().await;
        Store::create(&format!("TEMPLATE {template}")).await
    }

    /// A PostgreSQL database in which nothing was ever done.
    pub async fn empty_postgres() -> Store {
        Store::create(COLLATED).await
    }

    async fn create(how: &str) -> Store {
        let name = format!("{}_{}", prefix(), posthorn::secret::letters(12).to_lowercase());
        admin().await.batch_execute(&format!("CREATE DATABASE {name} {how}")).await.expect("a new database");
        Store(Arc::new(Place::Postgres { name }))
    }

    /// The same for an SQLite store in which nothing was ever done.
    pub async fn migrate(&self) {
        static TEMPLATE: OnceCell<Vec<u8>> = OnceCell::const_new();
        let Place::Sqlite(_) = &*self.0 else { return };
        if self.path().exists() {
            return;
        }
        let made = TEMPLATE.get_or_init(|| async {
            let store = Store::sqlite();
            drop(Db::open(&store.options()).await.expect("a migrated template"));
            // All of it in one file, whoever still leaves.
            let copy = Store::sqlite();
            let whole = format!("VACUUM INTO '{}'", copy.path().display());
            store.sqlite_connection().execute_batch(&whole).expect("a copy");
            std::fs::read(copy.path()).expect("a template")
        });
        std::fs::write(self.path(), made.await).expect("a store");
        std::fs::set_permissions(self.path(), std::fs::Permissions::from_mode(0o600)).expect("a store of one's own");
    }

    /// Gives back what the store took.
    pub async fn discard(self) {
        if let Place::Postgres { name } = &*self.0 {
            let dropped = admin().await.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await;
            dropped.expect("a database that can be dropped");
        }
    }

    pub fn is_sqlite(&self) -> bool {
        matches!(*self.0, Place::Sqlite(_))
    }

    /// As `--database-url` takes it.
    pub fn url(&self) -> String {
        match &*self.0 {
            Place::Sqlite(_) => format!("sqlite:{}", self.path().display()),
            Place::Postgres { name } => url_of(name),
        }
    }

    pub fn location(&self) -> Location {
        match &*self.0 {
            Place::Sqlite(_) => Location::Sqlite(self.path()),
            Place::Postgres { name } => Location::Postgres(url_of(name)),
        }
    }

    pub fn options(&self) -> Options {
        Options { readers: 1, writers: 2, ..Options::new(self.location()) }
    }

    /// The file of an SQLite store.
    pub fn path(&self) -> PathBuf {
        match &*self.0 {
            Place::Sqlite(folder) => folder.path().join("posthorn.db"),
            Place::Postgres { .. } => panic!("a PostgreSQL store has no file"),
        }
    }

    fn sqlite_connection(&self) -> rusqlite::Connection {
        let connection = rusqlite::Connection::open(self.path()).expect("a store that opens");
        connection.busy_timeout(std::time::Duration::from_secs(5)).expect("a timeout");
        connection
    }

    async fn postgres_connection(&self) -> Client {
        match &*self.0 {
            Place::Sqlite(_) => panic!("an SQLite store has no server"),
            Place::Postgres { name } => connect(&url_of(name)).await,
        }
    }

    /// Bytes as the engine writes them, from hexadecimal digits.
    pub fn bytes(&self, hex: &str) -> String {
        if self.is_sqlite() { format!("x'{hex}'") } else { format!("'\\x{hex}'::bytea") }
    }

    /// An id as the engine writes it.
    pub fn id(&self, id: impl Display) -> String {
        if self.is_sqlite() { self.bytes(&id.to_string().replace('-', "")) } else { format!("'{id}'") }
    }

    /// Runs statements in which both engines agree.
    pub async fn run(&self, sql: &str) {
        self.run_either(sql, sql).await;
    }

    pub async fn run_either(&self, sqlite: &str, postgres: &str) {
        match &*self.0 {
            Place::Sqlite(_) => self.sqlite_connection().execute_batch(sqlite).expect(sqlite),
            Place::Postgres { .. } => {
                self.postgres_connection().await.batch_execute(postgres).await.expect(postgres);
            }
        }
    }

    /// The rows of a query, every column as text.
    pub async fn rows(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        match &*self.0 {
            Place::Sqlite(_) => {
                let connection = self.sqlite_connection();
                let mut prepared = connection.prepare(sql).expect(sql);
                let columns = prepared.column_count();
                let row = |row: &rusqlite::Row<'_>| (0..columns).map(|column| Ok(as_text(row.get(column)?))).collect();
                // Raw: a statement that is only explained needs no parameters.
                prepared.raw_query().mapped(row).collect::<rusqlite::Result<_>>().expect(sql)
            }
            Place::Postgres { .. } => {
                let found = self.postgres_connection().await.simple_query(sql).await.expect(sql);
                let rows = found.iter().filter_map(|message| match message {
                    SimpleQueryMessage::Row(row) => Some(row),
                    _ => None,
                });
                rows.map(|row| (0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect()).collect()
            }
        }
    }

    /// The one value of a query.
    pub async fn value(&self, sql: &str) -> Option<String> {
        self.rows(sql).await.into_iter().next().and_then(|row| row.into_iter().next()).flatten()
    }

    pub async fn count(&self, table: &str) -> i64 {
        let counted = self.value(&format!("SELECT COUNT(*) FROM {table}")).await;
        counted.and_then(|count| count.parse().ok()).expect("a number")
    }

    /// Does something that nobody sees until it is committed.
    pub async fn hold(&self, sql: &str) -> Locked {
        match &*self.0 {
            Place::Sqlite(_) => {
                let connection = self.sqlite_connection();
                connection.execute_batch(&format!("BEGIN IMMEDIATE; {sql}")).expect(sql);
                Locked::Sqlite(connection)
            }
            Place::Postgres { .. } => {
                let client = self.postgres_connection().await;
                client.batch_execute(&format!("BEGIN; {sql}")).await.expect(sql);
                Locked::Postgres(client)
            }
        }
    }

    /// Keeps every writer away from a table; SQLite knows only the whole store.
    pub async fn lock(&self, table: &str) -> Locked {
        match &*self.0 {
            Place::Sqlite(_) => {
                let connection = self.sqlite_connection();
                connection.execute_batch("BEGIN IMMEDIATE").expect("a lock");
                Locked::Sqlite(connection)
            }
            Place::Postgres { .. } => {
                let client = self.postgres_connection().await;
                let lock = format!("BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE");
                client.batch_execute(&lock).await.expect("a lock");
                Locked::Postgres(client)
            }
        }
    }
}

fn as_text(value: rusqlite::types::Value) -> Option<String> {
    use rusqlite::types::Value;
    match value {
        Value::Null => None,
        Value::Integer(number) => Some(number.to_string()),
        Value::Real(number) => Some(number.to_string()),
        Value::Text(text) => Some(text),
        Value::Blob(bytes) => Some(match uuid::Uuid::from_slice(&bytes) {
            Ok(id) => id.to_string(),
            Err(_) => String::from_utf8_lossy(&bytes).into_owned(),
        }),
    }
}

/// Databases sort as people do in most installations, not as bytes: what the
/// product compares must not depend on it.
const COLLATED: &str = "TEMPLATE template0 ENCODING 'UTF8' LOCALE_PROVIDER icu ICU_LOCALE 'en-US'";

fn prefix() -> String {
    format!("posthorn_it_{}", std::process::id())
}

async fn template() -> &'static str {
    static TEMPLATE: OnceCell<String> = OnceCell::const_new();
    let made = TEMPLATE.get_or_init(|| async {
        let store = Store::create(COLLATED).await;
        drop(Db::open(&store.options()).await.expect("a migrated template"));
        let Place::Postgres { name } = &*store.0 else { unreachable!("made above") };
        // A template must have no visitor: those still leaving are shown out.
        let close = format!(
            "UPDATE pg_database SET datallowconn = FALSE WHERE datname = '{name}';
             SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        );
        admin().await.batch_execute(&close).await.expect("a closed template");
        name.clone()
    });
    made.await
}

fn server() -> String {
    std::env::var("POSTHORN_TEST_POSTGRES").unwrap_or_else(|_| {
        panic!("POSTHORN_TEST_POSTGRES is not set: run ./test, or `./test run cargo test …` for some tests only")
    })
}

/// The server's address with another database's name in it.
fn url_of(database: &str) -> String {
    let server = server();
    let (address, settings) = server.split_once('?').map_or((&*server, None), |(url, rest)| (url, Some(rest)));
    let (host, _) = address.rsplit_once('/').expect("an address that names a database");
    match settings {
        Some(settings) => format!("{host}/{database}?{settings}"),
        None => format!("{host}/{database}"),
    }
}

async fn admin() -> Client {
    connect(&server()).await
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("a PostgreSQL that answers");
    tokio::spawn(connection);
    client
}
