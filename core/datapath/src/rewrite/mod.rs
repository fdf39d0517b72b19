//! Rewrites: header edits of a megaflow, compiled for the header layout that its packets have.
//!
//! A run of edits (`set`, push and pop of tags and labels) becomes one [`Rewrite`]: masked words at fixed offsets, at most
//! one move of the bytes in front of what is pushed or popped, and one update for each checksum. What the update adds is
//! computed when the megaflow is made, as far as the megaflow matches the bytes that change.
//!
//! **A rewrite checks what it relies on.** It compares the bytes that say the layout (types, IP header length, protocol)
//! with those it was compiled for, and refuses a packet that differs, that is cut off, or that lacks headroom. The
//! operations it stands for follow it in the program and are executed for such a packet one by one, so a rewrite is never
//! the only way to a result, and needs no trust in parsing, masks or caches.

mod compile;
mod emit;
mod expected;
mod patch;
mod shared;
mod sum;
#[cfg(test)]
mod tests;

pub(crate) use compile::with_rewrites;
pub(crate) use expected::Expected;
pub(crate) use shared::Shared;

use packet::frame::{Frame, REACH};
use patch::{HALF, Patch, load, load_half, store, store_half};
use sum::Sum;

/// The window that [`Frame::head_mut`] gives.
type Head = [u8; REACH];

/// Eight bytes of the window, some bits of which are compared or written.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Word {
    at: u8,
    /// The other bits.
    keep: u64,
    /// The values of these bits.
    value: u64,
}

impl Word {
    /// The bits that differ.
    #[inline(always)]
    fn difference(&self, head: &Head) -> u64 {
        (load(head, self.at) ^ self.value) & !self.keep
    }

    #[inline(always)]
    fn write(&self, head: &mut Head) {
        store(head, self.at, load(head, self.at) & self.keep | self.value);
    }
}

/// See the module. Offsets count from the start of the window: the start of the packet before or after the rewrite,
/// whichever is first in the buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Rewrite {
    /// What is compared and written of the first 32 bytes of the window.
    low: Patch,
    /// Of the next 32 bytes: nothing unless `is_long`.
    high: Patch,
    is_long: bool,
    kind: Kind,
    /// How many sums there are.
    sum_count: u8,
    /// How many operations after this one it stands for.
    pub(crate) ops: u8,
    /// By how much the packet becomes longer.
    grown: i16,
    /// The shortest packet that has all that is compared and written.
    min_len: u16,
    /// Bytes of the window in front of the packet.
    front: u8,
    /// Only for packets whose sender left no work undone.
    needs_done: bool,
    sums: [Sum; 2],
    lengths: Option<Lengths>,
    moved: Moved,
    more: Option<Box<More>>,
}

/// What a rewrite consists of beside patches and sums.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Nothing.
    Fields,
    /// `lengths`.
    Transport,
    /// `moved`, which are short, and the packet becomes longer or shorter.
    Tags,
    Any,
}

/// What is compared and written behind the first 64 bytes of the window.
#[derive(Clone, Debug, Default, PartialEq)]
struct More {
    compared: Box<[Word]>,
    written: Box<[Word]>,
}

/// Bytes that are moved for what is pushed or popped behind them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Moved {
    from: u8,
    to: u8,
    len: u8,
    /// Of 8 to 16 bytes, the first and the last eight once they are moved: bits that stay, and values of the others.
    ends: [(u64, u64); 2],
}

/// Lengths that must be true for the transport header to be where it is expected, and whole.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Lengths {
    v6: bool,
    /// Where the IP header starts.
    ip: u8,
    /// Where the transport header starts.
    l4: u8,
    /// From the IP header to the end of the fixed transport header.
    least: u8,
    /// The header length that TCP states is to be checked.
    tcp: bool,
}

impl Rewrite {
    /// Rewrites packets; a bit for each that has not the expected layout, with which nothing was done. Of at most 64.
    ///
    /// What the rewrite consists of is asked once for all of them.
    #[inline(always)]
    pub(crate) fn apply_all(&self, frames: &mut [Frame]) -> u64 {
        match (self.kind, self.sum_count) {
            (Kind::Fields, 0) => self.each::<0, false, false>(frames),
            (Kind::Fields, 1) => self.each::<1, false, false>(frames),
            (Kind::Transport, 1) => self.each::<1, false, true>(frames),
            (Kind::Transport, 2) => self.each::<2, false, true>(frames),
            (Kind::Tags, 0) => self.each::<0, true, false>(frames),
            (Kind::Tags, 1) => self.each::<1, true, false>(frames),
            _ => {
                let frames = frames.iter_mut().enumerate();
                frames.fold(0, |unfit, (i, frame)| unfit | u64::from(!self.apply(frame)) << (i % 64))
            }
        }
    }

    /// [`apply_all`](Self::apply_all) with so many sums. `TAGS`, `L4`: of that [`Kind`].
    #[inline(always)]
    fn each<const SUMS: usize, const TAGS: bool, const L4: bool>(&self, frames: &mut [Frame]) -> u64 {
        let same = self.same();
        let mut unfit = 0;
        // No closures: what is not inlined here is compiled for older processors.
        for (i, frame) in frames.iter_mut().enumerate() {
            unfit |= u64::from(!same.one::<SUMS, TAGS, L4>(frame)) << (i % 64);
        }
        unfit
    }

    #[inline(always)]
    fn same(&self) -> Same<'_> {
        Same {
            low: self.low,
            high: self.high,
            is_long: self.is_long,
            needs_done: self.needs_done,
            min_len: self.min_len.into(),
            front: self.front.into(),
            grown: self.grown,
            sums: &self.sums,
            lengths: self.lengths,
            moved: self.moved,
        }
    }

    /// Rewrites the packet; `false`, and nothing done: it has not the expected layout.
    #[inline]
    pub(crate) fn apply(&self, frame: &mut Frame) -> bool {
        let front = usize::from(self.front);
        if frame.len() < usize::from(self.min_len) || (self.needs_done && frame.is_undone()) {
            return false;
        }
        let len = frame.len() + front;
        let Some(head) = frame.head_mut(front) else { return false };
        let (compared, written) =
            self.more.as_deref().map_or((&[][..], &[][..]), |m| (&m.compared, &m.written));
        if self.low.differs(&load_half(head, 0))
            || self.high.differs(&load_half(head, HALF))
            || compared.iter().any(|word| word.difference(head) != 0)
            || self.lengths.is_some_and(|lengths| !lengths.are_true(head, len))
        {
            return false;
        }
        let renewed = self.sums.each_ref().map(|sum| sum.renewed(head));
        self.moved.apply(head);
        for (start, patch) in [(0, &self.low), (HALF, &self.high)] {
            let half = load_half(head, start);
            store_half(head, start, &patch.patched(&half));
        }
        written.iter().for_each(|word| word.write(head));
        let sums = self.sums.iter().zip(renewed).take(self.sum_count.into());
        sums.for_each(|(sum, value)| sum.store(head, value));
        frame.grow_front(self.grown);
        frame.shift_offload(self.grown);
        true
    }
}

/// What is read of a rewrite for every packet, read once for all: the packets' bytes are written meanwhile, and compilers
/// cannot tell that those are not the rewrite's.
struct Same<'r> {
    low: Patch,
    high: Patch,
    is_long: bool,
    needs_done: bool,
    min_len: usize,
    front: usize,
    grown: i16,
    sums: &'r [Sum; 2],
    lengths: Option<Lengths>,
    moved: Moved,
}

impl Same<'_> {
    /// What [`Rewrite::apply`] does.
    #[inline(always)]
    fn one<const SUMS: usize, const TAGS: bool, const L4: bool>(&self, frame: &mut Frame) -> bool {
        if frame.len() < self.min_len || (self.needs_done && frame.is_undone()) {
            return false;
        }
        let front = if TAGS { self.front } else { 0 };
        let len = frame.len() + front;
        let Some(head) = frame.head_mut(front) else { return false };
        let low = load_half(head, 0);
        if self.low.differs(&low) || (self.is_long && self.high.differs(&load_half(head, HALF))) {
            return false;
        }
        if L4
            && let Some(lengths) = &self.lengths
            && !lengths.are_true(head, len)
        {
            return false;
        }
        // Sums read what is overwritten, and are stored last: a load right behind the store of a part of it would wait.
        let first = if SUMS > 0 { self.sums[0].renewed(head) } else { 0 };
        let second = if SUMS > 1 { self.sums[1].renewed(head) } else { 0 };
        let ends = if TAGS { self.moved.ends(head) } else { [0; 2] };
        store_half(head, 0, &self.low.patched(&low));
        if self.is_long {
            let high = load_half(head, HALF);
            store_half(head, HALF, &self.high.patched(&high));
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

impl Moved {
    /// There are no more bytes than two words hold, and no fewer than one.
    fn is_short(&self) -> bool {
        (8..=16).contains(&self.len)
    }

    /// Of short ones, the first and the last eight bytes, as they will be; they overlap where there are fewer than 16.
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

    /// The last eight bytes from a start.
    #[inline(always)]
    fn last(&self, start: u8) -> u8 {
        start.wrapping_add(self.len).wrapping_sub(8)
    }

    fn apply(&self, head: &mut Head) {
        let from = usize::from(self.from);
        head.copy_within(from..(from + usize::from(self.len)).min(REACH), self.to.into());
    }
}

impl Lengths {
    /// `len`: of the window's part that is the packet.
    #[inline(always)]
    fn are_true(&self, head: &Head, len: usize) -> bool {
        let byte = |at: u8, more: usize| usize::from(head[(usize::from(at) + more).min(REACH - 1)]);
        // IPv4 states the length with its header, IPv6 without.
        let (at, more) = if self.v6 { (4, 40) } else { (2, 0) };
        let end = (byte(self.ip, at) << 8 | byte(self.ip, at + 1)) + more + usize::from(self.ip);
        if end < usize::from(self.ip) + usize::from(self.least) || end > len {
            return false;
        }
        !self.tcp || (20..=end - usize::from(self.l4)).contains(&((byte(self.l4, 12) >> 4) * 4))
    }
}
