//! The `userspace` action: passes a packet to the control half, with a request that says what to do with the packet.
//!
//! The cookie is a Rust type, because both sides are in one process. The text form is that of `ovs-dpctl`, with `pid=0`.

use crate::sampled_egress::Egress;
use bitflags::bitflags;
use std::sync::Arc;
use units::PortNo;

/// Arguments of `userspace`.
#[derive(Clone, Debug, PartialEq)]
pub struct Userspace {
    /// Netlink port. It is not used (0, unless parsed from text), but the text form contains it.
    pub pid: u32,
    /// The request.
    pub cookie: UserspaceCookie,
    /// The text form contains `actions`: the upcall needs the actions of the flow (sFlow).
    pub include_actions: bool,
    /// The tunnel port whose outer header must be reported.
    pub tunnel_out_port: Option<PortNo>,
    /// Opaque data of the continuation, if any.
    pub userdata: Vec<u8>,
    /// Data that a sample reports. `None` if the action is not a sample, or was parsed from text, which does not contain the
    /// data.
    pub sample_data: Option<Arc<SampleData>>,
}

/// Data that a sample reports in addition to the packet and the cookie.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampleData {
    /// The number of the bridge that samples.
    pub bridge: u32,
    /// What the actions of the megaflow do with the packet.
    pub egress: Egress,
}

impl Userspace {
    /// An action with this cookie, and without the optional parts.
    pub fn new(cookie: UserspaceCookie) -> Userspace {
        Userspace {
            pid: 0,
            cookie,
            include_actions: false,
            tunnel_out_port: None,
            userdata: Vec::new(),
            sample_data: None,
        }
    }

    /// A sample for a bridge. Its `egress` is empty, and must be set when the actions of the megaflow are known.
    pub fn sample(cookie: UserspaceCookie, bridge: u32) -> Userspace {
        let sample_data = Some(Arc::new(SampleData { bridge, egress: Egress::default() }));
        Userspace { sample_data, ..Userspace::new(cookie) }
    }

    /// Passes the packet to the slow path of the control half.
    pub fn slow_path(reason: SlowReason) -> Userspace {
        Userspace::new(UserspaceCookie::Slow { reason })
    }

    /// Returns whether the control half translates the packet and executes the result. A packet of a
    /// [protocol](SlowReason::PROTOCOLS) of the switch has already been translated when this action is executed.
    pub fn needs_translation(&self) -> bool {
        matches!(self.cookie, UserspaceCookie::Slow { reason } if !reason.intersects(SlowReason::PROTOCOLS))
    }
}

/// What the control half must do with the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserspaceCookie {
    /// Translate the packet and execute the result.
    Slow {
        /// Why the datapath cannot handle the packet.
        reason: SlowReason,
    },
    /// A packet-in for a controller.
    Controller {
        /// Do not send the packet-in: the action comes from a dry run.
        dont_send: bool,
        /// The packet-in contains the state from which to resume.
        continuation: bool,
        /// The reason of the packet-in (`OFPR_*`).
        reason: u8,
        /// Id of the frozen state of this packet.
        recirc_id: u32,
        /// Cookie of the rule with the action.
        rule_cookie: u64,
        /// Id of the controllers that get the packet-in.
        controller_id: u16,
        /// Maximum number of bytes of the packet that are sent.
        max_len: u16,
    },
    /// A bridge-wide sFlow sample.
    Sflow {
        /// VLAN TCI of the sent packet.
        vlan_tci: u16,
        /// The output, as sFlow encodes it.
        output: u32,
    },
    /// A sample of the OpenFlow action `sample`.
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
        /// 0: not set, 1: ingress, 2: egress.
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
    /// The protocols that the switch itself runs on its ports.
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
