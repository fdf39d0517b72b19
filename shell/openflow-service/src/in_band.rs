//! In-band control: hidden flows through which the switch reaches its controllers and database managers over the bridge itself, whatever
//! flows a controller adds, and also before a controller has added any.
//!
//! Controllers and managers are the *remotes*. The flows forward with NORMAL: DHCP and ARP of the bridge's own device, ARP of the remotes and of
//! the next hops towards them, and TCP from and to the remotes' ports. Another rule (in `xlate`) delivers DHCP answers to the bridge's own
//! device. Only IPv4 is supported, as in Open vSwitch.

use flow::{Flow, Mac, Match};
use openflow::FlowMod;
use openflow::action::Action;
use packet::{dhcp_port, ethertype, ipproto};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};
use units::{Millis, OfPort};

/// Lowest priority of the flows, above all priorities of OpenFlow. Each kind of flow has its own priority, this one plus the number of
/// the kind, which distinguishes the kinds in `bridge/dump-flows`.
const PRIORITY: u32 = 180_000;

/// ARP operation "request" (RFC 826).
const REQUEST: u8 = 1;
/// ARP operation "reply".
const REPLY: u8 = 2;

/// The addresses and settings from which the flows are generated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InBandInput {
    /// MAC address of the bridge's own device, if known.
    pub local: Option<Mac>,
    /// Addresses of controllers and managers.
    pub remotes: BTreeSet<SocketAddrV4>,
    /// MAC addresses of the next hops towards `remotes`, as far as known.
    pub next_hops: BTreeSet<Mac>,
    /// The queue that the flows use.
    pub queue: Option<u32>,
}

/// In-band control of a bridge.
#[derive(Clone, Debug, Default)]
pub struct InBand {
    /// Input of the flows that should be installed.
    pub wanted: InBandInput,
    /// Input of the flows that are installed.
    pub applied: InBandInput,
    /// When the next hops have to be looked up again.
    pub next_lookup: Millis,
}

impl InBandInput {
    /// The flows, with their priorities. Numbers of kinds: 0 DHCP, 1 and 2 ARP of the own device, 3 and 4 of next hops, 5 and 6 of remotes,
    /// 7 and 8 TCP to and from remotes.
    pub fn flows(&self) -> Vec<(FlowMod, u32)> {
        let mut flows = Vec::new();
        if self.remotes.is_empty() {
            return flows;
        }
        let ips: BTreeSet<Ipv4Addr> = self.remotes.iter().map(|remote| *remote.ip()).collect();
        let mut add = |kind: u32, matching: Match| flows.push((self.flow(matching), PRIORITY + kind));
        if let Some(local) = self.local {
            add(0, dhcp_of(local));
            add(
                1,
                arp(
                    REPLY,
                    Flow { dl_dst: local, ..Flow::ZERO },
                    Flow { dl_dst: Mac::BROADCAST, ..Flow::ZERO },
                ),
            );
            add(
                2,
                arp(
                    REQUEST,
                    Flow { dl_src: local, ..Flow::ZERO },
                    Flow { dl_src: Mac::BROADCAST, ..Flow::ZERO },
                ),
            );
        }
        for mac in &self.next_hops {
            add(
                3,
                arp(
                    REPLY,
                    Flow { dl_dst: *mac, ..Flow::ZERO },
                    Flow { dl_dst: Mac::BROADCAST, ..Flow::ZERO },
                ),
            );
            add(
                4,
                arp(
                    REQUEST,
                    Flow { dl_src: *mac, ..Flow::ZERO },
                    Flow { dl_src: Mac::BROADCAST, ..Flow::ZERO },
                ),
            );
        }
        for ip in ips.iter().map(|ip| ip.to_bits()) {
            add(5, arp(REPLY, Flow { nw_dst: ip, ..Flow::ZERO }, Flow { nw_dst: u32::MAX, ..Flow::ZERO }));
            add(6, arp(REQUEST, Flow { nw_src: ip, ..Flow::ZERO }, Flow { nw_src: u32::MAX, ..Flow::ZERO }));
        }
        for remote in &self.remotes {
            let (ip, port) = (remote.ip().to_bits(), remote.port());
            let to = Flow { nw_dst: ip, tp_dst: port, ..Flow::ZERO };
            add(7, tcp(to, Flow { nw_dst: u32::MAX, tp_dst: u16::MAX, ..Flow::ZERO }));
            let from = Flow { nw_src: ip, tp_src: port, ..Flow::ZERO };
            add(8, tcp(from, Flow { nw_src: u32::MAX, tp_src: u16::MAX, ..Flow::ZERO }));
        }
        flows
    }

    fn flow(&self, matching: Match) -> FlowMod {
        let queue = self.queue.map(Action::SetQueue);
        let actions = queue.into_iter().chain([Action::output(OfPort::NORMAL)]).collect();
        FlowMod { table: 0, matching, actions, ..FlowMod::default() }
    }
}

/// DHCP requests of the bridge's own device.
fn dhcp_of(local: Mac) -> Match {
    let flow = Flow {
        in_port: u32::from(OfPort::LOCAL.0),
        dl_type: ethertype::IPV4,
        dl_src: local,
        nw_proto: ipproto::UDP,
        tp_src: dhcp_port::CLIENT,
        tp_dst: dhcp_port::SERVER,
        ..Flow::ZERO
    };
    let mask = Flow {
        in_port: u32::MAX,
        dl_type: u16::MAX,
        dl_src: Mac::BROADCAST,
        nw_proto: u8::MAX,
        tp_src: u16::MAX,
        tp_dst: u16::MAX,
        ..Flow::ZERO
    };
    Match::new(&flow, &mask)
}

/// ARP packets with this operation, and with the fields of `flow` under `mask`.
fn arp(operation: u8, flow: Flow, mask: Flow) -> Match {
    of_type(ethertype::ARP, operation, flow, mask)
}

fn tcp(flow: Flow, mask: Flow) -> Match {
    of_type(ethertype::IPV4, ipproto::TCP, flow, mask)
}

/// Packets of this type, and with the fields of `flow` under `mask`. For ARP, `nw_proto` is the operation, as in OpenFlow.
fn of_type(dl_type: u16, nw_proto: u8, flow: Flow, mask: Flow) -> Match {
    let mask = Flow { dl_type: u16::MAX, nw_proto: u8::MAX, ..mask };
    Match::new(&Flow { dl_type, nw_proto, ..flow }, &mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: Mac = Mac([2, 0, 0, 0, 0, 1]);

    fn input(local: Option<Mac>, remotes: &[&str]) -> InBandInput {
        InBandInput {
            local,
            remotes: remotes.iter().map(|r| r.parse().unwrap()).collect(),
            ..InBandInput::default()
        }
    }

    #[test]
    fn without_remotes_there_is_no_flow() {
        assert_eq!(input(Some(LOCAL), &[]).flows(), []);
    }

    #[test]
    fn two_ports_of_one_controller_share_the_flows_of_its_address() {
        let flows = input(None, &["10.0.0.1:6653", "10.0.0.1:6654"]).flows();
        let kinds: Vec<u32> = flows.iter().map(|(_, priority)| priority - PRIORITY).collect();
        assert_eq!(kinds, [5, 6, 7, 8, 7, 8]);
    }

    #[test]
    fn the_flows_match_what_a_connection_needs_and_nothing_else() {
        let mut input = input(Some(LOCAL), &["10.0.0.1:6653"]);
        input.next_hops.insert(Mac([2, 0, 0, 0, 0, 9]));
        let flows = input.flows();
        let passes = |flow: Flow| flows.iter().any(|(f, _)| f.matching.matches(&flow));
        let to = Flow { dl_type: 0x800, nw_proto: 6, nw_dst: 0x0a00_0001, tp_dst: 6653, ..Flow::ZERO };
        assert!(passes(to) && !passes(Flow { tp_dst: 80, ..to }) && !passes(Flow { nw_dst: 1, ..to }));
        let asks = Flow { dl_type: 0x806, nw_proto: 1, dl_src: LOCAL, ..Flow::ZERO };
        assert!(passes(asks) && passes(Flow { dl_src: Mac([2, 0, 0, 0, 0, 9]), ..asks }));
        assert!(!passes(Flow { dl_src: Mac([2, 0, 0, 0, 0, 8]), ..asks }));
        let dhcp = Flow {
            in_port: 0xfffe,
            dl_type: 0x800,
            dl_src: LOCAL,
            nw_proto: 17,
            tp_src: 68,
            tp_dst: 67,
            ..Flow::ZERO
        };
        assert!(passes(dhcp) && !passes(Flow { in_port: 1, ..dhcp }));
    }
}
