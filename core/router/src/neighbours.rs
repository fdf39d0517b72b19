//! Neighbours: the Ethernet addresses of next hops, by bridge and IP address. Each expires after a time.
//!
//! A neighbour is stored when it answers ARP or ND, when it announces itself, and when a tunnel packet from it arrives. Tunnel packets can
//! be forged, so the table has a limit, and entries to which no packet was sent are evicted first: forged sources do not evict the
//! next hops in use.

use flow::Mac;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use units::Millis;

/// Default lifetime of a neighbour that no translation uses and that sends nothing.
const AGING: Millis = Millis(15 * 60 * 1000);
/// Maximum lifetime that can be set, in seconds.
const AGING_MAX_S: u32 = 3600;
/// Maximum number of neighbours: enough for 10,000 remote tunnel endpoints in one network and some forged ones.
const NEIGHBOURS_MAX: usize = 16 * 1024;

/// A neighbour in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The neighbour's Ethernet address.
    pub mac: Mac,
    /// When the entry expires.
    expires: Millis,
    /// Packets were sent to this neighbour since it was learned.
    used: bool,
    /// Number of the last insertion: among entries with equal `used`, the lowest number is evicted first.
    sequence: u64,
}

/// Result of storing a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourUpdate {
    /// The neighbour was in the table with this Ethernet address.
    Renewed,
    /// The neighbour is new, its entry had expired, or its Ethernet address has changed.
    Changed,
}

type Key = (Arc<str>, IpAddr);

/// The neighbours of all bridges.
#[derive(Clone, Debug)]
pub struct NeighbourTable {
    by_key: HashMap<Key, Neighbour>,
    /// The eviction order: first the entries to which no packet was sent, and among these the oldest.
    order: BTreeMap<(bool, u64), Key>,
    aging: Millis,
    sequence: u64,
}

impl Default for NeighbourTable {
    fn default() -> NeighbourTable {
        NeighbourTable { by_key: HashMap::new(), order: BTreeMap::new(), aging: AGING, sequence: 0 }
    }
}

impl NeighbourTable {
    /// Stores that the neighbour with address `ip` in the network of a bridge has the Ethernet address `mac`.
    pub fn store(&mut self, bridge: &str, ip: IpAddr, mac: Mac, now: Millis) -> NeighbourUpdate {
        let key: Key = (bridge.into(), ip);
        let old = self.remove(&key);
        let used = old.is_some_and(|n| n.used);
        let same = old.is_some_and(|n| n.mac == mac && n.expires > now);
        self.insert(key, Neighbour { mac, expires: now + self.aging, used, sequence: 0 });
        if same { NeighbourUpdate::Renewed } else { NeighbourUpdate::Changed }
    }

    fn remove(&mut self, key: &Key) -> Option<Neighbour> {
        let old = self.by_key.remove(key)?;
        self.order.remove(&(old.used, old.sequence));
        Some(old)
    }

    fn forget(&mut self, key: &Key) {
        self.remove(key);
    }

    fn insert(&mut self, key: Key, neighbour: Neighbour) {
        if self.by_key.len() >= NEIGHBOURS_MAX
            && let Some((_, evicted)) = self.order.pop_first()
        {
            self.by_key.remove(&evicted);
        }
        self.sequence += 1;
        self.order.insert((neighbour.used, self.sequence), key.clone());
        self.by_key.insert(key, Neighbour { sequence: self.sequence, ..neighbour });
    }

    /// The Ethernet address of a neighbour, also after its lifetime until [`expire`](Self::expire) removes it.
    pub fn get(&self, bridge: &str, ip: IpAddr) -> Option<Mac> {
        self.by_key.get(&(bridge.into(), ip)).map(|n| n.mac)
    }

    /// Restarts the lifetime of a neighbour to which packets were sent, and marks it as used, so that unused entries are evicted first.
    pub fn renew(&mut self, bridge: &str, ip: IpAddr, now: Millis) {
        let key = (bridge.into(), ip);
        if let Some(old) = self.remove(&key) {
            self.insert(key, Neighbour { used: true, expires: now + self.aging, ..old });
        }
    }

    /// Removes and returns expired neighbours.
    pub fn expire(&mut self, now: Millis) -> Vec<(Arc<str>, IpAddr)> {
        let over = |n: &Neighbour| n.expires <= now;
        let gone: Vec<Key> = self.by_key.iter().filter(|(_, n)| over(n)).map(|(k, _)| k.clone()).collect();
        gone.iter().for_each(|key| self.forget(key));
        gone
    }

    /// Removes the neighbours of a bridge (`None`: of all bridges). Returns true if there were any.
    pub fn flush(&mut self, bridge: Option<&str>) -> bool {
        let meant = |key: &&Key| bridge.is_none_or(|b| *key.0 == *b);
        let gone: Vec<Key> = self.by_key.keys().filter(meant).cloned().collect();
        gone.iter().for_each(|key| self.forget(key));
        !gone.is_empty()
    }

    /// The lifetime in seconds.
    pub fn aging_s(&self) -> u32 {
        (self.aging.0 / 1000) as u32
    }

    /// Sets the lifetime: 1 to 3600 s. A longer remaining lifetime of an entry is shortened to it.
    pub fn set_aging_s(&mut self, seconds: u32, now: Millis) -> Result<(), BadAging> {
        if !(1..=AGING_MAX_S).contains(&seconds) {
            return Err(BadAging);
        }
        self.aging = Millis(u64::from(seconds) * 1000);
        let latest = now + self.aging;
        self.by_key.values_mut().for_each(|n| n.expires = n.expires.min(latest));
        Ok(())
    }

    /// All neighbours as text: the output of `tnl/neigh/show`.
    pub fn text(&self, now: Millis) -> String {
        let mut rows: Vec<_> = self.by_key.iter().collect();
        rows.sort_by(|(a, _), (b, _)| (a.1, &a.0).cmp(&(b.1, &b.0)));
        let line = |((bridge, ip), n): (&Key, &Neighbour)| {
            let stale = if n.expires <= now { " STALE" } else { "" };
            // 46 characters: the longest IPv6 address and its terminator in C.
            format!("{:<46}{}   {bridge}{stale}\n", ip.to_string(), n.mac)
        };
        let lines: String = rows.into_iter().map(line).collect();
        format!("{:<46}{:<20}Bridge\n{}\n{lines}", "IP", "MAC", "=".repeat(74))
    }

    /// Number of neighbours.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}

/// Error: the lifetime is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadAging;
