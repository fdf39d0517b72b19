//! The translation service: answers upcalls with the published snapshot, and revalidates megaflows when the snapshot changes.
//! It also has the protocol sessions on ports (BFD, CFM, LLDP, LACP, spanning trees) and the timer thread that runs their timers.
//!
//! | module | contents | threads |
//! |---|---|---|
//! | `upcall/` | the upcall path, stage by stage, with the threads that serve upcalls | handlers, workers |
//! | `shared_state.rs` | state that translating threads and the main thread share: snapshot, frozen states, queues | any |
//! | `changes.rs`, `live_changes.rs`, `macs.rs`, `multicast_groups.rs` | changes that translations depend on; the learning tables | any |
//! | `neighbours.rs` | the next hops of tunnels | any |
//! | `revalidate/` | revalidates the megaflows that a change affects | revalidator |
//! | `timers/`, `port_sessions.rs`, `bfd/`, `cfm/`, `lldp/`, `lacp/`, `spanning_tree/` | protocols on ports, and their timers | timers |
//! | `patch_and_tunnel_counters.rs` | counters of patch ports and tunnels | any |
//! | `command_settings.rs`, `flow_log.rs`, `flow_text.rs`, `trace_text.rs` | settings made by commands; text of flows and traces | any |
//!
//! The main thread publishes a snapshot (`SharedState::publish`), passes the changes to the revalidator (`Revalidator::add_changes`),
//! and carries out the side effects that translations queued (`SharedState::take_side_effects`).

pub mod bfd;
pub mod cfm;
pub mod changes;
pub mod command_settings;
mod flow_log;
pub mod flow_text;
mod held_packet;
pub mod lacp;
pub mod live_changes;
pub mod lldp;
pub mod macs;
pub mod multicast_groups;
pub mod neighbours;
mod note_neighbour;
pub mod patch_and_tunnel_counters;
pub mod port_sessions;
mod protocol_state;
pub mod published;
pub mod revalidate;
pub mod shared_state;
pub mod side_effect;
pub mod spanning_tree;
pub mod timers;
pub mod trace_text;
pub mod upcall;

pub use changes::Changes;
pub use command_settings::CommandSettings;
pub use flow_log::dumped as log_dump;
pub use held_packet::HeldPacket;
pub use macs::SharedMacs;
pub use multicast_groups::SharedGroupTable;
pub use neighbours::SharedNeighbours;
pub use patch_and_tunnel_counters::PatchAndTunnelCounters;
pub use protocol_state::PortKey;
pub use published::PublishedState;
pub use revalidate::check::{Comparison, compare};
pub use revalidate::thread::Revalidator;
pub use shared_state::SharedState;
pub use side_effect::{SIDE_EFFECTS_MAX, SideEffect};
pub use timers::Timers;
pub use upcall::injected_packets::OwnFrame;
pub use upcall::owner::Owner;
pub use upcall::packet_in::PacketInParts;
pub use upcall::threads::Handlers;
pub use upcall::translator::UpcallTranslator;
