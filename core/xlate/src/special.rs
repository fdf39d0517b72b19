//! Packets for the switch itself: messages of a protocol that the switch runs on the ingress port. They do not enter the
//! tables, and they take the slow path because the protocol must receive each of them.

use crate::messages::report;
use crate::outcome::PacketEffect;
use crate::ports::OutputOptions;
use crate::snapshot::PortView;
use crate::spanning_tree::is_stp;
use crate::walk::Walk;
use bridge::bfd::{DEFAULT_SOURCE, Filter, UDP_PORT};
use bridge::cfm;
use dpif::{DpAction, SlowReason};
use flow::Mac;
use flow::flow::frag;
use packet::{dhcp_port, ethertype, ipproto};
use units::OfPort;

impl Walk<'_> {
    /// Consumes the packet, which `port` received, if it is for the switch itself. Returns whether the packet was consumed.
    pub(crate) fn process_special(&mut self, port: &PortView) -> bool {
        let is_bfd = port.bfd.as_ref().is_some_and(|filter| self.is_bfd(filter));
        if is_bfd {
            self.out.slow |= SlowReason::BFD;
            if self.received.returns_side_effects {
                let at = (self.bridge.id, port.ofport);
                self.out.effects.push(PacketEffect::Bfd { at, ttl: self.out.flow.nw_ttl });
            }
        }
        is_bfd
            || self.consume_cfm(port)
            || self.consume_lacp(port)
            || self.consume_bpdu(port)
            || self.consume_lldp(port)
    }

    /// Whether the packet is a message that checks the link of this port (BFD, CFM).
    pub(crate) fn is_link_check(&mut self, port: &PortView) -> bool {
        port.bfd.as_ref().is_some_and(|filter| self.is_bfd(filter)) || self.is_cfm_message(port)
    }

    fn consume_cfm(&mut self, port: &PortView) -> bool {
        let is_cfm = self.is_cfm_message(port);
        if is_cfm {
            self.out.slow |= SlowReason::CFM;
            if self.received.returns_side_effects {
                self.out.effects.push(PacketEffect::Cfm { at: (self.bridge.id, port.ofport) });
            }
        }
        is_cfm
    }

    /// Whether the packet is a CFM message of the port's session.
    fn is_cfm_message(&mut self, port: &PortView) -> bool {
        let Some(filter) = port.cfm.as_ref().filter(|_| self.out.flow.dl_type == cfm::ETHERTYPE) else {
            return false;
        };
        self.out.mask.dl_dst = Mac::BROADCAST;
        self.out.flow.dl_dst == filter.eth_dst && self.has_key_0(filter.check_tnl_key)
    }

    /// With in-band control, outputs DHCP answers to the bridge's own device as well, whatever the flows do: the device may get
    /// its address by DHCP, and without an address the controller cannot be reached.
    pub(crate) fn send_dhcp_to_local(&mut self) {
        let is_answer = self.bridge.in_band
            && self.out.flow.dl_type == ethertype::IPV4
            && self.out.flow.nw_proto == ipproto::UDP
            && self.out.flow.tp_src == dhcp_port::SERVER
            && self.out.flow.tp_dst == dhcp_port::CLIENT;
        let local = self.bridge.datapath_port(OfPort::LOCAL).map(DpAction::Output);
        if !is_answer || local.is_none_or(|output| self.out.actions.contains(&output)) {
            return;
        }
        (self.out.mask.dl_type, self.out.mask.nw_proto) = (u16::MAX, u8::MAX);
        (self.out.mask.tp_src, self.out.mask.tp_dst) = (u16::MAX, u16::MAX);
        report!(self, Detail, "outputting DHCP packet to local port for in-band control");
        let options = OutputOptions { check_stp: true, last: false, truncated: false };
        self.output_port(OfPort::LOCAL, options);
    }

    /// Consumes the packet if it is a BPDU and the bridge has a spanning tree, even if the port takes no part
    /// in the tree. Returns whether the packet was consumed.
    fn consume_bpdu(&mut self, port: &PortView) -> bool {
        if self.bridge.tree.is_none() || self.out.flow.dl_type != ethertype::NONE {
            return false;
        }
        self.out.mask.dl_dst = Mac::BROADCAST;
        if !is_stp(&self.out.flow) {
            return false;
        }
        self.out.slow |= SlowReason::STP;
        if self.received.returns_side_effects && port.tree.is_some() {
            self.out.effects.push(PacketEffect::Bpdu { at: (self.bridge.id, port.ofport) });
        }
        true
    }

    fn consume_lacp(&mut self, port: &PortView) -> bool {
        let is_lacp = port.lacp && self.out.flow.dl_type == bond::lacp::ETHERTYPE;
        if is_lacp {
            self.out.slow |= SlowReason::LACP;
            if self.received.returns_side_effects {
                self.out.effects.push(PacketEffect::Lacp { at: (self.bridge.id, port.ofport) });
            }
        }
        is_lacp
    }

    fn consume_lldp(&mut self, port: &PortView) -> bool {
        let is_lldp = port.lldp && self.out.flow.dl_type == ethertype::LLDP;
        if is_lldp {
            self.out.slow |= SlowReason::LLDP;
            if self.received.returns_side_effects {
                self.out.effects.push(PacketEffect::Lldp { at: (self.bridge.id, port.ofport) });
            }
        }
        is_lldp
    }

    /// Whether the packet is a message of LLDP that the switch itself sends from this port.
    pub(crate) fn is_own_lldp(&self, port: &PortView) -> bool {
        port.lldp && self.out.flow.dl_type == ethertype::LLDP && self.is_own_frame()
    }

    fn is_bfd(&mut self, filter: &Filter) -> bool {
        if let Some(mac) = filter.eth_dst {
            self.out.mask.dl_dst = Mac::BROADCAST;
            if self.out.flow.dl_dst != mac {
                return false;
            }
        }
        if self.out.flow.dl_type != ethertype::IPV4 {
            return false;
        }
        self.out.mask.nw_proto = u8::MAX;
        if self.out.flow.nw_proto != ipproto::UDP || self.out.flow.nw_frag & frag::LATER != 0 {
            return false;
        }
        self.out.mask.tp_dst = u16::MAX;
        self.out.flow.tp_dst == UDP_PORT
            && self.has_bfd_destination(filter)
            && self.has_key_0(filter.check_tnl_key)
    }

    /// Whether the IPv4 destination is that of the port's BFD session; a session with the default address accepts any destination.
    fn has_bfd_destination(&mut self, filter: &Filter) -> bool {
        if self.out.flow.nw_dst == filter.ip.to_bits() {
            self.out.mask.nw_dst = u32::MAX;
            return true;
        }
        let any = filter.ip == DEFAULT_SOURCE;
        self.out.unshown_nw_dst |= !any;
        any
    }

    /// Whether the tunnel key is 0; always true if `check` is not set.
    fn has_key_0(&mut self, check: bool) -> bool {
        if check {
            self.out.mask.tunnel.tun_id = u64::MAX;
        }
        !check || self.out.flow.tunnel.tun_id == 0
    }
}
