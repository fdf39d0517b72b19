//! Next hops of tunnels, and packets that wait for them; shared by all threads that translate and the main loop.
//!
//! **Threads**: any. A lock is held for one look-up or one update. Under the table's lock a change is reported to
//! [`LiveChanges`](crate::live_changes::LiveChanges), so the revalidator never sees a change that was not reported.

use crate::held_packet::HeldPacket;
use flow::Mac;
use router::NeighbourTable;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use units::Millis;
use xlate::{BridgeId, Held, HoldCapacity, Neighbours};

/// Interval of requests (ARP, ND) for a next hop that does not answer, while packets want it.
const ASK_INTERVAL: Millis = Millis(1000);
/// Requests that are remembered. Beyond that number a next hop may be asked again too early.
const ASKED_MAX: usize = 4096;

/// Packets held for one next hop.
const HELD_PER_HOP_MAX: usize = 16;
/// Next hops for which packets are held at a time.
const HELD_HOPS_MAX: usize = 256;
/// A packet that was held longer than this is dropped.
const HELD_TIME_MAX: Millis = Millis(3000);

/// The held packets, by bridge and next hop.
type Waiting = HashMap<(String, IpAddr), Vec<HeldPacket>>;

/// A [`NeighbourTable`] behind a lock, and the packets that wait for its entries.
#[derive(Default)]
pub struct SharedNeighbours {
    table: Mutex<NeighbourTable>,
    held: Mutex<Waiting>,
    asked: Mutex<HashMap<(BridgeId, IpAddr), Millis>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedNeighbours {
    /// The table itself. Each operation on it is complete, so it stays usable after a panic of another thread.
    pub fn lock(&self) -> MutexGuard<'_, NeighbourTable> {
        lock(&self.table)
    }

    /// Holds a packet until its next hop is known, if there is room.
    pub(crate) fn hold(&self, held: Held, packet: &[u8], now: Millis) {
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
    /// the addresses of the removed neighbours, and of next hops for which packets can be held again.
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

    /// Takes the packets that were held for a next hop, without those that were held too long.
    pub(crate) fn release(&self, bridge: &str, ip: IpAddr, now: Millis) -> Vec<HeldPacket> {
        let mut list = lock(&self.held).remove(&(bridge.to_owned(), ip)).unwrap_or_default();
        list.retain(|p| now.since(p.since) < HELD_TIME_MAX);
        list
    }

    /// Removes the neighbours of a bridge, or all; they may be requested at once. Returns whether there were any.
    pub fn flush(&self, bridge: Option<&str>) -> bool {
        lock(&self.asked).clear();
        self.lock().flush(bridge)
    }

    /// Whether a next hop may be requested now. If so, records the request.
    pub fn may_ask(&self, bridge: BridgeId, ip: IpAddr, now: Millis) -> bool {
        let mut asked = lock(&self.asked);
        if asked.get(&(bridge, ip)).is_some_and(|at| now.since(*at) < ASK_INTERVAL) {
            return false;
        }
        if asked.len() >= ASKED_MAX {
            asked.retain(|_, at| now.since(*at) < ASK_INTERVAL);
        }
        if asked.len() < ASKED_MAX {
            asked.insert((bridge, ip), now);
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

    fn held(last: u8) -> Held {
        Held {
            next_bridge: "br0".to_owned(),
            next: IpAddr::from([10, 0, 0, last]),
            at: (BridgeId(1), OfPort(1)),
            initial: Flow::ZERO,
            flow: Flow::ZERO,
            mask: Flow::ZERO,
        }
    }

    #[test]
    fn a_next_hop_with_room_again_is_reported() {
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
