//! Translation: walks a packet's flow through the OpenFlow pipeline and returns datapath actions.
//!
//! A translation is a function of a [`Snapshot`] and an [`Input`]. It changes nothing, except that it stores frozen states
//! through [`Recirc`]. It returns the actions, the mask of the consulted bits, the side effects ([`PacketEffect`]) and the
//! statistics to update ([`StatsTarget`]). Several threads may translate at the same time: the snapshot is immutable, and
//! state that changes (learning tables, frozen states) is accessed through traits.
//!
//! `translate` begins and ends a translation, `walk` is its state, `freeze` stores this state for recirculation,
//! `lookup` finds rules, `actions` executes their actions, `ports`, `normal` and `multicast` output, `commit` emits the
//! header changes before each output. Actions and their effects: OpenFlow 1.0 to 1.5 and ovs-actions(7). The text of a
//! [`Trace`] and of errors is that of Open vSwitch 3.7, because scripts parse it.

mod action_set;
mod actions;
mod bonds;
mod bridge_id;
mod changed_words;
mod commit;
mod commit_mpls;
mod commit_outer;
mod conntrack;
mod controller;
mod dependencies;
mod encap;
mod fields;
mod freeze;
mod frozen;
mod groups;
mod hash;
mod header;
mod header_actions;
mod learn;
mod limits;
mod lookup;
mod messages;
mod mirror;
mod multicast;
mod multipath;
mod native;
mod next_hop;
mod normal;
mod outcome;
mod packet_len;
mod packet_type;
mod ports;
mod sampling;
mod sampling_settings;
mod snapshot;
mod spanning_tree;
mod special;
mod trace;
mod trace_report;
mod translate;
mod tunnel;
mod tunnel_ports;
mod underlay;
mod walk;

pub use bridge_id::BridgeId;
pub use dependencies::{Dependencies, DependencyChange, DependencySets};
pub use frozen::{Frozen, FrozenMetadata, FrozenStep, Recirc, RecircTable};
pub use groups::select_slots;
pub use mirror::{MIRRORS_MAX, Mirror, MirrorOutput, MirrorTally};
pub use normal::is_reserved;
pub use outcome::{
    Failure, FinTimeout, Fork, HeldOutput, LearnedFlow, Level, LogLine, Output, PacketEffect, Solicitation,
    StatsTarget,
};
pub use sampling_settings::{BridgeIpfix, Sampling};
pub use snapshot::{Attachment, BridgeView, Bundle, Fragments, PortFlags, PortView, Snapshot, Snooping};
pub use trace::{LineKind, Trace};
pub use trace_report::trace_report;
pub use translate::translate;
pub use tunnel_ports::{TunnelPort, TunnelPorts};
pub use underlay::{HoldCapacity, HostPort, Listener, Neighbours, TunnelEndpoints, Underlay};
pub use walk::{Input, Start, TraceFormat};

#[cfg(test)]
mod tests;
