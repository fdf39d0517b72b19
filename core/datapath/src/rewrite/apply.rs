//! A compiled rewrite, and its application to packets.

use super::checksum::Checksum;
use super::patch::{Head, PATCH_LEN, Patch, load, load_patch, store, store_patch};
use packet::frame::{Frame, HEAD_WINDOW};

/// Eight bytes of the window, some of whose bits are compared or written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Word {
    pub(super) at: u8,
    /// Mask of the bits that are neither compared nor written.
    pub(super) keep: u64,
    /// The values of the compared or written bits.
    pub(super) value: u64,
}

impl Word {
    /// Returns the bits that differ.
    #[inline(always)]
    fn difference(&self, head: &Head) -> u64 {
        (load(head, self.at) ^ self.value) & !self.keep
    }

    #[inline(always)]
    fn write(&self, head: &mut Head) {
        store(head, self.at, load(head, self.at) & self.keep | self.value);
    }
}

/// A compiled run of edits. Offsets count from the start of the window, which is the start of the packet before or
/// after the rewrite, whichever is earlier in the buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Rewrite {
    /// Compares and writes the first 32 bytes of the window.
    pub(super) low: Patch,
    /// Compares and writes the next 32 bytes; unused unless `is_long`.
    pub(super) high: Patch,
    pub(super) is_long: bool,
    pub(super) kind: RewriteKind,
    /// Number of checksum updates.
    pub(super) sum_count: u8,
    /// Number of operations after this one that the rewrite replaces.
    pub(crate) ops: u8,
    /// By how many bytes the packet grows; negative if it shrinks.
    pub(super) grown: i16,
    /// Minimum length of a packet that contains all compared and written bytes.
    pub(super) min_len: u16,
    /// Number of bytes of the window in front of the packet's start.
    pub(super) front: u8,
    /// Applies only to packets without unfinished offloads.
    pub(super) refuses_offload_state: bool,
    pub(super) sums: [Checksum; 2],
    pub(super) lengths: Option<LengthChecks>,
    pub(super) moved: ByteMove,
    pub(super) more: Option<Box<ExtraWords>>,
}

/// Which parts a rewrite has besides patches and checksums.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RewriteKind {
    /// No other parts.
    Fields,
    /// `lengths` only.
    Transport,
    /// `moved` only; the move is short, and the packet grows or shrinks.
    Tags,
    Any,
}

/// The words that are compared and written after the first 64 bytes of the window.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ExtraWords {
    pub(super) compared: Box<[Word]>,
    pub(super) written: Box<[Word]>,
}

/// Bytes that are moved because bytes after them are pushed or popped.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ByteMove {
    pub(super) from: u8,
    pub(super) to: u8,
    pub(super) len: u8,
    /// For moves of 8 to 16 bytes: the first and the last eight bytes at the destination, each as mask of the bits
    /// that are moved and values of the bits that are written.
    pub(super) ends: [(u64, u64); 2],
}

/// Checks of lengths. They ensure that the transport header is complete and where it is expected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LengthChecks {
    pub(super) v6: bool,
    /// Offset of the IP header.
    pub(super) ip: u8,
    /// Offset of the transport header.
    pub(super) l4: u8,
    /// Bytes from the IP header to the end of the fixed transport header.
    pub(super) least: u8,
    /// Whether the data offset of TCP is checked, too.
    pub(super) tcp: bool,
}

impl Rewrite {
    /// Rewrites at most 64 packets. Returns a bit for each packet that does not have the expected layout; such a
    /// packet is unchanged.
    ///
    /// The kind of the rewrite is matched once for all packets.
    #[inline(always)]
    pub(crate) fn apply_all(&self, frames: &mut [Frame]) -> u64 {
        match (self.kind, self.sum_count) {
            (RewriteKind::Fields, 0) => self.each::<0, false, false>(frames),
            (RewriteKind::Fields, 1) => self.each::<1, false, false>(frames),
            (RewriteKind::Transport, 1) => self.each::<1, false, true>(frames),
            (RewriteKind::Transport, 2) => self.each::<2, false, true>(frames),
            (RewriteKind::Tags, 0) => self.each::<0, true, false>(frames),
            (RewriteKind::Tags, 1) => self.each::<1, true, false>(frames),
            _ => {
                let frames = frames.iter_mut().enumerate();
                frames.fold(0, |unfit, (i, frame)| unfit | u64::from(!self.apply(frame)) << (i % 64))
            }
        }
    }

    /// [`apply_all`](Self::apply_all) for this number of checksums. `TAGS`, `L4`: whether the kind of the rewrite is
    /// [`RewriteKind::Tags`], [`RewriteKind::Transport`].
    #[inline(always)]
    fn each<const SUMS: usize, const TAGS: bool, const L4: bool>(&self, frames: &mut [Frame]) -> u64 {
        let same = self.for_batch();
        let mut unfit = 0;
        // No closures: if the compiler does not inline a closure here, it compiles the closure without the vector
        // instructions.
        for (i, frame) in frames.iter_mut().enumerate() {
            unfit |= u64::from(!same.one::<SUMS, TAGS, L4>(frame)) << (i % 64);
        }
        unfit
    }

    #[inline(always)]
    fn for_batch(&self) -> BatchRewrite<'_> {
        BatchRewrite {
            low: self.low,
            high: self.high,
            low_writes: self.low.writes(),
            is_long: self.is_long,
            refuses_offload_state: self.refuses_offload_state,
            min_len: self.min_len.into(),
            reach: self.reach(),
            front: self.front.into(),
            grown: self.grown,
            sums: &self.sums,
            lengths: self.lengths,
            moved: self.moved,
        }
    }

    /// How many bytes of the packet the rewrite reads or writes.
    #[inline(always)]
    fn reach(&self) -> usize {
        let transport =
            self.lengths.map_or(0, |lengths| usize::from(lengths.ip) + usize::from(lengths.least));
        transport.max(self.min_len.into())
    }

    /// Rewrites the packet. Returns `false` and changes nothing if the packet does not have the expected layout.
    #[inline]
    pub(crate) fn apply(&self, frame: &mut Frame) -> bool {
        let front = usize::from(self.front);
        if frame.len() < usize::from(self.min_len)
            || (self.refuses_offload_state && frame.has_offload_state())
        {
            return false;
        }
        let len = frame.len() + front;
        let Some(head) = frame.head_window(front, self.reach()) else { return false };
        let (compared, written) =
            self.more.as_deref().map_or((&[][..], &[][..]), |m| (&m.compared, &m.written));
        if self.low.differs(&load_patch(head, 0))
            || self.high.differs(&load_patch(head, PATCH_LEN))
            || compared.iter().any(|word| word.difference(head) != 0)
            || self.lengths.is_some_and(|lengths| !lengths.are_met(head, len))
        {
            return false;
        }
        let renewed = self.sums.each_ref().map(|sum| sum.renewed(head));
        self.moved.apply(head);
        for (start, patch) in [(0, &self.low), (PATCH_LEN, &self.high)] {
            let words = load_patch(head, start);
            store_patch(head, start, &patch.patched(&words));
        }
        written.iter().for_each(|word| word.write(head));
        let sums = self.sums.iter().zip(renewed).take(self.sum_count.into());
        sums.for_each(|(sum, value)| sum.store(head, value));
        frame.grow_front(self.grown);
        frame.shift_offload(self.grown);
        true
    }
}

/// The fields of a rewrite that are read for every packet. They are copied once for all packets, because otherwise
/// the compiler must reload them: it cannot know that writing packet bytes does not change them.
struct BatchRewrite<'r> {
    low: Patch,
    high: Patch,
    /// False for a rewrite that only pushes or pops tags, if it writes no bytes in the first 32.
    low_writes: bool,
    is_long: bool,
    refuses_offload_state: bool,
    min_len: usize,
    /// See [`Rewrite::reach`].
    reach: usize,
    front: usize,
    grown: i16,
    sums: &'r [Checksum; 2],
    lengths: Option<LengthChecks>,
    moved: ByteMove,
}

impl BatchRewrite<'_> {
    /// Applies the rewrite; see [`Rewrite::apply`].
    #[inline(always)]
    fn one<const SUMS: usize, const TAGS: bool, const L4: bool>(&self, frame: &mut Frame) -> bool {
        if frame.len() < self.min_len || (self.refuses_offload_state && frame.has_offload_state()) {
            return false;
        }
        let front = if TAGS { self.front } else { 0 };
        let len = frame.len() + front;
        let Some(head) = frame.head_window(front, self.reach) else { return false };
        let low = load_patch(head, 0);
        if self.low.differs(&low) || (self.is_long && self.high.differs(&load_patch(head, PATCH_LEN))) {
            return false;
        }
        if L4
            && let Some(lengths) = &self.lengths
            && !lengths.are_met(head, len)
        {
            return false;
        }
        // New checksums are computed before the bytes that they cover are overwritten. They are stored last, because
        // a load directly after a store to a part of the loaded word would stall.
        let first = if SUMS > 0 { self.sums[0].renewed(head) } else { 0 };
        let second = if SUMS > 1 { self.sums[1].renewed(head) } else { 0 };
        let ends = if TAGS { self.moved.ends(head) } else { [0; 2] };
        if !TAGS || self.low_writes {
            store_patch(head, 0, &self.low.patched(&low));
        }
        if self.is_long {
            let high = load_patch(head, PATCH_LEN);
            store_patch(head, PATCH_LEN, &self.high.patched(&high));
        }
        if TAGS {
            self.moved.put_ends(head, ends);
        }
        if SUMS > 0 {
            self.sums[0].store(head, first);
        }
        if SUMS > 1 {
            self.sums[1].store(head, second);
        }
        if TAGS {
            frame.grow_front(self.grown);
            frame.shift_offload(self.grown);
        }
        true
    }
}

impl ByteMove {
    /// Returns whether 8 to 16 bytes are moved.
    pub(super) fn is_short(&self) -> bool {
        (8..=16).contains(&self.len)
    }

    /// For short moves: returns the first and the last eight bytes at the destination. They overlap if fewer than 16
    /// bytes are moved.
    #[inline(always)]
    fn ends(&self, head: &Head) -> [u64; 2] {
        let [(keep_first, first), (keep_last, last)] = self.ends;
        [load(head, self.from) & keep_first | first, load(head, self.last(self.from)) & keep_last | last]
    }

    #[inline(always)]
    fn put_ends(&self, head: &mut Head, [first, last]: [u64; 2]) {
        store(head, self.to, first);
        store(head, self.last(self.to), last);
    }

    /// Returns the offset of the last eight bytes of a move that starts at `start`.
    #[inline(always)]
    pub(super) fn last(&self, start: u8) -> u8 {
        start.wrapping_add(self.len).wrapping_sub(8)
    }

    fn apply(&self, head: &mut Head) {
        let from = usize::from(self.from);
        head.copy_within(from..(from + usize::from(self.len)).min(HEAD_WINDOW), self.to.into());
    }
}

impl LengthChecks {
    /// Returns whether the lengths are as required. `len`: length of the packet plus the bytes of the window in front
    /// of it.
    #[inline(always)]
    fn are_met(&self, head: &Head, len: usize) -> bool {
        let byte = |at: u8, more: usize| usize::from(head[(usize::from(at) + more).min(HEAD_WINDOW - 1)]);
        // The length field of IPv4 includes the header, the length field of IPv6 does not.
        let (at, more) = if self.v6 { (4, 40) } else { (2, 0) };
        let end = (byte(self.ip, at) << 8 | byte(self.ip, at + 1)) + more + usize::from(self.ip);
        if end < usize::from(self.ip) + usize::from(self.least) || end > len {
            return false;
        }
        !self.tcp || (20..=end - usize::from(self.l4)).contains(&((byte(self.l4, 12) >> 4) * 4))
    }
}
