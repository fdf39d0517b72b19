//! Tails: the end of a buffer's content that is still in memory outside the switch. It is copied when it is needed.
//!
//! A device may receive only the headers of a long packet and leave the rest, its tail, in the sender's memory. Then
//! only the first bytes of the buffer are *present*. [`Buffer::slice`] and the other accessors copy the tail first if
//! bytes behind the present ones are accessed. So no code can read bytes that are absent. Code that only needs
//! headers ([`Buffer::front`]), or passes the tail on ([`Buffer::piece`], [`Buffer::read`]), saves the copy.
//!
//! The lease of a tail is a flag that is true while the buffer refers to the tail. It is cleared when the tail was
//! copied or the buffer is freed. Until then the pieces must stay readable. The list of pieces is written at the end
//! of the buffer's own memory, which is unused while the tail is absent. So buffers and frames need no field for the list.

use crate::memory::Buffer;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

/// The functions that read memory outside the switch.
#[derive(Debug)]
pub struct ExternalMemory {
    /// Name for log messages.
    pub name: &'static str,
    /// Copies this many bytes from a piece to memory of the switch. The bytes of the piece may change at any time.
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

/// Maximum number of pieces of a tail: a packet of 64 KiB in guest buffers of 1 KiB.
pub const PIECES_MAX: usize = 64;

/// A tail to be attached to a buffer.
#[derive(Debug)]
pub struct Tail<'a> {
    outside: &'static ExternalMemory,
    lease: &'a AtomicBool,
    pieces: &'a [Piece],
}

impl<'a> Tail<'a> {
    /// Creates a tail of these pieces.
    ///
    /// # Safety
    ///
    /// `lease` must be false, and no other tail may use it. From the time when `lease` becomes true until it is false
    /// again, `outside` must be able to read the pieces, and `lease` must stay at its address.
    pub unsafe fn new(
        outside: &'static ExternalMemory,
        lease: &'a AtomicBool,
        pieces: &'a [Piece],
    ) -> Tail<'a> {
        Tail { outside, lease, pieces }
    }

    /// Length in bytes.
    #[inline]
    pub fn total_len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len).sum()
    }
}

/// The description of an absent tail. It is at the end of the buffer; the pieces are in front of it.
#[derive(Clone, Copy)]
#[repr(C)]
struct Record {
    outside: &'static ExternalMemory,
    lease: *const AtomicBool,
    pieces: usize,
}

/// Size of a record in bytes.
const RECORD: usize = size_of::<Record>();

/// Number of bytes at the end of a buffer that a record and its pieces may need.
const RESERVED: usize = RECORD + PIECES_MAX * size_of::<Piece>();

impl Buffer {
    /// Returns whether all bytes are present.
    #[inline(always)]
    pub fn is_complete(&self) -> bool {
        self.present() == self.size()
    }

    /// Attaches a tail: the content of the buffer from byte `present` on. Returns false and does nothing if the buffer is
    /// not on the heap, already has a tail, or is too small, or if there are too many pieces.
    #[inline]
    pub fn attach_tail(&mut self, present: usize, tail: Tail<'_>) -> bool {
        let (size, count) = (self.size(), tail.pieces.len());
        let fits = self.source().is_none()
            && self.is_complete()
            && (1..=PIECES_MAX).contains(&count)
            && size.checked_sub(RESERVED).is_some_and(|usable| present <= usable)
            && tail.total_len() <= size - present;
        if !fits {
            return false;
        }
        for (n, piece) in tail.pieces.iter().enumerate() {
            let at = self.place_of(count, n);
            // SAFETY: the piece is written within the last `RESERVED` bytes, which the buffer has (`fits`), and which
            // are not among the present bytes.
            unsafe { self.start().add(at).cast::<Piece>().write_unaligned(*piece) };
        }
        let record = Record { outside: tail.outside, lease: tail.lease, pieces: count };
        // SAFETY: the record is written in the last `RECORD` bytes, which the buffer has (`fits`), and which are not
        // among the present bytes.
        unsafe { self.start().add(size - RECORD).cast::<Record>().write_unaligned(record) };
        tail.lease.store(true, Ordering::Relaxed);
        self.set_present(present);
        true
    }

    /// Returns the offset at which piece `n` of `count` is written.
    #[inline]
    fn place_of(&self, count: usize, n: usize) -> usize {
        self.size() - RECORD - (count - n) * size_of::<Piece>()
    }

    /// Returns the record of the absent tail; `None` if the buffer is complete.
    #[inline]
    fn record(&self) -> Option<Record> {
        if self.is_complete() {
            return None;
        }
        // SAFETY: the tail is absent, so `attach_tail` has written the record there. Until the tail is copied, other code
        // writes only the present bytes and, through `window`, unused bytes behind them; neither reaches the reserved bytes.
        Some(unsafe { self.start().add(self.size() - RECORD).cast::<Record>().read_unaligned() })
    }

    /// Returns piece `n` of the tail, if the tail is absent and lies in the memory `outside`. The piece is readable until the
    /// next other call on this buffer, which may copy or release the tail.
    #[inline]
    pub fn piece(&self, outside: &'static ExternalMemory, n: usize) -> Option<Piece> {
        let record = self.record()?;
        (std::ptr::eq(record.outside, outside) && n < record.pieces).then(|| self.piece_of(&record, n))
    }

    /// Returns piece `n` of an absent tail with this record, which must have more than `n` pieces.
    #[inline]
    fn piece_of(&self, record: &Record, n: usize) -> Piece {
        debug_assert!(n < record.pieces);
        // SAFETY: as in `record`; `attach_tail` has written `record.pieces` pieces in front of the record.
        unsafe { self.start().add(self.place_of(record.pieces, n)).cast::<Piece>().read_unaligned() }
    }

    /// Returns `N` bytes from `start` on, for writing. The caller must use only the first `used` of them: the others need
    /// not be copied from an absent tail, so they may have any value. `None`: the buffer ends before the last of the `N` bytes.
    #[inline(always)]
    pub fn window<const N: usize>(&mut self, start: usize, used: usize) -> Option<&mut [u8; N]> {
        if start.saturating_add(N) > self.present() {
            self.open_window(start, used.min(N), N)?;
        }
        // SAFETY: the memory is valid and initialised for `size` bytes. `open_window` (or the check of `present`) has
        // ensured that the window lies within them, and that it contains only present bytes and unused bytes behind
        // them, not the record.
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

    /// Copies the absent tail into the buffer. Then the buffer is complete.
    #[cold]
    #[inline(never)]
    pub fn complete(&self) {
        let Some(record) = self.record() else { return };
        // Copying the tail may overwrite the list of its pieces, so the list is copied first.
        let mut pieces = [MaybeUninit::<Piece>::uninit(); PIECES_MAX];
        let count = record.pieces.min(PIECES_MAX);
        for (n, place) in pieces.iter_mut().take(count).enumerate() {
            place.write(self.piece_of(&record, n));
        }
        let mut at = self.present();
        for piece in pieces.iter().take(count) {
            // SAFETY: the loop above has written the first `count` pieces.
            let piece = unsafe { piece.assume_init() };
            // SAFETY: the piece is readable, because the lease is still true. `attach_tail` has checked that all pieces fit
            // behind the present bytes. Existing references cover only present bytes, so none covers the bytes that
            // are written here.
            unsafe { (record.outside.read)(piece.at, self.start().add(at), piece.len) };
            at += piece.len;
        }
        self.set_present(self.size());
        release_lease(&record);
    }

    /// Releases the lease of the absent tail without copying it. The bytes of the tail become unspecified.
    #[cold]
    #[inline(never)]
    pub fn drop_tail(&mut self) {
        if let Some(record) = self.record() {
            self.set_present(self.size());
            release_lease(&record);
        }
    }

    /// Copies as many bytes from `start` on as `to` has, without making the buffer complete.
    ///
    /// # Panics
    ///
    /// If the buffer ends before the last of these bytes.
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
            // SAFETY: the piece is readable, because the lease is still true; `rest` is memory of the switch, and has
            // this length.
            unsafe { (record.outside.read)(piece.at.wrapping_add(skipped), rest.as_mut_ptr(), len) };
            done += len;
        }
        // Bytes behind the tail have no value of their own.
        to[done..].fill(0);
    }
}

/// Releases the lease: the pieces are not used any more.
fn release_lease(record: &Record) {
    // SAFETY: the lease is true, and by the contract of `Tail::new` it stays at its address until it is false.
    unsafe { &*record.lease }.store(false, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    static COPIES: AtomicUsize = AtomicUsize::new(0);
    static OUTSIDE: ExternalMemory = ExternalMemory { name: "test", read };
    static OTHER: ExternalMemory = ExternalMemory { name: "other", read };

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

    fn attach_tail(buffer: &mut Buffer, present: usize, lease: &AtomicBool, pieces: &[Piece]) -> bool {
        // SAFETY: the tests keep memory and lease longer than the buffer.
        buffer.attach_tail(present, unsafe { Tail::new(&OUTSIDE, lease, pieces) })
    }

    #[test]
    fn a_tail_is_copied_when_it_is_needed() {
        let memory: Vec<u8> = (0..2000).map(|n| n as u8 | 1).collect();
        for size in [2112u32, 4000] {
            // In the smaller buffer the tail overwrites its record.
            for lens in [&[1984][..], &[1, 1900, 83], &[31; 64]] {
                let (lease, total) = (AtomicBool::new(false), lens.iter().sum::<usize>());
                let mut buffer = Buffer::allocate(size);
                buffer.bytes_mut()[..128].fill(2);
                assert!(attach_tail(&mut buffer, 128, &lease, &pieces(&memory, lens)));
                assert!(lease.load(Ordering::Relaxed) && !buffer.is_complete());
                assert_eq!(buffer.front(100, 1000), [2; 28]);
                assert_eq!(buffer.slice(0, 128), [2; 128]);
                assert!(!buffer.is_complete());
                let mut copied = vec![0; 28 + total];
                buffer.read(100, &mut copied);
                assert_eq!((&copied[..28], &copied[28..]), (&[2; 28][..], &memory[..total]));
                let mut part = [0; 7];
                buffer.read(128 + total - 9, &mut part);
                assert_eq!(part, memory[total - 9..total - 2]);
                assert!(!buffer.is_complete() && lease.load(Ordering::Relaxed));
                let head = buffer.front(0, 128);
                assert_eq!(buffer.slice(127, 1 + total)[1..], memory[..total]);
                assert_eq!(head, [2; 128]);
                assert!(buffer.is_complete() && !lease.load(Ordering::Relaxed));
            }
        }
    }

    #[test]
    fn a_tail_goes_back_without_a_copy() {
        let memory = vec![7; 3000];
        let lease = AtomicBool::new(false);
        for drops in [true, false] {
            let mut buffer = Buffer::allocate(2112);
            assert!(attach_tail(&mut buffer, 256, &lease, &pieces(&memory, &[1000])));
            assert!(buffer.piece(&OUTSIDE, 0).is_some_and(|piece| piece.len == 1000));
            assert_eq!((buffer.piece(&OUTSIDE, 1), buffer.piece(&OTHER, 0)), (None, None));
            match drops {
                true => drop(buffer),
                false => {
                    buffer.drop_tail();
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
        let mut buffer = Buffer::allocate(2112);
        assert!(attach_tail(&mut buffer, 256, &lease, &pieces(&memory, &[1000])));
        buffer.window::<264>(128, 100).unwrap().fill(1);
        assert!(!buffer.is_complete());
        assert_eq!(buffer.window::<264>(128, 129).unwrap()[127..], [[1].as_slice(), &[7; 136]].concat());
        assert!(buffer.is_complete() && buffer.window::<264>(2000, 1).is_none());
        assert!(attach_tail(&mut buffer, 1000, &lease, &pieces(&memory, &[1000])));
        assert_eq!(buffer.window::<264>(900, 100).unwrap()[100..], [7; 164], "it reaches into the record");
        assert!(buffer.is_complete());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let memory = vec![7; 3000];
        let lease = AtomicBool::new(false);
        let mut buffer = Buffer::allocate(2112);
        for (present, lens) in [(256, &[1857][..]), (1100, &[10]), (256, &[]), (256, &[1; 65])] {
            assert!(!attach_tail(&mut buffer, present, &lease, &pieces(&memory, lens)), "{present} {lens:?}");
        }
        assert!(!attach_tail(&mut Buffer::allocate(100), 10, &lease, &pieces(&memory, &[10])));
        assert!(!lease.load(Ordering::Relaxed) && buffer.is_complete());
        assert!(attach_tail(&mut buffer, 256, &lease, &pieces(&memory, &[1856])));
        assert!(!attach_tail(&mut buffer, 256, &AtomicBool::new(false), &pieces(&memory, &[1])));
    }
}
