//! Conversion between DPDK's packets (mbufs) and frames.
//!
//! A received packet in one segment becomes a frame with the same buffer, without a copy. A packet in several segments, or
//! one whose bytes may be shared (a clone, or memory outside its pool), is copied. If the buffer of a sent frame is an mbuf, the frame's
//! length and offset are written to the mbuf; any other frame is copied into a new mbuf.
//!
//! # Invariants
//!
//! - A handle of [`SOURCE`] points to an *exclusive* packet: it has one reference and one segment, and its bytes are in its pool
//!   or in memory that was allocated for it alone. [`is_exclusive`] checks this. After the conversion nothing else uses the pointer.
//!
//! Runs on the thread that polls the queue or sends.

use crate::mempool::{HEADROOM, Mempool};
use crate::offload_request::OffloadRequest;
use buffer::{Buffer, Handle, Memory, Source};
use dpdk_sys as sys;
use packet::frame::{Frame, FrameBatch, FramePool};
use packet::queue::RX_BURST;
use std::ptr::NonNull;
use std::vec::Drain;

/// An mbuf that the holder of this pointer owns.
pub(crate) type Mbuf = NonNull<sys::rte_mbuf>;

/// The source of frames whose buffers are mbufs.
pub(crate) static SOURCE: Source = Source { name: "dpdk", free, allocate_another };

/// Maximum number of segments of a packet that is sent.
const SEGMENTS_MAX: usize = 64;
/// Flags of a packet whose bytes may be shared with another packet.
const SHARED_FLAGS: u64 = EXTERNAL | sys::SLUICE_RTE_MBUF_F_INDIRECT;
/// Flag of a packet whose bytes are outside its pool. DPDK frees such memory differently.
const EXTERNAL: u64 = sys::SLUICE_RTE_MBUF_F_EXTERNAL;
/// Reference count 1 and number of segments 1, read as one word.
const ONE_REFERENCE_ONE_SEGMENT: u32 = 0x0001_0001;

/// Frees packets.
///
/// # Safety
///
/// As for [`Source::free`].
unsafe fn free(handles: &[Handle]) {
    let mbufs = handles.as_ptr().cast_mut().cast::<*mut sys::rte_mbuf>();
    // SAFETY: a `Handle` has the layout of a pointer, and the caller owns these packets. The array is only read.
    unsafe { sys::sluice_free_bulk(mbufs, handles.len() as u32) }
}

/// Allocates a packet from the pool of this packet.
///
/// # Safety
///
/// As for [`Source::allocate_another`].
unsafe fn allocate_another(handle: Handle) -> Option<Memory> {
    let like: Mbuf = handle.0.cast();
    // SAFETY: the caller owns the packet, so its pool is alive. The new packet is exclusive, and this function owns it.
    unsafe {
        let mbuf = NonNull::new(sys::sluice_alloc((*like.as_ptr()).pool))?;
        Some(memory_of(mbuf))
    }
}

/// The memory of a packet's buffer.
///
/// # Safety
///
/// `mbuf` is exclusive.
#[inline]
unsafe fn memory_of(mbuf: Mbuf) -> Memory {
    // SAFETY: the caller guarantees a valid mbuf. Its buffer is never null.
    unsafe {
        let m = mbuf.as_ptr();
        let base = NonNull::new_unchecked((*m).buf_addr.cast());
        Memory { handle: Handle(mbuf.cast()), base, size: u32::from((*m).buf_len) }
    }
}

/// Whether the packet is exclusive and its bytes are inside its buffer. A packet with one of the flags `excluding_flags` is not exclusive.
///
/// # Safety
///
/// The caller owns `mbuf`, which is as a driver returns it.
#[inline(always)]
unsafe fn is_exclusive(mbuf: Mbuf, excluding_flags: u64) -> bool {
    let m = mbuf.as_ptr();
    // SAFETY: the caller guarantees a valid mbuf. The two numbers are adjacent (asserted below). The owner of a clone may change the
    // first number at the same time, but then the word differs from `ONE_REFERENCE_ONE_SEGMENT` before and after.
    unsafe {
        let exclusive = (&raw const (*m).refcnt).cast::<u32>().read_unaligned() == ONE_REFERENCE_ONE_SEGMENT;
        let fits = u32::from((*m).data_off) + u32::from((*m).data_len) <= u32::from((*m).buf_len);
        exclusive & fits & ((*m).ol_flags & excluding_flags == 0)
    }
}

/// Appends the frames of received packets to `out`. Returns how many packets were freed because they are malformed or
/// longer than any packet may be.
///
/// First, frames are built as if all packets were exclusive. They are used only if all packets are exclusive.
///
/// # Safety
///
/// The caller owns `mbufs`, which are not null and as a driver returns them, and does not use them afterwards.
#[inline]
pub(crate) unsafe fn append(
    mbufs: &[*mut sys::rte_mbuf],
    pool: &mut FramePool,
    out: &mut FrameBatch,
) -> usize {
    // SAFETY: the caller guarantees that no pointer is null.
    let packets = mbufs.iter().map(|&m| unsafe { NonNull::new_unchecked(m) });
    out.reserve(mbufs.len());
    let mut exclusive = true;
    for (slot, m) in out.spare_capacity_mut().iter_mut().zip(packets.clone()) {
        // SAFETY: the caller guarantees valid packets. Frames of packets that are not exclusive are discarded below without being used.
        unsafe {
            exclusive &= is_exclusive(m, SHARED_FLAGS);
            slot.write(frame_of(m));
        }
    }
    if !exclusive {
        // SAFETY: the caller guarantees owned packets; each is passed once.
        return packets.filter(|&m| unsafe { !append_one(m, SHARED_FLAGS, pool, out) }).count();
    }
    // SAFETY: that many frames were written. Their packets are exclusive, and nothing else uses them.
    unsafe { out.set_len(out.len() + mbufs.len()) };
    0
}

/// Creates a frame in the packet's buffer.
///
/// # Safety
///
/// `mbuf` is as a driver returns it. The frame may be used only if the packet is exclusive, and if the caller owns
/// the packet and does not use it afterwards.
#[inline(always)]
unsafe fn frame_of(mbuf: Mbuf) -> Frame {
    // SAFETY: the caller guarantees a valid mbuf.
    unsafe {
        let m = mbuf.as_ptr();
        let (start, len) = (usize::from((*m).data_off), usize::from((*m).data_len));
        Frame::in_buffer_truncated(Buffer::of(&SOURCE, memory_of(mbuf)), start, len)
    }
}

/// Appends the frame of one packet whose memory, inside its pool or not, is not shared. Returns false if no
/// frame could be made of the packet; then the packet was freed.
///
/// # Safety
///
/// As for [`append`]. If the packet's memory is outside its pool, it was allocated for this packet alone.
pub(crate) unsafe fn append_unshared(
    mbuf: *mut sys::rte_mbuf,
    pool: &mut FramePool,
    out: &mut FrameBatch,
) -> bool {
    // SAFETY: the caller guarantees an owned packet with memory of its own, so `EXTERNAL` does not mean that the memory is shared.
    unsafe { append_one(NonNull::new_unchecked(mbuf), SHARED_FLAGS & !EXTERNAL, pool, out) }
}

/// Appends the frame of one packet; if the packet is not exclusive, the frame is a copy. Returns false if no frame could be made.
///
/// # Safety
///
/// As for [`append`]. If `excluding_flags` lacks [`EXTERNAL`], as for [`append_unshared`].
#[cold]
unsafe fn append_one(mbuf: Mbuf, excluding_flags: u64, pool: &mut FramePool, out: &mut FrameBatch) -> bool {
    // SAFETY: the caller guarantees an owned packet, which is passed on once.
    let frame = unsafe {
        if is_exclusive(mbuf, excluding_flags) { Some(frame_of(mbuf)) } else { join_segments(mbuf, pool) }
    };
    let made = frame.is_some();
    out.extend(frame);
    made
}

const _: () = assert!(
    std::mem::offset_of!(sys::rte_mbuf, nb_segs) == std::mem::offset_of!(sys::rte_mbuf, refcnt) + 2,
    "read as one word"
);

/// Copies a packet's segments into a frame of the switch's own memory, and frees the packet.
///
/// # Safety
///
/// As for [`append`].
unsafe fn join_segments(mbuf: Mbuf, pool: &mut FramePool) -> Option<Frame> {
    // SAFETY: the segments of a packet live as long as the packet. For each segment it is checked that its bytes are inside
    // its buffer. The loop ends at the end of the chain, or after the number of segments in the first mbuf.
    unsafe {
        let len = (*mbuf.as_ptr()).pkt_len as usize;
        let mut frame = pool.alloc(len);
        let mut rest = frame.as_mut().map_or(&mut [][..], Frame::bytes_mut);
        let mut segment = mbuf.as_ptr();
        for _ in 0..(*mbuf.as_ptr()).nb_segs {
            let Some(s) = segment.as_ref() else { break };
            let n = usize::from(s.data_len);
            if usize::from(s.data_off) + n > usize::from(s.buf_len) || n > rest.len() {
                break;
            }
            let bytes = std::slice::from_raw_parts(s.buf_addr.cast::<u8>().add(usize::from(s.data_off)), n);
            let (now, later) = rest.split_at_mut(n);
            now.copy_from_slice(bytes);
            rest = later;
            segment = s.next;
        }
        let complete = rest.is_empty();
        sys::sluice_free_bulk(&mut mbuf.as_ptr(), 1);
        if complete { frame } else { None }
    }
}

/// Replaces `out` by the bytes of all segments of a packet.
///
/// # Safety
///
/// The caller owns the packet, which has no other owner.
#[cold]
unsafe fn copy_out(mbuf: *const sys::rte_mbuf, out: &mut Vec<u8>) {
    out.clear();
    // SAFETY: the segments of a packet live as long as the packet. For each segment it is checked that its bytes are inside
    // its buffer. The loop ends at the end of the chain, or after the number of segments in the first mbuf.
    unsafe {
        let mut segment = mbuf;
        for _ in 0..(*mbuf).nb_segs {
            let Some(s) = segment.as_ref() else { break };
            let n = usize::from(s.data_len);
            if usize::from(s.data_off) + n > usize::from(s.buf_len) {
                break;
            }
            let data = s.buf_addr.cast::<u8>().add(usize::from(s.data_off));
            out.extend_from_slice(std::slice::from_raw_parts(data, n));
            segment = s.next;
        }
    }
}

/// An array of mbuf pointers, as DPDK's burst functions need it. The burst owns the mbufs.
pub(crate) struct Burst {
    mbufs: [*mut sys::rte_mbuf; RX_BURST],
    len: usize,
}

// SAFETY: the burst owns its packets, and mbufs are not bound to a thread.
unsafe impl Send for Burst {}

impl Burst {
    pub(crate) fn new() -> Burst {
        Burst { mbufs: [std::ptr::null_mut(); RX_BURST], len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len == RX_BURST
    }

    /// Appends a packet. The burst must not be full.
    #[inline]
    pub(crate) fn push(&mut self, mbuf: Mbuf) {
        self.mbufs[self.len] = mbuf.as_ptr();
        self.len += 1;
    }

    /// Moves frames to the end of the burst as long as the burst has space and the frame is in an mbuf, is at most
    /// `max_len` bytes long and has no offload request. Returns the sum of the lengths, and the first frame that does
    /// not meet these conditions.
    ///
    /// Sum and number are kept in local variables until the end: with updates in memory, each packet would wait for
    /// the previous one.
    #[inline(always)]
    pub(crate) fn fill(&mut self, frames: &mut Drain<'_, Frame>, max_len: usize) -> (u64, Option<Frame>) {
        let (mut n, mut bytes, mut special) = (0, 0, None);
        for slot in &mut self.mbufs[self.len..] {
            let Some(frame) = frames.next() else { break };
            let len = frame.len();
            if frame.has_offload_state() | (len > max_len) {
                special = Some(frame);
                break;
            }
            match into_mbuf(frame) {
                Ok(mbuf) => *slot = mbuf.as_ptr(),
                Err(frame) => {
                    special = Some(frame);
                    break;
                }
            }
            n += 1;
            bytes += len as u64;
        }
        self.len += n;
        (bytes, special)
    }

    /// Copies frames, at most as many as the burst has space for, into new packets of one segment at the end of the burst. Returns the
    /// sum of the lengths. `None`, and nothing was copied: the pool has too few packets, or a frame needs several segments.
    pub(crate) fn copy(&mut self, frames: &[Frame], pool: &Mempool) -> Option<u64> {
        let new = self.mbufs[self.len..].get_mut(..frames.len())?;
        // SAFETY: the pool is alive and contains mbufs, and `new` has space for that many pointers.
        if unsafe { sys::sluice_alloc_bulk(pool.raw(), new.as_mut_ptr(), new.len() as u32) } != 0 {
            return None;
        }
        let mut bytes = 0;
        for (frame, &mut m) in frames.iter().zip(&mut *new) {
            let len = frame.len();
            // SAFETY: the packet was just allocated, so this function owns it. Its data begin at its offset, and `room` bytes of them are in
            // its buffer.
            let fits = unsafe {
                let room = usize::from((*m).buf_len) - usize::from((*m).data_off);
                if len <= room {
                    let data = (*m).buf_addr.cast::<u8>().add(usize::from((*m).data_off));
                    frame.read_at(0, std::slice::from_raw_parts_mut(data, len));
                    (*m).data_len = len as u16;
                    (*m).pkt_len = len as u32;
                }
                len <= room
            };
            if !fits {
                // SAFETY: this function owns the packets, which are not in the burst yet.
                unsafe { sys::sluice_free_bulk(new.as_mut_ptr(), new.len() as u32) };
                return None;
            }
            bytes += len as u64;
        }
        self.len += frames.len();
        Some(bytes)
    }

    /// Number of packets for which the burst has space.
    pub(crate) fn free_slots(&self) -> usize {
        RX_BURST - self.len
    }

    /// Calls `receive`, which writes up to `max` pointers and returns their number, and appends their frames to `out`.
    /// Returns the number of packets, and how many of them could not be converted to a frame. The burst must be empty, and stays empty.
    ///
    /// # Safety
    ///
    /// The caller owns the packets whose pointers `receive` writes. They are as a driver returns them.
    #[inline]
    pub(crate) unsafe fn receive(
        &mut self,
        max: usize,
        pool: &mut FramePool,
        out: &mut FrameBatch,
        receive: impl FnOnce(*mut *mut sys::rte_mbuf, u16) -> u16,
    ) -> (usize, usize) {
        let n = usize::from(receive(self.mbufs.as_mut_ptr(), max.min(RX_BURST) as u16)).min(RX_BURST);
        // SAFETY: the caller guarantees owned packets, whose pointers are never null.
        (n, unsafe { append(&self.mbufs[..n], pool, out) })
    }

    /// Frees each packet that `accept` rejects. `accept` returns how many of the first packets it accepts. Returns the total length of
    /// the freed packets.
    ///
    /// # Safety
    ///
    /// `accept` stores no pointer, and does not change owner or segments of the packets.
    pub(crate) unsafe fn free_rejected(
        &mut self,
        accept: impl Fn(*mut *mut sys::rte_mbuf, u16) -> u16,
    ) -> u64 {
        let (mut good, mut freed) = (0, 0);
        while good < self.len {
            let rest = &mut self.mbufs[good..self.len];
            good += usize::from(accept(rest.as_mut_ptr(), rest.len() as u16)).min(rest.len());
            if good == self.len {
                break;
            }
            // SAFETY: the burst owns the packet, and it is removed from the array: the packets after it move up.
            unsafe {
                freed += u64::from((*self.mbufs[good]).pkt_len);
                sys::sluice_free_bulk(&raw mut self.mbufs[good], 1);
            }
            self.mbufs.copy_within(good + 1..self.len, good);
            self.len -= 1;
        }
        freed
    }

    /// Calls `send`, which returns how many of the first packets it accepted, until it accepts none, and frees the rest.
    /// Returns the number of accepted packets, and the total length of the others. The bytes of the first packet that was not
    /// accepted are stored in `refused`.
    ///
    /// # Safety
    ///
    /// After `send`, the caller does not own the packets that `send` accepted.
    #[inline]
    pub(crate) unsafe fn send(
        &mut self,
        refused: &mut Vec<u8>,
        send: impl Fn(*mut *mut sys::rte_mbuf, u16) -> u16,
    ) -> (usize, u64) {
        let n = std::mem::take(&mut self.len);
        let mut sent = 0;
        while sent < n {
            let rest = &mut self.mbufs[sent..n];
            match usize::from(send(rest.as_mut_ptr(), rest.len() as u16)) {
                0 => break,
                taken => sent = n.min(sent + taken),
            }
        }
        let left = &mut self.mbufs[sent..n];
        if left.is_empty() {
            return (sent, 0);
        }
        // SAFETY: this function owns the packets; they are not in the burst any more, because its length is 0.
        unsafe {
            copy_out(left[0], refused);
            let bytes = left.iter().map(|m| u64::from((**m).pkt_len)).sum();
            sys::sluice_free_bulk(left.as_mut_ptr(), left.len() as u32);
            (sent, bytes)
        }
    }
}

impl Drop for Burst {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the burst owns the packets, and nothing uses them afterwards.
            unsafe { sys::sluice_free_bulk(self.mbufs.as_mut_ptr(), self.len as u32) };
        }
    }
}

/// Whether the frame's buffer is an mbuf.
#[inline]
pub(crate) fn is_in_mbuf(frame: &Frame) -> bool {
    frame.source().is_some_and(|s| std::ptr::eq(s, &SOURCE))
}

/// The mbuf that is the frame's buffer; `Err`: its buffer is no mbuf.
///
/// The frame's offload request is not copied: the mbuf's flags request no offload.
#[inline]
pub(crate) fn into_mbuf(frame: Frame) -> Result<Mbuf, Frame> {
    if !is_in_mbuf(&frame) {
        return Err(frame);
    }
    let len = frame.len();
    let (buffer, start) = frame.into_buffer();
    let mbuf: Mbuf = buffer.into_handle(&SOURCE).map_err(|_| ()).expect("its source was looked at").0.cast();
    // SAFETY: the packet is exclusive, and this function owns it. Both numbers are at most its buffer's length, which has 16 bits.
    unsafe {
        let m = mbuf.as_ptr();
        (*m).data_off = start as u16;
        (*m).data_len = len as u16;
        (*m).pkt_len = len as u32;
        (*m).ol_flags &= EXTERNAL;
    }
    Ok(mbuf)
}

/// Writes an offload request to a packet. Returns whether the request has any flag.
pub(crate) fn set_offload(mbuf: Mbuf, request: &OffloadRequest) -> bool {
    // SAFETY: the caller owns the packet. Both fields are integers.
    unsafe {
        let m = mbuf.as_ptr();
        (*m).ol_flags |= request.flags;
        (*m).tx_offload = request.lengths;
    }
    request.flags != 0
}

/// Copies bytes into a new packet with as many segments as needed. `None`: the pool is empty, or there are too many
/// bytes.
pub(crate) fn copy_to_mbuf(bytes: &[u8], pool: &Mempool) -> Option<Mbuf> {
    fill_new_mbuf(bytes.len(), pool, |at, to| to.copy_from_slice(&bytes[at..at + to.len()]))
}

/// As [`copy_to_mbuf`], for a frame. An absent tail is copied directly into the packet.
pub(crate) fn copy_frame_to_mbuf(frame: &Frame, pool: &Mempool) -> Option<Mbuf> {
    fill_new_mbuf(frame.len(), pool, |at, to| frame.read_at(at, to))
}

/// A new packet of `len` bytes. `fill` writes each piece; its arguments are the piece's offset in the packet and its memory.
fn fill_new_mbuf(len: usize, pool: &Mempool, fill: impl Fn(usize, &mut [u8])) -> Option<Mbuf> {
    // SAFETY: the pool is alive and contains mbufs. Packets that it returns are exclusive, and this function owns them.
    unsafe {
        let first = NonNull::new(sys::sluice_alloc(pool.raw()))?;
        let room = usize::from((*first.as_ptr()).buf_len) - HEADROOM as usize;
        let n = len.div_ceil(room).max(1);
        let mut mbufs = [std::ptr::null_mut(); SEGMENTS_MAX];
        mbufs[0] = first.as_ptr();
        let more = n - 1;
        if n > SEGMENTS_MAX
            || more > 0 && sys::sluice_alloc_bulk(pool.raw(), &raw mut mbufs[1], more as u32) != 0
        {
            sys::sluice_free_bulk(mbufs.as_mut_ptr(), 1);
            return None;
        }
        for (i, at) in (0..len).step_by(room).enumerate() {
            let (m, part) = (mbufs[i], room.min(len - at));
            let data = (*m).buf_addr.cast::<u8>().add(usize::from((*m).data_off));
            fill(at, std::slice::from_raw_parts_mut(data, part));
            (*m).data_len = part as u16;
            (*m).next = if i + 1 < n { mbufs[i + 1] } else { std::ptr::null_mut() };
        }
        (*first.as_ptr()).pkt_len = len as u32;
        (*first.as_ptr()).nb_segs = n as u16;
        Some(first)
    }
}
