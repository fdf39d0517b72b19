//! The governor: packets that come once must not push out those that come again.
//!
//! Ports are watched by their *yield*: hits for each entry that was made. Where it is poor (a scan, a flood of new flows,
//! a tuple-space explosion), one in [`THIN`] of the port's new entries may take another's place. Entries that find a place
//! free are not the governor's business: an empty cache fills at once, whatever its yield was.
//!
//! A doorkeeper that lets flows in at their second sighting was simulated beside it, and keeps slow honest flows out.

/// Entries after which the yield is judged.
const JUDGED: u32 = 512;
/// One in so many.
const THIN: u32 = 32;
/// Ports whose numbers are the same in the low bits share a place.
const PLACES: usize = 64;

#[derive(Clone, Copy, Debug, Default)]
struct Yield {
    hits: u32,
    entries: u32,
    poor: bool,
    turn: u8,
}

/// See the module.
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
    /// So many packets of the port hit.
    #[inline]
    pub fn hits(&mut self, port: u32, hits: u32) {
        let port = &mut self.ports[port as usize % PLACES];
        port.hits = port.hits.saturating_add(hits);
    }

    /// An entry was made for the port's packet.
    #[inline]
    pub fn made(&mut self, port: u32) {
        let port = &mut self.ports[port as usize % PLACES];
        port.entries += 1;
        if port.entries >= JUDGED {
            *port = Yield { poor: port.hits < port.entries, turn: port.turn, ..Yield::default() };
        }
    }

    /// Whether a new entry of the port may take another's place.
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
    fn a_port_of_one_packet_flows_is_thinned_and_others_are_not() {
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
