//! Connections that fall silent, servers that change under them, and writes whose
//! callers were told that they did not happen.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use posthorn::db::{Db, DbError, Location, Options, Stmt};
use posthorn::events::{self, EventName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use uuid::Uuid;

use crate::harness::on_both;
use crate::store::Store;

/// An event with this number in its id.
fn insert(n: usize) -> Stmt {
    let name = EventName::try_from(format!("event {n}")).expect("a name");
    events::insert(Uuid::nil().into(), Uuid::from_u128(n as u128).into(), &name, None, 0)
}

fn by_number(n: usize) -> Stmt {
    events::by_id(Uuid::nil().into(), Uuid::from_u128(n as u128).into())
}

/// Between a store and its callers: connections can fall silent, which neither end
/// is told of. Later ones are not affected.
struct Proxy {
    port: u16,
    opened: Arc<AtomicUsize>,
    /// Connections before this one are silent.
    silent: Arc<AtomicUsize>,
}

impl Proxy {
    async fn before(upstream: String) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (opened, silent) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let proxy = Proxy { port, opened: opened.clone(), silent: silent.clone() };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let number = opened.fetch_add(1, Ordering::SeqCst);
                let server = TcpStream::connect(&upstream).await.expect("a server");
                let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
                tokio::spawn(pass(from_client, to_server, number, silent.clone()));
                tokio::spawn(pass(from_server, to_client, number, silent.clone()));
            }
        });
        proxy
    }

    fn hush(&self) {
        self.silent.store(self.opened.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, number: usize, silent: Arc<AtomicUsize>) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = from.read(&mut buffer).await.unwrap_or(0);
        if number < silent.load(Ordering::SeqCst) {
            if count == 0 {
                // Nobody tells the other end.
                std::future::pending::<()>().await;
            }
        } else if count == 0 || to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

async fn behind_proxy(store: &Store) -> (Proxy, Db) {
    let url = store.url();
    let (user, rest) = url.rsplit_once('@').expect("an address with a user");
    let (host, name) = rest.split_once('/').expect("an address with a name");
    let proxy = Proxy::before(host.to_owned()).await;
    let url = format!("{user}@127.0.0.1:{}/{name}", proxy.port);
    let options = Options { readers: 2, writers: 2, ..Options::new(Location::Postgres(url)) };
    let db = Db::open(&options).await.expect("a store");
    (proxy, db)
}

#[tokio::test]
async fn reliability_f23_silent_connections_are_given_up_and_replaced() {
    let store = Store::postgres().await;
    let (proxy, db) = behind_proxy(&store).await;
    for n in 1..=8 {
        db.commit(insert(n)).await.expect("stored");
        db.read(by_number(n)).await.expect("read");
    }
    proxy.hush();
    let asked = join_all((11..=30).map(|n| db.commit(insert(n))));
    let read = join_all((1..=8).map(|n| db.read(by_number(n))));
    let (asked, read) = tokio::join!(asked, read);
    for (n, written) in (11..).zip(asked) {
        written.unwrap_or_else(|error| panic!("write {n}: {error}"));
    }
    for rows in read {
        assert_eq!(rows.expect("read on another connection").len(), 1);
    }
    assert_eq!(store.count("events").await, 28);
    drop(db);
    store.discard().await;
}

on_both! {
    async fn reliability_f24_a_write_that_was_refused_never_happens(store: Store) {
        let options = Options { patience: Duration::from_millis(600), writers: 1, ..store.options() };
        let db = Db::open(&options).await.expect("a store");
        db.commit(insert(1)).await.expect("stored");
        let lock = store.lock("events").await;
        let first = join_all((11..=20).map(|n| db.commit(insert(n))));
        let later = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            join_all((21..=30).map(|n| db.commit(insert(n)))).await
        };
        let (first, later) = tokio::join!(first, later);
        for refused in first.into_iter().chain(later) {
            assert!(matches!(refused, Err(DbError::Unavailable(_))), "{refused:?}");
        }
        lock.release().await;
        let patient = Db::open(&store.options()).await.expect("another process");
        patient.commit(insert(2)).await.expect("stored after the lock");
        // Enough for what may still be tried again.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(store.count("events").await, 2, "what was refused has happened");
        db.commit(insert(3)).await.expect("and the store serves again");
    }
}

#[tokio::test]
async fn a_server_that_takes_no_writes_any_more_is_left_for_one_that_does() {
    let store = Store::postgres().await;
    let name = store.value("SELECT current_database()").await.expect("a name");
    let read_only = |state: &str| format!("ALTER DATABASE {name} SET default_transaction_read_only = {state}");
    store.run(&read_only("on")).await;
    let db = Db::open(&store.options()).await.expect("a store");
    let refused = db.commit(insert(1)).await;
    assert!(matches!(refused, Err(DbError::Unavailable(_))), "{refused:?}");
    db.read(by_number(1)).await.expect("it can be read");
    store.run(&format!("BEGIN READ WRITE; {}; COMMIT", read_only("off"))).await;
    db.commit(insert(2)).await.expect("on a new connection");
    assert_eq!(db.read(by_number(2)).await.expect("read").len(), 1);
    drop(db);
    store.discard().await;
}

#[tokio::test]
async fn reliability_f29_writers_without_a_connection_leave_the_work_to_those_that_have_one() {
    let store = Store::postgres().await;
    let role = format!("few_{}", posthorn::secret::letters(8).to_lowercase());
    store
        .run(&format!(
            "CREATE ROLE {role} LOGIN PASSWORD 'few' CONNECTION LIMIT 3; GRANT ALL ON SCHEMA public TO {role};
             GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}"
        ))
        .await;
    let url = store.url();
    let (_, rest) = url.rsplit_once('@').expect("an address with a user");
    let location = Location::Postgres(format!("postgres://{role}:few@{rest}"));
    let db = Db::open(&Options { readers: 1, writers: 8, ..Options::new(location) }).await.expect("a store");
    db.read(by_number(1)).await.expect("a reader");
    for round in 0..20 {
        for written in join_all((0..50).map(|n| db.commit(insert(round * 50 + n)))).await {
            written.expect("by a writer that has a connection");
        }
    }
    drop(db);
    store.run(&format!("DROP OWNED BY {role}")).await;
    store.run(&format!("ALTER ROLE {role} NOLOGIN")).await;
    store.discard().await;
}
