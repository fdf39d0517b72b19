//! All routing tables, policy rules and interface addresses, and the look-up of a route.

use crate::rules::unspecified;
use crate::table::TABLE_LOCAL;
use crate::{Addresses, NewRoute, Prefix, Route, RouteError, Rules, Table};
use rpds::RedBlackTreeMapSync;
use std::net::IpAddr;
use std::sync::Arc;

/// Routing tables, policy rules and addresses. Clones share memory, however many routes there are.
#[derive(Clone, Debug, Default)]
pub struct Router {
    tables: RedBlackTreeMapSync<u32, Table>,
    /// The policy rules.
    pub rules: Rules,
    /// The addresses of interfaces.
    pub addresses: Addresses,
    serial: u64,
}

/// The result of a route look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedRoute {
    /// The output device.
    pub dev: Arc<str>,
    /// The next hop. `None`: the destination is directly reachable.
    pub gateway: Option<IpAddr>,
    /// Source address of packets on this route.
    pub source: IpAddr,
}

impl Router {
    /// Adds or replaces a route. Fails if the device has no address that can be the source of packets.
    pub fn add(&mut self, table: u32, new: &NewRoute<'_>) -> Result<(), RouteError> {
        let source = self.source_of(new).ok_or(RouteError)?;
        self.insert(table, new, source);
        Ok(())
    }

    /// Adds a route of the kernel without checking its source address. Of several kernel routes to one destination only the one with the
    /// lowest metric is kept. Returns false if there was another route to the same destination.
    pub fn add_kernel_route(&mut self, table: u32, new: &NewRoute<'_>) -> Result<bool, RouteError> {
        let source = new.source.or_else(|| self.source_of(new)).ok_or(RouteError)?;
        let known = self.table(table).and_then(|t| t.get(&new.prefix, new.mark, false));
        let other = known.filter(|k| (&*k.dev, k.gateway, k.metric) != (new.dev, new.gateway, new.metric));
        let (alone, better) = (other.is_none(), other.is_none_or(|k| new.metric < k.metric));
        if better {
            self.insert(table, new, source);
        }
        Ok(alone)
    }

    /// Removes a route of the kernel, if it is the one that was kept. Returns whether it was removed.
    pub fn remove_kernel_route(&mut self, table: u32, gone: &NewRoute<'_>) -> bool {
        let known = self.table(table).and_then(|t| t.get(&gone.prefix, gone.mark, false));
        let same =
            known.is_some_and(|k| (&*k.dev, k.gateway, k.metric) == (gone.dev, gone.gateway, gone.metric));
        same && self.remove(table, &gone.prefix, gone.mark, false)
    }

    fn insert(&mut self, table: u32, new: &NewRoute<'_>, source: IpAddr) {
        self.serial += 1;
        let route = Route {
            prefix: new.prefix,
            mark: new.mark,
            dev: new.dev.into(),
            gateway: new.gateway,
            source,
            user: new.user,
            metric: new.metric,
            serial: self.serial,
        };
        if self.tables.get(&table).is_none() {
            self.tables.insert_mut(table, Table::default());
        }
        if let Some(table) = self.tables.get_mut(&table) {
            table.insert(route);
        }
    }

    /// The source address of a route: the requested one if the device has it, or, if none is requested, an address of the device. `None`:
    /// there is no such address.
    fn source_of(&self, new: &NewRoute<'_>) -> Option<IpAddr> {
        let towards = [Some(new.prefix.addr()), new.gateway];
        let mut towards = towards.into_iter().flatten();
        match new.source {
            Some(source) => {
                towards.any(|dst| self.addresses.has_source(new.dev, dst, source)).then_some(source)
            }
            None => towards.find_map(|dst| self.addresses.source_for(new.dev, dst)),
        }
    }

    /// Removes a route. Returns false if it does not exist.
    pub fn remove(&mut self, table: u32, prefix: &Prefix, mark: u32, user: bool) -> bool {
        self.tables.get_mut(&table).is_some_and(|routes| routes.remove(prefix, mark, user))
    }

    /// Removes the kernel's routes, rules and addresses.
    pub fn clear_kernel(&mut self) {
        self.rules.clear_kernel();
        self.addresses = Addresses::default();
        let numbers: Vec<u32> = self.tables.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.clear_kernel_table(number));
    }

    /// Removes the kernel's routes of a table, and the table if no routes are left.
    pub fn clear_kernel_table(&mut self, number: u32) {
        let Some(table) = self.tables.get_mut(&number) else { return };
        table.clear_kernel();
        if table.is_empty() {
            self.tables.remove_mut(&number);
        }
    }

    /// Returns a table. It may be empty if all its routes were removed.
    pub fn table(&self, number: u32) -> Option<&Table> {
        self.tables.get(&number)
    }

    /// The tables with their numbers. A table may be empty if all its routes were removed.
    pub fn tables(&self) -> impl Iterator<Item = (u32, &Table)> {
        self.tables.iter().map(|(number, table)| (*number, table))
    }

    /// Looks up the route to `dst` for packets with this mark. If a `source` is requested, it must be an address of the host; otherwise
    /// there is no result.
    pub fn lookup(&self, mark: u32, dst: IpAddr, source: Option<IpAddr>) -> Option<ResolvedRoute> {
        let source = source.filter(|s| !s.is_unspecified());
        if let Some(source) = source {
            let local = self.table(TABLE_LOCAL)?;
            local.lookup(mark, source).or_else(|| local.lookup(0, source))?;
        }
        let from = source.unwrap_or(unspecified(dst.is_ipv4()));
        let mut tables = self.rules.tables(from).filter_map(|number| self.table(number));
        let route = tables.find_map(|table| table.lookup(mark, dst))?;
        Some(ResolvedRoute {
            dev: Arc::clone(&route.dev),
            gateway: route.gateway,
            source: source.unwrap_or(route.source),
        })
    }
}
