//! Bonds for `lb_output`, which distribute connections without recirculation: the port of each hash bucket, and the
//! bytes that each bucket has sent.
//!
//! Workers read an immutable map from buckets to ports. When buckets move to other links, a new map is published,
//! and workers use it from their next batch on. Each worker counts in a lane of its own: it creates the lane when it
//! first uses the bond, and the control half reads the lane.

use dpif::BOND_BUCKETS;
use rpds::HashTrieMapSync;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use sync::{Cached, LaneCount, LaneReader, LaneWriter, Mailbox, SnapshotCell};
use units::PortNo;

/// Stands for no port. Packets of such a bucket are dropped.
const NO_PORT: u32 = u32::MAX;

/// Mailbox in which workers pass the reading ends of new lanes to the control half.
type NewLanes = Arc<Mailbox<LaneReader>>;

/// A bond as workers see it.
pub(crate) struct BondMap {
    /// Seed of the hash.
    pub(crate) basis: u32,
    ports: [u32; BOND_BUCKETS],
    /// All maps of a bond share this mailbox.
    new_lanes: NewLanes,
}

impl BondMap {
    /// Returns the port for packets with this hash.
    #[inline(always)]
    pub(crate) fn port(&self, hash: u32) -> u32 {
        self.ports[hash as usize % BOND_BUCKETS]
    }
}

/// The bonds of a datapath, by number.
type BondMaps = HashTrieMapSync<u32, Arc<BondMap>>;

/// Counters of a bond, as the control half reads them.
struct BondCounters {
    new_lanes: NewLanes,
    /// The lane of each worker, and its counts at the last read.
    lanes: Vec<(LaneReader, [LaneCount; BOND_BUCKETS])>,
}

impl BondCounters {
    /// Returns the bytes of each bucket since the last call.
    fn take(&mut self) -> [u64; BOND_BUCKETS] {
        let mut new = VecDeque::new();
        while self.new_lanes.try_take_all(&mut new) {
            self.lanes.extend(new.drain(..).map(|lane| (lane, [LaneCount::default(); BOND_BUCKETS])));
        }
        let mut bytes = [0; BOND_BUCKETS];
        // The lane of a removed worker (`is_used` is false, read before the lane's counts) is read a last time and
        // then dropped.
        self.lanes.retain_mut(|(lane, last)| {
            let is_used = lane.is_used();
            for (bucket, (last, bytes)) in last.iter_mut().zip(&mut bytes).enumerate() {
                let count = lane.read(bucket as u32);
                *bytes += count.bytes_since(last);
                *last = count;
            }
            is_used
        });
        bytes
    }
}

/// The bonds of a datapath; see the module documentation.
pub struct Bonds {
    maps: Arc<SnapshotCell<BondMaps>>,
    /// The counters by bond. Also serializes publishers: maps are published while this lock is held.
    counted: Mutex<BTreeMap<u32, BondCounters>>,
}

impl Default for Bonds {
    fn default() -> Bonds {
        let maps = Arc::new(SnapshotCell::from_pointee(BondMaps::new_sync()));
        Bonds { maps, counted: Mutex::default() }
    }
}

impl Bonds {
    fn counted(&self) -> MutexGuard<'_, BTreeMap<u32, BondCounters>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a bond, or replaces its map. `ports`: the port of each bucket, if the bucket has one. `basis`: seed of
    /// the hash.
    pub fn put(&self, id: u32, basis: u32, ports: &[Option<PortNo>; BOND_BUCKETS]) {
        let ports = ports.map(|port| port.map_or(NO_PORT, |port| port.0));
        let mut counted = self.counted();
        let counters = counted
            .entry(id)
            .or_insert_with(|| BondCounters { new_lanes: Arc::default(), lanes: Vec::new() });
        let map = BondMap { basis, ports, new_lanes: Arc::clone(&counters.new_lanes) };
        self.maps.store(Arc::new(self.maps.load().insert(id, Arc::new(map))));
    }

    /// Removes a bond. Packets of megaflows that still refer to it are dropped.
    pub fn remove(&self, id: u32) {
        let mut counted = self.counted();
        if counted.remove(&id).is_some() {
            self.maps.store(Arc::new(self.maps.load().remove(&id)));
        }
    }

    /// Returns the bytes that each bucket of a bond has sent since the last call.
    pub fn take_bytes(&self, id: u32) -> [u64; BOND_BUCKETS] {
        self.counted().get_mut(&id).map_or([0; BOND_BUCKETS], BondCounters::take)
    }

    /// All bonds in the order of their numbers, with the port of each bucket.
    pub fn all(&self) -> BTreeMap<u32, [Option<PortNo>; BOND_BUCKETS]> {
        let port = |port| (port != NO_PORT).then_some(PortNo(port));
        self.maps.load().iter().map(|(id, map)| (*id, map.ports.map(port))).collect()
    }

    /// Creates the view of a new worker.
    pub(crate) fn for_worker(&self) -> OwnBonds {
        OwnBonds { maps: Cached::new(Arc::clone(&self.maps)), seen: Arc::default(), bonds: Vec::new() }
    }
}

/// A bond as one worker uses it.
pub(crate) struct OwnBond {
    id: u32,
    pub(crate) map: Arc<BondMap>,
    lane: LaneWriter,
}

impl OwnBond {
    fn new(id: u32, map: &Arc<BondMap>) -> OwnBond {
        let (lane, lanes) = LaneWriter::new(BOND_BUCKETS);
        map.new_lanes.post(lanes);
        OwnBond { id, map: Arc::clone(map), lane }
    }

    /// Counts a packet with this hash.
    #[inline(always)]
    pub(crate) fn count(&mut self, hash: u32, bytes: u64) {
        self.lane.count(hash % BOND_BUCKETS as u32, 1, bytes, 0, 0);
    }
}

/// All bonds, as one worker uses them.
pub(crate) struct OwnBonds {
    maps: Cached<Arc<SnapshotCell<BondMaps>>, Arc<BondMaps>>,
    /// The maps for which `bonds` was updated.
    seen: Arc<BondMaps>,
    /// All bonds. There are few, so a linear search is fast. Taking a bond out and returning it does not allocate.
    bonds: Vec<OwnBond>,
}

impl OwnBonds {
    /// Takes a bond out, with its latest map. The caller must [return it](Self::give_back).
    #[inline]
    pub(crate) fn take(&mut self, id: u32) -> Option<OwnBond> {
        if !Arc::ptr_eq(self.maps.load(), &self.seen) {
            self.refresh();
        }
        let at = self.bonds.iter().position(|own| own.id == id)?;
        Some(self.bonds.swap_remove(at))
    }

    /// Returns a bond that was taken out.
    #[inline]
    pub(crate) fn give_back(&mut self, own: OwnBond) {
        self.bonds.push(own);
    }

    #[cold]
    fn refresh(&mut self) {
        self.seen = Arc::clone(self.maps.load());
        let is_of = |own: &OwnBond, map: &BondMap| Arc::ptr_eq(&own.map.new_lanes, &map.new_lanes);
        self.bonds.retain(|own| self.seen.get(&own.id).is_some_and(|map| is_of(own, map)));
        for (id, map) in self.seen.iter() {
            match self.bonds.iter_mut().find(|own| own.id == *id) {
                Some(own) => own.map = Arc::clone(map),
                None => self.bonds.push(OwnBond::new(*id, map)),
            }
        }
    }
}
