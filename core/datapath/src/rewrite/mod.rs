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
mod shared;
#[cfg(test)]
mod tests;

pub(crate) use compile::with_rewrites;
pub(crate) use expected::Expected;
pub(crate) use shared::Shared;

use packet::frame::{Frame, REACH};

/// The window that [`Frame::head_mut`] gives.
type Head = [u8; REACH];

/// How many words are compared and written without a loop. Most rewrites have no more.
const COMPARED: usize = 2;
const WRITTEN: usize = 3;

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
    /// Compares and writes nothing.
    const NOTHING: Word = Word { at: 0, keep: u64::MAX, value: 0 };

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
    compared: [Word; COMPARED],
    written: [Word; WRITTEN],
    written_count: u8,
    sums: [Sum; 2],
    /// How many of them there are.
    sum_count: u8,
    /// How many operations after this one it stands for.
    pub(crate) ops: u8,
    /// The packet stays as long as it is, and there are neither `lengths` nor `more`.
    simple: bool,
    /// By how much the packet becomes longer.
    grown: i16,
    /// The shortest packet that has all that is compared and written.
    min_len: u16,
    /// Bytes of the window in front of the packet.
    front: u8,
    /// 1: only for packets whose sender left no work undone; else 0.
    done: u64,
    lengths: Option<Lengths>,
    moved: Moved,
    more: Option<Box<More>>,
}

/// The words that a rewrite has no place for.
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
}

/// The update of one checksum (RFC 1624): what is added to its complement.
#[derive(Clone, Debug, Default, PartialEq)]
struct Sum {
    at: u8,
    /// Zero stands for "not computed".
    udp: bool,
    /// The new bytes, and those of the old ones that all packets of the megaflow share, folded to 16 bits.
    constant: u16,
    /// The other old bytes: offsets of words, and the bits of each.
    old: Box<[(u8, u64)]>,
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

#[inline(always)]
fn load(head: &Head, at: u8) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&head[usize::from(at)..usize::from(at) + 8]);
    u64::from_ne_bytes(word)
}

#[inline(always)]
fn store(head: &mut Head, at: u8, word: u64) {
    head[usize::from(at)..usize::from(at) + 8].copy_from_slice(&word.to_ne_bytes());
}

impl Rewrite {
    /// Rewrites the packet; `false`, and nothing done: it has not the expected layout.
    #[inline(always)]
    pub(crate) fn apply(&self, frame: &mut Frame) -> bool {
        let front = usize::from(self.front);
        let other =
            u64::from(frame.len() < usize::from(self.min_len)) | u64::from(frame.is_undone()) & self.done;
        let len = frame.len() + front;
        let Some(head) = frame.head_mut(front) else { return false };
        if self.compared.iter().fold(other, |bits, word| bits | word.difference(head)) != 0
            || (!self.simple && !self.fits(head, len))
        {
            return false;
        }
        for sum in self.sums.iter().take(self.sum_count.into()) {
            sum.update(head);
        }
        if self.simple {
            self.written.iter().for_each(|word| word.write(head));
        } else {
            self.write(head);
            if self.grown != 0 {
                frame.grow_front(self.grown);
                frame.shift_offload(self.grown);
            }
        }
        true
    }

    /// What only some rewrites ask.
    #[inline]
    fn fits(&self, head: &Head, len: usize) -> bool {
        let more = self.more.iter().flat_map(|more| &more.compared);
        more.fold(0, |bits, word| bits | word.difference(head)) == 0
            && self.lengths.is_none_or(|lengths| lengths.are_true(head, len))
    }

    #[inline]
    fn write(&self, head: &mut Head) {
        if self.moved.len != 0 {
            self.moved.apply(head);
        }
        // Not those that write nothing: they would wait for what was moved to where they are.
        self.written.iter().take(self.written_count.into()).for_each(|word| word.write(head));
        if let Some(more) = &self.more {
            more.written.iter().for_each(|word| word.write(head));
        }
    }
}

impl Moved {
    #[inline(always)]
    fn apply(self, head: &mut Head) {
        let last = |at: u8| at.wrapping_add(self.len).wrapping_sub(8);
        if (8..=16).contains(&self.len) {
            // Both halves are read before either is written, and overlap where there are fewer than 16 bytes.
            let (low, high) = (load(head, self.from), load(head, last(self.from)));
            store(head, self.to, low);
            store(head, last(self.to), high);
        } else {
            let from = usize::from(self.from);
            head.copy_within(from..(from + usize::from(self.len)).min(REACH), self.to.into());
        }
    }
}

impl Sum {
    #[inline(always)]
    fn update(&self, head: &mut Head) {
        let at = usize::from(self.at);
        let old = u16::from_ne_bytes([head[at], head[at + 1]]);
        // Sums of 16-bit words do not depend on the byte order (RFC 1071 §2), nor on how many are added at once.
        let mut sum = u64::from(!old) + u64::from(self.constant);
        if !self.old.is_empty() {
            for &(at, mask) in &self.old {
                let gone = !(load(head, at) & mask);
                sum += (gone >> 32) + (gone & 0xffff_ffff);
            }
            sum = (sum >> 32) + (sum & 0xffff_ffff);
            sum = (sum >> 16) + (sum & 0xffff);
        }
        sum = (sum >> 16) + (sum & 0xffff);
        sum = (sum >> 16) + (sum & 0xffff);
        let new = match !(sum as u16) {
            _ if self.udp && old == 0 => 0,
            0 if self.udp => 0xffff,
            new => new,
        };
        head[at..at + 2].copy_from_slice(&new.to_ne_bytes());
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
