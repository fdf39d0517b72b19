//! Tunnel ports, found by the outer headers of received packets.
//!
//! Of 10,000 tunnel ports only few match a packet. Ports are indexed by key and remote end, each either fixed or set
//! by flows, so that four look-ups find all candidates.

use crate::BridgeId;
use bridge::TunnelConfig;
use bridge::tunnel::{self, Address, Choice};
use flow::Flow;
use std::collections::HashMap;
use std::sync::Arc;
use units::{OfPort, PortNo};

/// A tunnel port, with the data for look-ups of received packets.
#[derive(Clone, Debug)]
pub struct TunnelPort {
    /// The datapath's port.
    pub number: PortNo,
    /// The bridge and its OpenFlow port.
    pub at: (BridgeId, OfPort),
    /// The packets that it receives.
    pub config: Arc<TunnelConfig>,
}

/// Datapath port, key and remote end; `None`: set by flows.
type Place = (PortNo, Option<u64>, Option<Address>);

/// All tunnel ports.
#[derive(Clone, Debug, Default)]
pub struct TunnelPorts(Arc<HashMap<Place, Vec<TunnelPort>>>);

/// The fixed value of a setting; `None` if flows set it.
fn fixed<T: Copy + Default>(choice: Choice<T>) -> Option<T> {
    (!matches!(choice, Choice::Flow)).then(|| choice.value())
}

impl TunnelPorts {
    /// Adds a port.
    pub fn push(&mut self, port: TunnelPort) {
        let place = (port.number, fixed(port.config.in_key), fixed(port.config.remote));
        Arc::make_mut(&mut self.0).entry(place).or_default().push(port);
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The port of a packet that was received from a tunnel.
    pub(crate) fn find(&self, flow: &Flow) -> Option<(BridgeId, OfPort)> {
        let (number, outer) = (PortNo(flow.in_port), &flow.tunnel);
        let (key, remote) = (Some(outer.tun_id), Some(tunnel::source(outer)));
        let places = [(key, remote), (key, None), (None, remote), (None, None)];
        let there = places.into_iter().filter_map(|(key, remote)| self.0.get(&(number, key, remote)));
        let fit = |t: &TunnelPort| Some((t.config.fits(outer, flow.packet_type)?, t.at));
        there.flatten().filter_map(fit).min_by_key(|(rank, _)| *rank).map(|(_, at)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::Tunnel;
    use std::collections::BTreeMap;

    #[test]
    fn the_port_that_fits_best_is_found_among_many() {
        let mut ports = TunnelPorts::default();
        let mut add = |ofport, options: &[(&str, &str)]| {
            let options: BTreeMap<_, _> =
                options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let (config, _) = TunnelConfig::parse("geneve", "p", &options).unwrap();
            let at = (BridgeId(1), OfPort(ofport));
            ports.push(TunnelPort { number: PortNo(6081), at, config: Arc::new(config) });
        };
        for i in 0..1000u16 {
            add(i + 10, &[("remote_ip", &format!("10.0.{}.{}", i >> 8, i & 0xff)), ("key", "5")]);
        }
        add(1, &[("remote_ip", "flow"), ("key", "flow")]);
        add(2, &[("remote_ip", "10.0.0.7"), ("key", "flow")]);
        let find = |ip_src, tun_id| {
            let tunnel = Tunnel { ip_src, ip_dst: 1, tun_id, ..Tunnel::default() };
            ports.find(&Flow { in_port: 6081, tunnel, ..Flow::ZERO }).map(|(_, port)| port.0)
        };
        assert_eq!(find(0x0a00_0007, 5), Some(17));
        assert_eq!(find(0x0a00_0007, 6), Some(2));
        assert_eq!(find(0x0a00_0008, 6), Some(1));
        let other = Flow { in_port: 4789, ..Flow::ZERO };
        assert_eq!(ports.find(&other), None);
    }
}
