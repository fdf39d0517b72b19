//! The datapath: receives packets, finds their megaflows and executes the actions. The path of a batch has a file per stage.
//!
//! # Map
//!
//! ```text
//! Datapath (datapath.rs)  the interface for the control half and commands; shared.rs: what it shares with workers
//!   ├ flows.rs            the publisher's side of megaflows: ufid, owner, statistics, folding of lanes
//!   ├ ports.rs, port.rs   the ports; the interface of devices (RxQueue, TxQueue, Frame)
//!   ├ port_qos.rs, egress_qos.rs  a policer or a shaper in front of a port's tx queues
//!   ├ rxq.rs              an rx queue of a worker, with its counters
//!   ├ upcalls.rs          upcalls on their way to handler threads, and their answers; fair_queue.rs: ports take turns
//!   ├ upcall_server() → UpcallServer (upcall_server.rs)  of one handler thread: serve() answers some upcalls, publishes megaflows
//!   └ worker(id) → Worker (worker.rs)  one PMD thread's iteration: poll(now, cycles) -> busy
//!        └ Engine (engine.rs)          state that its stages share: batch, cache, lane, buffers, bursts, counters; engine/: its parts
//!             path/  receive → extract → recent → cache → classify → inspection → execute_batch → execute → upcall
//!             path/output.rs, path/transmit.rs  collect packets into bursts of ports, and send full bursts; the worker sends the others
//!                    at the end of its iteration
//!             park.rs, flow_hash.rs  packets that wait for answers to upcalls, by flow
//!             upcall_budget.rs, rxq_backoff.rs  treatment of misses when no more can be parked
//!             path/conntrack.rs  `ct`: passes packets to the crate `conntrack`
//!             action/helper.rs   translates text and sequence numbers of FTP control connections
//!             path/fragments.rs  passes fragments to the crate `reassembly` until their datagram is complete
//!             tunnel_ports.rs, path/tunnel.rs  tunnel ports; adding and removing their headers; tunnel_settings.rs: settings
//!             path/translate_inline.rs     a worker translates a packet itself; path/answers.rs: packets continue after an upcall
//!             meter.rs    meters, and the table that numbers them; token_bucket.rs: their tokens; policer.rs: ingress policing
//!             bonds.rs, path/lb_output.rs  bonds that distribute connections without a second look-up
//!             batch.rs    structure of arrays, at most 64 packets of one ingress port
//!             tracked.rs  connection tracking metadata of its packets
//!             packet.rs   frame + metadata, as actions hold it; header_offsets.rs: where its headers are
//!             program.rs  actions compiled once per megaflow; action/: one file per header
//!             tally.rs    events and drops by reason; packet accounting; drop_counters.rs: drops by port and reason
//!             last_drop.rs  recently dropped packets
//!             capture/    copies of packets for a reader outside the datapath; path/capture.rs: where packets are offered
//!             stages.rs   how long each stage takes, measured in one iteration of 1,024
//!             residence.rs  residence times of packets, by rx queue
//! ```
//!
//! # Use
//!
//! `Datapath::new`, `set_handler` (upcalls), `add_port(no, tx queues)`; then each thread makes a `worker(id,
//! tx_queue)`, gives it rx queues by `add_rxq` and polls it. `maintain(now)` once a second folds statistics
//! into `FlowOwner::credit`. `execute` sends packets of the control half. In dummy mode, the
//! main loop polls the worker instead of a thread.
//!
//! * **No lock on the hit path** and no allocation: megaflows are read under an epoch guard that lives for one batch;
//!   ports and the upcall handler are snapshots, which a worker checks for a new version once per iteration. The only
//!   locks are taken once per burst: that of the tx queue and, at a port with QoS, that of its policer or
//!   shaper.
//! * **Every look-up is verified** against the megaflow, at the depth to which the packet was parsed. A packet that
//!   matches no megaflow at this depth is parsed completely and looked up again before an upcall is sent.
//! * **A megaflow is published under the publisher's lock, and only if its translation is still current.** A change
//!   of the control half first increments its version and then revalidates the flows. So a flow with an older
//!   translation is either already published, and is revalidated, or it is never published.
//! * **Packet accounting balances**: received + created = sent + delivered + dropped by reason + parked + waiting
//!   fragments + queued (`Tally::balance`; `tally.rs` says which packets are queued).
//! * Between iterations a worker holds only parked packets, packets that wait for a larger burst
//!   (`tx-flush-interval`), and those that it left in shapers; waiting fragments belong to no worker. So a
//!   queue can be handed over between any two iterations: `Worker::translate_parked` sends its parked
//!   packets, and `Worker::remove_rxq` sends the bursts that wait.
//! * **Packets of a flow keep their order**, also when the first of them waits for the answer to an upcall
//!   (`path/park.rs`).
//! * Owners and the upcall handler are called without any lock of the datapath (except `is_current`), and may call
//!   the datapath.

pub mod action;
pub mod batch;
mod bonds;
pub mod capture;
pub mod checksum_counters;
mod compile;
pub mod datapath;
mod drop_counters;
mod drop_port;
mod egress_qos;
mod engine;
mod fair_queue;
mod flow_hash;
mod flows;
pub mod header_offsets;
pub mod last_drop;
mod locks;
mod meter;
pub mod packet;
pub mod park;
pub mod path;
mod policer;
mod popped;
pub mod port;
mod port_count;
mod port_qos;
pub mod ports;
pub mod program;
mod read_drops;
pub mod recirculation;
pub mod residence;
mod rewrite;
pub mod rxq;
mod rxq_backoff;
mod shared;
pub mod stages;
pub mod steering;
mod steps;
pub mod tally;
mod token_bucket;
mod tracked;
mod tunnel_ports;
mod tunnel_settings;
mod upcall_budget;
mod upcall_server;
mod upcalls;
mod waiting_fragments;
pub mod worker;

pub use crate::bonds::Bonds;
pub use crate::datapath::{CONTROL_WORKER, Config, Datapath, PORT_MASKS, PutError};
pub use crate::drop_counters::DropCounts;
pub use crate::egress_qos::{Egress, EgressClock, EgressSpec};
pub use crate::flows::AffectedMatches;
pub use crate::policer::PolicerSpec;
pub use crate::rxq::{Rxq, RxqLoad};
pub use crate::tally::{CacheView, Event, Tally};
pub use crate::tunnel_ports::TUNNEL_SOURCE_PORTS;
pub use crate::upcall_server::UpcallServer;
pub use crate::upcalls::Wake;
pub use crate::worker::Worker;

#[cfg(test)]
mod batch_tracking_tests;
#[cfg(test)]
mod bond_tests;
#[cfg(test)]
mod by_source_tests;
#[cfg(test)]
mod conntrack_tests;
#[cfg(test)]
mod eviction_tests;
#[cfg(test)]
mod extract_words_tests;
#[cfg(test)]
mod fragment_tests;
#[cfg(test)]
mod helper_tests;
#[cfg(test)]
mod kind_tests;
#[cfg(test)]
mod park_tests;
#[cfg(test)]
mod qos_tests;
#[cfg(test)]
mod recirculation_tests;
#[cfg(test)]
mod shared_rxq_tests;
#[cfg(test)]
mod slow_path_tests;
#[cfg(test)]
mod small_batch_tests;
#[cfg(test)]
mod steering_tests;
#[cfg(test)]
mod tail_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tunnel_tests;
#[cfg(test)]
mod unfinished_offload_tests;
