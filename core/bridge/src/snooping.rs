//! Multicast snooping of one bridge (RFC 4541): which ports joined which multicast group, and behind which ports
//! multicast routers are. In this file a port is a bundle: all ports of one Port row, so a bond is one port.
//!
//! Numbers and rules are those of `ovs-vswitchd`, because `mdb/show` prints them: a default ageing time of 300 s, 2048
//! groups, 180 s for routers, times in whole seconds. As in `ovs-vswitchd`, only the group that was renewed longest ago
//! is checked: its members age out, and it is removed if it has no members. When the table is full, the port with the
//! most groups loses the group that was renewed longest ago. So a port that joins invented groups cannot evict the
//! groups of other ports.
//!
//! **Invariants**: `by_renewal` and the queues of `by_port` hold each group exactly once under its `renewed` stamp, `by_load`
//! holds each port once under the length of its queue, and `routers_by_renewal` holds each router once. `changes` holds
//! each change after which a translation may differ, until the caller takes it.

use crate::BundleId;
use message::{Message, Protocol, Record};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::Ipv6Addr;
use units::Millis;

pub mod message;

/// Default ageing time of groups in seconds.
pub const DEFAULT_AGING: u32 = 300;
/// Default maximum number of groups.
pub const DEFAULT_SIZE: usize = 2048;
/// Seconds without a query after which a port is not a router port any more.
const ROUTER_AGING: u64 = 180;
/// The most groups that one eviction assigns to another port before it evicts a group.
const EVICTION_TRIES: usize = 16;

/// A VLAN and a multicast group in it.
type Key = (u16, Ipv6Addr);

/// A port that joined a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    port: BundleId,
    /// Second at which the membership expires.
    expires: u64,
    /// Position in the order of renewal.
    renewed: u64,
}

/// A group.
#[derive(Clone, Debug)]
struct Group {
    /// The members in the order in which they joined; a renewal does not change the order. Translations send to them in
    /// this order.
    members: Vec<Member>,
    /// The protocol of the last report.
    protocol: Protocol,
    /// The port for which this group counts in `by_port`: one of the members, or the last member that left.
    port: BundleId,
    /// Position in the order of renewal.
    renewed: u64,
}

/// A port behind which a multicast router is.
#[derive(Clone, Copy, Debug)]
struct Router {
    /// Second at which the port stops being a router port.
    expires: u64,
    /// Position in the order of renewal.
    renewed: u64,
    /// Position in the order in which routers were learned; translations send to routers in this order.
    added: u64,
}

/// A membership, for `mdb/show`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The port.
    pub port: BundleId,
    /// The VLAN.
    pub vlan: u16,
    /// The group; `None` for a router port.
    pub group: Option<(Ipv6Addr, Protocol)>,
    /// Seconds since the membership was renewed.
    pub age: i64,
}

/// A change after which translations may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnoopingChange {
    /// The members of a group changed.
    Group(Ipv6Addr),
    /// The router ports changed.
    Routers,
}

/// Counters since the table was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnoopingStats {
    /// Groups and router ports added.
    pub learned: u64,
    /// Members, groups and router ports that aged out.
    pub expired: u64,
}

/// The part of the table that translations read. [`GroupTable`] implements it; the switch implements it for its table
/// behind a lock, too.
pub trait GroupRead {
    /// The ports that joined a group, in the order in which they joined. `None`: the group is not registered.
    fn members(&self, vlan: u16, group: Ipv6Addr) -> Option<Vec<BundleId>>;
    /// The router ports of a VLAN, in the order in which they were learned.
    fn routers_of(&self, vlan: u16) -> Vec<BundleId>;
    /// All router ports with their VLANs, in the order in which they were learned.
    fn routers(&self) -> Vec<(u16, BundleId)>;
    /// The number of changes that the log reports for a message: groups and router ports that it would add, and groups that the
    /// port would leave. A port that joins a registered group is not counted.
    fn count_changes(&self, vlan: u16, port: BundleId, message: &Message) -> usize;
}

/// The table of one bridge; see the module documentation.
#[derive(Clone, Debug)]
pub struct GroupTable {
    groups: HashMap<Key, Group>,
    /// All groups, the group that was renewed longest ago first.
    by_renewal: BTreeMap<u64, Key>,
    /// The groups of each port, in the same order; a group is listed under `Group::port` only.
    by_port: BTreeMap<BundleId, BTreeMap<u64, Key>>,
    /// The ports by their number of groups.
    by_load: BTreeSet<(usize, BundleId)>,
    routers: BTreeMap<(u16, BundleId), Router>,
    routers_by_renewal: BTreeMap<u64, (u16, BundleId)>,
    /// Ports to which all multicast packets are sent.
    flood_ports: Vec<BundleId>,
    /// Ports to which all reports are sent.
    report_ports: Vec<BundleId>,
    /// The last stamp of `renewed`, `renewed` or `added`.
    last_stamp: u64,
    /// Ageing time of groups in seconds.
    aging: u32,
    size: usize,
    stats: SnoopingStats,
    changes: Vec<SnoopingChange>,
}

fn secs(t: Millis) -> u64 {
    t.0 / 1000
}

impl Default for GroupTable {
    fn default() -> GroupTable {
        GroupTable {
            groups: HashMap::new(),
            by_renewal: BTreeMap::new(),
            by_port: BTreeMap::new(),
            by_load: BTreeSet::new(),
            routers: BTreeMap::new(),
            routers_by_renewal: BTreeMap::new(),
            flood_ports: Vec::new(),
            report_ports: Vec::new(),
            last_stamp: 0,
            aging: DEFAULT_AGING,
            size: DEFAULT_SIZE,
            stats: SnoopingStats::default(),
            changes: Vec::new(),
        }
    }
}

impl GroupTable {
    /// Sets the ageing time, clamped to 15..=3600 s. Members keep their age.
    pub fn set_aging(&mut self, aging: u32) {
        let aging = aging.clamp(15, 3600);
        let (old, new) = (u64::from(self.aging), u64::from(aging));
        for member in self.groups.values_mut().flat_map(|g| &mut g.members) {
            member.expires = (member.expires + new).saturating_sub(old);
        }
        self.aging = aging;
    }

    /// Sets the maximum number of groups, clamped to 10..=1,000,000. The next [`run`](Self::run) removes excess groups.
    pub fn set_size(&mut self, size: usize) {
        self.size = size.clamp(10, 1_000_000);
    }

    /// The maximum number of groups.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there are no groups.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The counters.
    pub fn stats(&self) -> SnoopingStats {
        self.stats
    }

    /// The changes since the last call.
    pub fn take_changes(&mut self) -> Vec<SnoopingChange> {
        std::mem::take(&mut self.changes)
    }

    /// Sets whether all multicast packets (`floods`) and all reports (`gets_reports`) are sent to a port. A port that
    /// already has the setting keeps its position in the list.
    pub fn set_port(&mut self, port: BundleId, floods: bool, gets_reports: bool) {
        set_membership(&mut self.flood_ports, port, floods);
        set_membership(&mut self.report_ports, port, gets_reports);
    }

    /// The ports to which all multicast packets are sent.
    pub fn flood_ports(&self) -> &[BundleId] {
        &self.flood_ports
    }

    /// The ports to which all reports are sent.
    pub fn report_ports(&self) -> &[BundleId] {
        &self.report_ports
    }

    /// All memberships, then all router ports, in the order of `mdb/show`: the group that was renewed longest ago first, within a
    /// group the membership that was renewed longest ago first, then the router port that was renewed longest ago first.
    pub fn iter(&self, now: Millis) -> impl Iterator<Item = Membership> {
        let age = move |aging, expires| i64::from(aging) - (expires as i64 - secs(now) as i64);
        let groups = self.by_renewal.values().filter_map(|key| Some((key, self.groups.get(key)?)));
        let members = groups.flat_map(move |((vlan, group), g)| {
            let mut members: Vec<&Member> = g.members.iter().collect();
            members.sort_by_key(|m| m.renewed);
            members.into_iter().map(move |m| Membership {
                port: m.port,
                vlan: *vlan,
                group: Some((*group, g.protocol)),
                age: age(self.aging, m.expires),
            })
        });
        let routers = self.routers_by_renewal.values().filter_map(move |key| {
            let age = age(ROUTER_AGING as u32, self.routers.get(key)?.expires);
            Some(Membership { port: key.1, vlan: key.0, group: None, age })
        });
        members.chain(routers)
    }

    /// Learns from a message that a port received.
    pub fn learn(&mut self, vlan: u16, port: BundleId, message: &Message, now: Millis) {
        match message {
            Message::AnonymousQuery => {}
            Message::Query => self.add_router(vlan, port, now),
            Message::Report { protocol, records } => {
                for record in records {
                    match record.joins {
                        true => self.join((vlan, record.group), port, *protocol, now),
                        false => self.leave((vlan, record.group), port),
                    }
                }
            }
        }
        self.run(now);
    }

    /// Adds or renews a router port.
    fn add_router(&mut self, vlan: u16, port: BundleId, now: Millis) {
        if self.flood_ports.contains(&port) {
            return;
        }
        self.last_stamp += 1;
        let known = self.routers.get(&(vlan, port)).copied();
        match known {
            Some(known) => {
                self.routers_by_renewal.remove(&known.renewed);
            }
            None => {
                self.stats.learned += 1;
                self.changes.push(SnoopingChange::Routers);
            }
        }
        let added = known.map_or(self.last_stamp, |known| known.added);
        let router = Router { expires: secs(now) + ROUTER_AGING, renewed: self.last_stamp, added };
        self.routers.insert((vlan, port), router);
        self.routers_by_renewal.insert(self.last_stamp, (vlan, port));
    }

    /// Whether a port receives all multicast packets of a VLAN, so that it need not join groups.
    fn gets_all(&self, vlan: u16, port: BundleId) -> bool {
        self.routers.contains_key(&(vlan, port)) || self.flood_ports.contains(&port)
    }

    /// Adds or renews the membership of a port in a group.
    fn join(&mut self, key: Key, port: BundleId, protocol: Protocol, now: Millis) {
        if self.gets_all(key.0, port) {
            return;
        }
        let known = self.unlink(key);
        if known.is_none() {
            if self.groups.len() >= self.size {
                self.evict();
            }
            self.stats.learned += 1;
            self.changes.push(SnoopingChange::Group(key.1));
        }
        let mut group = known.unwrap_or(Group { members: Vec::new(), protocol, port, renewed: 0 });
        if group.members.is_empty() {
            group.port = port;
        }
        self.last_stamp += 1;
        let member = Member { port, expires: secs(now) + u64::from(self.aging), renewed: self.last_stamp };
        match group.members.iter_mut().find(|m| m.port == port) {
            Some(known) => *known = member,
            None => {
                group.members.push(member);
                self.changes.push(SnoopingChange::Group(key.1));
            }
        }
        (group.protocol, group.renewed) = (protocol, self.last_stamp);
        self.link(key, group);
    }

    fn leave(&mut self, key: Key, port: BundleId) {
        // Behind a port that receives all reports there are usually several hosts: if one host leaves the group, others
        // may still be members.
        if self.report_ports.contains(&port) {
            return;
        }
        self.remove_members(key, |m| m.port == port);
    }

    /// Removes the members of a group that `which` accepts. Returns the number of removed members.
    fn remove_members(&mut self, key: Key, which: impl Fn(&Member) -> bool) -> usize {
        let Some(group) = self.groups.get_mut(&key) else { return 0 };
        let before = group.members.len();
        group.members.retain(|m| !which(m));
        let removed = before - group.members.len();
        if removed == 0 {
            return 0;
        }
        self.changes.push(SnoopingChange::Group(key.1));
        let successor = group.members.first().map(|m| m.port);
        if let Some(successor) = successor.filter(|_| !group.members.iter().any(|m| m.port == group.port)) {
            self.assign(key, successor);
        }
        removed
    }

    /// Moves a group to another port in `by_port`.
    fn assign(&mut self, key: Key, port: BundleId) {
        if let Some(group) = self.unlink(key) {
            self.link(key, Group { port, ..group });
        }
    }

    /// Removes the groups and router ports of a port, and the settings of [`set_port`](Self::set_port), because the
    /// port is removed or changes its VLANs.
    pub fn flush_port(&mut self, port: BundleId) {
        self.forget_port(port);
        self.set_port(port, false, false);
    }

    /// Removes everything that was learned at a port, because hosts and routers are behind another port now.
    pub fn forget_port(&mut self, port: BundleId) {
        let keys: Vec<Key> = self.by_renewal.values().copied().collect();
        for key in keys {
            let removed = self.remove_members(key, |m| m.port == port);
            if removed != 0 && self.groups.get(&key).is_some_and(|g| g.members.is_empty()) {
                self.remove(key);
            }
        }
        let before = self.routers.len();
        self.routers.retain(|(_, p), _| *p != port);
        self.routers_by_renewal.retain(|_, (_, p)| *p != port);
        if self.routers.len() != before {
            self.changes.push(SnoopingChange::Routers);
        }
    }

    /// Removes all groups and router ports (`mdb/flush`).
    pub fn flush(&mut self) {
        self.changes.extend(self.groups.keys().map(|(_, group)| SnoopingChange::Group(*group)));
        if !self.routers.is_empty() {
            self.changes.push(SnoopingChange::Routers);
        }
        self.groups.clear();
        self.by_renewal.clear();
        self.by_port.clear();
        self.by_load.clear();
        self.routers.clear();
        self.routers_by_renewal.clear();
    }

    /// Removes members and router ports that aged out, groups without members, and groups beyond the maximum number.
    pub fn run(&mut self, now: Millis) {
        let now = secs(now);
        while let Some(key) = self.by_renewal.values().next().copied() {
            if self.groups.len() > self.size {
                self.evict();
                continue;
            }
            let mut expired = self.remove_members(key, |m| m.expires <= now);
            if self.groups.get(&key).is_some_and(|g| g.members.is_empty()) {
                self.remove(key);
                expired += 1;
            }
            if expired == 0 {
                break;
            }
            self.stats.expired += expired as u64;
        }
        while let Some((&renewed, &key)) = self.routers_by_renewal.iter().next()
            && self.routers.get(&key).is_none_or(|r| r.expires <= now)
        {
            self.routers_by_renewal.remove(&renewed);
            self.routers.remove(&key);
            self.stats.expired += 1;
            self.changes.push(SnoopingChange::Routers);
        }
    }

    /// Evicts a group of the port with the most groups: the one that was renewed longest ago. If another member of that
    /// group has at least two groups fewer, the group counts for that member from now on, and the search continues.
    fn evict(&mut self) {
        for tries in 0..=EVICTION_TRIES {
            let Some(&(load, port)) = self.by_load.last() else { return };
            let Some(key) = self.by_port.get(&port).and_then(|q| q.values().next().copied()) else { return };
            let lighter = self.groups.get(&key).and_then(|g| {
                let others = g.members.iter().map(|m| (self.load(m.port), m.port));
                others.min().filter(|(other, _)| other + 1 < load)
            });
            match lighter.filter(|_| tries < EVICTION_TRIES) {
                Some((_, other)) => self.assign(key, other),
                None => return self.remove(key),
            }
        }
    }

    fn load(&self, port: BundleId) -> usize {
        self.by_port.get(&port).map_or(0, BTreeMap::len)
    }

    fn remove(&mut self, key: Key) {
        if self.unlink(key).is_some() {
            self.changes.push(SnoopingChange::Group(key.1));
        }
    }

    fn link(&mut self, key: Key, group: Group) {
        self.by_renewal.insert(group.renewed, key);
        let queue = self.by_port.entry(group.port).or_default();
        self.by_load.remove(&(queue.len(), group.port));
        queue.insert(group.renewed, key);
        self.by_load.insert((queue.len(), group.port));
        self.groups.insert(key, group);
    }

    fn unlink(&mut self, key: Key) -> Option<Group> {
        let group = self.groups.remove(&key)?;
        self.by_renewal.remove(&group.renewed);
        if let Some(queue) = self.by_port.get_mut(&group.port) {
            self.by_load.remove(&(queue.len(), group.port));
            queue.remove(&group.renewed);
            if queue.is_empty() {
                self.by_port.remove(&group.port);
            } else {
                self.by_load.insert((queue.len(), group.port));
            }
        }
        Some(group)
    }
}

fn set_membership(ports: &mut Vec<BundleId>, port: BundleId, on: bool) {
    match (on, ports.iter().position(|p| *p == port)) {
        (true, None) => ports.push(port),
        (false, Some(at)) => {
            ports.remove(at);
        }
        _ => {}
    }
}

/// Router ports in the order in which they were learned.
fn in_learning_order<'a>(
    routers: impl Iterator<Item = (&'a (u16, BundleId), &'a Router)>,
) -> impl Iterator<Item = (u16, BundleId)> {
    let mut routers: Vec<_> = routers.map(|(at, router)| (router.added, *at)).collect();
    routers.sort_unstable();
    routers.into_iter().map(|(_, at)| at)
}

impl GroupRead for GroupTable {
    fn members(&self, vlan: u16, group: Ipv6Addr) -> Option<Vec<BundleId>> {
        let group = self.groups.get(&(vlan, group))?;
        Some(group.members.iter().map(|m| m.port).collect())
    }

    fn routers_of(&self, vlan: u16) -> Vec<BundleId> {
        let range = (vlan, BundleId(0))..=(vlan, BundleId(u32::MAX));
        in_learning_order(self.routers.range(range)).map(|(_, port)| port).collect()
    }

    fn routers(&self) -> Vec<(u16, BundleId)> {
        in_learning_order(self.routers.iter()).collect()
    }

    fn count_changes(&self, vlan: u16, port: BundleId, message: &Message) -> usize {
        let records: &[Record] = match message {
            Message::Report { records, .. } => records,
            Message::AnonymousQuery => &[],
            Message::Query => {
                return usize::from(!self.gets_all(vlan, port));
            }
        };
        let (joins_none, leaves_none) = (self.gets_all(vlan, port), self.report_ports.contains(&port));
        // The effect of earlier records of the message, by group: `None` if the group is not registered, else whether
        // the port is a member.
        let mut seen: HashMap<Ipv6Addr, Option<bool>> = HashMap::new();
        let mut changes = 0;
        for Record { group, joins } in records {
            let state = seen.entry(*group).or_insert_with(|| {
                let known = self.groups.get(&(vlan, *group));
                known.map(|g| g.members.iter().any(|m| m.port == port))
            });
            match joins {
                true if !joins_none => {
                    changes += usize::from(state.is_none());
                    *state = Some(true);
                }
                false if !leaves_none && *state == Some(true) => {
                    changes += 1;
                    *state = Some(false);
                }
                _ => {}
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests;
