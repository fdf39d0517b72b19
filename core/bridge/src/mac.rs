//! The MAC learning table of one bridge: maps VLAN and MAC address to a port. In this file a port is a bundle: all ports of one Port row,
//! so a bond is one port.
//!
//! Numbers and rules are those of `ovs-vswitchd`, because `fdb/show` and `fdb/stats-show` print them: a default ageing time of 300 s, 8192 entries,
//! times in whole seconds. When the table is full, the port with the most entries loses its least recently used entry. So a port that floods invented
//! addresses cannot evict the stations of other ports.
//!
//! **Invariants**: `by_use` and the queues of `by_port` hold each entry exactly once under its `used` stamp, and `by_load` holds each port once under
//! the length of its queue. `generation` changes whenever the result of a look-up may change; a refresh alone does not change it.

use crate::BundleId;
use crate::vlan::VlanSet;
use flow::Mac;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use units::Millis;

/// Default ageing time in seconds.
pub const DEFAULT_AGING: u32 = 300;
/// Default maximum number of entries.
pub const DEFAULT_SIZE: usize = 8192;
/// Seconds after a gratuitous ARP during which copies of it that return through a bond are not learned.
const GRAT_ARP_LOCK: u64 = 5;

/// The entry of one station, learned or configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacEntry {
    /// The port behind which the station is.
    pub port: BundleId,
    /// The VLAN.
    pub vlan: u16,
    /// The MAC address of the station.
    pub mac: Mac,
    /// Second at which the entry expires; `None` for a static entry.
    expires: Option<u64>,
    /// Until this second, gratuitous ARPs that return through a bond are not learned.
    grat_arp_lock: u64,
    /// Position in the order of use.
    used: u64,
}

impl MacEntry {
    /// Whether the entry was configured and does not age.
    pub fn is_static(&self) -> bool {
        self.expires.is_none()
    }

    /// Whether the station sent a gratuitous ARP through a port that is not a bond within the last 5 s.
    pub fn is_grat_arp_locked(&self, now: Millis) -> bool {
        secs(now) < self.grat_arp_lock
    }
}

/// Counters since the table was created, for `fdb/stats-show`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MacStats {
    /// Entries added by learning.
    pub learned: u64,
    /// Entries that aged out, or that were removed because the maximum number was reduced.
    pub expired: u64,
    /// Entries evicted because the table was full.
    pub evicted: u64,
    /// Entries that moved to another port.
    pub moved: u64,
}

/// The fields of a packet from which the table may learn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacObservation {
    /// Source MAC address.
    pub mac: Mac,
    /// The VLAN.
    pub vlan: u16,
    /// The port that received the packet.
    pub port: BundleId,
    /// The packet is a gratuitous ARP.
    pub grat_arp: bool,
    /// The port is a bond.
    pub bond: bool,
}

/// The part of the learning table that translations read. [`MacTable`] implements it; the switch implements it for its table behind a lock, too.
pub trait MacRead {
    /// The port behind which a station is. `None`: the station is unknown, the address is a group address, or the VLAN is flooded.
    fn port_of(&self, vlan: u16, mac: Mac) -> Option<BundleId>;
    /// Whether the station may be learned in this VLAN.
    fn may_learn(&self, vlan: u16, mac: Mac) -> bool;
    /// Whether a static entry for the station exists.
    fn is_static(&self, vlan: u16, mac: Mac) -> bool;
    /// Whether the station sent a gratuitous ARP through a port that is not a bond in the last 5 s.
    fn is_grat_arp_locked(&self, vlan: u16, mac: Mac) -> bool;
}

/// The MAC learning table of one bridge; see the module documentation.
#[derive(Clone, Debug)]
pub struct MacTable {
    entries: HashMap<(u16, Mac), MacEntry>,
    /// All entries, least recently used first.
    by_use: BTreeMap<u64, (u16, Mac)>,
    /// The entries of each port, least recently used first.
    by_port: BTreeMap<BundleId, BTreeMap<u64, (u16, Mac)>>,
    /// The ports by their number of entries.
    by_load: BTreeSet<(usize, BundleId)>,
    /// The last `used` stamp.
    last_stamp: u64,
    /// Ageing time in seconds.
    aging: u32,
    size: usize,
    flood_vlans: Option<VlanSet>,
    stats: MacStats,
    static_count: usize,
    generation: u64,
    /// The latest time that a caller passed.
    now: Millis,
}

fn secs(t: Millis) -> u64 {
    t.0 / 1000
}

impl Default for MacTable {
    fn default() -> MacTable {
        MacTable::new()
    }
}

impl MacTable {
    /// Creates an empty table with the default ageing time and size.
    pub fn new() -> MacTable {
        MacTable {
            entries: HashMap::new(),
            by_use: BTreeMap::new(),
            by_port: BTreeMap::new(),
            by_load: BTreeSet::new(),
            last_stamp: 0,
            aging: DEFAULT_AGING,
            size: DEFAULT_SIZE,
            flood_vlans: None,
            stats: MacStats::default(),
            static_count: 0,
            generation: 0,
            now: Millis(0),
        }
    }

    /// Sets the ageing time, clamped to 15..=3600 s. Entries keep their age.
    pub fn set_aging(&mut self, aging: u32) {
        let aging = aging.clamp(15, 3600);
        let (old, new) = (u64::from(self.aging), u64::from(aging));
        for e in self.entries.values_mut() {
            e.expires = e.expires.map(|t| (t + new).saturating_sub(old));
        }
        self.aging = aging;
    }

    /// The ageing time in seconds.
    pub fn aging(&self) -> u32 {
        self.aging
    }

    /// Sets the maximum number of entries, clamped to 10..=1,000,000. The next [`run`](Self::run) removes excess
    /// entries.
    pub fn set_size(&mut self, size: usize) {
        self.size = size.clamp(10, 1_000_000);
    }

    /// The maximum number of entries.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Sets the VLANs that are flooded and in which nothing is learned. Returns whether the set changed.
    pub fn set_flood_vlans(&mut self, vlans: Option<VlanSet>) -> bool {
        let changed = self.flood_vlans != vlans;
        self.flood_vlans = vlans;
        self.generation += u64::from(changed);
        changed
    }

    /// A number that changes whenever the result of a look-up may change.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The counters.
    pub fn stats(&self) -> MacStats {
        self.stats
    }

    /// Resets the counters to zero.
    pub fn clear_stats(&mut self) {
        self.stats = MacStats::default();
    }

    /// Number of entries, learned and static.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of static entries.
    pub fn static_count(&self) -> usize {
        self.static_count
    }

    /// All entries, least recently used first, which is the order of `fdb/show`.
    pub fn iter(&self) -> impl Iterator<Item = &MacEntry> {
        self.by_use.values().filter_map(|k| self.entries.get(k))
    }

    /// Seconds since the entry was last refreshed; `None` for a static entry.
    pub fn age(&self, e: &MacEntry, now: Millis) -> Option<i64> {
        e.expires.map(|t| i64::from(self.aging) - (t as i64 - secs(now) as i64))
    }

    /// The entry of a station.
    pub fn get(&self, vlan: u16, mac: Mac) -> Option<&MacEntry> {
        if mac.is_multicast() || self.floods(vlan) {
            return None;
        }
        self.entries.get(&(vlan, mac))
    }

    fn floods(&self, vlan: u16) -> bool {
        self.flood_vlans.as_ref().is_some_and(|s| s.contains(vlan))
    }

    /// Whether [`update`](Self::update) would change anything. Callers check this under a read lock first, because most packets change nothing.
    pub fn needs_update(&self, l: &MacObservation, now: Millis) -> bool {
        if self.floods(l.vlan) || l.mac.is_multicast() {
            return false;
        }
        let Some(e) = self.get(l.vlan, l.mac) else { return true };
        let Some(age) = self.age(e, now) else { return false };
        if age > 0 {
            return true;
        }
        if l.grat_arp {
            if !l.bond {
                return true;
            }
            if e.is_grat_arp_locked(now) {
                return false;
            }
        }
        e.port != l.port
    }

    /// Learns from a packet. Returns true if a station is new or moved.
    pub fn update(&mut self, l: &MacObservation, now: Millis) -> bool {
        if !self.needs_update(l, now) {
            return false;
        }
        self.now = now;
        let known = self.entries.get(&(l.vlan, l.mac)).copied();
        let locked = known.is_some_and(|e| e.is_grat_arp_locked(now));
        let reflected = l.grat_arp && l.bond && locked;
        let port = if reflected { known.map_or(l.port, |e| e.port) } else { l.port };
        if known.is_none() {
            self.evict_if_full();
            self.stats.learned += 1;
        }
        let lock = match known {
            _ if l.grat_arp && !l.bond => secs(now) + GRAT_ARP_LOCK,
            Some(e) => e.grat_arp_lock,
            None => 0,
        };
        let expires = Some(secs(now) + u64::from(self.aging));
        self.insert(MacEntry { port, vlan: l.vlan, mac: l.mac, expires, grat_arp_lock: lock, used: 0 });
        let changed = known.is_none_or(|e| e.port != port);
        if changed {
            self.stats.moved += u64::from(known.is_some());
            self.generation += 1;
        }
        changed
    }

    /// Adds a static entry, which neither ages nor moves (`fdb/add`).
    pub fn add_static(&mut self, vlan: u16, mac: Mac, port: BundleId) {
        if !self.entries.contains_key(&(vlan, mac)) {
            self.evict_if_full();
        }
        self.insert(MacEntry { port, vlan, mac, expires: None, grat_arp_lock: 0, used: 0 });
        self.generation += 1;
    }

    /// Deletes a static entry (`fdb/del`). Returns false if there is none.
    pub fn del_static(&mut self, vlan: u16, mac: Mac) -> bool {
        let found = self.get(vlan, mac).is_some_and(MacEntry::is_static);
        if found {
            self.remove((vlan, mac));
        }
        found
    }

    /// Removes all learned entries (`fdb/flush`); static entries stay.
    pub fn flush(&mut self) {
        self.flush_where(|e| !e.is_static());
    }

    /// Removes all entries of a port, including static ones, because the port is removed or changes its VLANs.
    /// Returns the stations.
    pub fn flush_port(&mut self, port: BundleId) -> Vec<(u16, Mac)> {
        let keys: Vec<_> = self.by_port.get(&port).into_iter().flat_map(|q| q.values().copied()).collect();
        for k in &keys {
            self.remove(*k);
        }
        keys
    }

    /// Moves the learned entries of one port to another port. The moved entries become the most recently used ones; their age is reset to zero,
    /// because [`run`](Self::run) relies on the least recently used entry expiring first.
    pub fn move_port(&mut self, from: BundleId, to: BundleId) {
        let moved: Vec<MacEntry> =
            self.iter().filter(|e| e.port == from && !e.is_static()).copied().collect();
        let expires = Some(secs(self.now) + u64::from(self.aging));
        for entry in moved {
            self.insert(MacEntry { port: to, expires, ..entry });
            self.stats.moved += 1;
            self.generation += 1;
        }
    }

    /// Removes the entry of a station, static or not.
    pub fn forget(&mut self, vlan: u16, mac: Mac) {
        if self.entries.contains_key(&(vlan, mac)) {
            self.remove((vlan, mac));
        }
    }

    /// Removes the entries for which `which` returns true.
    pub fn flush_where(&mut self, which: impl Fn(&MacEntry) -> bool) {
        let keys: Vec<_> = self.iter().filter(|e| which(e)).map(|e| (e.vlan, e.mac)).collect();
        for k in keys {
            self.remove(k);
        }
    }

    /// Removes expired entries, and the oldest learned entries beyond the maximum number. Returns the removed stations.
    pub fn run(&mut self, now: Millis) -> Vec<(u16, Mac)> {
        self.now = now;
        let mut gone = Vec::new();
        while let Some(e) = self.oldest_learned() {
            let due = e.expires.is_some_and(|t| secs(now) >= t);
            if !due && self.entries.len() <= self.size {
                break;
            }
            self.stats.expired += 1;
            self.remove((e.vlan, e.mac));
            gone.push((e.vlan, e.mac));
        }
        gone
    }

    /// When [`run`](Self::run) must be called next.
    pub fn next_run(&self) -> Millis {
        match self.oldest_learned() {
            Some(_) if self.entries.len() > self.size => Millis(0),
            Some(MacEntry { expires: Some(t), .. }) => Millis(t * 1000),
            _ => Millis::NEVER,
        }
    }

    fn oldest_learned(&self) -> Option<MacEntry> {
        self.iter().find(|e| !e.is_static()).copied()
    }

    fn evict_if_full(&mut self) {
        if self.entries.len() < self.size {
            return;
        }
        let Some(&(_, port)) = self.by_load.last() else { return };
        let victim = self.by_port.get(&port).and_then(|q| q.values().next().copied());
        if let Some(k) = victim {
            self.stats.evicted += 1;
            self.remove(k);
        }
    }

    /// Inserts an entry as the most recently used one, replacing the station's old entry.
    fn insert(&mut self, mut e: MacEntry) {
        let key = (e.vlan, e.mac);
        self.unlink(key);
        self.last_stamp += 1;
        e.used = self.last_stamp;
        self.static_count += usize::from(e.is_static());
        self.by_use.insert(e.used, key);
        let queue = self.by_port.entry(e.port).or_default();
        self.by_load.remove(&(queue.len(), e.port));
        queue.insert(e.used, key);
        self.by_load.insert((queue.len(), e.port));
        self.entries.insert(key, e);
    }

    /// Removes an entry from the table and its indices, without a new `generation`.
    fn unlink(&mut self, key: (u16, Mac)) {
        let Some(e) = self.entries.remove(&key) else { return };
        self.static_count -= usize::from(e.is_static());
        self.by_use.remove(&e.used);
        if let Some(queue) = self.by_port.get_mut(&e.port) {
            self.by_load.remove(&(queue.len(), e.port));
            queue.remove(&e.used);
            if queue.is_empty() {
                self.by_port.remove(&e.port);
            } else {
                self.by_load.insert((queue.len(), e.port));
            }
        }
    }

    fn remove(&mut self, key: (u16, Mac)) {
        self.unlink(key);
        self.generation += 1;
    }
}

impl MacRead for MacTable {
    fn port_of(&self, vlan: u16, mac: Mac) -> Option<BundleId> {
        self.get(vlan, mac).map(|e| e.port)
    }

    fn may_learn(&self, vlan: u16, mac: Mac) -> bool {
        !mac.is_multicast() && !self.floods(vlan)
    }

    fn is_static(&self, vlan: u16, mac: Mac) -> bool {
        self.get(vlan, mac).is_some_and(MacEntry::is_static)
    }

    fn is_grat_arp_locked(&self, vlan: u16, mac: Mac) -> bool {
        self.get(vlan, mac).is_some_and(|e| e.is_grat_arp_locked(self.now))
    }
}

#[cfg(test)]
mod tests;
