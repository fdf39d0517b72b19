//! The result of a translation: actions, mask, side effects and credits.
//!
//! The caller carries out the effects, once, if there was a packet. Credits apply to every packet that the resulting
//! megaflow forwards.

use crate::BridgeId;
use crate::dependencies::Dependencies;
use crate::header;
use crate::mirror::MirrorTally;
use crate::packet_type::ETHERTYPE_NSH;
use crate::sampled::Reported;
use crate::trace::Trace;
use bridge::snooping::message::Message;
use bridge::{BundleId, LearnNeed};
use dpif::{DpAction, DropReason, Sample, SlowReason, Userspace};
use exporter::netflow;
use flow::flow::frag;
use flow::{Flow, Mac, Tlv, VLAN_CFI, Vlan};
use ofproto::{Group, Rule};
use openflow::FlowMod;
use openflow::action::Nat;
use std::net::IpAddr;
use std::sync::Arc;
use thiserror::Error;
use units::{OfPort, PortNo};

/// Why a packet could not be translated and is dropped. The texts are those of `ofproto/trace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// The bridge does not exist any more.
    #[error("Bridge not found")]
    BridgeNotFound,
    /// Tables are nested too deeply.
    #[error("Recursion too deep")]
    RecursionTooDeep,
    /// Too many look-ups.
    #[error("Too many resubmits")]
    TooManyResubmits,
    /// The stack of `push` is too large.
    #[error("Stack too deep")]
    StackTooDeep,
    /// The recirculation id is unknown, or none is free.
    #[error("No recirculation context")]
    NoRecirculationContext,
    /// A recirculated packet of another bridge.
    #[error("Recirculation conflict")]
    RecirculationConflict,
    /// More labels than a flow can hold.
    #[error("Too many MPLS labels")]
    TooManyMplsLabels,
    /// The packet type does not support the action.
    #[error("Unsupported packet type")]
    UnsupportedPacketType,
    /// The bridge cannot decode the options of the tunnel header.
    #[error("Invalid tunnel metadata")]
    InvalidTunnelMetadata,
}

impl Failure {
    /// Returns whether the failure affects only one bucket of a group, not the walk.
    pub(crate) fn is_of_bucket(self) -> bool {
        matches!(self, Failure::TooManyMplsLabels | Failure::UnsupportedPacketType)
    }

    /// The drop reason under which its packets are counted.
    pub fn drop_reason(self) -> DropReason {
        match self {
            Failure::BridgeNotFound => DropReason::ActionBridgeNotFound,
            Failure::RecursionTooDeep => DropReason::ActionRecursionTooDeep,
            Failure::TooManyResubmits => DropReason::ActionTooManyResubmit,
            Failure::StackTooDeep => DropReason::ActionStackTooDeep,
            Failure::NoRecirculationContext => DropReason::ActionNoRecirculationContext,
            Failure::RecirculationConflict => DropReason::ActionRecirculationConflict,
            Failure::TooManyMplsLabels => DropReason::ActionTooManyMplsLabels,
            Failure::InvalidTunnelMetadata => DropReason::ActionInvalidTunnelMetadata,
            Failure::UnsupportedPacketType => DropReason::ActionUnsupportedPacketType,
        }
    }
}

/// A side effect that is carried out once for the packet.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Learn a MAC address.
    MacLearn {
        /// In this bridge.
        bridge: BridgeId,
        /// What to learn.
        need: LearnNeed,
    },
    /// Learn the members of multicast groups, or a router port.
    Snoop {
        /// In this bridge.
        bridge: BridgeId,
        /// The VLAN of the message.
        vlan: u16,
        /// The port that received it.
        port: BundleId,
        /// The message.
        message: Box<Message>,
    },
    /// Add a flow of a `learn` action.
    Learn(Arc<LearnedFlow>),
    /// Shorten the timeouts of a rule.
    FinTimeout(FinTimeout),
    /// Pass the packet, a BFD message, to a session.
    Bfd {
        /// The session of this port.
        at: (BridgeId, OfPort),
        /// Time to live of the received packet.
        ttl: u8,
    },
    /// Pass the packet, a CFM message, to a session.
    Cfm {
        /// The session of this port.
        at: (BridgeId, OfPort),
    },
    /// Pass the packet, a LACP message, to the port's bond.
    Lacp {
        /// The port that received it.
        at: (BridgeId, OfPort),
    },
    /// Pass the packet, a BPDU, to the bridge's spanning tree.
    Bpdu {
        /// The port that received it.
        at: (BridgeId, OfPort),
    },
    /// Learn the Ethernet address of a next hop of tunnels.
    Neighbour {
        /// In the network of this bridge.
        bridge: String,
        /// Its address.
        ip: IpAddr,
        /// Its Ethernet address.
        mac: Mac,
    },
    /// Request the Ethernet address of a next hop of tunnels.
    Solicit(Arc<Solicitation>),
    /// Keep the packet until the next hop of a tunnel is known.
    Hold(Box<Held>),
}

/// A packet for a tunnel whose next hop is unknown.
#[derive(Clone, Debug)]
pub struct Held {
    /// In the network of this bridge.
    pub next_bridge: String,
    /// The next hop.
    pub next: IpAddr,
    /// The tunnel port.
    pub at: (BridgeId, OfPort),
    /// The packet as received, with its OpenFlow port.
    pub initial: Flow,
    /// The packet to be sent, with the fields of the outer header.
    pub flow: Flow,
    /// Every bit in which both differ, so that the difference can be committed.
    pub mask: Flow,
}

/// A request for an Ethernet address, by ARP or ND.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solicitation {
    /// The port from which it is sent.
    pub at: (BridgeId, OfPort),
    /// The number of that port in the datapath.
    pub number: PortNo,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its address in the network of the next hop.
    pub source: IpAddr,
    /// The requested address.
    pub target: IpAddr,
}

/// Shortens the timeouts of a rule.
#[derive(Clone, Debug)]
pub struct FinTimeout {
    /// The rule.
    pub rule: Arc<Rule>,
    /// New idle timeout, if not 0 and shorter.
    pub idle: u16,
    /// New hard timeout, if not 0 and shorter.
    pub hard: u16,
}

/// A flow made by a `learn` action.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnedFlow {
    /// In this bridge.
    pub bridge: BridgeId,
    /// The request that adds it or replaces a flow with the same match and priority.
    pub flow_mod: FlowMod,
    /// Maximum number of flows with this cookie; 0: unlimited.
    pub limit: u32,
}

/// Statistics to update for every packet of the megaflow.
#[derive(Clone, Debug)]
pub enum Credit {
    /// A rule that matched.
    Match {
        /// In this bridge.
        bridge: BridgeId,
        /// The rule.
        rule: Arc<Rule>,
    },
    /// A table in which no rule matched.
    Miss {
        /// In this bridge.
        bridge: BridgeId,
        /// The table.
        table: u8,
    },
    /// An internal rule of the switch.
    Rule(Arc<Rule>),
    /// A group.
    Group {
        /// The group.
        group: Arc<Group>,
        /// Index of the selected bucket; `None` if all were used.
        bucket: Option<u32>,
    },
    /// Patch ports between two bridges.
    Patch {
        /// The sending port.
        tx: (BridgeId, OfPort),
        /// The receiving port.
        rx: (BridgeId, OfPort),
    },
    /// A tunnel port.
    Tunnel {
        /// The port.
        at: (BridgeId, OfPort),
        /// True if the packet was sent to it, false if it was received on it.
        out: bool,
    },
    /// From here on packets are longer by this number of bytes, because they have another outer header.
    Header {
        /// Bytes of each packet.
        longer_by: i64,
    },
    /// A next hop of tunnels that is in use.
    Neighbour {
        /// In the network of this bridge.
        bridge: String,
        /// Its address.
        ip: IpAddr,
    },
    /// The Ethernet address of a next hop, learned from the packet.
    Heard {
        /// In the network of this bridge.
        bridge: String,
        /// Its address.
        ip: IpAddr,
        /// Its Ethernet address.
        mac: Mac,
    },
    /// The packet was dropped because a next hop is unknown.
    Solicit(Arc<Solicitation>),
    /// A mirror that copied the packet.
    Mirror(Arc<MirrorTally>),
    /// A bond that sent the packet.
    Bond {
        /// Counters by bucket.
        tally: Arc<bond::Tally>,
        /// The packet's bucket.
        bucket: u8,
    },
    /// A MAC address whose age is renewed.
    Mac {
        /// In the learning table of this bridge.
        bridge: BridgeId,
        /// The entry.
        need: LearnNeed,
    },
    /// A learned flow that is in use.
    Learn(Arc<LearnedFlow>),
    /// A flow that NetFlow reports.
    NetFlow {
        /// By the exporter of this bridge.
        bridge: BridgeId,
        /// The flow.
        key: netflow::Key,
        /// Its output.
        output: u16,
    },
    /// For packets with FIN or RST: the connection ends.
    FinTimeout(FinTimeout),
}

/// A copy of the packet that is recirculated after connection tracking.
#[derive(Clone, Debug)]
pub struct Fork {
    /// Its fields, except for the state of its connection.
    pub flow: Flow,
    /// The requested address translation.
    pub nat: Option<Nat>,
}

/// Severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// A problem.
    Warn,
    /// Information.
    Info,
    /// Debugging.
    Debug,
}

/// A line for the log. The log limits the rate.
#[derive(Clone, Debug)]
pub struct LogLine {
    /// Severity.
    pub level: Level,
    /// The message, including the bridge; it ends with "while processing " if the packet is appended.
    pub text: String,
    /// The packet.
    pub flow: Flow,
}

/// The result of a translation.
#[derive(Clone, Debug)]
pub struct Output {
    /// The actions of the datapath.
    pub actions: Vec<DpAction>,
    /// The consulted bits; for a failed translation including bits that no megaflow can match.
    pub mask: Flow,
    /// The IPv4 destination was consulted, but is not in `mask`.
    pub unshown_nw_dst: bool,
    /// The flow at the end of the pipeline, with its OpenFlow port.
    pub flow: Flow,
    /// The flow at the start of the pipeline.
    pub initial: Flow,
    /// Carried out once.
    pub effects: Vec<Effect>,
    /// Updated for every packet.
    pub credits: Vec<Credit>,
    /// Copies that are recirculated after connection tracking.
    pub forks: Vec<Fork>,
    /// Recirculation ids in the actions, and the one with which the packet was recirculated; each has a reference
    /// that belongs to the megaflow.
    pub recircs: Vec<u32>,
    /// If not empty, packets must be translated and executed one by one, for this reason.
    pub slow: SlowReason,
    /// The datapath's meter that such packets pass.
    pub slow_meter: Option<u32>,
    /// The result depends on something that is not in the mask: no megaflow may be installed.
    pub avoid_caching: bool,
    /// Why the packet is dropped.
    pub error: Option<Failure>,
    /// Why a packet that is sent nowhere is dropped, if that is neither an error nor what the tables say.
    pub dropped_for: Option<DropReason>,
    /// Lines for the log.
    pub log: Vec<LogLine>,
    /// Dependencies of the translation.
    pub dependencies: Dependencies,
    /// What has been output so far.
    pub(crate) reported: Reported,
    /// The trace, if requested.
    pub trace: Option<Trace>,
}

impl Output {
    /// The mask of the megaflow. `mask` leaves out that a packet has no VLAN tag, as `ofproto/trace` does; in the
    /// datapath this is a match like any other: a megaflow that does not match a tag is for packets without one, or
    /// with one of the same VLAN. The same holds for the match that a packet does not belong to a BFD session.
    pub fn megaflow_mask(&self) -> Box<Flow> {
        let mut mask = Box::new(self.mask);
        self.restrict(&mut mask);
        if self.unshown_nw_dst {
            mask.nw_dst = u32::MAX;
        }
        let tagged = self.initial.vlan_vid().is_some();
        let [outer, inner] = &mut mask.vlans;
        outer.tpid = u16::MAX;
        if outer.tci == 0 {
            outer.tci = VLAN_CFI | 0xfff;
        }
        if tagged {
            inner.tpid = u16::MAX;
            if inner.tci == 0 {
                inner.tci = VLAN_CFI | 0xfff;
            }
        }
        mask
    }

    /// Removes bits from a mask that a megaflow cannot or need not match.
    pub(crate) fn restrict(&self, mask: &mut Flow) {
        let initial = &self.initial;
        (mask.metadata, mask.regs, mask.actset_output, mask.conj_id) = (0, [0; flow::flow::REGS], 0, 0);
        if initial.packet_type != 0 {
            (mask.dl_src, mask.dl_dst) = Default::default();
        }
        if matches!((self.flow.dl_type, self.flow.nw_proto), (0x0800, 1) | (0x86dd, 58)) {
            mask.tp_src &= 0xff;
            mask.tp_dst &= 0xff;
        }
        for (m, f) in mask.vlans.iter_mut().zip(&initial.vlans) {
            if m.tci != 0 {
                m.tci |= VLAN_CFI;
            }
            if !matches!(f.tpid, 0x8100 | 0x88a8) {
                *m = Vlan::default();
            }
        }
        if self.flow.nw_frag & frag::LATER != 0 {
            (mask.tp_src, mask.tp_dst) = (0, 0);
        }
        if !header::is_mpls(initial.dl_type) {
            mask.mpls_lse = Default::default();
        }
        if initial.network_type() != ETHERTYPE_NSH {
            mask.nsh = Default::default();
        }
        let tunnel = &initial.tunnel;
        if tunnel.ip_dst == 0 && tunnel.ipv6_dst == [0; 16] {
            (mask.tunnel, mask.tlv) = (Default::default(), Tlv::NONE);
        }
    }

    /// The actions of the megaflow; for the slow path, those that pass packets to the control half.
    pub fn megaflow_actions(&self) -> Vec<DpAction> {
        if self.slow.is_empty() {
            self.actions.clone()
        } else {
            let send = DpAction::Userspace(Box::new(Userspace::slow_path(self.slow)));
            vec![match self.slow_meter {
                Some(meter) => metered(meter, send),
                None => send,
            }]
        }
    }

    /// The actions for the packet itself; none if the switch consumed the packet.
    pub fn packet_actions(&mut self) -> Vec<DpAction> {
        let mut actions = std::mem::take(&mut self.actions);
        if self.slow.intersects(SlowReason::PROTOCOLS) {
            actions.push(DpAction::Userspace(Box::new(Userspace::slow_path(self.slow))));
        }
        actions
    }

    /// An empty result. Boxed, because it contains three flows and would be expensive to move.
    pub(crate) fn new(initial: Flow, trace: Option<Trace>) -> Box<Output> {
        Box::new(Output {
            actions: Vec::new(),
            mask: Flow::ZERO,
            unshown_nw_dst: false,
            flow: initial,
            initial,
            effects: Vec::new(),
            credits: Vec::new(),
            forks: Vec::new(),
            recircs: Vec::new(),
            slow: SlowReason::empty(),
            slow_meter: None,
            avoid_caching: false,
            dropped_for: None,
            error: None,
            log: Vec::new(),
            dependencies: Dependencies::default(),
            reported: Reported::default(),
            trace,
        })
    }
}

/// Sends a copy of the packet through a meter, and then to the control half.
pub(crate) fn metered(meter: u32, send: DpAction) -> DpAction {
    DpAction::Sample(Box::new(Sample { probability: u32::MAX, actions: vec![DpAction::Meter(meter), send] }))
}
