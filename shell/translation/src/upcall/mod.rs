//! The upcall path: from a packet that matched no megaflow to the megaflow that the next packets match.
//!
//! | stage | file | what happens |
//! |---|---|---|
//! | 1. miss | `core/datapath/src/path/{upcall,park}.rs`, `upcalls.rs` | a worker finds no megaflow; it parks the packet and queues an upcall |
//! | 2. wake | `threads.rs` (`HandlerPool::notify`) | wakes one sleeping handler, unless one is about to check the queue (`coalescing.rs`) |
//! | 3. serve | `threads.rs` (`serve`), `core/datapath/src/upcall_server.rs` | serves ports in turn; lowers its priority under load (`priority.rs`) |
//! | 4. receive | `translator.rs` (`miss`) | the bridge and in port are looked up in the snapshot |
//! | 5. translate | `translator.rs` (`translate`), `core/xlate` | the OpenFlow tables are walked: datapath actions, mask, dependencies |
//! | 6. effects | `translator.rs` (`carry_out`) | a station is learned; side effects for the main thread are queued (`side_effect.rs`) |
//! | 7. answer | `translator.rs` (`datapath_translation`), `owner.rs` | the answer is made: actions, mask, owner (rules and ports that count) |
//! | 8. install | `core/datapath/src/upcall_server.rs` (`publish`) | the megaflow is published, and the answer goes to the worker |
//! | 9. continue | `core/datapath/src/path/answers.rs` | the worker executes the parked packet, and looks up the packets behind it |
//!
//! If there is no handler thread (dummy mode, or every core has a PMD thread), the worker does stages 4 to 7 itself.
//!
//! The worker also does stages 4 to 7 for each packet of a megaflow with `userspace(slow_path(…))`
//! (`core/datapath/src/path/slow_path.rs`). Any other `userspace` action is handled in `translator.rs` (`userspace`): it
//! becomes a packet-in (`packet_in.rs`) or a sample. Packets of controllers and of the switch itself, which no port received,
//! enter at stage 5 (`injected_packets.rs`).
//! `shadow_check.rs` translates sampled packets again and compares (`other_config:shadow-check`). `autovalidator_log.rs` logs
//! look-ups that differ from a linear search.

mod autovalidator_log;
mod coalescing;
pub mod injected_packets;
pub mod owner;
pub mod packet_in;
mod priority;
pub mod shadow_check;
pub mod shadow_check_counts;
pub mod suspect_megaflow;
pub mod threads;
pub mod translator;
