//! Steps: operations of a program that are executed on all packets of a batch before the program sends or
//! recirculates them.
//!
//! The steps of a program are arranged in rounds. Each round has a slot for one step of each [`StepKind`], in the order
//! of the kinds. So the programs of a batch can be executed together even if they differ: slot by slot, each step on
//! the packets whose programs have a step in this slot.

/// The program has meters, before all other operations except samples.
pub const METERS: u8 = 1;
/// The program rewrites packets after its steps.
pub const REWRITES: u8 = 2;
/// After its steps, the program sends copies, rewrites more than once, or sends by a QoS queue.
pub const COPIES: u8 = 4;
/// One of its steps tracks packets.
pub const TRACKS: u8 = 8;
/// The program has steps: for example, it samples or tracks packets.
pub const STEPS: u8 = 16;

/// The kinds of steps, in their order within a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum StepKind {
    /// Samples packets, once or several times.
    Sample,
    /// Sends copies to one port or several.
    Copy,
    /// Rewrites packets.
    Rewrite,
    /// Clears the connection tracking metadata.
    Clear,
    /// Forgets the connection that was found before.
    Forget,
    /// Tracks packets.
    Track,
}

/// All kinds, in their order.
const KINDS: [StepKind; 6] =
    [StepKind::Sample, StepKind::Copy, StepKind::Rewrite, StepKind::Clear, StepKind::Forget, StepKind::Track];

/// Maximum number of rounds. A program that needs more is executed operation by operation. The slots
/// of all rounds fit [`Steps::slots`].
const ROUNDS: usize = 5;

/// The steps of a program, and how many of its operations belong to them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Steps {
    /// A bit for each used slot. Number of a slot: number of the round × number of kinds + kind.
    slots: u32,
    /// Number of the program's first operations that belong to its steps or are meters.
    ops: u8,
    /// Number of meters. They come first, or after the samples of the first slot.
    meters: u8,
}

impl Steps {
    /// Adds a meter. Returns `None` if there is a step that must not precede a meter.
    pub(crate) fn add_meter(&mut self) -> Option<()> {
        (self.slots & !slot_bit(StepKind::Sample as usize) == 0).then_some(())?;
        // Meters are counted in `ops` too. `add_ops` checks it for overflow, so `meters` cannot overflow.
        self.add_ops(1)?;
        self.meters += 1;
        Some(())
    }

    /// Adds a step of this many operations, or extends the last step if it is of the same kind and the kind may repeat.
    /// Returns `None` if there is no free slot for a new step.
    pub(crate) fn add(&mut self, kind: StepKind, ops: usize) -> Option<()> {
        // Slot 0 is in front of the meters.
        let next = ((u32::BITS - self.slots.leading_zeros()) as usize).max(usize::from(self.meters != 0));
        if !self.joins(next, kind) {
            let (round, within) = (next / KINDS.len(), next % KINDS.len());
            let slot = (round + usize::from(within > kind as usize)) * KINDS.len() + kind as usize;
            (slot < ROUNDS * KINDS.len()).then_some(())?;
            self.slots |= slot_bit(slot);
        }
        self.add_ops(ops)
    }

    /// Returns whether an operation of this kind belongs to the step in the slot before `next`.
    fn joins(self, next: usize, kind: StepKind) -> bool {
        // Samples before the meters and samples after the meters are different steps.
        let is_divided = self.meters != 0 && next == 1;
        let repeats = matches!(kind, StepKind::Sample | StepKind::Copy);
        repeats && !is_divided && next.checked_sub(1).is_some_and(|last| StepKind::at(last) == kind)
    }

    fn add_ops(&mut self, ops: usize) -> Option<()> {
        self.ops = self.ops.checked_add(u8::try_from(ops).ok()?)?;
        Some(())
    }

    /// The used slots as bits; their numbers have the same meaning for all programs.
    #[inline]
    pub(crate) fn slots(self) -> u32 {
        self.slots
    }

    /// Number of operations that belong to the steps or are meters.
    #[inline]
    pub(crate) fn ops(self) -> usize {
        self.ops.into()
    }

    /// Number of meters.
    #[inline]
    pub(crate) fn meters(self) -> usize {
        self.meters.into()
    }

    /// Flags for the steps and meters: some of [`METERS`], [`STEPS`], [`TRACKS`].
    pub(crate) fn op_flags(self) -> u8 {
        let tracks = (0..ROUNDS)
            .any(|round| self.slots & slot_bit(round * KINDS.len() + StepKind::Track as usize) != 0);
        let all = [(self.meters != 0, METERS), (self.slots != 0, STEPS), (tracks, TRACKS)];
        all.iter().fold(0, |op_flags, (is, flag)| if *is { op_flags | flag } else { op_flags })
    }
}

impl StepKind {
    /// The kind of a step in this slot.
    #[inline]
    pub(crate) fn at(slot: usize) -> StepKind {
        KINDS[slot % KINDS.len()]
    }
}

fn slot_bit(slot: usize) -> u32 {
    1 << slot
}

#[cfg(test)]
mod tests {
    use super::*;
    use StepKind::{Clear, Copy, Sample, Track};

    fn steps(kinds: &[StepKind]) -> Option<Steps> {
        let mut steps = Steps::default();
        kinds.iter().try_for_each(|kind| steps.add(*kind, 1))?;
        Some(steps)
    }

    #[test]
    fn steps_are_arranged_in_rounds() {
        let slots = |kinds: &[StepKind]| steps(kinds).map(|steps| (steps.slots(), steps.ops()));
        assert_eq!(slots(&[]), Some((0, 0)));
        assert_eq!(slots(&[Track]), Some((1 << 5, 1)));
        assert_eq!(slots(&[Clear, Track, Track]), Some((1 << 3 | 1 << 5 | 1 << 11, 3)));
        assert_eq!(slots(&[Track, Clear, Track]), Some((1 << 5 | 1 << 9 | 1 << 11, 3)));
        assert_eq!(slots(&[Copy, Copy, Track, Copy]), Some((1 << 1 | 1 << 5 | 1 << 7, 4)));
        assert_eq!(slots(&[Track; 5]), Some((0b100000_100000_100000_100000_100000, 5)));
        assert_eq!(slots(&[Track; 6]), None);
    }

    #[test]
    fn meters_come_first() {
        let mut steps = steps(&[Sample, Sample]).unwrap();
        [(); 2].into_iter().for_each(|()| steps.add_meter().unwrap());
        [Sample, Track].into_iter().for_each(|kind| steps.add(kind, 1).unwrap());
        assert_eq!((steps.slots(), steps.meters(), steps.ops()), (1 | 1 << 6 | 1 << 11, 2, 6));
        assert_eq!((steps.op_flags(), steps.add_meter()), (METERS | STEPS | TRACKS, None));
        let mut meters = Steps::default();
        assert_eq!((0..300).filter_map(|_| meters.add_meter()).count(), 255);
        let mut behind = Steps::default();
        behind.add_meter().unwrap();
        behind.add(Sample, 1).unwrap();
        assert_eq!(behind.slots(), 1 << 6, "the first place is in front of the meters");
    }
}
