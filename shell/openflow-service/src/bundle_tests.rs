//! The limit of the open bundles of all connections, and their totals against the sums over the connections.

use crate::bundle_messages::BundleMessages;
use crate::tests::{NOW, TestBridge, errors, flow, mod_};
use openflow::message::Hello;
use openflow::session::{BundleAdd, BundleControl, BundleControlType};
use openflow::{Body, Dialect, Message, OfError, Version, VersionSet, Xid};
use std::collections::BTreeMap;
use std::io::Write;
use transport::{Stream, Target};
use units::Millis;

/// A further client of a bridge. Its replies are not read.
struct Client(Stream);

impl Client {
    fn new(test: &TestBridge) -> Client {
        let mut client = Client(Stream::connect(&Target::Unix(test.dir.join("br0.mgmt"))).unwrap());
        let versions = VersionSet::only(Version::V14);
        client.send(Body::Hello(Hello { versions, header_version: Version::V14.wire() }));
        client
    }

    fn send(&mut self, body: Body) {
        let frames = openflow::encode(&Message::new(Version::V14, Xid(1), body), Dialect::default()).unwrap();
        frames.iter().for_each(|frame| self.0.write_all(frame).unwrap());
    }

    fn control(&mut self, bundle: u32, kind: BundleControlType, flags: u16) {
        self.send(Body::BundleControl(BundleControl { bundle, kind, flags }));
    }
}

/// A request with this transaction id that adds a flow to a bundle.
fn add_of(bundle: u32, flags: u16, xid: u32) -> Body {
    let inner = Message::new(Version::V14, Xid(xid), mod_(flow(1, Vec::new())));
    let message = openflow::encode(&inner, Dialect::default()).unwrap().remove(0);
    Body::BundleAdd(BundleAdd { bundle, flags, message })
}

/// Number and memory of the bundles of all connections, summed up.
fn sums(test: &mut TestBridge) -> (usize, usize) {
    let sessions = test.bridge.conns.sessions();
    let bundles = sessions.flat_map(|(_, session)| session.bundles.values());
    let messages = bundles.map(|bundle| bundle.messages.downcast_ref::<BundleMessages>().unwrap());
    messages.fold((0, 0), |(n, memory), messages| (n + 1, memory + messages.memory()))
}

fn totals(test: &TestBridge) -> (usize, usize) {
    test.bridge.unfinished.open_bundles.get()
}

#[test]
fn connections_share_the_limit_of_open_bundles() {
    let mut test = TestBridge::new("many-bundles", Version::V14);
    let mut clients: Vec<Client> = (0..10).map(|_| Client::new(&test)).collect();
    for bundles in [0..250, 250..500, 500..750, 750..1001] {
        for client in &mut clients {
            bundles.clone().for_each(|n| client.control(n, BundleControlType::OpenRequest, 3));
        }
        (0..3).for_each(|_| drop(test.turn()));
    }
    // 10 of the 10,010 requests were refused, although no connection has reached its own limit.
    assert_eq!((totals(&test), sums(&mut test)), ((10_000, 0), (10_000, 0)));
    // A connection without a bundle may open one, with a request to open it or with its first message.
    assert!(errors(&test.bundle(BundleControlType::OpenRequest)).is_empty());
    let add = add_of(8, 3, test.next + 1);
    assert_eq!(errors(&test.ask(add)), [OfError::BfcOutOfBundles]);
    assert!(errors(&test.bundle(BundleControlType::DiscardRequest)).is_empty());
    let add = add_of(8, 3, test.next + 1);
    assert!(test.ask(add).is_empty());
    assert_eq!(errors(&test.bundle(BundleControlType::OpenRequest)), [OfError::BfcOutOfBundles]);
    // The bundles of an ended connection leave space.
    clients.pop();
    test.turn();
    assert!(errors(&test.bundle(BundleControlType::OpenRequest)).is_empty());
    assert_eq!(totals(&test), sums(&mut test));
}

/// Random requests for bundles, including wrong ones, on connections that end, while bundles expire.
#[test]
fn the_totals_are_the_sums_over_all_connections() {
    use BundleControlType::{CloseRequest, CommitRequest, DiscardRequest, OpenRequest};
    let mut test = TestBridge::new("bundle-totals", Version::V14);
    let mut clients: BTreeMap<u64, Client> = BTreeMap::new();
    let (mut seed, mut now, mut largest) = (7, NOW, (0, 0));
    for _ in 0..3000 {
        seed = cpu::derive(seed, b"requests");
        let (number, flags) = ((seed >> 16) as u32 % 6, if seed >> 32 & 15 == 0 { 1 } else { 3 });
        let slot = seed >> 24 & 7;
        let client = clients.entry(slot).or_insert_with(|| Client::new(&test));
        match seed % 32 {
            0..4 => client.control(number, OpenRequest, flags),
            4..6 => client.control(number, CloseRequest, flags),
            6..8 => client.control(number, CommitRequest, flags),
            8..10 => client.control(number, DiscardRequest, flags),
            10 => drop(clients.remove(&slot)),
            11 => now = now + Millis(4000),
            _ => client.send(add_of(number, flags, 1)),
        }
        test.turn_at(now);
        assert_eq!(totals(&test), sums(&mut test));
        largest = largest.max(totals(&test));
    }
    assert!(largest.0 > 10 && largest.1 > 10_000, "{largest:?}");
    clients.clear();
    test.turn_at(now);
    assert_eq!(totals(&test), (0, 0));
}
