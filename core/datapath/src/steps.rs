//! Steps: what a program does with the packets of a batch before it sends or recirculates them.
//!
//! The steps of a program are arranged in rounds: each round has at most one step of each [`Kind`], in their order. So the programs of a batch
//! can be executed together even if they differ: place by place, each step on the packets whose programs have it.

/// The program has meters, in front of everything except samples.
pub const METERS: u8 = 1;
/// The program rewrites packets behind its steps.
pub const REWRITES: u8 = 2;
/// The program sends copies behind its steps, rewrites more than once there, or sends by a QoS queue.
pub const COPIES: u8 = 4;
/// One of its steps tracks packets.
pub const TRACKS: u8 = 8;
/// The program has steps: it samples or tracks packets, for example.
pub const STEPS: u8 = 16;

/// A step, in the order within a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Samples packets, once or several times.
    Sample,
    /// Sends copies to one port or several.
    Copy,
    /// Rewrites packets.
    Edit,
    /// Clears the connection tracking metadata.
    Clear,
    /// Forgets the connection that was found before.
    Forget,
    /// Tracks packets.
    Track,
}

/// The kinds in their order.
const KINDS: [Kind; 6] = [Kind::Sample, Kind::Copy, Kind::Edit, Kind::Clear, Kind::Forget, Kind::Track];

/// Maximum number of rounds. A program that needs more is executed operation by operation.
const ROUNDS: usize = 5;

/// The steps of a program, and the operations that they consist of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Steps {
    /// A bit for each place: the number of the round times the number of kinds, plus the kind.
    places: u32,
    /// Number of operations of the program that belong to its steps or are its meters.
    ops: u8,
    /// Number of meters. They come first, or behind what is sampled first.
    meters: u8,
}

impl Steps {
    /// Adds a meter. `None`: there is a step that meters must not follow.
    pub(crate) fn add_meter(&mut self) -> Option<()> {
        (self.places & !place_bit(Kind::Sample as usize) == 0).then_some(())?;
        // There are no fewer operations than meters.
        self.add_ops(1)?;
        self.meters += 1;
        Some(())
    }

    /// Adds a step that consists of this many operations. `None`: there is no place for it.
    pub(crate) fn add(&mut self, kind: Kind, ops: usize) -> Option<()> {
        // The first place is in front of the meters.
        let next = ((u32::BITS - self.places.leading_zeros()) as usize).max(usize::from(self.meters != 0));
        if !self.joins(next, kind) {
            let (round, within) = (next / KINDS.len(), next % KINDS.len());
            let place = (round + usize::from(within > kind as usize)) * KINDS.len() + kind as usize;
            (place < ROUNDS * KINDS.len()).then_some(())?;
            self.places |= place_bit(place);
        }
        self.add_ops(ops)
    }

    /// Returns whether an operation of this kind belongs to the step in front of place `next`.
    fn joins(self, next: usize, kind: Kind) -> bool {
        // Meters divide what is sampled in front of them from what is sampled behind them.
        let is_divided = self.meters != 0 && next == 1;
        let repeats = matches!(kind, Kind::Sample | Kind::Copy);
        repeats && !is_divided && next.checked_sub(1).is_some_and(|last| Kind::at(last) == kind)
    }

    fn add_ops(&mut self, ops: usize) -> Option<()> {
        self.ops = self.ops.checked_add(u8::try_from(ops).ok()?)?;
        Some(())
    }

    /// The places of the steps, as bits: the same for all programs.
    #[inline]
    pub(crate) fn places(self) -> u32 {
        self.places
    }

    /// Number of operations that the steps consist of, with the meters.
    #[inline]
    pub(crate) fn ops(self) -> usize {
        self.ops.into()
    }

    /// Number of meters.
    #[inline]
    pub(crate) fn meters(self) -> usize {
        self.meters.into()
    }

    /// What the steps and meters are: some of [`METERS`], [`STEPS`], [`TRACKS`].
    pub(crate) fn does(self) -> u8 {
        let tracks =
            (0..ROUNDS).any(|round| self.places & place_bit(round * KINDS.len() + Kind::Track as usize) != 0);
        let all = [(self.meters != 0, METERS), (self.places != 0, STEPS), (tracks, TRACKS)];
        all.iter().fold(0, |does, (is, flag)| if *is { does | flag } else { does })
    }
}

impl Kind {
    /// The kind of a step at this place.
    #[inline]
    pub(crate) fn at(place: usize) -> Kind {
        KINDS[place % KINDS.len()]
    }
}

fn place_bit(place: usize) -> u32 {
    1 << place
}

#[cfg(test)]
mod tests {
    use super::*;
    use Kind::{Clear, Copy, Sample, Track};

    fn steps(kinds: &[Kind]) -> Option<Steps> {
        let mut steps = Steps::default();
        kinds.iter().try_for_each(|kind| steps.add(*kind, 1))?;
        Some(steps)
    }

    #[test]
    fn steps_are_arranged_in_rounds() {
        let places = |kinds: &[Kind]| steps(kinds).map(|steps| (steps.places(), steps.ops()));
        assert_eq!(places(&[]), Some((0, 0)));
        assert_eq!(places(&[Track]), Some((1 << 5, 1)));
        assert_eq!(places(&[Clear, Track, Track]), Some((1 << 3 | 1 << 5 | 1 << 11, 3)));
        assert_eq!(places(&[Track, Clear, Track]), Some((1 << 5 | 1 << 9 | 1 << 11, 3)));
        assert_eq!(places(&[Copy, Copy, Track, Copy]), Some((1 << 1 | 1 << 5 | 1 << 7, 4)));
        assert_eq!(places(&[Track; 5]), Some((0b100000_100000_100000_100000_100000, 5)));
        assert_eq!(places(&[Track; 6]), None);
    }

    #[test]
    fn meters_come_first() {
        let mut steps = steps(&[Sample, Sample]).unwrap();
        [(); 2].into_iter().for_each(|()| steps.add_meter().unwrap());
        [Sample, Track].into_iter().for_each(|kind| steps.add(kind, 1).unwrap());
        assert_eq!((steps.places(), steps.meters(), steps.ops()), (1 | 1 << 6 | 1 << 11, 2, 6));
        assert_eq!((steps.does(), steps.add_meter()), (METERS | STEPS | TRACKS, None));
        let mut meters = Steps::default();
        assert_eq!((0..300).filter_map(|_| meters.add_meter()).count(), 255);
        let mut behind = Steps::default();
        behind.add_meter().unwrap();
        behind.add(Sample, 1).unwrap();
        assert_eq!(behind.places(), 1 << 6, "the first place is in front of the meters");
    }
}
