//! What a translation returns: actions, mask, and all that happens beside them.
//!
//! Nothing is done here: effects are carried out by who asked, once, if there was a packet; credits are owed for
//! every packet that the resulting megaflow forwards.

use crate::BridgeId;
use crate::dependencies::Dependencies;
use crate::header;
use crate::mirror::MirrorTally;
use crate::packet_type::ETHERTYPE_NSH;
use crate::trace::Trace;
use bridge::LearnNeed;
use dpif::{DpAction, DropReason, Sample, SlowReason, Userspace};
use flow::flow::frag;
use flow::{Flow, Mac, Tlv, VLAN_CFI, Vlan};
use ofproto::{Group, Rule};
use openflow::FlowMod;
use openflow::action::Nat;
use std::net::IpAddr;
use std::sync::Arc;
use thiserror::Error;
use units::{OfPort, PortNo};

/// Why a packet could not be translated; it is dropped. The texts are those of `ofproto/trace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// The bridge is gone.
    #[error("Bridge not found")]
    BridgeNotFound,
    /// Tables nest too deeply.
    #[error("Recursion too deep")]
    RecursionTooDeep,
    /// Too many look-ups.
    #[error("Too many resubmits")]
    TooManyResubmits,
    /// `push` without end.
    #[error("Stack too deep")]
    StackTooDeep,
    /// The recirculation id is not known, or none is free.
    #[error("No recirculation context")]
    NoRecirculationContext,
    /// A recirculated packet that is told what to do otherwise.
    #[error("Recirculation conflict")]
    RecirculationConflict,
    /// More labels than a flow holds.
    #[error("Too many MPLS labels")]
    TooManyMplsLabels,
    /// Such a packet cannot be changed that way.
    #[error("Unsupported packet type")]
    UnsupportedPacketType,
    /// Options of the tunnel's header that the bridge cannot take in.
    #[error("Invalid tunnel metadata")]
    InvalidTunnelMetadata,
}

impl Failure {
    /// One bucket of a group failed, not the walk.
    pub(crate) fn is_of_bucket(self) -> bool {
        matches!(self, Failure::TooManyMplsLabels | Failure::UnsupportedPacketType)
    }

    /// As what its packets are counted.
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

/// Something to do once, because of the packet.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Put a station into the learning table.
    MacLearn {
        /// Of this bridge.
        bridge: BridgeId,
        /// What to learn.
        need: LearnNeed,
    },
    /// Put a flow that `learn` made.
    Learn(Arc<LearnedFlow>),
    /// A connection ends.
    FinTimeout(FinTimeout),
    /// Hand the packet, which is a BFD message, to a session.
    Bfd {
        /// That of this port.
        at: (BridgeId, OfPort),
        /// Its time to live when it got there.
        ttl: u8,
    },
    /// Hand the packet, which is a message of LACP, to the port's bond.
    Lacp {
        /// It came by this port.
        at: (BridgeId, OfPort),
    },
    /// Note where a next hop of tunnels is.
    Neighbour {
        /// In the network of this bridge.
        bridge: String,
        /// Its address.
        ip: IpAddr,
        /// Its Ethernet address.
        mac: Mac,
    },
    /// Ask for a next hop of tunnels.
    Solicit(Arc<Solicitation>),
    /// Keep the packet until the next hop of a tunnel is known.
    Hold(Box<Held>),
}

/// A packet that is to leave by a tunnel whose next hop is not known yet.
#[derive(Clone, Debug)]
pub struct Held {
    /// In the network of this bridge.
    pub next_bridge: String,
    /// The next hop.
    pub next: IpAddr,
    /// The tunnel port.
    pub at: (BridgeId, OfPort),
    /// The packet as it came, with its OpenFlow port.
    pub initial: Flow,
    /// As it is to be sent, with what was set of the outer header.
    pub flow: Flow,
}

/// A question who has an address, by ARP or ND.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solicitation {
    /// As if received by this port.
    pub at: (BridgeId, OfPort),
    /// The number of that port in the datapath.
    pub number: PortNo,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its address in the network of the next hop.
    pub source: IpAddr,
    /// Who is asked for.
    pub target: IpAddr,
}

/// Shorten the timeouts of a rule.
#[derive(Clone, Debug)]
pub struct FinTimeout {
    /// Which rule.
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
    /// As a request: added, or put in place of one with its match and priority.
    pub flow_mod: FlowMod,
    /// How many flows of this cookie there may be; 0: any number.
    pub limit: u32,
}

/// Someone to tell about every packet of the megaflow.
#[derive(Clone, Debug)]
pub enum Credit {
    /// A rule of a table that it went through, and the table.
    Match {
        /// In this bridge.
        bridge: BridgeId,
        /// Which one.
        rule: Arc<Rule>,
    },
    /// A table that had no rule for it.
    Miss {
        /// In this bridge.
        bridge: BridgeId,
        /// Which one.
        table: u8,
    },
    /// One of the switch's own rules.
    Rule(Arc<Rule>),
    /// A group that it went through.
    Group {
        /// Which one.
        group: Arc<Group>,
        /// The index of the bucket that was chosen; `None` if all were used.
        bucket: Option<u32>,
    },
    /// It crossed from one bridge into another.
    Patch {
        /// Sent by this port.
        tx: (BridgeId, OfPort),
        /// Received by this one.
        rx: (BridgeId, OfPort),
    },
    /// It went into a tunnel, or came out of one.
    Tunnel {
        /// By this port.
        at: (BridgeId, OfPort),
        /// Into it.
        out: bool,
    },
    /// From here on packets are longer by this much, as they have another outer header.
    Header {
        /// Bytes of each packet.
        longer_by: i64,
    },
    /// A next hop of tunnels is in use.
    Neighbour {
        /// In the network of this bridge.
        bridge: String,
        /// Its address.
        ip: IpAddr,
    },
    /// A next hop of tunnels told where it is.
    Heard {
        /// In the network of this bridge.
        bridge: String,
        /// Its address.
        ip: IpAddr,
        /// Its Ethernet address.
        mac: Mac,
    },
    /// It was lost because a next hop is not known.
    Solicit(Arc<Solicitation>),
    /// A mirror copied it.
    Mirror(Arc<MirrorTally>),
    /// A bond sent it.
    Bond {
        /// Where its bytes are counted.
        tally: Arc<bond::Tally>,
        /// By the bucket that it belongs to.
        bucket: u8,
    },
    /// A station is alive.
    Mac {
        /// In the learning table of this bridge.
        bridge: BridgeId,
        /// Which one.
        need: LearnNeed,
    },
    /// A learned flow is alive.
    Learn(Arc<LearnedFlow>),
    /// Where packets had FIN or RST: a connection ends.
    FinTimeout(FinTimeout),
}

/// A copy of the packet that comes back from connection tracking.
#[derive(Clone, Debug)]
pub struct Fork {
    /// As it comes back, but for what is known of its connection then.
    pub flow: Flow,
    /// The translation of addresses that it asked for.
    pub nat: Option<Nat>,
}

/// How loud a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Someone should look at it.
    Warn,
    /// Good to know.
    Info,
    /// For debugging.
    Debug,
}

/// A line for the log. Its writer limits the rate.
#[derive(Clone, Debug)]
pub struct LogLine {
    /// How loud.
    pub level: Level,
    /// What, and on which bridge, ending with "while processing " where the packet is to follow.
    pub text: String,
    /// The packet.
    pub flow: Flow,
}

/// The result of a translation.
#[derive(Clone, Debug)]
pub struct Output {
    /// What the datapath shall do.
    pub actions: Vec<DpAction>,
    /// The bits that were looked at; where the packet could not be translated, with those that no megaflow matches.
    pub mask: Flow,
    /// Where IPv4 packets go was looked at, and `mask` leaves it out.
    pub unshown_nw_dst: bool,
    /// The flow as the pipeline left it, with its OpenFlow port.
    pub flow: Flow,
    /// The flow as the pipeline got it.
    pub initial: Flow,
    /// To be done once.
    pub effects: Vec<Effect>,
    /// To be told of every packet.
    pub credits: Vec<Credit>,
    /// Copies that connection tracking sends back.
    pub forks: Vec<Fork>,
    /// Recirculation ids that the actions name, and the one by which the packet came back; each holds a reference that goes with
    /// the megaflow.
    pub recircs: Vec<u32>,
    /// Not empty: packets must be translated and executed one by one.
    pub slow: SlowReason,
    /// The datapath's meter that such packets pass.
    pub slow_meter: Option<u32>,
    /// The result depends on something that is not in the mask: do not make a megaflow.
    pub avoid_caching: bool,
    /// The packet is dropped because of this.
    pub error: Option<Failure>,
    /// For the log.
    pub log: Vec<LogLine>,
    /// What was consulted.
    pub dependencies: Dependencies,
    /// How it went, if asked for.
    pub trace: Option<Trace>,
}

impl Output {
    /// The mask of the megaflow. `mask` leaves out, as `ofproto/trace` does, that a packet has no VLAN tag; to the
    /// datapath that is a match like any other: a megaflow that does not look at a tag is for packets without one, or
    /// with one of the same VLAN. So is that a packet goes elsewhere than to a BFD session.
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

    /// Takes out of a mask what a megaflow cannot or need not match.
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

    /// The actions of the megaflow: where the slow path has to do them, to hand its packets over.
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

    /// The actions of the packet itself; one that the switch took for itself ends there.
    pub fn packet_actions(&mut self) -> Vec<DpAction> {
        let mut actions = std::mem::take(&mut self.actions);
        if self.slow.intersects(SlowReason::PROTOCOLS) {
            actions.push(DpAction::Userspace(Box::new(Userspace::slow_path(self.slow))));
        }
        actions
    }

    /// Nothing yet. In a box: with three flows in it, it is not to be moved about.
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
            error: None,
            log: Vec::new(),
            dependencies: Dependencies::default(),
            trace,
        })
    }
}

/// A copy of the packet through a meter, then what a packet does to the control half.
pub(crate) fn metered(meter: u32, send: DpAction) -> DpAction {
    DpAction::Sample(Box::new(Sample { probability: u32::MAX, actions: vec![DpAction::Meter(meter), send] }))
}
