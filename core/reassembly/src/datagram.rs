//! The fragments of one datagram.

use crate::header::Fragment;
use crate::key::Key;
use units::Millis;

/// Maximum number of fragments of a datagram. With the smallest minimum size that can be set (400 bytes, of which at most 60 are the
/// header), the longest IPv4 datagram has at most 193.
const PARTS_MAX: usize = 256;

/// A fragment of a datagram.
#[derive(Debug)]
pub struct Part<T> {
    pub(crate) start: u32,
    pub(crate) len: u32,
    /// Offset of the fragment's payload, in bytes from the network header.
    pub(crate) at: u32,
    /// Memory that the fragment uses, in bytes.
    pub(crate) memory: u32,
    /// What the caller has stored with the fragment.
    pub content: T,
}

impl<T> Part<T> {
    fn end(&self) -> u32 {
        self.start + self.len
    }

    /// Byte range of the fragment's payload in the packet, counted from the network header.
    pub fn payload(&self) -> std::ops::Range<usize> {
        self.at as usize..(self.at + self.len) as usize
    }

    /// Byte range of the fragment's payload in the payload of the datagram.
    pub fn range_in_datagram(&self) -> std::ops::Range<usize> {
        self.start as usize..self.end() as usize
    }
}

/// A complete datagram, with its fragments in order.
#[derive(Debug)]
pub struct Datagram<T> {
    /// The datagram is an IPv6 datagram.
    pub v6: bool,
    /// The fragments in order; at least one.
    pub parts: Vec<Part<T>>,
}

/// Why a datagram refuses a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The fragment overlaps another fragment, or contradicts the known end of the datagram.
    Overlap,
    /// The datagram has too many fragments.
    Full,
}

/// The fragments of an incomplete datagram.
#[derive(Debug)]
pub(crate) struct IncompleteDatagram<T> {
    pub(crate) key: Key,
    /// When the first fragment arrived.
    pub(crate) since: Millis,
    /// Fragments that have arrived, ordered by offset, without overlaps.
    pub(crate) parts: Vec<Part<T>>,
    /// Length of the datagram's payload. `None`: the last fragment has not arrived yet.
    end: Option<u32>,
    /// Number of bytes of payload that have arrived.
    received: u32,
}

impl<T> IncompleteDatagram<T> {
    pub(crate) fn new(key: Key, since: Millis) -> IncompleteDatagram<T> {
        IncompleteDatagram { key, since, parts: Vec::new(), end: None, received: 0 }
    }

    /// Returns whether this fragment would complete the datagram.
    pub(crate) fn is_completed_by(&self, f: &Fragment) -> bool {
        let end = if f.more { self.end } else { Some(f.end()) };
        end == Some(self.received + f.len)
    }

    /// Returns whether the datagram is complete. Fragments neither overlap nor exceed the end, so counting bytes is enough.
    pub(crate) fn is_complete(&self) -> bool {
        self.end == Some(self.received)
    }

    /// Returns the index at which to insert a fragment, or the reason why the fragment is refused.
    pub(crate) fn index_for(&self, f: &Fragment) -> Result<usize, Refusal> {
        let at = self.parts.partition_point(|p| p.start <= f.start);
        let overlaps_before = at.checked_sub(1).is_some_and(|i| self.parts[i].end() > f.start);
        let overlaps_after = self.parts.get(at).is_some_and(|p| p.start < f.end());
        let beyond_end = self.end.is_some_and(|end| f.end() > end || !f.more && f.end() != end);
        let ends_before = !f.more && self.parts.last().is_some_and(|p| p.end() > f.end());
        if overlaps_before || overlaps_after || beyond_end || ends_before {
            return Err(Refusal::Overlap);
        }
        if self.parts.len() == PARTS_MAX { Err(Refusal::Full) } else { Ok(at) }
    }

    /// Inserts a fragment at the index that [`IncompleteDatagram::index_for`] has returned.
    pub(crate) fn insert(&mut self, at: usize, f: &Fragment, content: T, memory: u32) {
        self.parts.insert(at, Part { start: f.start, len: f.len, at: f.at, memory, content });
        self.received += f.len;
        if !f.more {
            self.end = Some(f.end());
        }
    }

    /// Returns whether the first fragment has arrived, and whether the last has.
    pub(crate) fn has_first_and_last(&self) -> (bool, bool) {
        (self.parts.first().is_some_and(|p| p.start == 0), self.end.is_some())
    }
}
