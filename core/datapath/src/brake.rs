//! Which queues wait for others: those that bring hardly anything but packets that nobody has time for.
//!
//! A packet without a megaflow for which there is no room where misses wait (`park`) is translated by the worker, as far as
//! its allowance goes (`budget`), and dropped else. Either costs several times what a packet with a megaflow costs. So a queue
//! most of whose packets end like that is passed over, turn by turn, as long as other queues bring packets that can be
//! served; what it does not bring waits in its ring, or is dropped there, where it costs the worker nothing. It is polled
//! when the others have nothing, and every so many turns in any case, of which there are more while others bring as many packets as
//! can be taken at once.
//!
//! Counts only: no clock, no randomness.

use crate::port::RX_BURST;

/// Turns that a queue is passed over at most: it keeps a sixty-fourth of the polls.
const MOST: u32 = 63;
/// A turn in which another queue has more than can be taken counts as so much of one.
const OF_A_TURN: u32 = 4;

/// What queues brought in a turn, all of which had room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Others {
    #[default]
    Nothing,
    Some,
    /// As many packets as can be taken at once.
    More,
}

impl Others {
    pub(crate) fn of(packets: u64) -> Others {
        match packets {
            0 => Others::Nothing,
            n if n < RX_BURST as u64 => Others::Some,
            _ => Others::More,
        }
    }
}

/// Of one queue. See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Brake {
    /// Turns that it is passed over after each poll.
    turns: u32,
    /// Parts of turns left.
    left: u32,
}

impl Brake {
    /// The queue is passed over in this turn, as far as what others brought in the turn before lets it.
    #[inline]
    pub(crate) fn holds(&mut self, others: Others) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left = match others {
            Others::Nothing => 0,
            Others::Some => self.left.saturating_sub(OF_A_TURN),
            Others::More => self.left - 1,
        };
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
        self.left = if self.turns == 0 { 0 } else { OF_A_TURN * (self.turns + 1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many turns poll a queue that has no room for so many of its 32 packets.
    fn polls(turns: u32, overflow: u64, others: u64) -> u32 {
        let mut brake = Brake::default();
        let mut polls = 0;
        for _ in 0..turns {
            if !brake.holds(Others::of(others)) {
                brake.polled(32, overflow);
                polls += 1;
            }
        }
        polls
    }

    #[test]
    fn who_has_no_room_waits_for_who_is_served() {
        assert_eq!(polls(6400, 0, 63), 6400);
        assert_eq!(polls(6400, 16, 63), 6400);
        assert!((100..110).contains(&polls(6400, 17, 63)), "{}", polls(6400, 17, 63));
        assert!((25..35).contains(&polls(6400, 17, 64)), "{}", polls(6400, 17, 64));
        // Nobody else has anything.
        assert_eq!(polls(6400, 32, 0), 6400);
    }

    #[test]
    fn it_is_let_go_when_there_is_room_again() {
        let mut brake = Brake::default();
        (0..20).for_each(|_| brake.polled(32, 32));
        (0..6).for_each(|_| brake.polled(32, 3));
        assert!(!brake.holds(Others::More));
    }

    #[test]
    fn a_turn_without_other_packets_ends_the_wait() {
        let mut brake = Brake::default();
        (0..20).for_each(|_| brake.polled(32, 32));
        assert!(brake.holds(Others::Some));
        assert!(!brake.holds(Others::Nothing));
        assert!(!brake.holds(Others::Some));
    }
}
