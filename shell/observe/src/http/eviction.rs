//! Eviction: selects the connection that is closed when a client connects and all connections are in use.

use super::conn::Conn;
use std::collections::BTreeMap;
use units::Millis;

/// A younger connection is not closed while it sends an answer or waits for one: most answers are sent within milliseconds.
const PROTECTED_TIME: Millis = Millis(1_000);

/// The properties of a connection that determine whether it is closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    /// Its index in the list of connections, the oldest first.
    pub(crate) at: usize,
    source: Option<u64>,
    waits_for_client: bool,
    age: Millis,
}

impl Candidate {
    pub(crate) fn new(at: usize, conn: &Conn, now: Millis) -> Candidate {
        Candidate {
            at,
            source: conn.source,
            waits_for_client: conn.waits_for_client(),
            age: now.since(conn.since),
        }
    }
}

/// Selects a connection of the host that has the most connections: the oldest connection that waits for its client, otherwise
/// the oldest connection, if it is not younger than [`PROTECTED_TIME`]. So a host that opens all connections loses only its own.
pub(crate) fn select_for_eviction(all: &[Candidate]) -> Option<usize> {
    let mut of_source: BTreeMap<Option<u64>, usize> = BTreeMap::new();
    all.iter().for_each(|one| *of_source.entry(one.source).or_default() += 1);
    let most = of_source.values().max()?;
    let of_largest = || all.iter().filter(|one| of_source[&one.source] == *most);
    let waiting = of_largest().find(|one| one.waits_for_client);
    waiting.or_else(|| of_largest().find(|one| one.age >= PROTECTED_TIME)).map(|one| one.at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(list: &[(u64, bool, u64)]) -> Vec<Candidate> {
        let one = |(at, (source, waits_for_client, age)): (usize, &(u64, bool, u64))| Candidate {
            at,
            source: Some(*source),
            waits_for_client: *waits_for_client,
            age: Millis(*age),
        };
        list.iter().enumerate().map(one).collect()
    }

    #[test]
    fn the_host_with_the_most_connections_loses_one() {
        // A connection that waits for the switch is closed only if no connection of its host waits for the client.
        let slow = [(1, true, 9_000), (2, false, 5_000), (2, false, 3_000), (2, true, 10)];
        assert_eq!(select_for_eviction(&candidates(&slow)), Some(3));
        assert_eq!(select_for_eviction(&candidates(&slow[..3])), Some(1));
        // A connection that sends an answer is not closed at once.
        assert_eq!(select_for_eviction(&candidates(&[(2, false, 20), (2, false, 10)])), None);
        assert_eq!(select_for_eviction(&[]), None);
    }
}
