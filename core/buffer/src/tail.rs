//! Tails: the end of a buffer's content that is still in memory outside the switch, and is copied when it is needed.
//!
//! A device may receive the headers of a long packet only and leave the rest, its tail, where the sender has it. The buffer
//! then has *present* bytes from its beginning on; whatever accesses bytes behind them gets them by [`Buffer::slice`] and its
//! relatives, which copy the tail first. So no code can read bytes that are not there, and code that only needs headers
//! ([`Buffer::front`]) or passes the tail on ([`Buffer::piece`], [`Buffer::read`]) saves the copy.
//!
//! The lender of a tail gets it back by the tail's lease: a flag that is cleared when the tail was copied, or when the buffer
//! is freed. Until then the pieces must stay readable. Where the pieces are is written at the end of the buffer's own memory,
//! which has no other use while the tail is absent, so that a buffer and a frame are not larger for it.

use crate::memory::Buffer;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

/// How memory outside the switch is read.
#[derive(Debug)]
pub struct Outside {
    /// Name for messages.
    pub name: &'static str,
    /// Copies this many bytes from a piece to memory of the switch. The bytes may change meanwhile.
    pub read: unsafe fn(*const u8, *mut u8, usize),
}

/// A piece of memory outside the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First byte.
    pub at: *const u8,
    /// Length in bytes.
    pub len: usize,
}

/// The most pieces of a tail: a packet of 64 KB in buffers of a kilobyte.
pub const PIECES_MAX: usize = 64;

/// A tail to be lent to a buffer.
#[derive(Debug)]
pub struct Tail<'a> {
    outside: &'static Outside,
    lease: &'a AtomicBool,
    pieces: &'a [Piece],
}

impl<'a> Tail<'a> {
    /// A tail in these pieces.
    ///
    /// # Safety
    ///
    /// Once `lease` is true, and until it is false again, the pieces stay readable by `outside`, and `lease` stays where it
    /// is. It is false now, and no other tail has it.
    pub unsafe fn new(outside: &'static Outside, lease: &'a AtomicBool, pieces: &'a [Piece]) -> Tail<'a> {
        Tail { outside, lease, pieces }
    }

    /// Length in bytes.
    #[inline]
    pub fn total_len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len).sum()
    }
}

/// What is known of an absent tail. It is the last thing in the buffer; the pieces are in front of it.
#[derive(Clone, Copy)]
#[repr(C)]
struct Record {
    outside: &'static Outside,
    lease: *const AtomicBool,
    pieces: usize,
}

const RECORD: usize = size_of::<Record>();

/// Bytes at the end of a buffer that a record may need.
const RESERVED: usize = RECORD + PIECES_MAX * size_of::<Piece>();

impl Buffer {
    /// Whether it has no absent tail.
    #[inline(always)]
    pub fn is_whole(&self) -> bool {
        self.present() == self.size()
    }

    /// Lends a tail to the buffer, as its bytes from `present` on. Returns false, and does nothing, if the buffer is not on the
    /// heap, has a tail, or is too small, or if there are too many pieces.
    #[inline]
    pub fn lend(&mut self, present: usize, tail: Tail<'_>) -> bool {
        let (size, count) = (self.size(), tail.pieces.len());
        let fits = self.source().is_none()
            && self.is_whole()
            && (1..=PIECES_MAX).contains(&count)
            && size.checked_sub(RESERVED).is_some_and(|room| present <= room)
            && tail.total_len() <= size - present;
        if !fits {
            return false;
        }
        for (n, piece) in tail.pieces.iter().enumerate() {
            let at = self.place_of(count, n);
            // SAFETY: the place lies within the last `RESERVED` bytes, which the buffer has.
            unsafe { self.start().add(at).cast::<Piece>().write_unaligned(*piece) };
        }
        let record = Record { outside: tail.outside, lease: tail.lease, pieces: count };
        // SAFETY: as above.
        unsafe { self.start().add(size - RECORD).cast::<Record>().write_unaligned(record) };
        tail.lease.store(true, Ordering::Relaxed);
        self.set_present(present);
        true
    }

    /// Where piece `n` of `count` is written.
    #[inline]
    fn place_of(&self, count: usize, n: usize) -> usize {
        self.size() - RECORD - (count - n) * size_of::<Piece>()
    }

    /// `None`: it is whole.
    #[inline]
    fn record(&self) -> Option<Record> {
        if self.is_whole() {
            return None;
        }
        // SAFETY: `lend` wrote it there, and nothing else writes behind the present bytes and the window after them.
        Some(unsafe { self.start().add(self.size() - RECORD).cast::<Record>().read_unaligned() })
    }

    /// Piece `n` of its tail, if that is absent and is read by `outside`. It is readable until the buffer is used in another
    /// way.
    #[inline]
    pub fn piece(&self, outside: &'static Outside, n: usize) -> Option<Piece> {
        let record = self.record()?;
        (std::ptr::eq(record.outside, outside) && n < record.pieces).then(|| self.piece_of(&record, n))
    }

    /// Piece `n` of an absent tail that has this record, and more than `n` pieces.
    #[inline]
    fn piece_of(&self, record: &Record, n: usize) -> Piece {
        debug_assert!(n < record.pieces);
        // SAFETY: as in `record`: `lend` wrote as many pieces.
        unsafe { self.start().add(self.place_of(record.pieces, n)).cast::<Piece>().read_unaligned() }
    }

    /// `N` bytes from `start` on, for writing, of which the first `used` are accessed. If a tail is absent, the others may be
    /// unspecified. `None`: the buffer ends before.
    #[inline(always)]
    pub fn window<const N: usize>(&mut self, start: usize, used: usize) -> Option<&mut [u8; N]> {
        if start.saturating_add(N) > self.present() {
            self.open_window(start, used.min(N), N)?;
        }
        // SAFETY: valid and initialised for `size` bytes; `open_window` has checked that these lie within them, and that they
        // contain nothing but bytes of the content, or behind those, bytes without use.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.start().add(start), N) };
        bytes.first_chunk_mut()
    }

    #[inline(never)]
    fn open_window(&self, start: usize, used: usize, len: usize) -> Option<()> {
        let end = start.checked_add(len).filter(|end| *end <= self.size())?;
        if start + used > self.present() || end > self.size() - RESERVED.min(self.size()) {
            self.complete();
        }
        Some(())
    }

    /// Copies the absent tail into the buffer; then it is whole.
    #[cold]
    #[inline(never)]
    pub fn complete(&self) {
        let Some(record) = self.record() else { return };
        // The tail may overwrite the list of its pieces.
        let mut pieces = [MaybeUninit::<Piece>::uninit(); PIECES_MAX];
        let count = record.pieces.min(PIECES_MAX);
        for (n, place) in pieces.iter_mut().take(count).enumerate() {
            place.write(self.piece_of(&record, n));
        }
        let mut at = self.present();
        for piece in pieces.iter().take(count) {
            // SAFETY: the loop above wrote it.
            let piece = unsafe { piece.assume_init() };
            // SAFETY: the piece is readable until the lease ends. `lend` has checked that all pieces fit behind the present
            // bytes; references lead into present bytes only, so that none covers what is written.
            unsafe { (record.outside.read)(piece.at, self.start().add(at), piece.len) };
            at += piece.len;
        }
        self.set_present(self.size());
        end(&record);
    }

    /// Gives the absent tail back without copying it: its bytes become unspecified.
    #[cold]
    #[inline(never)]
    pub fn give_up_tail(&mut self) {
        if let Some(record) = self.record() {
            self.set_present(self.size());
            end(&record);
        }
    }

    /// Copies the bytes from `start` on, as many as `to` has, without making the buffer whole.
    ///
    /// # Panics
    ///
    /// If the buffer ends before.
    pub fn read(&self, start: usize, to: &mut [u8]) {
        let end = start.saturating_add(to.len());
        let Some(record) = self.record().filter(|_| end > self.present()) else {
            return to.copy_from_slice(self.slice(start, to.len()));
        };
        let front = self.front(start, to.len());
        let (mut done, mut skip) = (front.len(), start.saturating_sub(self.present()));
        to[..done].copy_from_slice(front);
        for n in 0..record.pieces {
            let piece = self.piece_of(&record, n);
            let skipped = skip.min(piece.len);
            skip -= skipped;
            let len = (piece.len - skipped).min(to.len() - done);
            let rest = &mut to[done..done + len];
            // SAFETY: the piece is readable until the lease ends; `rest` is memory of the switch of this length.
            unsafe { (record.outside.read)(piece.at.wrapping_add(skipped), rest.as_mut_ptr(), len) };
            done += len;
        }
        // Bytes behind the tail are unspecified.
        to[done..].fill(0);
    }
}

/// Tells the lender that nothing uses the pieces any more.
fn end(record: &Record) {
    // SAFETY: `Tail::new` promises that the lease stays while it is true.
    unsafe { &*record.lease }.store(false, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    static COPIES: AtomicUsize = AtomicUsize::new(0);
    static OUTSIDE: Outside = Outside { name: "test", read };
    static OTHER: Outside = Outside { name: "other", read };

    unsafe fn read(from: *const u8, to: *mut u8, len: usize) {
        COPIES.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
    }

    fn pieces(memory: &[u8], lens: &[usize]) -> Vec<Piece> {
        let mut at = 0;
        let mut piece = |len: &usize| {
            at += len;
            Piece { at: memory[at - len..at].as_ptr(), len: *len }
        };
        lens.iter().map(&mut piece).collect()
    }

    fn lend(buffer: &mut Buffer, present: usize, lease: &AtomicBool, pieces: &[Piece]) -> bool {
        // SAFETY: the tests keep memory and lease longer than the buffer.
        buffer.lend(present, unsafe { Tail::new(&OUTSIDE, lease, pieces) })
    }

    #[test]
    fn a_tail_is_copied_when_it_is_needed() {
        let memory: Vec<u8> = (0..2000).map(|n| n as u8 | 1).collect();
        for size in [2112u32, 4000] {
            // In the smaller buffer the tail overwrites its record.
            for lens in [&[1984][..], &[1, 1900, 83], &[31; 64]] {
                let (lease, total) = (AtomicBool::new(false), lens.iter().sum::<usize>());
                let mut buffer = Buffer::own(size);
                buffer.bytes_mut()[..128].fill(2);
                assert!(lend(&mut buffer, 128, &lease, &pieces(&memory, lens)));
                assert!(lease.load(Ordering::Relaxed) && !buffer.is_whole());
                assert_eq!(buffer.front(100, 1000), [2; 28]);
                assert_eq!(buffer.slice(0, 128), [2; 128]);
                assert!(!buffer.is_whole());
                let mut copied = vec![0; 28 + total];
                buffer.read(100, &mut copied);
                assert_eq!((&copied[..28], &copied[28..]), (&[2; 28][..], &memory[..total]));
                let mut part = [0; 7];
                buffer.read(128 + total - 9, &mut part);
                assert_eq!(part, memory[total - 9..total - 2]);
                assert!(!buffer.is_whole() && lease.load(Ordering::Relaxed));
                let head = buffer.front(0, 128);
                assert_eq!(buffer.slice(127, 1 + total)[1..], memory[..total]);
                assert_eq!(head, [2; 128]);
                assert!(buffer.is_whole() && !lease.load(Ordering::Relaxed));
            }
        }
    }

    #[test]
    fn a_tail_goes_back_without_a_copy() {
        let memory = vec![7; 3000];
        let lease = AtomicBool::new(false);
        for drops in [true, false] {
            let mut buffer = Buffer::own(2112);
            assert!(lend(&mut buffer, 256, &lease, &pieces(&memory, &[1000])));
            assert!(buffer.piece(&OUTSIDE, 0).is_some_and(|piece| piece.len == 1000));
            assert_eq!((buffer.piece(&OUTSIDE, 1), buffer.piece(&OTHER, 0)), (None, None));
            match drops {
                true => drop(buffer),
                false => {
                    buffer.give_up_tail();
                    assert_eq!((buffer.bytes().len(), buffer.piece(&OUTSIDE, 0)), (2112, None));
                }
            }
            assert!(!lease.load(Ordering::Relaxed));
        }
    }

    #[test]
    fn a_window_never_shows_the_record() {
        let memory = vec![7; 3000];
        let lease = AtomicBool::new(false);
        let mut buffer = Buffer::own(2112);
        assert!(lend(&mut buffer, 256, &lease, &pieces(&memory, &[1000])));
        buffer.window::<264>(128, 100).unwrap().fill(1);
        assert!(!buffer.is_whole());
        assert_eq!(buffer.window::<264>(128, 129).unwrap()[127..], [[1].as_slice(), &[7; 136]].concat());
        assert!(buffer.is_whole() && buffer.window::<264>(2000, 1).is_none());
        assert!(lend(&mut buffer, 1000, &lease, &pieces(&memory, &[1000])));
        assert_eq!(buffer.window::<264>(900, 100).unwrap()[100..], [7; 164], "it reaches into the record");
        assert!(buffer.is_whole());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let memory = vec![7; 3000];
        let lease = AtomicBool::new(false);
        let mut buffer = Buffer::own(2112);
        for (present, lens) in [(256, &[1857][..]), (1100, &[10]), (256, &[]), (256, &[1; 65])] {
            assert!(!lend(&mut buffer, present, &lease, &pieces(&memory, lens)), "{present} {lens:?}");
        }
        assert!(!lend(&mut Buffer::own(100), 10, &lease, &pieces(&memory, &[10])));
        assert!(!lease.load(Ordering::Relaxed) && buffer.is_whole());
        assert!(lend(&mut buffer, 256, &lease, &pieces(&memory, &[1856])));
        assert!(!lend(&mut buffer, 256, &AtomicBool::new(false), &pieces(&memory, &[1])));
    }
}
