//! `Shared`: the state that workers and the control half share, and the publisher's lock.

use crate::bonds::Bonds;
use crate::capture::Captures;
use crate::flows::{Flows, NewFlow, Published, credit};
use crate::last_drop::DropPort;
use crate::locks::{lock, lock_soon};
use crate::meter::Bank;
use crate::packet::Packet;
use crate::port_drops::DropCounts;
use crate::ports::Ports;
use crate::program::Program;
use crate::tally::{SharedTally, Tally};
use crate::upcalls::Upcalls;
use classifier::megaflow::MegaflowTable;
use conntrack::Conntrack;
use cpu::Chain;
use dpif::UpcallHandler;
use flowcache::Choice;
use reassembly::Reassembly;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use sync::Snapshot;
use units::WorkerId;

/// Secrets of hashes of packets: who does not know them cannot choose packets with equal hashes.
pub(crate) struct Secrets {
    /// Of the hashes by which flow caches are indexed.
    pub(crate) cache: cpu::Secret,
    /// Of the numbers that identify flows whose packets must keep their order.
    pub(crate) flow_hash: Chain,
}

/// What the control half sets for all workers.
#[derive(Default)]
pub(crate) struct Settings {
    /// How many VLAN tags are parsed; 0: as many as a flow can hold.
    pub(crate) vlan_limit: AtomicU8,
    /// One packet of this many is reported to the control half; 0: none.
    pub(crate) shadow_check: AtomicU32,
    /// Whether workers compare every look-up with a linear search.
    pub(crate) validate: AtomicBool,
    /// Microseconds for which packets are held so that more can be sent with them.
    pub(crate) tx_hold: AtomicU32,
    /// The kind of flow cache that workers use.
    pub(crate) flow_cache: Snapshot<Choice>,
}

/// The state that workers and the control half share.
pub(crate) struct Shared {
    pub(crate) table: MegaflowTable<Program>,
    pub(crate) secrets: Secrets,
    pub(crate) ports: Snapshot<Ports>,
    pub(crate) handler: Snapshot<Option<Arc<dyn UpcallHandler>>>,
    pub(crate) settings: Settings,
    /// Number of look-ups that differed from the linear search (`Settings::validate`).
    pub(crate) lookup_differences: AtomicU64,
    /// Captures that run.
    pub(crate) captures: Snapshot<Captures>,
    pub(crate) meters: Bank,
    pub(crate) bonds: Bonds,
    pub(crate) conntrack: Arc<Conntrack>,
    pub(crate) reassembly: Arc<Reassembly<Packet>>,
    pub(crate) advise: Option<cpu::Advise>,
    /// Incremented after each change of `ports`, `handler`, `meters`, `captures` and `settings`.
    pub(crate) version: AtomicU64,
    pub(crate) upcalls: Upcalls,
    pub(crate) flows: Mutex<Flows>,
    pub(crate) tallies: Mutex<Tallies>,
}

/// How long a thread waits for the publisher's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Some microseconds: for a worker. Other threads translate as well, and forwarding a packet without
    /// installing its megaflow is harmless.
    Short,
    /// As long as needed: for a handler, because no other thread creates this megaflow.
    Long,
}

/// How many times a worker tries the lock: a few microseconds.
const SPINS: usize = 64;

/// Counters of each worker, and the sum of those of removed workers.
#[derive(Default)]
pub(crate) struct Tallies {
    pub(crate) there: Vec<(WorkerId, Arc<SharedTally>)>,
    pub(crate) gone: Tally,
    pub(crate) gone_ports: BTreeMap<DropPort, DropCounts>,
}

impl Shared {
    /// Announces a change; workers see it in their next iteration.
    pub(crate) fn changed(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn flows(&self) -> MutexGuard<'_, Flows> {
        lock(&self.flows)
    }

    /// Publishes the megaflows of translated misses, except those whose translation is older than the last
    /// change of the control half. Publishes none if the lock is held for too long. Returns the result of
    /// each, in order.
    pub(crate) fn publish<'a>(
        &self,
        births: impl Iterator<Item = (u64, NewFlow<'a>)>,
        handler: &dyn UpcallHandler,
        patience: Patience,
        mut told: impl FnMut(Option<Published>),
    ) {
        let mut credits = Vec::new();
        let flows = match patience {
            Patience::Short => lock_soon(&self.flows, SPINS),
            Patience::Long => Some(self.flows()),
        };
        let Some(mut flows) = flows else { return births.for_each(|_| told(None)) };
        for (version, new) in births {
            if handler.is_current(version) {
                flows.evict_for_new(new.at(), &mut credits);
                told(flows.publish(new, handler.wants_new_flows()));
            } else {
                told(None);
            }
        }
        drop(flows);
        credit(credits);
    }

    pub(crate) fn add_tally(&self, id: WorkerId) -> Arc<SharedTally> {
        let tally = Arc::new(SharedTally::default());
        lock(&self.tallies).there.push((id, Arc::clone(&tally)));
        tally
    }

    pub(crate) fn remove_tally(&self, tally: &Arc<SharedTally>) {
        let Tallies { there, gone, gone_ports } = &mut *lock(&self.tallies);
        gone.merge(&tally.load());
        tally.port_drops.add_to(gone_ports);
        there.retain(|(_, t)| !Arc::ptr_eq(t, tally));
    }
}
