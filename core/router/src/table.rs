//! One routing table: look-up by priority and longest prefix.
//!
//! Routes of one priority and one prefix length are in one hash map, and a look-up searches the maps in descending order of priority. A
//! full table of the Internet has 25 prefix lengths of IPv4 and 48 of IPv6, so a look-up needs at most that many hash look-ups. The maps
//! are persistent: a changed clone shares everything except the changed path with the original.

use crate::{Prefix, Route};
use rpds::{HashTrieMapSync, RedBlackTreeMapSync};
use std::net::IpAddr;

/// The kernel's table of local addresses.
pub const TABLE_LOCAL: u32 = 255;
/// The kernel's table `main`.
pub const TABLE_MAIN: u32 = 254;
/// The kernel's table `default`.
pub const TABLE_DEFAULT: u32 = 253;

/// Returns whether the table has a name.
pub fn is_standard(table: u32) -> bool {
    (TABLE_DEFAULT..=TABLE_LOCAL).contains(&table)
}

/// Priority of a user's route over a kernel route with the same prefix, in bits of prefix length.
const USER_PRIORITY: u8 = 32;

/// The key of a hash map of routes. Its order is the order of look-ups: family, inverted priority, prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    v6: bool,
    inverse: u8,
    len: u8,
}

impl Group {
    fn of(prefix: &Prefix, user: bool) -> Group {
        let priority = prefix.len() + if user { USER_PRIORITY } else { 0 };
        Group { v6: !prefix.is_ipv4(), inverse: u8::MAX - priority, len: prefix.len() }
    }
}

impl Group {
    fn is_users(&self) -> bool {
        u8::MAX - self.inverse != self.len
    }
}

/// Mark and network.
type Key = (u32, IpAddr);

/// A routing table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    groups: RedBlackTreeMapSync<Group, HashTrieMapSync<Key, Route>>,
    len: usize,
}

impl Table {
    /// Adds a route, or replaces the one with the same prefix, mark and owner.
    pub(crate) fn insert(&mut self, route: Route) {
        let group = Group::of(&route.prefix, route.user);
        let key = (route.mark, route.prefix.addr());
        if self.groups.get(&group).is_none() {
            self.groups.insert_mut(group, HashTrieMapSync::default());
        }
        if let Some(routes) = self.groups.get_mut(&group) {
            self.len -= routes.size();
            routes.insert_mut(key, route);
            self.len += routes.size();
        }
    }

    /// Removes a route. Returns false if there is no such route.
    pub(crate) fn remove(&mut self, prefix: &Prefix, mark: u32, user: bool) -> bool {
        let group = Group::of(prefix, user);
        let Some(routes) = self.groups.get_mut(&group) else { return false };
        let removed = routes.remove_mut(&(mark, prefix.addr()));
        if routes.is_empty() {
            self.groups.remove_mut(&group);
        }
        self.len -= usize::from(removed);
        removed
    }

    /// The route with this prefix, mark and owner.
    pub fn get(&self, prefix: &Prefix, mark: u32, user: bool) -> Option<&Route> {
        self.groups.get(&Group::of(prefix, user))?.get(&(mark, prefix.addr()))
    }

    /// The best route to an address for packets with this mark.
    pub fn lookup(&self, mark: u32, dst: IpAddr) -> Option<&Route> {
        let first = Group { v6: dst.is_ipv6(), inverse: 0, len: 0 };
        let groups = self.groups.range(first..).take_while(|(g, _)| g.v6 == dst.is_ipv6());
        groups.into_iter().find_map(|(g, routes)| routes.get(&(mark, Prefix::new(dst, g.len).addr())))
    }

    /// All routes: IPv4 before IPv6, then longer prefixes first, then in the order in which they were added.
    pub fn sorted(&self) -> Vec<&Route> {
        let mut all: Vec<&Route> = self.groups.iter().flat_map(|(_, routes)| routes.values()).collect();
        all.sort_by_key(|r| (!r.prefix.is_ipv4(), u8::MAX - r.prefix.len(), r.serial));
        all
    }

    /// Removes the kernel's routes.
    pub(crate) fn clear_kernel(&mut self) {
        let gone: Vec<Group> = self.groups.keys().filter(|g| !g.is_users()).copied().collect();
        for group in gone {
            self.len -= self.groups.get(&group).map_or(0, HashTrieMapSync::size);
            self.groups.remove_mut(&group);
        }
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the table has no routes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
