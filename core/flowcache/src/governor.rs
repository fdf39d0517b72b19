//! The governor limits evictions, so that flows of a single packet do not evict flows that have more packets.
//!
//! It measures the *yield* of each port: the number of hits per entry that was inserted. While the yield is low (a
//! scan, a flood of new flows, a tuple-space explosion), only one in [`EVICTING_SHARE`] of the port's new entries may evict
//! another entry. The governor does not limit insertion into empty ways, so an empty cache fills at once, whatever
//! the yield was.
//!
//! An alternative was simulated: to insert a flow only when its second packet arrives (doorkeeper). It also keeps out
//! legitimate flows with a low packet rate.

/// Number of inserted entries after which the yield is judged.
const JUDGED_ENTRIES: u32 = 512;
/// While the yield is low, one new entry in this many may evict another entry.
const EVICTING_SHARE: u32 = 32;
/// Number of port slots. Ports whose numbers are equal in the low bits share a slot.
const SLOTS: usize = 64;

/// The yield of the ports that share a slot. `hits` and `entries` are counted since the last judgement.
#[derive(Clone, Copy, Debug, Default)]
struct Yield {
    hits: u32,
    entries: u32,
    is_low: bool,
    /// Number of new entries that wanted to evict another entry, modulo 256.
    evict_requests: u8,
}

/// The governor of one cache; see the module documentation.
#[derive(Clone, Debug)]
pub struct Governor {
    ports: Box<[Yield; SLOTS]>,
}

impl Default for Governor {
    fn default() -> Governor {
        Governor { ports: Box::new([Yield::default(); SLOTS]) }
    }
}

impl Governor {
    /// Counts hits of the port's packets.
    #[inline]
    pub fn count_hits(&mut self, port: u32, hits: u32) {
        let port = &mut self.ports[port as usize % SLOTS];
        port.hits = port.hits.saturating_add(hits);
    }

    /// Counts an entry that was inserted for a packet of the port.
    #[inline]
    pub fn count_inserted(&mut self, port: u32) {
        let port = &mut self.ports[port as usize % SLOTS];
        port.entries += 1;
        if port.entries >= JUDGED_ENTRIES {
            *port = Yield {
                is_low: port.hits < port.entries,
                evict_requests: port.evict_requests,
                ..Yield::default()
            };
        }
    }

    /// Returns whether a new entry of the port may evict another entry.
    #[inline]
    pub fn may_evict(&mut self, port: u32) -> bool {
        let port = &mut self.ports[port as usize % SLOTS];
        port.evict_requests = port.evict_requests.wrapping_add(1);
        !port.is_low || u32::from(port.evict_requests) % EVICTING_SHARE == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_port_of_single_packet_flows_is_limited() {
        let mut governor = Governor::default();
        for _ in 0..JUDGED_ENTRIES {
            governor.count_inserted(1);
            governor.count_inserted(2);
            governor.count_hits(2, 3);
        }
        let admitted = |g: &mut Governor, port| (0..3200).filter(|_| g.may_evict(port)).count();
        assert_eq!((admitted(&mut governor, 1), admitted(&mut governor, 2)), (100, 3200));
        governor.count_hits(1, JUDGED_ENTRIES);
        for _ in 0..JUDGED_ENTRIES {
            governor.count_inserted(1);
        }
        assert_eq!(admitted(&mut governor, 1), 3200, "its packets come again");
    }
}
