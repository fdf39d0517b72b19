//! Internal ports follow the smallest MTU of their bridge, so that a host does not send through it what would not fit.
//!
//! An internal port whose row asks for an MTU keeps that. What the administrator sets by other means stays until the
//! smallest MTU changes or is less.

use crate::bridge::Bridge;
use runtime::Module;
use std::collections::BTreeSet;
use units::OfPort;

static LOG: Module = Module::new("ofproto");

/// The MTU of an Ethernet without ports.
const ETHERNET: u32 = 1500;

/// Brings the internal ports of a bridge to its MTU, after any change of its ports.
pub(crate) fn follow(bridge: &mut Bridge) {
    let asked: BTreeSet<&str> = bridge
        .config
        .ports
        .values()
        .flat_map(|p| &p.interfaces)
        .filter(|i| i.mtu_request.is_some())
        .map(|i| i.name.as_str())
        .collect();
    let follows = |p: &crate::port::BridgePort| {
        (p.kind == "internal" || p.ofport == OfPort::LOCAL) && !asked.contains(p.name.as_str())
    };
    let own = bridge.ports.values().filter(|p| !follows(p));
    let least = own.filter_map(|p| p.facts.as_ref()).map(|f| f.mtu).filter(|mtu| *mtu != 0).min();
    let least = least.unwrap_or(ETHERNET);
    let changed = bridge.mtu.replace(least).is_some_and(|old| old != least);
    let followers: Vec<OfPort> = bridge.ports.values().filter(|p| follows(p)).map(|p| p.ofport).collect();
    for port in followers {
        let Some(port) = bridge.ports.get_mut(&port) else { continue };
        let now = port.facts.as_ref().map_or(0, |f| f.mtu);
        if now == least || now < least && !changed {
            continue;
        }
        let Some(netdev) = port.netdev() else { continue };
        if let Err(e) = netdev.set_mtu(least) {
            runtime::warn!(LOG, "{}: {e}", bridge.name);
            continue;
        }
        if let Ok(facts) = netdev.facts() {
            port.facts = Some(facts);
        }
    }
}
