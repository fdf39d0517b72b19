//! `Frame`: the bytes of one packet in a buffer from a pool, with headroom in front for headers to be pushed.
//!
//! A frame is a handle: moving it moves no packet bytes. Its buffer is memory of the switch, or of a device with memory of its own (a DPDK
//! pool). Only receiving, freeing and transmitting depend on the kind of memory.
//!
//! The end of a long packet, its *tail*, may still be in the memory of the guest that sent it (`buffer::tail`). Every access to bytes that
//! are not in the buffer copies the tail first; [`Frame::head`], [`Frame::head_window`] and [`Frame::read`] avoid this copy. A frame with an absent
//! tail must be completed or freed before the iteration in which it was received ends.
//!
//! A [`FramePool`] belongs to one worker. It keeps freed buffers of the usual size for the next receive, so that a worker normally
//! allocates nothing. The number of free buffers that it keeps is bounded.

use crate::offload::{Offload, OffloadWord};
use crate::rx_checksums::{RxChecksum, RxChecksums};
pub use buffer::TailOwner;
pub use buffer::tail::{ExternalMemory, PIECES_MAX, Piece, Tail};
use buffer::{Buffer, BufferAccount, FreeBatch, Source};
use std::fmt;
use std::sync::Arc;

/// Headroom of a received packet, in bytes: space for VLAN and MPLS tags and a tunnel header.
pub const HEADROOM: usize = 128;
/// Maximum length of a packet in a buffer of the usual size, in bytes. With the headroom this is an odd number of cache lines. With 2,048
/// bytes, the first lines of all buffers would share two sets of the cache, which is too few for a batch.
pub const USUAL_FRAME_MAX: usize = 1920 + 64;
/// Maximum length of a packet, in bytes: an IPv4 packet of 64 KiB with its Ethernet header and two VLAN tags.
pub const FRAME_MAX: usize = 65_535 + 22;

/// Size of a buffer of the usual size, in bytes.
const BUFFER: usize = HEADROOM + USUAL_FRAME_MAX;
/// Size of a buffer for the longest packet, in bytes.
const BUFFER_LARGE: usize = HEADROOM + FRAME_MAX;

/// Length of the window of [`Frame::head_window`], in bytes: an 8-byte word may start at any offset that fits in a byte.
pub const HEAD_WINDOW: usize = 256 + 8;

/// A list of frames: a burst that is received or sent.
pub type FrameBatch = Vec<Frame>;

/// A packet and its buffer.
pub struct Frame {
    buffer: Buffer,
    /// Offset of the packet in the buffer.
    start: u32,
    /// Length of the packet.
    len: u32,
    offload_state: OffloadWord,
}

impl Frame {
    /// A frame with the `len` bytes of `buffer` from byte `start` on. `None`: the buffer is too short.
    #[inline]
    pub fn in_buffer(buffer: Buffer, start: usize, len: usize) -> Option<Frame> {
        if start.checked_add(len)? > buffer.size() {
            return None;
        }
        Some(Frame { buffer, start: start as u32, len: len as u32, offload_state: OffloadWord::default() })
    }

    /// A frame with the `len` bytes of `buffer` from byte `start` on, truncated if the buffer is too short.
    #[inline(always)]
    pub fn in_buffer_truncated(buffer: Buffer, start: usize, len: usize) -> Frame {
        let start = start.min(buffer.size());
        let len = len.min(buffer.size() - start);
        Frame { buffer, start: start as u32, len: len as u32, offload_state: OffloadWord::default() }
    }

    /// The buffer, and the offset of the packet in it.
    #[inline]
    pub fn into_buffer(self) -> (Buffer, usize) {
        (self.buffer, self.start as usize)
    }

    /// The same frame, charged to `account`, which is notified when the buffer is freed.
    #[must_use]
    pub fn charged_to(self, account: Arc<dyn BufferAccount>) -> Frame {
        Frame { buffer: self.buffer.charged_to(account), ..self }
    }

    /// The source of the buffer; `None` for memory of the switch.
    #[inline]
    pub fn source(&self) -> Option<&'static Source> {
        self.buffer.source()
    }

    /// The unfinished offloads.
    pub fn offload(&self) -> Offload {
        self.offload_state.offload()
    }

    /// What the device that received the frame has reported about its checksums.
    pub fn rx_checksums(&self) -> Option<RxChecksums> {
        self.offload_state.rx_checksums()
    }

    /// Length of the longest packet into which the frame will be segmented, to compare with an MTU.
    pub fn longest_segment(&self) -> usize {
        let offload = self.offload();
        offload.longest_segment_head(self.head_of(offload.needed_head_len()), self.len())
    }

    /// What is known about the checksum of the outermost IPv4 header, and about the transport checksum after it. Both are
    /// [`RxChecksum::Unknown`] if [`Frame::has_offload_state`] is false.
    pub fn checksum_states(&self) -> [RxChecksum; 2] {
        match self.rx_checksums() {
            Some(stated) => [stated.ip, stated.transport],
            None if self.offload().csum.is_some() => [RxChecksum::Unknown, RxChecksum::Unfinished],
            None => [RxChecksum::Unknown; 2],
        }
    }

    /// Records what a device has reported about checksums. The frame must have no unfinished offloads.
    pub fn set_rx_checksums(&mut self, stated: RxChecksums) {
        self.offload_state = OffloadWord::of_rx_checksums(stated);
    }

    /// Returns whether the frame has unfinished offloads, or a device has reported something about its checksums.
    #[inline]
    pub fn has_offload_state(&self) -> bool {
        self.offload_state.is_some()
    }

    /// Returns whether the frame must be segmented before it is on a wire.
    #[inline]
    pub fn needs_segmentation(&self) -> bool {
        self.has_offload_state() && self.offload().gso.is_some()
    }

    /// Sets the unfinished offloads.
    pub fn set_offload(&mut self, offload: Offload) {
        self.offload_state = OffloadWord::new(offload);
    }

    /// Updates offsets in the offload state after `by` bytes were inserted in front of the transport header (negative: removed).
    #[inline]
    pub fn shift_offload(&mut self, by: i16) {
        if self.has_offload_state() {
            match self.rx_checksums() {
                Some(stated) => {
                    self.set_rx_checksums(RxChecksums { l4: stated.l4.saturating_add_signed(by), ..stated })
                }
                None => {
                    let mut offload = self.offload();
                    offload.shift(by);
                    self.set_offload(offload);
                }
            }
        }
    }

    /// The packet. An absent tail is copied into the buffer first; [`Frame::head`] avoids that.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.buffer.slice(self.start as usize, self.len as usize)
    }

    /// The bytes of the packet that are in the buffer: all bytes, unless the tail is absent. They include at least the headers, if these
    /// have the usual length. The length of the packet is [`Frame::len`].
    #[inline(always)]
    pub fn head(&self) -> &[u8] {
        self.buffer.front(self.start as usize, self.len as usize)
    }

    /// [`Frame::head`] if that has at least `n` bytes, otherwise [`Frame::bytes`].
    #[inline]
    pub fn head_of(&self, n: usize) -> &[u8] {
        let head = self.head();
        if head.len() >= n { head } else { self.bytes() }
    }

    /// [`Frame::head_of`], mutable.
    pub fn head_of_mut(&mut self, n: usize) -> &mut [u8] {
        let len = self.head_of(n).len();
        self.buffer.slice_mut(self.start as usize, len)
    }

    /// Returns whether the frame is complete: all bytes are in the buffer.
    #[inline(always)]
    pub fn is_complete(&self) -> bool {
        self.buffer.is_complete()
    }

    /// Copies an absent tail into the buffer. Must be called for every frame that outlives the iteration in which it was received.
    #[inline(always)]
    pub fn complete(&self) {
        if !self.is_complete() {
            self.buffer.complete();
        }
    }

    /// Attaches `tail` as the bytes behind the first `head`. Returns false and changes nothing if the tail has another length or the buffer
    /// has no space for its description: then the caller must copy the bytes.
    #[inline]
    pub fn attach_tail(&mut self, head: usize, tail: Tail<'_>) -> bool {
        let present = self.start as usize + head;
        // `present() == BUFFER` tells `FramePool::free` that a buffer is complete and of the usual size, so a buffer with a tail must not
        // have this number of present bytes.
        self.len() == head + tail.total_len() && present != BUFFER && self.buffer.attach_tail(present, tail)
    }

    /// Piece `n` of the absent tail, which begins behind [`Frame::head`]. The packet may end before the tail does. `None`: there is no such
    /// piece, or the tail is not in the memory that `outside` describes. The piece is valid only until the frame is used otherwise.
    #[inline]
    pub fn piece(&self, outside: &'static ExternalMemory, n: usize) -> Option<Piece> {
        self.buffer.piece(outside, n)
    }

    /// Copies the packet to `to`, at most as many bytes as `to` has, without copying an absent tail into the buffer.
    pub fn read(&self, to: &mut [u8]) {
        let len = to.len().min(self.len());
        self.read_at(0, &mut to[..len]);
    }

    /// [`Frame::read`] from byte `at` of the packet on.
    ///
    /// # Panics
    ///
    /// Panics if the packet ends before `to` is full.
    pub fn read_at(&self, at: usize, to: &mut [u8]) {
        if self.is_complete() {
            return to.copy_from_slice(&self.bytes()[at..at + to.len()]);
        }
        assert!(at + to.len() <= self.len());
        self.buffer.read(self.start as usize + at, to);
    }

    /// Prefetches the first bytes of the packet.
    #[inline(always)]
    pub fn prefetch(&self) {
        cpu::prefetch_at(self.buffer.start().wrapping_add(self.start as usize));
    }

    /// Prefetches a cache line: `line` 0 is where the packet begins, -1 is in front of it, where a header will be written.
    #[inline(always)]
    pub fn prefetch_line(&self, line: isize) {
        let start = self.buffer.start().wrapping_add(self.start as usize);
        cpu::prefetch_at(start.wrapping_offset(line * 64));
    }

    /// The packet, mutable.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.slice_mut(self.start as usize, self.len as usize)
    }

    /// Length of the packet.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns whether the packet has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of free bytes in front of the packet.
    pub fn headroom(&self) -> usize {
        self.start as usize
    }

    /// Number of free bytes after the packet.
    pub fn tailroom(&self) -> usize {
        self.buffer.size() - (self.start + self.len) as usize
    }

    /// Size of the buffer in bytes.
    pub fn memory(&self) -> usize {
        self.buffer.size()
    }

    /// Copies the packet into a buffer of minimal size in the switch's own memory, for a frame that is kept for long. Unfinished offloads
    /// are not copied.
    #[must_use]
    pub fn detached(&self) -> Frame {
        let mut buffer = Buffer::allocate((HEADROOM + self.len()) as u32);
        buffer.bytes_mut()[HEADROOM..].copy_from_slice(self.bytes());
        Frame::in_buffer_truncated(buffer, HEADROOM, self.len())
    }

    /// A window of the buffer from `front` bytes before the packet on. The window may be longer than the packet; the caller must access no
    /// more than the first `used` bytes of the packet. `None`: the buffer is too short.
    #[inline(always)]
    pub fn head_window(&mut self, front: usize, used: usize) -> Option<&mut [u8; HEAD_WINDOW]> {
        let start = (self.start as usize).checked_sub(front)?;
        self.buffer.window(start, front + used)
    }

    /// Makes the packet `by` bytes longer at the front (negative: shorter). It does not become longer than the headroom permits.
    #[inline(always)]
    pub fn grow_front(&mut self, by: i16) {
        let by = i32::from(by).clamp(-(self.len as i32), self.start as i32);
        self.start = self.start.wrapping_add_signed(-by);
        self.len = self.len.wrapping_add_signed(by);
    }

    /// Calls `write` for the `N` bytes in front of the packet; the last `len` of them become a part of it. Returns `None` and changes
    /// nothing if there are fewer bytes in front.
    #[inline(always)]
    pub fn put_front<const N: usize>(&mut self, len: usize, write: impl FnOnce(&mut [u8; N])) -> Option<()> {
        let start = (self.start as usize).checked_sub(N)?;
        write(self.buffer.slice_mut(start, N).first_chunk_mut()?);
        let len = len.min(N) as u32;
        self.start = self.start.wrapping_sub(len);
        self.len = self.len.wrapping_add(len);
        Some(())
    }

    /// Makes the packet `n` bytes longer at the front and returns the new bytes, which are not cleared. If the headroom is too small, the
    /// packet is moved back into the tailroom. `None`: the buffer is too small.
    pub fn push_front(&mut self, n: usize) -> Option<&mut [u8]> {
        if n > self.start as usize {
            self.move_back(n)?;
        }
        let start = (self.start as usize).checked_sub(n)?;
        self.start = start as u32;
        self.len += n as u32;
        Some(&mut self.bytes_mut()[..n])
    }

    /// Moves the packet back so that it has at least `n` bytes of headroom, and more if possible.
    #[cold]
    fn move_back(&mut self, n: usize) -> Option<()> {
        let (start, room) = (self.start as usize, self.tailroom());
        let least = n.checked_sub(start).filter(|least| *least <= room)?;
        let by = least.max(room / 2);
        let len = self.len();
        self.buffer.bytes_mut().copy_within(start..start + len, start + by);
        self.start += by as u32;
        Some(())
    }

    /// Removes `n` bytes from the front. Returns `None` and changes nothing if the packet is shorter.
    #[inline]
    pub fn pull_front(&mut self, n: usize) -> Option<()> {
        self.len = (self.len as usize).checked_sub(n)? as u32;
        self.start += n as u32;
        Some(())
    }

    /// Makes the packet `n` bytes longer at the end and returns the new bytes, which are not cleared. `None`: there is not enough tailroom.
    pub fn push_back(&mut self, n: usize) -> Option<&mut [u8]> {
        if n > self.tailroom() {
            return None;
        }
        let old = self.len();
        self.len += n as u32;
        Some(&mut self.bytes_mut()[old..])
    }

    /// Truncates the packet to at most `len` bytes.
    pub fn trim(&mut self, len: usize) {
        self.len = self.len.min(len.min(FRAME_MAX) as u32);
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({} bytes, {} in front)", self.len, self.start)
    }
}

/// The free buffers of one worker.
#[derive(Debug)]
pub struct FramePool {
    free: Vec<Buffer>,
    /// Maximum number of buffers in `free`.
    free_max: usize,
    /// Free buffers of the largest size. They are reused, because clearing 64 KiB for each large frame would cost more than copying the packet.
    free_large: Vec<Buffer>,
    free_batch: FreeBatch,
}

/// Maximum number of free buffers of the largest size.
const FREE_LARGE_MAX: usize = 64;

impl FramePool {
    /// Makes a pool that keeps up to `keep` free buffers for reuse.
    pub fn new(keep: usize) -> FramePool {
        FramePool {
            free: Vec::with_capacity(keep),
            free_max: keep,
            free_large: Vec::new(),
            free_batch: FreeBatch::default(),
        }
    }

    /// A frame of `len` bytes with unspecified content: a receiver overwrites it and then trims the frame. `None`: `len` is longer than the
    /// longest packet.
    #[inline]
    pub fn alloc(&mut self, len: usize) -> Option<Frame> {
        if len > FRAME_MAX {
            return None;
        }
        let (list, size) = match len {
            ..=USUAL_FRAME_MAX => (&mut self.free, BUFFER),
            _ => (&mut self.free_large, BUFFER_LARGE),
        };
        let buffer = list.pop().unwrap_or_else(|| Buffer::allocate(size as u32));
        Some(Frame { buffer, start: HEADROOM as u32, len: len as u32, offload_state: OffloadWord::default() })
    }

    /// [`FramePool::alloc`] that appends the frame to `out`: the frame is built in its final position and not moved.
    #[inline(always)]
    pub fn alloc_in<'b>(&mut self, len: usize, out: &'b mut FrameBatch) -> Option<&'b mut Frame> {
        match self.free.pop() {
            Some(buffer) if len <= USUAL_FRAME_MAX => {
                let (start, len) = (HEADROOM as u32, len as u32);
                out.push(Frame { buffer, start, len, offload_state: OffloadWord::default() });
            }
            other => {
                self.free.extend(other);
                out.push(self.alloc(len)?);
            }
        }
        out.last_mut()
    }

    /// Prefetches the buffer of the next frame of `len` bytes for writing.
    #[inline(always)]
    pub fn prefetch_next(&self, len: usize) {
        if let Some(buffer) = self.free.last() {
            let room = buffer.start().wrapping_add(HEADROOM);
            (0..len.min(USUAL_FRAME_MAX))
                .step_by(64)
                .for_each(|at| cpu::prefetch_write_at(room.wrapping_add(at)));
        }
    }

    /// A frame with a copy of these bytes.
    #[inline]
    pub fn frame_of(&mut self, bytes: &[u8]) -> Option<Frame> {
        let mut frame = self.alloc(bytes.len())?;
        frame.bytes_mut().copy_from_slice(bytes);
        Some(frame)
    }

    /// Copies a frame with its offload state into a buffer from the same source, or into memory of the switch if the buffers of that source
    /// are too small. `None`: there is no buffer.
    pub fn copy_of(&mut self, frame: &Frame) -> Option<Frame> {
        let (start, len) = (frame.start as usize, frame.len());
        let another = match frame.source() {
            None => None,
            Some(_) => Some(frame.buffer.allocate_another()?).filter(|b| start + len <= b.size()),
        };
        let mut copy = match another {
            None => self.alloc(len)?,
            Some(buffer) => Frame::in_buffer(buffer, start, len)?,
        };
        frame.read(copy.bytes_mut());
        copy.offload_state = frame.offload_state;
        Some(copy)
    }

    /// Frees the buffer of a frame. A buffer of a device is returned to the device at the next [`FramePool::flush`] at the latest.
    ///
    /// Inlined, so that the buffer handle is copied once, from the list of frames to the list of free buffers. An intermediate copy would
    /// be written as words and read as vectors. The processor delays such a read until all earlier writes are complete.
    #[inline(always)]
    pub fn free(&mut self, frame: Frame) {
        let Frame { buffer, .. } = frame;
        match buffer.source() {
            None if buffer.present() == BUFFER && self.free.len() < self.free_max => self.free.push(buffer),
            None => self.free_other(buffer),
            Some(_) => drop(self.free_batch.push(buffer)),
        }
    }

    /// Frees a buffer of the switch's own memory that has a tail or another size, or for which the list of free buffers has no space.
    #[inline(never)]
    fn free_other(&mut self, mut buffer: Buffer) {
        if !buffer.is_complete() {
            buffer.drop_tail();
        }
        match buffer.size() {
            BUFFER if self.free.len() < self.free_max => self.free.push(buffer),
            BUFFER_LARGE if self.free_large.len() < FREE_LARGE_MAX => self.free_large.push(buffer),
            _ => {}
        }
    }

    /// Frees the buffers of all frames.
    #[inline]
    pub fn free_all(&mut self, frames: &mut FrameBatch) {
        // Usually the list is empty, because devices keep all frames that they send.
        if !frames.is_empty() {
            self.free_each(frames);
        }
    }

    #[inline(never)]
    fn free_each(&mut self, frames: &mut FrameBatch) {
        while let Some(frame) = frames.pop() {
            self.free(frame);
        }
    }

    /// Returns freed buffers of devices to the devices. Called at the end of an iteration.
    #[inline]
    pub fn flush(&mut self) {
        self.free_batch.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_and_go_in_front() {
        let mut pool = FramePool::new(4);
        let mut f = pool.frame_of(b"packet").unwrap();
        f.push_front(4).unwrap().copy_from_slice(b"vlan");
        assert_eq!(f.bytes(), b"vlanpacket");
        f.pull_front(6).unwrap();
        assert_eq!(f.bytes(), b"cket");
        f.trim(2);
        assert_eq!(f.bytes(), b"ck");
        assert!(f.pull_front(3).is_none());
        assert!(f.push_front(BUFFER - 1).is_none());
        assert_eq!(f.len(), 2);
        f.push_back(2).unwrap().copy_from_slice(b"!!");
        assert_eq!(f.bytes(), b"ck!!");
    }

    #[test]
    fn a_packet_moves_back_for_what_does_not_fit_in_front() {
        let mut f = FramePool::new(4).frame_of(b"packet").unwrap();
        f.push_front(HEADROOM + 1).unwrap().fill(7);
        assert_eq!(&f.bytes()[HEADROOM..], b"\x07packet");
        let (front, behind) = (f.start as usize, f.tailroom());
        assert!(front > 0 && behind > 0);
        f.push_front(front + behind).unwrap();
        assert_eq!((f.start, f.tailroom(), &f.bytes()[BUFFER - 6..]), (0, 0, &b"packet"[..]));
        assert!(f.push_front(1).is_none());
    }

    #[test]
    fn a_frame_ends_with_its_buffer() {
        let cut = |start, len| Frame::in_buffer_truncated(Buffer::allocate(100), start, len).bytes().len();
        assert_eq!([cut(10, 20), cut(90, 20), cut(100, 1), cut(usize::MAX, usize::MAX)], [20, 10, 0, 0]);
        assert!(Frame::in_buffer(Buffer::allocate(100), 90, 20).is_none());
    }

    #[test]
    fn buffers_are_reused() {
        let mut pool = FramePool::new(1);
        let mut f = pool.alloc(60).unwrap();
        f.bytes_mut()[0] = 42;
        pool.free(f);
        assert_eq!(pool.alloc(60).unwrap().bytes()[0], 42);
        let mut big = pool.alloc(9000).unwrap();
        big.bytes_mut()[8999] = 7;
        pool.free(big);
        assert!(pool.free.is_empty());
        assert_eq!(pool.alloc(FRAME_MAX).unwrap().bytes()[8999], 7);
        assert!(pool.alloc(FRAME_MAX + 1).is_none());
    }

    #[test]
    fn a_frame_that_is_kept_takes_little_memory() {
        let mut frame = FramePool::new(1).alloc(9000).unwrap();
        frame.bytes_mut().fill(7);
        let kept = frame.detached();
        assert_eq!((kept.bytes(), kept.memory()), (frame.bytes(), HEADROOM + 9000));
        assert!(frame.memory() > FRAME_MAX && kept.source().is_none());
    }

    #[test]
    fn a_copy_has_the_same_unfinished_offloads() {
        let mut pool = FramePool::new(1);
        let mut f = pool.frame_of(b"packet").unwrap();
        let csum = Some(crate::offload::PartialChecksum { start: 2, offset: 2 });
        f.set_offload(Offload { csum, gso: None });
        let copy = pool.copy_of(&f).unwrap();
        assert_eq!((copy.bytes(), copy.offload()), (f.bytes(), f.offload()));
        assert!(!pool.frame_of(b"packet").unwrap().has_offload_state());
    }
}
