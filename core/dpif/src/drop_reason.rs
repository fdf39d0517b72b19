//! Why a packet was dropped. Every drop has a reason, and every reason a counter.
//!
//! The counter names are those of Open vSwitch (`coverage/show`) where it has one: scripts read them.

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Why a packet was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum DropReason { $($(#[$doc])* $variant,)* }

        impl DropReason {
            /// All of them, in the order of their counters.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$variant,)*];

            /// The name of its counter.
            pub fn name(self) -> &'static str {
                match self { $(DropReason::$variant => $name,)* }
            }
        }
    };
}

reasons! {
    /// The control half could not translate the packet.
    UpcallError = "datapath_drop_upcall_error",
    /// More packets without a megaflow than the threads that translate, and the worker besides, can serve.
    UpcallBacklog = "datapath_drop_upcall_backlog",
    /// The control half was being changed.
    LockError = "datapath_drop_lock_error",
    /// A `userspace` action that could not be delivered.
    UserspaceActionError = "datapath_drop_userspace_action_error",
    /// `tnl_push` failed.
    TunnelPushError = "datapath_drop_tunnel_push_error",
    /// `tnl_pop` failed.
    TunnelPopError = "datapath_drop_tunnel_pop_error",
    /// Recirculated too often.
    RecircError = "datapath_drop_recirc_error",
    /// Output to a port that is not there.
    InvalidPort = "datapath_drop_invalid_port",
    /// Output to a bond that is not there.
    InvalidBond = "datapath_drop_invalid_bond",
    /// `tnl_pop` for a port that is not there.
    InvalidTunnelPort = "datapath_drop_invalid_tnl_port",
    /// A received frame that is no packet.
    RxInvalidPacket = "datapath_drop_rx_invalid_packet",
    /// The ingress policer of its port.
    RxPoliced = "datapath_drop_rx_qos",
    /// A meter's band dropped it.
    Meter = "datapath_drop_meter",
    /// `sample` without a copy to make.
    SampleError = "datapath_drop_sample_error",
    /// NSH could not be removed.
    NshDecapError = "datapath_drop_nsh_decap_error",
    /// The OpenFlow pipeline sends it nowhere.
    ActionOfPipeline = "drop_action_of_pipeline",
    /// No bridge for the port.
    ActionBridgeNotFound = "drop_action_bridge_not_found",
    /// Translation nested too deeply.
    ActionRecursionTooDeep = "drop_action_recursion_too_deep",
    /// Too many resubmits.
    ActionTooManyResubmit = "drop_action_too_many_resubmit",
    /// The action stack grew too large.
    ActionStackTooDeep = "drop_action_stack_too_deep",
    /// An unknown recirculation id.
    ActionNoRecirculationContext = "drop_action_no_recirculation_context",
    /// A recirculation id of another bridge.
    ActionRecirculationConflict = "drop_action_recirculation_conflict",
    /// More MPLS labels than can be handled.
    ActionTooManyMplsLabels = "drop_action_too_many_mpls_labels",
    /// Tunnel metadata that no tunnel can carry.
    ActionInvalidTunnelMetadata = "drop_action_invalid_tunnel_metadata",
    /// No route leads to the remote end of a tunnel by a port of a bridge.
    ActionTunnelRoutingFailed = "drop_action_tunnel_routing_failed",
    /// The port that a tunnel's packets leave by has no Ethernet address.
    ActionTunnelOutputNoEthernet = "drop_action_tunnel_output_no_ethernet",
    /// The next hop of a tunnel is not known yet.
    ActionTunnelNeighCacheMiss = "drop_action_tunnel_neigh_cache_miss",
    /// The tunnel's header cannot say what it would have to.
    ActionTunnelHeaderBuildFailed = "drop_action_tunnel_header_build_failed",
    /// A packet type that is not supported.
    ActionUnsupportedPacketType = "drop_action_unsupported_packet_type",
    /// ECN says congestion, the inner packet cannot.
    ActionCongestion = "drop_action_congestion",
    /// The ingress port does not forward.
    ActionForwardingDisabled = "drop_action_forwarding_disabled",
    /// The actions of the flow end without an output.
    NoOutput = "datapath_drop_no_output",
    /// The device did not take it.
    TxFailed = "datapath_drop_tx_failed",
    /// Longer than the MTU of the port that should send it.
    TxTooLong = "datapath_drop_tx_mtu_exceeded",
    /// The policer of the port that should send it, or a full queue of that port's shaper.
    TxQos = "datapath_drop_tx_qos",
    /// No buffer left for a copy.
    NoBuffer = "datapath_drop_no_buffer",
    /// No room in front of the packet for what an action pushes.
    NoHeadroom = "datapath_drop_no_headroom",
    /// An action does not fit the packet: a header that is not there, or is too short.
    MalformedForAction = "datapath_drop_action_not_applicable",
    /// A fragment whose datagram was not complete in time.
    FragmentExpired = "ipf_stuck_frag_list_expired",
    /// The same, and no fragment came afterwards that would have removed it.
    FragmentPurged = "ipf_stuck_frag_list_purged",
    /// A fragment that waited for its datagram, whose place another one needed.
    FragmentEvicted = "datapath_drop_fragment_evicted",
    /// A fragment of a datagram that is longer than can be handled.
    DatagramTooLong = "datapath_drop_datagram_too_long",
    /// The queue that received it, or its port, went away.
    PortRemoved = "datapath_drop_port_removed",
}

impl DropReason {
    /// How many reasons there are.
    pub const COUNT: usize = DropReason::ALL.len();
}
