//! The upcall path: from a packet that matched no megaflow to the megaflow that the next packets match.
//!
//! | stage | where | what happens |
//! |---|---|---|
//! | 1. miss | `core/datapath/src/path/{upcall,park}.rs`, `upcalls.rs` | a worker finds no megaflow; it parks the packet and queues an upcall |
//! | 2. wake | `threads.rs` (`HandlerPool::notify`) | wakes one sleeping handler, unless one is about to check the queue (`coalescing.rs`) |
//! | 3. serve | `threads.rs` (`serve`), `core/datapath/src/upcall_server.rs` | takes upcalls fairly over ports; lowers its priority (`priority.rs`) |
//! | 4. receive | `handler.rs` (`miss`) | the bridge and in port are looked up in the snapshot |
//! | 5. translate | `handler.rs` (`translate`), `core/xlate` | the OpenFlow tables are walked: datapath actions, mask, dependencies |
//! | 6. effects | `handler.rs` (`carry_out`) | a station is learned; side effects for the main loop are queued (`side_effect.rs`) |
//! | 7. answer | `handler.rs` (`translation`), `owner.rs` | actions, mask, and the rules and ports to credit for the megaflow's packets |
//! | 8. install | `core/datapath/src/upcall_server.rs` (`publish`) | the megaflow is published, and the answer goes to the worker |
//! | 9. continue | `core/datapath/src/path/answers.rs` | the worker executes the parked packet, and looks up the packets behind it |
//!
//! Where there is no handler thread (dummy mode, or every core polls) the worker does stages 4 to 7 itself.
//!
//! Packets of a megaflow with `userspace(slow_path(…))` do stages 4 to 7 on the worker as well, one by one
//! (`core/datapath/src/path/slow_path.rs`). Any other `userspace` action enters at stage 4 (`handler.rs`, `userspace`) and
//! becomes a packet-in (`packet_in.rs`). Packets of controllers and of the switch itself, which no port received, enter at stage 5
//! (`inject.rs`).
//! `recheck.rs` translates sampled packets again and compares (`other_config:shadow-check`).

mod coalescing;
pub mod handler;
pub mod inject;
mod lookup_check;
pub mod owner;
pub mod packet_in;
mod priority;
pub mod recheck;
pub mod shadow_check_counts;
pub mod suspect;
pub mod threads;
