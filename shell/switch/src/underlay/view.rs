//! Routes and tunnel ports in the form that translations read.

use super::Underlay;
use bridge::TunnelConfig;
use openflow_service::Backing;
use openflow_service::Bridge;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tunnel::Kind;
use units::PortNo;
use xlate::{HostPort, Listener, Neighbours, TunnelEndpoints};

/// The routes, and the ports and tunnels of all bridges of one datapath type.
pub(crate) fn view(underlay: &Underlay, kind: &str, bridges: &BTreeMap<String, Bridge>) -> xlate::Underlay {
    let mut ports = HashMap::new();
    let mut tunnels: BTreeMap<PortNo, &TunnelConfig> = BTreeMap::new();
    for bridge in bridges.values().filter(|b| b.config.datapath_type == kind) {
        for port in bridge.ports.values() {
            match &port.backing {
                Backing::Device { .. } => {
                    let host = HostPort { at: (bridge.id, port.ofport), mac: port.mac() };
                    ports.insert(port.name.clone(), host);
                }
                Backing::Tunnel { config, number } => drop(tunnels.insert(*number, config)),
                Backing::Patch { .. } => {}
            }
        }
    }
    let listeners = tunnels.into_iter().flat_map(|(number, config)| listeners(number, config)).collect();
    let endpoints = TunnelEndpoints::new(listeners, &ports, &underlay.router);
    let neighbours = Arc::clone(&underlay.neighbours) as Arc<dyn Neighbours>;
    xlate::Underlay { router: underlay.router.clone(), neighbours, ports, endpoints }
}

/// The listeners of a tunnel port of the datapath: one for each IP protocol over which its packets arrive.
fn listeners(number: PortNo, config: &TunnelConfig) -> Vec<Listener> {
    let protocols = Kind::of_name(&config.kind, config.gbp).map_or(&[][..], Kind::protocols);
    let listener = |proto: &u8| Listener {
        number,
        name: config.datapath_name(),
        proto: *proto,
        tp_dst: config.dst_port,
    };
    protocols.iter().map(listener).collect()
}
