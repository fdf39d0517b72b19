//! `Shared`: the state that workers and the control half share, and the publisher's lock.

use crate::bonds::Bonds;
use crate::capture::Captures;
use crate::drop_counters::DropCounts;
use crate::flows::{Flows, NewFlow, PublishResult, credit};
use crate::last_drop::DropPort;
use crate::locks::{lock, try_lock_spinning};
use crate::meter::MeterTable;
use crate::packet::Packet;
use crate::ports::Ports;
use crate::program::Program;
use crate::tally::{SharedTally, Tally};
use crate::upcalls::Upcalls;
use classifier::megaflow::MegaflowTable;
use conntrack::Conntrack;
use cpu::KeyedHash64;
use dpif::UpcallHandler;
use flowcache::CacheParams;
use reassembly::Reassembly;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use sync::SnapshotCell;
use units::WorkerId;

/// Secrets of packet hashes: a sender that does not know them cannot choose packets with equal hashes.
pub(crate) struct Secrets {
    /// Secret of the hashes by which flow caches are indexed.
    pub(crate) cache: cpu::Secret,
    /// Secret of the hashes that identify flows whose packets must keep their order.
    pub(crate) flow_hash: KeyedHash64,
}

/// Settings for all workers, which the control half changes.
#[derive(Default)]
pub(crate) struct Settings {
    /// How many VLAN tags are parsed; 0: as many as a flow can hold.
    pub(crate) vlan_limit: AtomicU8,
    /// One in this many packets is passed to the control half; 0: none.
    pub(crate) shadow_check: AtomicU32,
    /// Whether workers compare every look-up with a linear search.
    pub(crate) validate: AtomicBool,
    /// For how many microseconds packets are held, so that more packets can be sent with them.
    pub(crate) tx_flush_interval_us: AtomicU32,
    /// The kind of flow cache that workers use.
    pub(crate) flow_cache: SnapshotCell<CacheParams>,
}

/// The state that workers and the control half share.
pub(crate) struct Shared {
    pub(crate) megaflow_table: MegaflowTable<Program>,
    pub(crate) secrets: Secrets,
    pub(crate) ports: SnapshotCell<Ports>,
    pub(crate) handler: SnapshotCell<Option<Arc<dyn UpcallHandler>>>,
    pub(crate) settings: Settings,
    /// Number of look-ups that differed from the linear search (`Settings::validate`).
    pub(crate) lookup_differences: AtomicU64,
    /// Captures that run.
    pub(crate) captures: SnapshotCell<Captures>,
    pub(crate) meters: MeterTable,
    pub(crate) bonds: Bonds,
    pub(crate) conntrack: Arc<Conntrack>,
    pub(crate) reassembly: Arc<Reassembly<Packet>>,
    pub(crate) advise: Option<cpu::Advise>,
    /// Incremented after each change of `ports`, `handler`, `meters`, `captures` and `settings`.
    pub(crate) view_version: AtomicU64,
    pub(crate) upcalls: Upcalls,
    /// The publisher's side of `megaflow_table`.
    pub(crate) flows: Mutex<Flows>,
    pub(crate) tallies: Mutex<Tallies>,
}

/// How long a thread waits for the publisher's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockWait {
    /// Some microseconds; for a worker. Other threads translate as well, and forwarding a packet without installing
    /// its megaflow is harmless.
    Bounded,
    /// As long as needed; for a handler, because no other thread creates this megaflow.
    Unbounded,
}

/// How many times a worker tries to take the lock: a few microseconds.
const SPINS: usize = 64;

/// Counters of each worker, and the sums of the counters of removed workers.
/// The sums also contain the fragments that the control half has removed.
#[derive(Default)]
pub(crate) struct Tallies {
    pub(crate) present: Vec<(WorkerId, Arc<SharedTally>)>,
    pub(crate) removed_workers: Tally,
    pub(crate) removed_workers_port_drops: BTreeMap<DropPort, DropCounts>,
}

impl Shared {
    /// Announces a change; workers see it in their next iteration.
    pub(crate) fn changed(&self) {
        self.view_version.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn flows(&self) -> MutexGuard<'_, Flows> {
        lock(&self.flows)
    }

    /// Publishes the megaflows of translated misses, except those whose translation is older than the last change of
    /// the control half. Publishes none if another thread holds the lock for longer than `lock_wait` allows. Passes
    /// the result of each megaflow to `report`, in order.
    pub(crate) fn publish<'a>(
        &self,
        new_flows: impl Iterator<Item = (u64, NewFlow<'a>)>,
        handler: &dyn UpcallHandler,
        lock_wait: LockWait,
        mut report: impl FnMut(Option<PublishResult>),
    ) {
        let mut credits = Vec::new();
        let flows = match lock_wait {
            LockWait::Bounded => try_lock_spinning(&self.flows, SPINS),
            LockWait::Unbounded => Some(self.flows()),
        };
        let Some(mut flows) = flows else { return new_flows.for_each(|_| report(None)) };
        for (version, new) in new_flows {
            if handler.is_current(version) {
                flows.evict_for_new(new.at(), &mut credits);
                report(flows.publish(new, handler.wants_new_flows()));
            } else {
                report(None);
            }
        }
        drop(flows);
        credit(credits);
    }

    pub(crate) fn add_tally(&self, id: WorkerId) -> Arc<SharedTally> {
        let tally = Arc::new(SharedTally::default());
        lock(&self.tallies).present.push((id, Arc::clone(&tally)));
        tally
    }

    pub(crate) fn remove_tally(&self, tally: &Arc<SharedTally>) {
        let Tallies { present, removed_workers, removed_workers_port_drops } = &mut *lock(&self.tallies);
        removed_workers.merge(&tally.load());
        tally.port_drops.add_to(removed_workers_port_drops);
        present.retain(|(_, t)| !Arc::ptr_eq(t, tally));
    }
}
