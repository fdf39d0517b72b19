//! Bonds that share connections without a second look-up (`lb_output`): by which port each hash bucket leaves, and what the
//! buckets have sent.
//!
//! Workers read an unchanging map; when buckets move to other links, another map is published, and workers take it up with
//! their next batch. Each worker counts in a lane of its own, which it makes when it sees the bond first, and which the
//! control half reads.

use dpif::BOND_BUCKETS;
use rpds::HashTrieMapSync;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use sync::{Cached, Lane, LaneCount, Lanes, Mailbox, Snapshot};
use units::PortNo;

/// Stands for no port: the packets of the bucket are dropped.
const NO_PORT: u32 = u32::MAX;

/// Where workers leave the reading ends of their lanes.
type NewLanes = Arc<Mailbox<Lanes>>;

/// A bond as workers see it.
pub(crate) struct BondMap {
    /// Seed of the hash.
    pub(crate) basis: u32,
    ports: [u32; BOND_BUCKETS],
    /// The same for all maps of a bond.
    new_lanes: NewLanes,
}

impl BondMap {
    /// The port of a packet with this hash.
    #[inline(always)]
    pub(crate) fn port(&self, hash: u32) -> u32 {
        self.ports[hash as usize % BOND_BUCKETS]
    }
}

/// The bonds of a datapath, by number.
type BondMaps = HashTrieMapSync<u32, Arc<BondMap>>;

/// What was counted of a bond.
struct Counted {
    new_lanes: NewLanes,
    /// One for each worker, and what was read of it last.
    lanes: Vec<(Lanes, [LaneCount; BOND_BUCKETS])>,
}

impl Counted {
    /// Bytes by bucket since the last call.
    fn take(&mut self) -> [u64; BOND_BUCKETS] {
        let mut new = VecDeque::new();
        while self.new_lanes.try_take_all(&mut new) {
            self.lanes.extend(new.drain(..).map(|lane| (lane, [LaneCount::default(); BOND_BUCKETS])));
        }
        let mut bytes = [0; BOND_BUCKETS];
        // A worker that is gone by now has counted all that it will.
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

/// See the module.
pub struct Bonds {
    maps: Arc<Snapshot<BondMaps>>,
    /// The holder of the lock publishes maps.
    counted: Mutex<BTreeMap<u32, Counted>>,
}

impl Default for Bonds {
    fn default() -> Bonds {
        let maps = Arc::new(Snapshot::from_pointee(BondMaps::new_sync()));
        Bonds { maps, counted: Mutex::default() }
    }
}

impl Bonds {
    fn counted(&self) -> MutexGuard<'_, BTreeMap<u32, Counted>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a bond, or gives it another map: the port of each bucket, if it has one. `basis`: seed of the hash.
    pub fn put(&self, id: u32, basis: u32, ports: &[Option<PortNo>; BOND_BUCKETS]) {
        let ports = ports.map(|port| port.map_or(NO_PORT, |port| port.0));
        let mut counted = self.counted();
        let known =
            counted.entry(id).or_insert_with(|| Counted { new_lanes: Arc::default(), lanes: Vec::new() });
        let map = BondMap { basis, ports, new_lanes: Arc::clone(&known.new_lanes) };
        self.maps.store(Arc::new(self.maps.load().insert(id, Arc::new(map))));
    }

    /// Removes a bond. Packets of megaflows that still name it are dropped.
    pub fn remove(&self, id: u32) {
        let mut counted = self.counted();
        if counted.remove(&id).is_some() {
            self.maps.store(Arc::new(self.maps.load().remove(&id)));
        }
    }

    /// The bytes that each bucket of a bond has sent since the last call.
    pub fn take_bytes(&self, id: u32) -> [u64; BOND_BUCKETS] {
        self.counted().get_mut(&id).map_or([0; BOND_BUCKETS], Counted::take)
    }

    /// All bonds in the order of their numbers, with the port of each bucket.
    pub fn all(&self) -> BTreeMap<u32, [Option<PortNo>; BOND_BUCKETS]> {
        let port = |port| (port != NO_PORT).then_some(PortNo(port));
        self.maps.load().iter().map(|(id, map)| (*id, map.ports.map(port))).collect()
    }

    /// For a new worker.
    pub(crate) fn for_worker(&self) -> OwnBonds {
        OwnBonds { maps: Cached::new(Arc::clone(&self.maps)), seen: Arc::default(), known: Vec::new() }
    }
}

/// A bond as one worker uses it.
pub(crate) struct OwnBond {
    id: u32,
    pub(crate) map: Arc<BondMap>,
    lane: Lane,
}

impl OwnBond {
    fn new(id: u32, map: &Arc<BondMap>) -> OwnBond {
        let (lane, lanes) = Lane::new(BOND_BUCKETS);
        map.new_lanes.post(lanes);
        OwnBond { id, map: Arc::clone(map), lane }
    }

    /// Counts a packet with this hash.
    #[inline(always)]
    pub(crate) fn count(&mut self, hash: u32, bytes: u64) {
        self.lane.count(hash % BOND_BUCKETS as u32, 1, bytes, 0, 0);
    }
}

/// The bonds that one worker knows.
pub(crate) struct OwnBonds {
    maps: Cached<Arc<Snapshot<BondMaps>>, Arc<BondMaps>>,
    /// What `known` was made of.
    seen: Arc<BondMaps>,
    /// They are few. One is taken out and put back without an allocation.
    known: Vec<OwnBond>,
}

impl OwnBonds {
    /// The bond of a number as it was published last, to be [given back](Self::give_back).
    #[inline]
    pub(crate) fn take(&mut self, id: u32) -> Option<OwnBond> {
        if !Arc::ptr_eq(self.maps.load(), &self.seen) {
            self.take_up();
        }
        let at = self.known.iter().position(|own| own.id == id)?;
        Some(self.known.swap_remove(at))
    }

    /// Takes a bond back.
    #[inline]
    pub(crate) fn give_back(&mut self, own: OwnBond) {
        self.known.push(own);
    }

    #[cold]
    fn take_up(&mut self) {
        self.seen = Arc::clone(self.maps.load());
        let is_of = |own: &OwnBond, map: &BondMap| Arc::ptr_eq(&own.map.new_lanes, &map.new_lanes);
        self.known.retain(|own| self.seen.get(&own.id).is_some_and(|map| is_of(own, map)));
        for (id, map) in self.seen.iter() {
            match self.known.iter_mut().find(|own| own.id == *id) {
                Some(own) => own.map = Arc::clone(map),
                None => self.known.push(OwnBond::new(*id, map)),
            }
        }
    }
}
