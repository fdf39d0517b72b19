//! The MTU of internal ports: the smallest MTU of the bridge's ports, so that the host does not send packets that do
//! not fit.
//!
//! An internal port whose row requests an MTU keeps the requested MTU. An MTU that the administrator set by other means
//! stays if it is lower than the smallest MTU of the bridge's ports, until that smallest MTU changes.

use openflow_service::{Bridge, BridgePort};
use runtime::Module;
use std::collections::BTreeSet;
use units::OfPort;

static LOG: Module = Module::new("ofproto");

/// The MTU of a bridge without ports.
const DEFAULT_MTU: u32 = 1500;

/// Sets the MTU of a bridge's internal ports. `touched`: ports that changed, by their rows or by the host.
pub(crate) fn update(bridge: &mut Bridge, touched: &BTreeSet<OfPort>) {
    touched.iter().for_each(|port| note(bridge, *port));
    let least = bridge.all_ports.mtus.iter().next().map_or(DEFAULT_MTU, |(_, mtu)| *mtu);
    let changed = bridge.all_ports.mtu.replace(least).is_some_and(|old| old != least);
    let is_meant = |port: &&OfPort| changed || touched.contains(port);
    let followers: Vec<OfPort> = bridge.all_ports.followers.iter().filter(is_meant).copied().collect();
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

/// Records whether a port follows the bridge's MTU; if not, records the port's own MTU, which limits the bridge's MTU.
fn note(bridge: &mut Bridge, ofport: OfPort) {
    let port = bridge.ports.get(&ofport);
    let asks = |p: &BridgePort| {
        bridge.config.interface(&p.name).is_some_and(|(_, interface)| interface.mtu_request.is_some())
    };
    let follows = port.is_some_and(|p| (p.kind == "internal" || ofport == OfPort::LOCAL) && !asks(p));
    let own = port.filter(|_| !follows).and_then(|p| p.facts.as_ref()).map(|f| f.mtu);
    bridge.all_ports.mtus.set(&ofport, own.filter(|mtu| *mtu != 0));
    if follows {
        bridge.all_ports.followers.insert(ofport);
    } else {
        bridge.all_ports.followers.remove(&ofport);
    }
}
