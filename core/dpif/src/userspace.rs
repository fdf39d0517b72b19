//! The `userspace` action: what the control half shall do with a packet that is handed to it.
//!
//! The cookie is typed, because both ends are in one process; the text form is that of `ovs-dpctl`, with `pid=0`.

use bitflags::bitflags;
use units::PortNo;

/// Arguments of `userspace`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Userspace {
    /// Netlink port; always 0 here, kept since the text has it.
    pub pid: u32,
    /// What to do.
    pub cookie: UserspaceCookie,
    /// The handler wants to see the actions of the flow.
    pub include_actions: bool,
    /// For which tunnel port to report the outer header.
    pub tunnel_out_port: Option<PortNo>,
    /// Opaque data of the continuation, if any.
    pub userdata: Vec<u8>,
}

impl Userspace {
    /// The usual form: `pid=0` and a cookie.
    pub fn new(cookie: UserspaceCookie) -> Userspace {
        Userspace { pid: 0, cookie, include_actions: false, tunnel_out_port: None, userdata: Vec::new() }
    }

    /// The packet is to be translated again by the control half, which does what the datapath cannot.
    pub fn slow_path(reason: SlowReason) -> Userspace {
        Userspace::new(UserspaceCookie::Slow { reason })
    }
}

/// Why a packet is handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserspaceCookie {
    /// Translate again and execute what comes out.
    Slow {
        /// Why the datapath cannot.
        reason: SlowReason,
    },
    /// A packet-in for a controller.
    Controller {
        /// Do all but send it (`controller(pause)` without a listener).
        dont_send: bool,
        /// The packet-in carries the state to resume from.
        continuation: bool,
        /// `OFPR_*`
        reason: u8,
        /// The frozen state of this packet.
        recirc_id: u32,
        /// Cookie of the rule that sent it.
        rule_cookie: u64,
        /// Which controllers get it.
        controller_id: u16,
        /// How many bytes they get.
        max_len: u16,
    },
    /// A bridge-wide sFlow sample.
    Sflow {
        /// TCI of the output.
        vlan_tci: u16,
        /// sFlow's output word.
        output: u32,
    },
    /// A sample of the `sample` OpenFlow action.
    FlowSample {
        /// Share of the packets: 65535 is all of them.
        probability: u16,
        /// Which collectors.
        collector_set_id: u32,
        /// IPFIX observation domain.
        obs_domain_id: u32,
        /// IPFIX observation point.
        obs_point_id: u32,
        /// Where the packet goes.
        output_port: PortNo,
        /// 0 none, 1 ingress, 2 egress.
        direction: u8,
    },
    /// A bridge-wide IPFIX sample.
    Ipfix {
        /// Where the packet goes.
        output_port: PortNo,
    },
}

bitflags! {
    /// Why packets of a flow are handed to the control half; bit and name are those of Open vSwitch.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct SlowReason: u32 {
        /// Connectivity fault management.
        const CFM = 1 << 0;
        /// Bidirectional forwarding detection.
        const BFD = 1 << 1;
        /// Link aggregation control.
        const LACP = 1 << 2;
        /// Spanning tree.
        const STP = 1 << 3;
        /// Link layer discovery.
        const LLDP = 1 << 4;
        /// An action that the datapath does not have.
        const ACTION = 1 << 5;
        /// The datapath cannot match that finely.
        const MATCH = 1 << 6;
    }
}

impl SlowReason {
    /// The packet is one of a protocol that the switch itself speaks.
    pub const PROTOCOLS: SlowReason =
        Self::CFM.union(Self::BFD).union(Self::LACP).union(Self::STP).union(Self::LLDP);

    /// Each reason with its name and what `ofproto/trace` says of it.
    pub const ALL: [(SlowReason, &'static str, &'static str); 7] = [
        (SlowReason::CFM, "cfm", "Consists of CFM packets"),
        (SlowReason::BFD, "bfd", "Consists of BFD packets"),
        (SlowReason::LACP, "lacp", "Consists of LACP packets"),
        (SlowReason::STP, "stp", "Consists of STP packets"),
        (SlowReason::LLDP, "lldp", "Consists of LLDP packets"),
        (SlowReason::ACTION, "action", "Uses action(s) not supported by datapath"),
        (SlowReason::MATCH, "match", "Datapath can't match specifically enough"),
    ];
}
