//! The `userspace` action: what the control half must do with a packet that is passed to it.
//!
//! The cookie is typed, because both sides are in one process; the text form is that of `ovs-dpctl`, with `pid=0`.

use crate::egress::Egress;
use bitflags::bitflags;
use std::sync::Arc;
use units::PortNo;

/// Arguments of `userspace`.
#[derive(Clone, Debug, PartialEq)]
pub struct Userspace {
    /// Netlink port; always 0, because the text contains it.
    pub pid: u32,
    /// What to do.
    pub cookie: UserspaceCookie,
    /// The handler needs the actions of the flow.
    pub include_actions: bool,
    /// The tunnel port whose outer header must be reported.
    pub tunnel_out_port: Option<PortNo>,
    /// Opaque data of the continuation, if any.
    pub userdata: Vec<u8>,
    /// For samples; `None` if the action was parsed from text, which does not contain it.
    pub sampled: Option<Arc<Sampled>>,
}

/// What a sample reports besides the packet and the cookie.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampled {
    /// The bridge that samples.
    pub bridge: u32,
    /// What the actions of the megaflow do with the packet.
    pub egress: Egress,
}

impl Userspace {
    /// The usual form: `pid=0` and a cookie.
    pub fn new(cookie: UserspaceCookie) -> Userspace {
        Userspace {
            pid: 0,
            cookie,
            include_actions: false,
            tunnel_out_port: None,
            userdata: Vec::new(),
            sampled: None,
        }
    }

    /// Samples packets for a bridge. What the actions do with them is added once they are known.
    pub fn sample(cookie: UserspaceCookie, bridge: u32) -> Userspace {
        let sampled = Some(Arc::new(Sampled { bridge, egress: Egress::default() }));
        Userspace { sampled, ..Userspace::new(cookie) }
    }

    /// Lets the control half translate the packet and do what the datapath cannot.
    pub fn slow_path(reason: SlowReason) -> Userspace {
        Userspace::new(UserspaceCookie::Slow { reason })
    }

    /// Returns whether the packet is translated and executed. A packet of a [protocol](SlowReason::PROTOCOLS) of the switch has been
    /// translated where this action is executed.
    pub fn is_translated(&self) -> bool {
        matches!(self.cookie, UserspaceCookie::Slow { reason } if !reason.intersects(SlowReason::PROTOCOLS))
    }
}

/// Why a packet is passed to the control half.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserspaceCookie {
    /// Translate it and execute the result.
    Slow {
        /// Why the datapath cannot handle it.
        reason: SlowReason,
    },
    /// A packet-in for a controller.
    Controller {
        /// Do everything except sending it (`controller(pause)` without a listener).
        dont_send: bool,
        /// The packet-in contains the state from which to resume.
        continuation: bool,
        /// `OFPR_*`
        reason: u8,
        /// Id of the frozen state of this packet.
        recirc_id: u32,
        /// Cookie of the rule with the action.
        rule_cookie: u64,
        /// The controllers that get it.
        controller_id: u16,
        /// Maximum number of bytes sent to them.
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
        /// Set of collectors.
        collector_set_id: u32,
        /// IPFIX observation domain.
        obs_domain_id: u32,
        /// IPFIX observation point.
        obs_point_id: u32,
        /// Output port of the packet.
        output_port: PortNo,
        /// 0 none, 1 ingress, 2 egress.
        direction: u8,
    },
    /// A bridge-wide IPFIX sample.
    Ipfix {
        /// Output port of the packet.
        output_port: PortNo,
    },
}

bitflags! {
    /// Why packets of a flow are passed to the control half; bits and names are those of Open vSwitch.
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
        /// The datapath cannot match the required bits.
        const MATCH = 1 << 6;
    }
}

impl SlowReason {
    /// The packet belongs to a protocol that the switch itself implements.
    pub const PROTOCOLS: SlowReason =
        Self::CFM.union(Self::BFD).union(Self::LACP).union(Self::STP).union(Self::LLDP);

    /// Each reason with its name and its text in `ofproto/trace`.
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
