//! In-band control: updates the hidden flows of `openflow_service::in_band` when controllers, managers, addresses or routes change.

use crate::database::OVSDB_PORT;
use crate::switch::Switch;
use config::{BridgeConfig, Desired};
use flow::Mac;
use openflow_service::Bridge;
use router::Router;
use runtime::{Module, RateLimit};
use settings::bridge::{DISABLE_IN_BAND, IN_BAND_QUEUE};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use transport::{OPENFLOW_PORT, Target};
use units::{Millis, OfPort};

static LOG: Module = Module::new("in_band");
static LIMIT: RateLimit = RateLimit::new(60, 60);

/// Interval between look-ups of the next hops.
const LOOKUP_INTERVAL: Millis = Millis(10_000);
/// Interval between look-ups while the address of a next hop is unknown.
const LOOKUP_RETRY_INTERVAL: Millis = Millis(1000);
/// The kernel's table of IPv4 neighbours.
const NEIGHBOURS: &str = "/proc/net/arp";
/// Flag of a complete entry in that table (`ATF_COM`).
const COMPLETE: u32 = 0x2;

impl Switch {
    /// Derives the addresses for in-band control from the rows of bridges, controllers and managers.
    pub(crate) fn configure_in_band(&mut self, desired: &Desired) {
        let addresses = desired.in_band_managers.iter().filter_map(|target| address(target, OVSDB_PORT));
        let managers: BTreeSet<SocketAddrV4> =
            addresses.filter(|manager| !manager.ip().is_loopback()).collect();
        for bridge in self.bridges.values_mut() {
            let remotes = remotes(&bridge.config, &managers);
            let queue =
                IN_BAND_QUEUE.opt_number(&bridge.config.other_config).and_then(|n| u32::try_from(n).ok());
            let in_band = &mut bridge.controllers.in_band;
            if remotes != in_band.wanted.remotes {
                in_band.wanted.remotes = remotes;
                in_band.next_lookup = Millis(0);
            }
            in_band.wanted.queue = queue;
        }
    }
}

/// The addresses of controllers and managers that a bridge must reach through its own ports.
fn remotes(config: &BridgeConfig, managers: &BTreeSet<SocketAddrV4>) -> BTreeSet<SocketAddrV4> {
    if DISABLE_IN_BAND.flag_of(&config.other_config) {
        return BTreeSet::new();
    }
    let controllers = config.controllers.iter().filter(|c| c.in_band);
    let addresses = controllers.filter_map(|c| address(&c.target, OPENFLOW_PORT));
    addresses.chain(managers.iter().copied()).collect()
}

/// The IPv4 address and port of a target; `None` for other targets.
fn address(target: &str, default_port: u16) -> Option<SocketAddrV4> {
    match Target::parse(target, default_port) {
        Ok(Target::Tcp(SocketAddr::V4(address)) | Target::Ssl(SocketAddr::V4(address))) => Some(address),
        _ => None,
    }
}

/// Updates the hidden flows of a bridge. Returns whether flows changed.
pub(crate) fn run(bridge: &mut Bridge, router: &Router, now: Millis) -> bool {
    let in_band = &mut bridge.controllers.in_band;
    if in_band.wanted.remotes.is_empty() && in_band.applied.remotes.is_empty() {
        return false;
    }
    let local = bridge.ports.get(&OfPort::LOCAL).map(|port| port.hw_addr());
    in_band.wanted.local = local.filter(|mac| *mac != Mac::default());
    if now >= in_band.next_lookup {
        let (next_hops, complete) = next_hops(&bridge.name, &in_band.wanted.remotes, router);
        in_band.wanted.next_hops = next_hops;
        in_band.next_lookup = now + if complete { LOOKUP_INTERVAL } else { LOOKUP_RETRY_INTERVAL };
    }
    if in_band.wanted == in_band.applied {
        return false;
    }
    let old = std::mem::replace(&mut in_band.applied, in_band.wanted.clone()).flows();
    let new = in_band.applied.flows();
    for (flow, priority) in old.iter().filter(|flow| !new.contains(flow)) {
        // Cannot fail: the flow exists, because controllers cannot delete hidden flows.
        let _ = bridge.ofproto.handle_own_flow(flow, *priority, false, now);
    }
    for (flow, priority) in new.iter().filter(|flow| !old.contains(flow)) {
        if let Err(e) = bridge.ofproto.handle_own_flow(flow, *priority, true, now) {
            runtime::warn_rl!(LOG, LIMIT, "{}: in-band flow: {e:?}", bridge.name);
        }
    }
    true
}

/// When [`run`] must be called next.
pub(crate) fn deadline(bridge: &Bridge) -> Option<Millis> {
    let in_band = &bridge.controllers.in_band;
    (!in_band.wanted.remotes.is_empty()).then_some(in_band.next_lookup)
}

/// Ethernet addresses of the next hops towards the remotes, and whether the addresses of all next hops are known.
fn next_hops(bridge: &str, remotes: &BTreeSet<SocketAddrV4>, router: &Router) -> (BTreeSet<Mac>, bool) {
    let mut wanted: BTreeSet<(Ipv4Addr, String)> = BTreeSet::new();
    let mut complete = true;
    for ip in remotes.iter().map(|remote| *remote.ip()) {
        let Some(hop) = router.lookup(0, IpAddr::V4(ip), None) else {
            runtime::warn_rl!(
                LOG,
                LIMIT,
                "{bridge}: cannot find route for controller ({ip}): No such device or address"
            );
            complete = false;
            continue;
        };
        let next = match hop.gateway {
            Some(IpAddr::V4(gateway)) => gateway,
            _ => ip,
        };
        wanted.insert((next, hop.dev.to_string()));
    }
    if wanted.is_empty() {
        return (BTreeSet::new(), complete);
    }
    let table = std::fs::read_to_string(NEIGHBOURS).unwrap_or_default();
    let found: Vec<Option<Mac>> = wanted.iter().map(|(ip, device)| neighbour(&table, *ip, device)).collect();
    let all = complete && found.iter().all(Option::is_some);
    (found.into_iter().flatten().collect(), all)
}

/// The Ethernet address of a neighbour in the kernel's table. The fields of a line are IP address, type, flags, Ethernet address, mask and device
/// (proc_net(5)).
fn neighbour(table: &str, ip: Ipv4Addr, device: &str) -> Option<Mac> {
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_whitespace();
        let (address, flags) = (words.next()?, words.nth(1)?);
        let (mac, of) = (words.next()?, words.nth(1)?);
        let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16).ok()?;
        let is_match = of == device && flags & COMPLETE != 0 && address.parse() == Ok(ip);
        is_match.then(|| flow::text::address::parse_mac(mac)).flatten().filter(|mac| *mac != Mac::default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbour_is_found_by_address_and_device_if_its_entry_is_complete() {
        let table = "IP address       HW type     Flags       HW address            Mask     Device\n\
                     10.0.0.1         0x1         0x2         02:00:00:00:00:01     *        br0\n\
                     10.0.0.2         0x1         0x0         00:00:00:00:00:00     *        br0\n\
                     bad line\n\
                     10.0.0.3         0x1         0x6         02:00:00:00:00:03     *        eth0\n";
        let of = |last: u8, device: &str| neighbour(table, Ipv4Addr::new(10, 0, 0, last), device);
        assert_eq!(of(1, "br0"), Some(Mac([2, 0, 0, 0, 0, 1])));
        assert_eq!((of(2, "br0"), of(3, "br0"), of(1, "eth0")), (None, None, None));
        assert_eq!(of(3, "eth0"), Some(Mac([2, 0, 0, 0, 0, 3])));
    }

    #[test]
    fn only_connections_to_ipv4_addresses_need_flows() {
        assert_eq!(address("tcp:10.0.0.1", 6653), Some("10.0.0.1:6653".parse().unwrap()));
        assert_eq!(address("ssl:10.0.0.1:7", 6653), Some("10.0.0.1:7".parse().unwrap()));
        for other in ["tcp:[::1]:6653", "ptcp:6653", "unix:x", "tcp:name", ""] {
            assert_eq!(address(other, 6653), None, "{other}");
        }
    }
}
