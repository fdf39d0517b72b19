//! Follows the kernel's routes, rules and addresses.
//!
//! A dump (the kernel's list of all rules, addresses and routes) fills a second router, which replaces the current one when
//! the dump is complete. Later changes are applied to the current router. In each turn of the main loop a bounded number of
//! datagrams is read. Routes of tables that no rule refers to are left out.

use netdev::routes::{KernelAddress, KernelRoute, KernelRule, RouteEvent, RouteMonitor};
use router::{NewRoute, Prefix, Router, Rule};
use runtime::poll_loop::Interest;
use runtime::{Module, RateLimit, WaitSet};
use std::collections::HashMap;
use units::Millis;

static ROUTES: Module = Module::new("netdev_linux");
static FAILURES: RateLimit = RateLimit::new(5, 5);

/// Netlink datagrams that are read in one turn of the main loop: they hold about 16,000 routes, which take about
/// 10 ms.
const DATAGRAMS: usize = 64;

/// Reads the kernel's tables and applies their changes to a router.
pub(crate) struct KernelTables {
    monitor: RouteMonitor,
    /// By interface index: the name of a device, and whether it is administratively up.
    devices: HashMap<u32, (String, bool)>,
    /// The router that a dump is filling, and whether the dump contained any rules.
    next: Option<(Router, bool)>,
    /// A route was left out because a better one exists. When the better route is removed, a new dump is
    /// needed: only a dump has the left-out route.
    left_out: bool,
    /// A route was left out because its device had no source address for it: the kernel reports IPv6 routes before the
    /// addresses. A new address requires a new dump.
    without_source_address: bool,
}

impl KernelTables {
    /// Begins to follow the kernel's tables. `None`: the kernel does not report routes.
    pub(crate) fn open() -> Option<KernelTables> {
        let monitor = RouteMonitor::open().ok()?;
        Some(KernelTables {
            monitor,
            devices: HashMap::new(),
            next: None,
            left_out: false,
            without_source_address: false,
        })
    }

    pub(crate) fn wait<'a>(&'a self, set: &mut WaitSet<'a>) {
        set.fd(&self.monitor, Interest::Read);
        self.monitor.next_dump().into_iter().for_each(|at| set.deadline(at));
    }

    /// Records the name and state of a device, or its removal (`None`). When a device goes down or is renamed, a new
    /// dump is requested, because the kernel removes routes of the device without notification.
    pub(crate) fn device_changed(&mut self, ifindex: u32, device: Option<(&str, bool)>) {
        let new = device.map(|(name, up)| (name.to_owned(), up));
        let old = match &new {
            Some(new) => self.devices.insert(ifindex, new.clone()),
            None => self.devices.remove(&ifindex),
        };
        let (went_down, renamed) = match (&old, &new) {
            (Some(old), Some(new)) => (old.1 && !new.1, old.0 != new.0),
            (old, None) => (old.is_some(), false),
            (None, Some(_)) => (false, false),
        };
        if went_down || renamed {
            self.monitor.refresh();
        }
    }

    fn name(&mut self, ifindex: u32) -> Option<String> {
        if let Some((name, _)) = self.devices.get(&ifindex) {
            return Some(name.clone());
        }
        let link = netdev::rtnl::link_by_index(ifindex).ok()?;
        self.devices.insert(ifindex, (link.name.clone(), link.up));
        Some(link.name)
    }

    /// Applies the kernel's notifications. Returns whether anything changed.
    pub(super) fn run(&mut self, router: &mut Router, now: Millis) -> bool {
        let mut events = Vec::new();
        self.monitor.take(DATAGRAMS, now, &mut events);
        let mut changed = false;
        for event in events {
            changed |= self.apply_event(router, event);
        }
        changed
    }

    /// Applies a notification. Returns whether the current router changed.
    fn apply_event(&mut self, router: &mut Router, event: RouteEvent) -> bool {
        match event {
            RouteEvent::Reset => {
                let mut next = router.clone();
                next.clear_kernel();
                (self.left_out, self.without_source_address) = (false, false);
                self.next = Some((next, false));
                false
            }
            RouteEvent::Complete => {
                let Some((mut next, has_rules)) = self.next.take() else { return false };
                if !has_rules {
                    next.rules.reset();
                }
                *router = next;
                true
            }
            RouteEvent::Failed => {
                runtime::warn_rl!(ROUTES, FAILURES, "the kernel's routes could not be read completely");
                self.next = None;
                false
            }
            RouteEvent::Address(address, added) => self.address(router, address, added),
            RouteEvent::Rule(rule, added) => self.rule(router, rule, added),
            RouteEvent::Route(route, added) => self.route(router, route, added),
        }
    }

    fn address(&mut self, router: &mut Router, address: KernelAddress, added: bool) -> bool {
        let Some(dev) = self.name(address.ifindex) else { return false };
        let addresses = match &mut self.next {
            Some((next, _)) => &mut next.addresses,
            None => &mut router.addresses,
        };
        let mut list = addresses.of(&dev).to_vec();
        let address = Prefix::of_interface(address.addr, address.len);
        list.retain(|a| *a != address);
        if added {
            list.push(address);
            if self.without_source_address {
                self.monitor.refresh();
            }
        }
        addresses.set(&dev, list) && self.next.is_none()
    }

    fn rule(&mut self, router: &mut Router, rule: KernelRule, added: bool) -> bool {
        let all = Rule::for_all(rule.ipv4, rule.priority, rule.table);
        let from = rule.from.map_or(all.from, |(addr, len)| Prefix::new(addr, len));
        let rule = Rule { invert: rule.invert, from, ..all };
        if let Some((next, has_rules)) = &mut self.next {
            *has_rules = true;
            next.rules.add(rule);
            return false;
        }
        if added && !router.rules.names_table(rule.table) {
            // The routes of the rule's table were left out so far, so they have to be read.
            self.monitor.refresh();
        }
        if added {
            router.rules.add(rule);
        } else {
            router.rules.remove_kernel(&rule);
            if !router.rules.names_table(rule.table) {
                router.clear_kernel_table(rule.table);
            }
        }
        true
    }

    fn route(&mut self, router: &mut Router, route: KernelRoute, added: bool) -> bool {
        let Some(dev) = self.name(route.ifindex) else { return false };
        let is_dump = self.next.is_some();
        let router = self.next.as_mut().map_or(router, |(next, _)| next);
        if !router.rules.names_table(route.table) {
            return false;
        }
        let new = NewRoute {
            prefix: Prefix::new(route.dst, route.len),
            mark: 0,
            dev: &dev,
            gateway: route.gateway,
            source: route.source,
            user: false,
            metric: route.metric,
        };
        if !added {
            let removed = router.remove_kernel_route(route.table, &new);
            if removed && self.left_out {
                self.monitor.refresh();
            }
            return removed;
        }
        let is_best = router.add_kernel_route(route.table, &new);
        self.left_out |= is_best == Ok(false);
        self.without_source_address |= is_best.is_err();
        is_best.is_ok() && !is_dump
    }
}
