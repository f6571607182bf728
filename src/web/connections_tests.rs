//! Who has to go, and who must not.

use super::*;

fn bounds() -> Bounds {
    Bounds {
        connections: 3,
        per_address: 2,
        memory: 1 << 20,
        head: Duration::from_secs(30),
        stall: Duration::from_secs(30),
        exempt_loopback: true,
        proxies: Vec::new(),
    }
}

fn peer(last: u8) -> SocketAddr {
    ([192, 0, 2, last], 1000).into()
}

/// A connection that a task serves until it has to go.
fn open(connections: &Arc<Connections>, last: u8) -> (Arc<Connection>, tokio::task::JoinHandle<()>) {
    let admitted = connections.admit(peer(last)).expect("a place");
    let connection = admitted.0.clone();
    let task = tokio::spawn(async move {
        let _counted = admitted;
        std::future::pending::<()>().await;
    });
    connections.served_by(connection.number(), task.abort_handle());
    (connection, task)
}

#[tokio::test]
async fn a_request_that_we_work_on_is_not_closed_for_another() {
    let connections = Connections::new(bounds());
    let (busy, _) = open(&connections, 1);
    busy.head_arrived(false);
    let (_idle, idle_task) = open(&connections, 2);
    let (sending, _) = open(&connections, 3);
    sending.head_arrived(true);
    sending.body_arrived();
    open(&connections, 4);
    assert!(idle_task.await.expect_err("ended").is_cancelled());
    assert_eq!(connections.count(), 3);

    let (fourth, _) = (open(&connections, 5), ());
    fourth.0.head_arrived(false);
    assert!(connections.admit(peer(6)).is_none(), "all three are at work");
}

#[tokio::test]
async fn places_of_an_address_are_given_back() {
    let connections = Connections::new(bounds());
    let (_, first) = open(&connections, 1);
    open(&connections, 1);
    assert!(connections.admit(peer(1)).is_none());
    first.abort();
    assert!(first.await.is_err());
    assert!(connections.admit(peer(1)).is_some());
    assert_eq!(connections.lock().by_address.len(), 1);
}

#[tokio::test]
async fn a_network_of_ipv6_is_one_address() {
    let connections = Connections::new(bounds());
    let admit = |from: &str| connections.admit(SocketAddr::new(from.parse().expect("an address"), 1000));
    let _open = ["2001:db8:0:1::1", "2001:db8:0:1:ffff::2"].map(|from| admit(from).expect("a place"));
    assert!(admit("2001:db8:0:1::3").is_none(), "the same /64");
    assert!(admit("2001:db8:0:2::1").is_some(), "another");
}

#[tokio::test]
async fn large_answers_count_until_they_are_sent() {
    let connections = Connections::new(Bounds { connections: 10, ..bounds() });
    let (slow, slow_task) = open(&connections, 1);
    slow.head_arrived(false);
    slow.answered(900 << 10);
    let (quick, _) = open(&connections, 2);
    quick.head_arrived(false);
    quick.answered(100 << 10);
    quick.sent(100 << 10);
    assert_eq!(connections.held.load(Relaxed), 2 * BASE_COST + (900 << 10));

    tokio::time::sleep(Duration::from_millis(2 * RELIEF_INTERVAL_MS)).await;
    let (third, _) = open(&connections, 3);
    third.head_arrived(false);
    third.answered(200 << 10);
    assert!(slow_task.await.expect_err("ended").is_cancelled());
    assert_eq!(connections.held.load(Relaxed), 2 * BASE_COST + (200 << 10));
}

#[tokio::test]
async fn what_is_received_counts_up_to_what_is_held_in_memory_and_ends_with_the_answer() {
    let connections = Connections::new(Bounds { memory: 16 << 20, ..bounds() });
    let (one, _) = open(&connections, 1);
    one.received(4 << 10);
    assert_eq!(connections.held.load(Relaxed), BASE_COST, "within the buffer that all have");
    one.head_arrived(true);
    for _ in 0..100 {
        one.received(64 << 10);
    }
    assert!(connections.held.load(Relaxed) <= BASE_COST + ROOM * MOST_OF_REQUEST);
    one.body_arrived();
    one.answered(100);
    assert_eq!(connections.held.load(Relaxed), BASE_COST);
}
