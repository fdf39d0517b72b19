//! Which queues wait for others: those that bring hardly anything but packets that nobody has time for.
//!
//! A packet without a megaflow for which there is no room where misses wait (`park`) is translated by the worker, as far as
//! its allowance goes (`budget`), and dropped else. Either costs several times what a packet with a megaflow costs. So a queue
//! most of whose packets end like that is passed over, turn by turn, as long as other queues bring packets that can be
//! served; what it does not bring waits in its ring, or is dropped there, where it costs the worker nothing. It is polled
//! when the others have nothing, and every so many turns in any case.
//!
//! Counts only: no clock, no randomness.

/// Turns that a queue is passed over at most: at 32 packets a turn it keeps a sixty-fourth of the polls.
const MOST: u32 = 63;

/// Of one queue. See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Brake {
    /// Turns that it is passed over after each poll.
    turns: u32,
    /// Turns left.
    left: u32,
}

impl Brake {
    /// The queue is passed over in this turn. `served`: packets that other queues brought in the turn before, all of which
    /// had room.
    #[inline]
    pub(crate) fn holds(&mut self, served: u64) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left = if served == 0 { 0 } else { self.left - 1 };
        self.left != 0
    }

    /// A poll brought so many packets, and for so many of them there was no room.
    #[inline]
    pub(crate) fn polled(&mut self, packets: u64, overflow: u64) {
        if 2 * overflow > packets {
            self.turns = (2 * self.turns + 1).min(MOST);
        } else if self.turns != 0 {
            self.turns /= 2;
        }
        // The turn of the poll is one.
        self.left = if self.turns == 0 { 0 } else { self.turns + 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many turns poll a queue that has no room for so many of its 32 packets.
    fn polls(turns: u32, overflow: u64, served: u64) -> u32 {
        let mut brake = Brake::default();
        let mut polls = 0;
        for _ in 0..turns {
            if !brake.holds(served) {
                brake.polled(32, overflow);
                polls += 1;
            }
        }
        polls
    }

    #[test]
    fn who_has_no_room_waits_for_who_is_served() {
        assert_eq!(polls(6400, 0, 100), 6400);
        assert_eq!(polls(6400, 16, 100), 6400);
        assert!((100..110).contains(&polls(6400, 17, 100)), "{}", polls(6400, 17, 100));
        // Nobody else has anything.
        assert_eq!(polls(6400, 32, 0), 6400);
    }

    #[test]
    fn it_is_let_go_when_there_is_room_again() {
        let mut brake = Brake::default();
        (0..20).for_each(|_| brake.polled(32, 32));
        (0..6).for_each(|_| brake.polled(32, 3));
        assert!(!brake.holds(100));
    }

    #[test]
    fn a_turn_without_other_packets_ends_the_wait() {
        let mut brake = Brake::default();
        (0..20).for_each(|_| brake.polled(32, 32));
        assert!(brake.holds(5));
        assert!(!brake.holds(0));
        assert!(!brake.holds(5));
    }
}
