//! The result of a translation: actions, mask, side effects and statistics targets.
//!
//! The caller carries out the side effects once, for the packet that was translated. The statistics targets count every
//! packet of the resulting megaflow.

use crate::BridgeId;
use crate::dependencies::Dependencies;
use crate::header;
use crate::mirror::MirrorTally;
use crate::packet_type::ETHERTYPE_NSH;
use crate::sampling_settings::ReportedOutputs;
use crate::trace::Trace;
use bridge::snooping::message::Message;
use bridge::{BundleId, MacObservation};
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
    /// Resubmits or groups are nested too deeply.
    #[error("Recursion too deep")]
    RecursionTooDeep,
    /// Too many look-ups, or too much work (`limits`).
    #[error("Too many resubmits")]
    TooManyResubmits,
    /// The stack of `push` is too large.
    #[error("Stack too deep")]
    StackTooDeep,
    /// The recirculation id is unknown, or none is free.
    #[error("No recirculation context")]
    NoRecirculationContext,
    /// A recirculated packet was translated with given actions (a packet-out) instead of its frozen state.
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
    /// Returns whether the failure ends only one bucket of a group and not the walk.
    pub(crate) fn affects_only_bucket(self) -> bool {
        matches!(self, Failure::TooManyMplsLabels | Failure::UnsupportedPacketType)
    }

    /// The drop reason that counts the packets of this failure.
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

/// A side effect, which is carried out once for the translated packet.
#[derive(Clone, Debug)]
pub enum PacketEffect {
    /// Learn a MAC address.
    MacLearn {
        /// The bridge whose learning table gets the address.
        bridge: BridgeId,
        /// The entry to learn.
        observation: MacObservation,
    },
    /// Learn the members of multicast groups, or a router port.
    Snoop {
        /// The bridge that received the message.
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
        /// The port of the session.
        at: (BridgeId, OfPort),
        /// Time to live of the received packet.
        ttl: u8,
    },
    /// Pass the packet, a CFM message, to a session.
    Cfm {
        /// The port of the session.
        at: (BridgeId, OfPort),
    },
    /// Pass the packet, an LLDP message, to a session.
    Lldp {
        /// The port of the session.
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
        /// Name of the bridge in whose network the next hop is.
        bridge: String,
        /// IP address of the next hop.
        ip: IpAddr,
        /// Ethernet address of the next hop.
        mac: Mac,
    },
    /// Request the Ethernet address of a next hop of tunnels.
    Solicit(Arc<Solicitation>),
    /// Hold the packet until the next hop of its tunnel is known.
    Hold(Box<HeldOutput>),
}

/// The output of a packet to a tunnel whose next hop is unknown: the packet is held until the next hop is known.
#[derive(Clone, Debug)]
pub struct HeldOutput {
    /// Name of the bridge in whose network the next hop is.
    pub next_bridge: String,
    /// IP address of the next hop.
    pub next: IpAddr,
    /// The tunnel port.
    pub at: (BridgeId, OfPort),
    /// The fields of the received packet, with its OpenFlow port.
    pub initial: Flow,
    /// The fields of the packet to be sent, before encapsulation, with the tunnel fields that actions set.
    pub flow: Flow,
    /// The mask at that point of the walk. It contains every bit in which `initial` and `flow` differ, as a commit requires.
    pub mask: Flow,
}

/// A request for an Ethernet address, by ARP or ND.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solicitation {
    /// The port that sends the request.
    pub at: (BridgeId, OfPort),
    /// The number of this port in the datapath.
    pub number: PortNo,
    /// The Ethernet address of this port.
    pub mac: Mac,
    /// The IP address of this port in the network of the next hop.
    pub source: IpAddr,
    /// The requested address.
    pub target: IpAddr,
}

/// Shortens the timeouts of a rule when a connection ends (`fin_timeout`).
#[derive(Clone, Debug)]
pub struct FinTimeout {
    /// The rule.
    pub rule: Arc<Rule>,
    /// New idle timeout in seconds, if not 0 and shorter than the present one.
    pub idle: u16,
    /// New hard timeout in seconds, if not 0 and shorter than the present one.
    pub hard: u16,
}

/// A flow made by a `learn` action.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnedFlow {
    /// The bridge whose tables get the flow.
    pub bridge: BridgeId,
    /// The request that adds it or replaces a flow with the same match and priority.
    pub flow_mod: FlowMod,
    /// Maximum number of flows with this cookie; 0: unlimited.
    pub limit: u32,
}

/// An object that every packet of the megaflow updates: its counters, or the time when it was last used.
#[derive(Clone, Debug)]
pub enum StatsTarget {
    /// A rule that matched.
    Match {
        /// The bridge of the rule.
        bridge: BridgeId,
        /// The rule.
        rule: Arc<Rule>,
    },
    /// A table in which no rule matched.
    Miss {
        /// The bridge of the table.
        bridge: BridgeId,
        /// The table.
        table: u8,
    },
    /// An internal rule of the switch.
    InternalRule(Arc<Rule>),
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
    /// Not a target itself: for the targets that follow, each packet is longer, because a tunnel header was added, or shorter,
    /// because one was removed.
    LengthChange {
        /// Change of the length of each packet in bytes; negative: it becomes shorter.
        by: i64,
    },
    /// A next hop of tunnels that the packets use.
    Neighbour {
        /// Name of the bridge in whose network the next hop is.
        bridge: String,
        /// IP address of the next hop.
        ip: IpAddr,
    },
    /// A next hop whose Ethernet address is learned from the packets.
    NeighbourLearned {
        /// Name of the bridge in whose network the next hop is.
        bridge: String,
        /// IP address of the next hop.
        ip: IpAddr,
        /// Ethernet address of the next hop.
        mac: Mac,
    },
    /// A next hop that is unknown, so that the packets are dropped: its address is requested.
    Solicit(Arc<Solicitation>),
    /// A mirror that copied the packet.
    Mirror(Arc<MirrorTally>),
    /// A bond that sent the packet.
    Bond {
        /// The bond's counters, one for each bucket.
        tally: Arc<bond::Tally>,
        /// The bucket of the packet's hash.
        bucket: u8,
    },
    /// A MAC address whose age the packets renew.
    Mac {
        /// The bridge of the learning table.
        bridge: BridgeId,
        /// The entry.
        observation: MacObservation,
    },
    /// A flow that a `learn` action adds, or whose age it renews.
    Learn(Arc<LearnedFlow>),
    /// A flow that NetFlow reports.
    NetFlow {
        /// The bridge of the exporter.
        bridge: BridgeId,
        /// The flow.
        key: netflow::Key,
        /// The output of the flow, as NetFlow reports it.
        output: u16,
    },
    /// A rule whose timeouts are shortened by a packet with FIN or RST.
    FinTimeout(FinTimeout),
}

/// A copy of the packet that `ct` recirculates.
#[derive(Clone, Debug)]
pub struct Fork {
    /// The fields of the copy. Those of the connection's state are unknown, because only the datapath finds them.
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

/// A line for the log, which limits the rate of such lines.
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
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// The actions of the datapath.
    pub actions: Vec<DpAction>,
    /// The consulted bits. If the translation failed, it may include bits that no megaflow can match.
    pub mask: Flow,
    /// The IPv4 destination was consulted, but is left out of `mask`, because `ofproto/trace` does not show it.
    pub unshown_nw_dst: bool,
    /// A bit for each tunnel option field that an output to a tunnel sent as received: with the received
    /// value, or not at all. These fields are left out of `mask`, because `ofproto/trace` does not show them.
    pub kept_options: u64,
    /// During a translation the packet as the tables match it, afterwards the flow at the end of the pipeline, with its OpenFlow port.
    pub flow: Flow,
    /// The flow at the start of the pipeline.
    pub initial: Flow,
    /// Side effects, which the caller carries out once.
    pub effects: Vec<PacketEffect>,
    /// Statistics that every packet of the megaflow updates.
    pub stats_targets: Vec<StatsTarget>,
    /// Copies of the packet that `ct` recirculates.
    pub forks: Vec<Fork>,
    /// Recirculation ids in the actions, and the id with which the packet was recirculated. The translation has taken a
    /// reference to the frozen state of each; the megaflow owns these references.
    pub recircs: Vec<u32>,
    /// If not empty, packets must be translated and executed one by one, for this reason.
    pub slow: SlowReason,
    /// The datapath's meter for packets of the slow path.
    pub slow_meter: Option<u32>,
    /// The result depends on state that is not in the mask, so no megaflow may be installed.
    pub avoid_caching: bool,
    /// Why the translation failed; the packet is then dropped.
    pub error: Option<Failure>,
    /// Why the packet is dropped, if the reason is neither a failure nor the actions of the tables.
    pub dropped_for: Option<DropReason>,
    /// Lines for the log.
    pub log: Vec<LogLine>,
    /// Dependencies of the translation.
    pub dependencies: Dependencies,
    /// The outputs so far, for samples and NetFlow.
    pub(crate) reported: ReportedOutputs,
    /// The trace, if requested.
    pub trace: Option<Trace>,
}

impl Output {
    /// The result before the translation of a packet. It contains three flows, which are too large to move, so it is created
    /// where it stays: `Box::default` clears the memory in place.
    pub(crate) fn of_packet(packet: &Flow) -> Box<Output> {
        let mut out = Box::<Output>::default();
        out.initial.clone_from(packet);
        out.initial.actset_output = OfPort::UNSET.0;
        out
    }

    /// The mask of the megaflow: `mask` and the bits that it leaves out because `ofproto/trace` does not show them. These are the
    /// VLAN tags (every megaflow matches the VLAN of a tag, or that the packet has no tag), and the IPv4 destination, which tells
    /// that the packet does not belong to a BFD session.
    pub fn megaflow_mask(&self) -> Box<Flow> {
        let mut mask = Box::new(self.mask);
        remove_unmatchable_bits(&self.initial, &self.flow, &mut mask);
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

    /// The actions of the megaflow. For the slow path these are the actions that pass its packets to the control half.
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

    /// Takes the actions for the translated packet itself. If a protocol of the switch consumed the packet, the last action is
    /// the `userspace` action of the slow path; the packet is not translated again when this action is executed.
    pub fn packet_actions(&mut self) -> Vec<DpAction> {
        let mut actions = std::mem::take(&mut self.actions);
        if self.slow.intersects(SlowReason::PROTOCOLS) {
            actions.push(DpAction::Userspace(Box::new(Userspace::slow_path(self.slow))));
        }
        actions
    }
}

/// Removes from a mask the bits that a megaflow cannot match or need not match. `initial` and `flow`: the packet's flow at
/// the start and at the end of the pipeline.
pub(crate) fn remove_unmatchable_bits(initial: &Flow, flow: &Flow, mask: &mut Flow) {
    (mask.metadata, mask.regs, mask.actset_output, mask.conj_id) = (0, [0; flow::flow::REGS], 0, 0);
    if initial.packet_type != 0 {
        (mask.dl_src, mask.dl_dst) = Default::default();
    }
    if matches!((flow.dl_type, flow.nw_proto), (0x0800, 1) | (0x86dd, 58)) {
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
    if flow.nw_frag & frag::LATER != 0 {
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

/// An action that passes a copy of the packet through a meter and then executes `send`.
pub(crate) fn metered(meter: u32, send: DpAction) -> DpAction {
    DpAction::Sample(Box::new(Sample { probability: u32::MAX, actions: vec![DpAction::Meter(meter), send] }))
}
