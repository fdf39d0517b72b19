//! The egress devices of tunnels, for column `status` and the log.

use crate::switch::Switch;
use bridge::TunnelConfig;
use bridge::tunnel::{Address, Choice, as_ipv4};
use netdev::device::TxOffloads;
use openflow_service::BridgePort;
use ovsdb::Uuid;
use router::ResolvedRoute;
use runtime::{Module, RateLimit};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

static LOG: Module = Module::new("tunnel");
static LIMIT: RateLimit = RateLimit::new(1, 5);

/// The key-value pairs of a `status` column.
type Status = BTreeMap<String, String>;

fn address(choice: Choice<Address>) -> Option<IpAddr> {
    let Choice::Fixed(a) = choice else { return None };
    Some(as_ipv4(a).map_or_else(|| Ipv6Addr::from(a).into(), |v4| Ipv4Addr::from_bits(v4).into()))
}

/// The reason why a tunnel cannot send through a device.
fn not_a_port(device: &str) -> String {
    format!("the route to the remote end leads to {device}, which is not a port of a bridge")
}

impl Switch {
    /// The `status` columns of tunnels, by row. If a tunnel does not work, the reason is logged when it appears or
    /// changes.
    pub(crate) fn tunnel_status(&mut self) -> BTreeMap<Uuid, Status> {
        let mut out = BTreeMap::new();
        let mut errors = BTreeMap::new();
        let tunnels = self.bridges.values().flat_map(|b| b.ports.tunnels());
        for (port, config) in tunnels.filter_map(|p| Some((p, p.tunnel()?))) {
            let hop = self.route_of(config);
            let (mut status, error) = hop.map_or_else(Default::default, |hop| self.status_of(&hop));
            if let Some(error) = error {
                status.insert("tunnel_egress_error".to_owned(), error.clone());
                if self.underlay.logged_errors.get(&port.uuid) != Some(&error) {
                    let level = self.options.complaint_level();
                    runtime::log_rl!(LOG, LIMIT, level, "{}: {error}", port.name);
                }
                errors.insert(port.uuid, error);
            }
            // Packets that leave through a tunnel are complete: no checksum or segmentation is left to a device.
            status.extend(TxOffloads::default().status());
            out.insert(port.uuid, status);
        }
        self.underlay.logged_errors = errors;
        out
    }

    /// The route to the remote endpoint of a tunnel.
    fn route_of(&self, config: &TunnelConfig) -> Option<ResolvedRoute> {
        let mark = config.egress_mark.unwrap_or(0);
        self.underlay.router.lookup(mark, address(config.remote)?, address(config.local))
    }

    /// The `status` column of a tunnel with this route, and the reason why the tunnel does not work.
    fn status_of(&self, hop: &ResolvedRoute) -> (Status, Option<String>) {
        let named = self.bridges.values().filter_map(|b| b.ports.named(&hop.dev));
        let port: Option<&BridgePort> = named.into_iter().find(|p| p.facts.is_some());
        let up = port.is_some_and(BridgePort::is_up);
        let status = BTreeMap::from([
            ("tunnel_egress_iface".to_owned(), hop.dev.to_string()),
            ("tunnel_egress_iface_carrier".to_owned(), if up { "up" } else { "down" }.to_owned()),
        ]);
        (status, port.is_none().then(|| not_a_port(&hop.dev)))
    }
}
