//! The governor limits evictions, so that flows of a single packet do not evict flows that have more packets.
//!
//! It measures the *yield* of each port: hits for each entry that was made. While the yield is low (a scan, a flood
//! of new flows, a tuple-space explosion), only one in [`THIN`] of the port's new entries may evict another entry.
//! The governor does not limit insertion into empty ways, so an empty cache fills at once whatever the yield was.
//!
//! An alternative was simulated: a doorkeeper that admits a flow when its second packet arrives. It keeps out
//! legitimate flows with a low packet rate.

/// Number of entries after which the yield is judged.
const JUDGED: u32 = 512;
/// At a low yield, one new entry in this many may evict.
const THIN: u32 = 32;
/// Number of port slots. Ports whose numbers agree in the low bits share a slot.
const PLACES: usize = 64;

#[derive(Clone, Copy, Debug, Default)]
struct Yield {
    hits: u32,
    entries: u32,
    poor: bool,
    turn: u8,
}

/// The governor of one cache; see the module documentation.
#[derive(Clone, Debug)]
pub struct Governor {
    ports: Box<[Yield; PLACES]>,
}

impl Default for Governor {
    fn default() -> Governor {
        Governor { ports: Box::new([Yield::default(); PLACES]) }
    }
}

impl Governor {
    /// Counts hits of the port's packets.
    #[inline]
    pub fn hits(&mut self, port: u32, hits: u32) {
        let port = &mut self.ports[port as usize % PLACES];
        port.hits = port.hits.saturating_add(hits);
    }

    /// Counts an entry made for a packet of the port.
    #[inline]
    pub fn made(&mut self, port: u32) {
        let port = &mut self.ports[port as usize % PLACES];
        port.entries += 1;
        if port.entries >= JUDGED {
            *port = Yield { poor: port.hits < port.entries, turn: port.turn, ..Yield::default() };
        }
    }

    /// Whether a new entry of the port may evict another entry.
    #[inline]
    pub fn admits(&mut self, port: u32) -> bool {
        let port = &mut self.ports[port as usize % PLACES];
        port.turn = port.turn.wrapping_add(1);
        !port.poor || u32::from(port.turn) % THIN == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_port_of_single_packet_flows_is_limited() {
        let mut governor = Governor::default();
        for _ in 0..JUDGED {
            governor.made(1);
            governor.made(2);
            governor.hits(2, 3);
        }
        let admitted = |g: &mut Governor, port| (0..3200).filter(|_| g.admits(port)).count();
        assert_eq!((admitted(&mut governor, 1), admitted(&mut governor, 2)), (100, 3200));
        governor.hits(1, JUDGED);
        for _ in 0..JUDGED {
            governor.made(1);
        }
        assert_eq!(admitted(&mut governor, 1), 3200, "its packets come again");
    }
}
