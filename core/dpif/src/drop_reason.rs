//! The table of drop reasons. Every dropped packet has a reason, and every reason has a counter.
//!
//! A row contains the counter's name, a sentence that explains the reason, and the stage that drops such packets. If the
//! counter is 0 in a switch without problems, the row also has the command that shows more. The table is the source of the
//! counters of `coverage/show`, of the texts of `ofproto/trace --last-drop`, `dpif/show-accounting`, `sluice drops` and
//! `sluice doctor`, and of docs/drop-reasons.md. `testing/arch` checks that the files of each stage mention its reasons, and
//! that every reason is used.
//!
//! A counter that Open vSwitch also has keeps its Open vSwitch name, because scripts read it.

/// The part of the path that drops a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// A port receives the packet.
    Receive,
    /// The packet waits for a translation.
    Upcall,
    /// The translation decides to drop the packet; the datapath drops it by a `drop` action.
    Translation,
    /// The datapath executes actions.
    Actions,
    /// A tunnel header is added or removed.
    Tunnels,
    /// The packet is a fragment and waits for the other fragments of its datagram.
    Reassembly,
    /// A port sends the packet.
    Transmit,
    /// No stage drops such packets: Open vSwitch has the counter, and in this switch it stays 0.
    None,
}

impl Stage {
    /// All stages, in the order of a packet's path.
    pub const ALL: [Stage; 8] = [
        Stage::Receive,
        Stage::Upcall,
        Stage::Translation,
        Stage::Actions,
        Stage::Tunnels,
        Stage::Reassembly,
        Stage::Transmit,
        Stage::None,
    ];

    /// The name of the stage.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Receive => "receive",
            Stage::Upcall => "upcall",
            Stage::Translation => "translation",
            Stage::Actions => "actions",
            Stage::Tunnels => "tunnels",
            Stage::Reassembly => "reassembly",
            Stage::Transmit => "transmit",
            Stage::None => "never",
        }
    }

    /// The source files that drop packets in this stage.
    pub const fn files(self) -> &'static [&'static str] {
        match self {
            Stage::Receive => &["core/datapath/src/path/receive.rs"],
            Stage::Upcall => {
                &["core/datapath/src/path/park.rs", "core/datapath/src/path/translate_inline.rs"]
            }
            Stage::Translation => &[
                "core/xlate/src/translate.rs",
                "core/xlate/src/outcome.rs",
                "core/xlate/src/native.rs",
                "core/xlate/src/ports.rs",
                "core/xlate/src/spanning_tree.rs",
            ],
            Stage::Actions => &[
                "core/datapath/src/path/lb_output.rs",
                "core/datapath/src/path/execute.rs",
                "core/datapath/src/path/prepare.rs",
                "core/datapath/src/path/meter.rs",
                "core/datapath/src/compile.rs",
            ],
            Stage::Tunnels => &["core/datapath/src/path/tunnel.rs"],
            Stage::Reassembly => {
                &["core/datapath/src/path/fragments.rs", "core/datapath/src/waiting_fragments.rs"]
            }
            Stage::Transmit => &["core/datapath/src/path/transmit.rs", "core/datapath/src/path/output.rs"],
            Stage::None => &[],
        }
    }
}

/// A row: `Variant = "name of the counter", Stage`, and `, diagnose "command"` if the counter should be 0. The doc comment of the
/// row is the explanation that users read.
macro_rules! reasons {
    ($(#[doc = $help:literal] $variant:ident = $name:literal, $stage:ident $(, diagnose $diagnose:literal)?;)*) => {
        /// Why a packet was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum DropReason { $(#[doc = $help] $variant,)* }

        impl DropReason {
            /// All reasons, in the order of their counters.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$variant,)*];

            /// The name of the counter.
            pub const fn name(self) -> &'static str {
                match self { $(DropReason::$variant => $name,)* }
            }

            /// The meaning of the reason, in a sentence.
            pub const fn help(self) -> &'static str {
                match self { $(DropReason::$variant => $help.trim_ascii(),)* }
            }

            /// The stage that drops such packets.
            pub const fn stage(self) -> Stage {
                match self { $(DropReason::$variant => Stage::$stage,)* }
            }

            /// The command that shows more, for a reason whose counter is 0 in a switch without problems.
            pub const fn diagnostic_command(self) -> Option<&'static str> {
                match self {
                    $($(DropReason::$variant => Some($diagnose),)?)*
                    _ => None,
                }
            }
        }
    };
}

reasons! {
    /// The switch could not translate the packet.
    UpcallError = "datapath_drop_upcall_error", Upcall;
    /// More packets without a megaflow arrived than handler threads and the poll thread could translate.
    UpcallBacklog = "datapath_drop_upcall_backlog", Upcall,
        diagnose "sluice appctl dpif-netdev/pmd-perf-show   # other_config:n-handler-threads gives more threads";
    /// Reconfiguration held the lock of the datapath (Open vSwitch only).
    LockError = "datapath_drop_lock_error", None;
    /// A `userspace` action could not deliver the packet.
    UserspaceActionError = "datapath_drop_userspace_action_error", Actions;
    /// The header of the tunnel could not be added.
    TunnelPushError = "datapath_drop_tunnel_push_error", Tunnels;
    /// The header of the tunnel could not be removed: it is malformed, or its options are not known.
    TunnelPopError = "datapath_drop_tunnel_pop_error", Tunnels;
    /// The packet was recirculated too often.
    RecircError = "datapath_drop_recirc_error", Actions,
        diagnose "sluice appctl ofproto/trace --last-drop --reason recirc_error   # flows that send packets in a circle";
    /// The port that should send the packet is not in the datapath.
    InvalidPort = "datapath_drop_invalid_port", Transmit;
    /// The bond that should send the packet is not in the datapath.
    InvalidBond = "datapath_drop_invalid_bond", Actions;
    /// The tunnel port that should send the packet is not in the datapath.
    InvalidTunnelPort = "datapath_drop_invalid_tnl_port", Tunnels;
    /// The device delivered something that is not an Ethernet frame.
    RxInvalidPacket = "datapath_drop_rx_invalid_packet", Receive;
    /// The ingress policer of the port that received the packet dropped it.
    RxPoliced = "datapath_drop_rx_qos", Receive;
    /// A band of a meter dropped the packet.
    Meter = "datapath_drop_meter", Actions;
    /// A `sample` action had no copy of the packet.
    SampleError = "datapath_drop_sample_error", None;
    /// The NSH header could not be removed.
    NshDecapError = "datapath_drop_nsh_decap_error", Actions;
    /// The OpenFlow tables send the packet nowhere.
    ActionOfPipeline = "drop_action_of_pipeline", Translation;
    /// The bridge that received the packet, or on which it continues after recirculation, no longer exists.
    ActionBridgeNotFound = "drop_action_bridge_not_found", Translation;
    /// Actions of the flows nest too deeply.
    ActionRecursionTooDeep = "drop_action_recursion_too_deep", Translation,
        diagnose "sluice appctl ofproto/trace --last-drop --reason recursion   # flows or patch ports that lead in a circle";
    /// The flows resubmit the packet too often.
    ActionTooManyResubmit = "drop_action_too_many_resubmit", Translation,
        diagnose "sluice appctl ofproto/trace --last-drop --reason resubmit   # flows that lead in a circle";
    /// The flows push more onto the stack than it holds.
    ActionStackTooDeep = "drop_action_stack_too_deep", Translation,
        diagnose "sluice appctl ofproto/trace --last-drop --reason stack";
    /// The recirculation id of the packet is not known, or none is free.
    ActionNoRecirculationContext = "drop_action_no_recirculation_context", Translation;
    /// The packet was recirculated for another bridge.
    ActionRecirculationConflict = "drop_action_recirculation_conflict", Translation;
    /// The packet would have more MPLS labels than a flow key holds.
    ActionTooManyMplsLabels = "drop_action_too_many_mpls_labels", Translation;
    /// The options of the tunnel's header cannot be kept.
    ActionInvalidTunnelMetadata = "drop_action_invalid_tunnel_metadata", Translation;
    /// There is no route to the remote end of the tunnel through a port of a bridge of the same datapath.
    ActionTunnelRoutingFailed = "drop_action_tunnel_routing_failed", Translation,
        diagnose "sluice appctl ovs/route/show   # the route to remote_ip must leave by the internal port of a bridge";
    /// The port through which the tunnel's packets are sent has no Ethernet address.
    ActionTunnelOutputNoEthernet = "drop_action_tunnel_output_no_ethernet", Translation;
    /// The Ethernet address of a tunnel's next hop is not known yet.
    ActionTunnelNeighCacheMiss = "drop_action_tunnel_neigh_cache_miss", Translation;
    /// The header of the tunnel cannot be built from the port's options.
    ActionTunnelHeaderBuildFailed = "drop_action_tunnel_header_build_failed", Translation;
    /// The packet type is not supported by the action.
    ActionUnsupportedPacketType = "drop_action_unsupported_packet_type", Translation;
    /// The tunnel's header reports congestion, but the inner packet cannot carry this mark (ECN).
    ActionCongestion = "drop_action_congestion", Translation;
    /// Spanning tree blocks the port that received the packet or should send it, to prevent a loop.
    ActionForwardingDisabled = "drop_action_forwarding_disabled", Translation;
    /// The actions of the flow end without an output.
    NoOutput = "datapath_drop_no_output", Actions;
    /// The device did not accept the packet: its queue was full, or it is down.
    TxFailed = "datapath_drop_tx_failed", Transmit;
    /// The packet is longer than the MTU of the port that should send it.
    TxTooLong = "datapath_drop_tx_mtu_exceeded", Transmit,
        diagnose "sluice appctl ofproto/trace --last-drop --reason mtu";
    /// The policer of the port that should send the packet dropped it, or a queue of the port's shaper was full.
    TxQos = "datapath_drop_tx_qos", Transmit;
    /// There was no buffer for a copy of the packet.
    NoBuffer = "datapath_drop_no_buffer", Actions,
        diagnose "sluice appctl netdev-dpdk/get-mempool-info   # other_config:dpdk-socket-mem gives more";
    /// There was no space in front of the packet for the header that an action adds.
    NoHeadroom = "datapath_drop_no_headroom", Actions;
    /// An action does not fit the packet: a header is missing or too short.
    MalformedForAction = "datapath_drop_action_not_applicable", Actions;
    /// The datagram of the fragment was not complete in time.
    FragmentExpired = "ipf_stuck_frag_list_expired", Reassembly;
    /// The datagram of the fragment was not complete in time, and no later fragment removed it; or the port was removed.
    FragmentPurged = "ipf_stuck_frag_list_purged", Reassembly;
    /// The fragment waited for the rest of its datagram, and was removed to make space for a newer fragment.
    FragmentEvicted = "datapath_drop_fragment_evicted", Reassembly,
        diagnose "sluice appctl dpctl/ipf-get-status   # dpctl/ipf-set-max-nfrags lets more wait";
    /// The fragment belongs to a datagram that is longer than a buffer.
    DatagramTooLong = "datapath_drop_datagram_too_long", Reassembly;
    /// The port or queue that received the packet was removed while the packet waited for its translation.
    PortRemoved = "datapath_drop_port_removed", Upcall;
}

impl DropReason {
    /// Number of reasons.
    pub const COUNT: usize = DropReason::ALL.len();
}

/// The text of docs/drop-reasons.md.
pub fn markdown() -> String {
    let mut out = "# Drop reasons\n\n\
        Every dropped packet is counted under one of these names. `sluice appctl coverage/show` and `dpif/show-accounting` print\n\
        the counters, `sluice drops` those of each port and recent packets with their rule, `sluice drops --list` this page's text.\n\
        Generated by `sluice drops --markdown`.\n"
        .to_owned();
    for stage in Stage::ALL {
        let files: Vec<String> = stage.files().iter().map(|file| format!("[{file}](../{file})")).collect();
        out += &format!("\n## {}\n\n", stage.name());
        if !files.is_empty() {
            out += &format!("Decided in {}.\n\n", files.join(", "));
        }
        out += "| counter | meaning | if it is not 0 |\n|---|---|---|\n";
        for reason in DropReason::ALL.iter().filter(|reason| reason.stage() == stage) {
            let diagnose =
                reason.diagnostic_command().map_or(String::new(), |diagnose| format!("`{diagnose}`"));
            out += &format!("| `{}` | {} | {diagnose} |\n", reason.name(), reason.help());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_reason_has_a_name_of_its_own_and_a_sentence() {
        let names: BTreeSet<&str> = DropReason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), DropReason::COUNT);
        for (at, reason) in DropReason::ALL.iter().enumerate() {
            let help = reason.help();
            assert_eq!(*reason as usize, at);
            assert!(help.starts_with(char::is_uppercase) && help.ends_with('.'), "{}: {help}", reason.name());
            assert!(
                reason.diagnostic_command().is_none() || reason.stage() != Stage::None,
                "{}",
                reason.name()
            );
        }
    }

    #[test]
    fn the_page_matches_the_table() {
        let page = include_str!("../../../docs/drop-reasons.md");
        assert!(
            page == markdown(),
            "docs/drop-reasons.md is old: sluice drops --markdown > docs/drop-reasons.md"
        );
    }
}
