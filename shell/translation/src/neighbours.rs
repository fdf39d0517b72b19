//! Next hops of tunnels, and packets that are held until their next hop is known.
//!
//! **Threads**: all threads that translate, and the main thread. A lock is held for one look-up or one update. A change is
//! reported to [`LiveChanges`](crate::live_changes::LiveChanges) while the table is locked, so the revalidator never sees a
//! change that was not reported.

use crate::held_packet::HeldPacket;
use flow::Mac;
use router::NeighbourTable;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use units::Millis;
use xlate::{BridgeId, HeldOutput, HoldCapacity, Neighbours};

/// Minimum interval of requests (ARP, ND) for the same next hop.
const REQUEST_INTERVAL: Millis = Millis(1000);
/// Maximum number of requests whose times are stored. With more, a next hop may be requested again before the interval ends.
const REQUESTS_MAX: usize = 4096;

/// Maximum number of packets that are held for one next hop.
const HELD_PER_HOP_MAX: usize = 16;
/// Maximum number of next hops for which packets are held at a time.
const HELD_HOPS_MAX: usize = 256;
/// A packet that was held longer than this is dropped.
const HELD_TIME_MAX: Millis = Millis(3000);

/// The held packets, by bridge and next hop.
type HeldPackets = HashMap<(String, IpAddr), Vec<HeldPacket>>;

/// A [`NeighbourTable`] behind a lock, and the packets that wait for its entries.
#[derive(Default)]
pub struct SharedNeighbours {
    table: Mutex<NeighbourTable>,
    held: Mutex<HeldPackets>,
    /// When each next hop was requested last.
    requests: Mutex<HashMap<(BridgeId, IpAddr), Millis>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedNeighbours {
    /// Locks the table. It stays usable after a panic of another thread, because no panic can leave an operation incomplete.
    pub fn lock(&self) -> MutexGuard<'_, NeighbourTable> {
        lock(&self.table)
    }

    /// Holds a packet until its next hop is known; drops it if the limit of packets or next hops is reached.
    pub(crate) fn hold(&self, held: HeldOutput, packet: &[u8], now: Millis) {
        let mut waiting = lock(&self.held);
        let key = (held.next_bridge.clone(), held.next);
        if waiting.len() >= HELD_HOPS_MAX && !waiting.contains_key(&key) {
            return;
        }
        let list = waiting.entry(key).or_default();
        list.retain(|p| now.since(p.since) < HELD_TIME_MAX);
        if list.len() < HELD_PER_HOP_MAX {
            list.push(HeldPacket { held, packet: packet.to_vec(), since: now });
        }
    }

    /// Removes neighbours that were neither used nor confirmed for long, and packets that were held too long. Returns
    /// the addresses of the removed neighbours, and of the next hops whose limit of held packets is no longer reached.
    pub fn expire(&self, now: Millis) -> Vec<IpAddr> {
        let mut changed = Vec::new();
        lock(&self.held).retain(|(_, ip), list| {
            let stays = list.iter().any(|p| now.since(p.since) < HELD_TIME_MAX);
            changed.extend((!stays && list.len() >= HELD_PER_HOP_MAX).then_some(*ip));
            stays
        });
        changed.extend(self.lock().expire(now).into_iter().map(|(_, ip)| ip));
        changed
    }

    /// Takes the packets that are held for a next hop, except for packets that were held too long.
    pub(crate) fn release(&self, bridge: &str, ip: IpAddr, now: Millis) -> Vec<HeldPacket> {
        let mut list = lock(&self.held).remove(&(bridge.to_owned(), ip)).unwrap_or_default();
        list.retain(|p| now.since(p.since) < HELD_TIME_MAX);
        list
    }

    /// Removes the neighbours of a bridge, or all neighbours. All next hops may be requested again at once. Returns whether
    /// there were neighbours to remove.
    pub fn flush(&self, bridge: Option<&str>) -> bool {
        lock(&self.requests).clear();
        self.lock().flush(bridge)
    }

    /// Whether a next hop may be requested now. If so, records the request.
    pub fn may_request(&self, bridge: BridgeId, ip: IpAddr, now: Millis) -> bool {
        let mut requests = lock(&self.requests);
        if requests.get(&(bridge, ip)).is_some_and(|at| now.since(*at) < REQUEST_INTERVAL) {
            return false;
        }
        if requests.len() >= REQUESTS_MAX {
            requests.retain(|_, at| now.since(*at) < REQUEST_INTERVAL);
        }
        if requests.len() < REQUESTS_MAX {
            requests.insert((bridge, ip), now);
        }
        true
    }
}

impl Neighbours for SharedNeighbours {
    fn mac_of(&self, bridge: &str, ip: IpAddr) -> Option<Mac> {
        self.lock().get(bridge, ip)
    }

    fn hold_capacity(&self, bridge: &str, ip: IpAddr) -> HoldCapacity {
        let waiting = lock(&self.held);
        match waiting.get(&(bridge.to_owned(), ip)) {
            Some(list) if list.len() >= HELD_PER_HOP_MAX => HoldCapacity::HopFull,
            None if waiting.len() >= HELD_HOPS_MAX => HoldCapacity::Full,
            _ => HoldCapacity::Free,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::Flow;
    use units::OfPort;

    fn held(last: u8) -> HeldOutput {
        HeldOutput {
            next_bridge: "br0".to_owned(),
            next: IpAddr::from([10, 0, 0, last]),
            at: (BridgeId(1), OfPort(1)),
            initial: Flow::ZERO,
            flow: Flow::ZERO,
            mask: Flow::ZERO,
        }
    }

    #[test]
    fn a_next_hop_below_its_limit_again_is_reported() {
        let neighbours = SharedNeighbours::default();
        (0..HELD_PER_HOP_MAX).for_each(|_| neighbours.hold(held(1), &[0; 60], Millis(0)));
        neighbours.hold(held(2), &[0; 60], Millis(0));
        let capacity = |last: u8| neighbours.hold_capacity("br0", [10, 0, 0, last].into());
        assert_eq!((capacity(1), capacity(2)), (HoldCapacity::HopFull, HoldCapacity::Free));
        assert!(neighbours.expire(Millis(2000)).is_empty());
        assert_eq!(neighbours.expire(Millis(4000)), [held(1).next]);
        assert_eq!(capacity(1), HoldCapacity::Free);
    }
}
