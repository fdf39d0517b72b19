//! Conversion between DPDK's packets (mbufs) and frames.
//!
//! A packet in one segment becomes a frame by passing on its buffer, without a copy. A packet in several segments, or
//! one whose bytes may be shared (a clone, memory outside its pool), is copied. In the other direction, a frame whose
//! buffer is an mbuf gets its length and offset written to the mbuf; any other frame is copied into one.
//!
//! # Invariants
//!
//! - A handle of [`SOURCE`] points to a whole packet: one reference, one segment, and its bytes are those of its pool
//!   or memory that was allocated for it alone. [`is_whole`] checks this, and nothing else has the pointer afterwards.
//!
//! Runs on the thread that polls the queue.

use crate::mempool::{HEADROOM, Mempool};
use crate::offload_request::OffloadRequest;
use buffer::{Buffer, Handle, Memory, Source};
use dpdk_sys as sys;
use packet::frame::{Frame, FrameBatch, FramePool};
use packet::queue::RX_BURST;
use std::ptr::NonNull;
use std::vec::Drain;

/// An mbuf that we own.
pub(crate) type Mbuf = NonNull<sys::rte_mbuf>;

/// The source of frames that lie in mbufs.
pub(crate) static SOURCE: Source = Source { name: "dpdk", free, another };

/// Segments that a packet may have when it is sent.
const SEGMENTS_MAX: usize = 64;
/// Flags of a packet whose bytes may be shared.
const FOREIGN: u64 = EXTERNAL | sys::SLUICE_RTE_MBUF_F_INDIRECT;
/// Flag of a packet whose bytes are outside its pool: it is freed differently.
const EXTERNAL: u64 = sys::SLUICE_RTE_MBUF_F_EXTERNAL;
/// Reference count and number of segments of a whole packet, read as one word.
const WHOLE: u32 = 0x0001_0001;

unsafe fn free(handles: &[Handle]) {
    let mbufs = handles.as_ptr().cast_mut().cast::<*mut sys::rte_mbuf>();
    // SAFETY: a handle is exactly a pointer; the caller owns these packets. The array is only read.
    unsafe { sys::sluice_free_bulk(mbufs, handles.len() as u32) }
}

unsafe fn another(handle: Handle) -> Option<Memory> {
    let like: Mbuf = handle.0.cast();
    // SAFETY: the caller owns the packet, so its pool is alive; the new packet is ours.
    unsafe {
        let mbuf = NonNull::new(sys::sluice_alloc((*like.as_ptr()).pool))?;
        Some(memory_of(mbuf))
    }
}

/// # Safety
///
/// `mbuf` is whole.
#[inline]
unsafe fn memory_of(mbuf: Mbuf) -> Memory {
    // SAFETY: the caller's promise. A packet's buffer is never null.
    unsafe {
        let m = mbuf.as_ptr();
        let base = NonNull::new_unchecked((*m).buf_addr.cast());
        Memory { handle: Handle(mbuf.cast()), base, size: u32::from((*m).buf_len) }
    }
}

/// Whether the packet is whole and its bytes lie within its buffer. None of the `foreign` flags may be set.
///
/// # Safety
///
/// The caller owns `mbuf`, which is a packet as a driver returns it.
#[inline(always)]
unsafe fn is_whole(mbuf: Mbuf, foreign: u64) -> bool {
    let m = mbuf.as_ptr();
    // SAFETY: the caller's promise. The two numbers are adjacent (asserted below). The owner of a clone may change the
    // first number concurrently, but then the word read differs from `WHOLE` in any case.
    unsafe {
        let whole = (&raw const (*m).refcnt).cast::<u32>().read_unaligned() == WHOLE;
        let fits = u32::from((*m).data_off) + u32::from((*m).data_len) <= u32::from((*m).buf_len);
        whole & fits & ((*m).ol_flags & foreign == 0)
    }
}

/// Appends the frames of received packets to `out`. Returns how many packets were freed because they are malformed or
/// longer than any packet may be.
///
/// Frames are built for all packets on the assumption that all are whole, and are used only if that is the case.
///
/// # Safety
///
/// The caller owns `mbufs`, which are packets as a driver returns them (not null), and does not use them afterwards.
#[inline]
pub(crate) unsafe fn append(
    mbufs: &[*mut sys::rte_mbuf],
    pool: &mut FramePool,
    out: &mut FrameBatch,
) -> usize {
    // SAFETY: the caller's promise.
    let packets = mbufs.iter().map(|&m| unsafe { NonNull::new_unchecked(m) });
    out.reserve(mbufs.len());
    let mut whole = true;
    for (slot, m) in out.spare_capacity_mut().iter_mut().zip(packets.clone()) {
        // SAFETY: the caller's promise. Frames of packets that are not whole are discarded below without being used.
        unsafe {
            whole &= is_whole(m, FOREIGN);
            slot.write(frame_of(m));
        }
    }
    if !whole {
        // SAFETY: the caller's promise.
        return packets.filter(|&m| unsafe { !append_any(m, FOREIGN, pool, out) }).count();
    }
    // SAFETY: that many frames were written, of whole packets that nothing else uses.
    unsafe { out.set_len(out.len() + mbufs.len()) };
    0
}

/// # Safety
///
/// `mbuf` is a packet as a driver returns it. The frame may be used only if the packet is whole, and the caller owns
/// it and does not use it afterwards.
#[inline(always)]
unsafe fn frame_of(mbuf: Mbuf) -> Frame {
    // SAFETY: the caller's promise.
    unsafe {
        let m = mbuf.as_ptr();
        let (start, len) = (usize::from((*m).data_off), usize::from((*m).data_len));
        Frame::within(Buffer::of(&SOURCE, memory_of(mbuf)), start, len)
    }
}

/// Appends the frame of one packet whose memory, in its pool or not, is not shared. Returns true if the packet made no
/// frame and was freed.
///
/// # Safety
///
/// As for [`append`]; memory outside its pool was allocated for this packet alone.
pub(crate) unsafe fn append_alone(
    mbuf: *mut sys::rte_mbuf,
    pool: &mut FramePool,
    out: &mut FrameBatch,
) -> bool {
    // SAFETY: the caller's promise.
    unsafe { !append_any(NonNull::new_unchecked(mbuf), FOREIGN & !EXTERNAL, pool, out) }
}

/// Appends the frame of one packet, a copy if it is not whole. Returns false if the packet made no frame.
///
/// # Safety
///
/// As for [`append`]; if `foreign` lacks the flag for memory outside the pool, as for [`append_alone`].
#[cold]
unsafe fn append_any(mbuf: Mbuf, foreign: u64, pool: &mut FramePool, out: &mut FrameBatch) -> bool {
    // SAFETY: the caller's promise.
    let frame = unsafe { if is_whole(mbuf, foreign) { Some(frame_of(mbuf)) } else { joined(mbuf, pool) } };
    let made = frame.is_some();
    out.extend(frame);
    made
}

const _: () = assert!(
    std::mem::offset_of!(sys::rte_mbuf, nb_segs) == std::mem::offset_of!(sys::rte_mbuf, refcnt) + 2,
    "read as one word"
);

/// Copies a packet's segments into a frame of the switch's arena and frees the packet.
///
/// # Safety
///
/// As for [`append`].
unsafe fn joined(mbuf: Mbuf, pool: &mut FramePool) -> Option<Frame> {
    // SAFETY: the segments of a packet live as long as it does, and it is checked that the bytes of each lie within
    // its buffer; the loop ends where the chain ends or exceeds the announced number of segments.
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
/// The caller owns the packet, which is whole.
#[cold]
unsafe fn copy_out(mbuf: *const sys::rte_mbuf, out: &mut Vec<u8>) {
    out.clear();
    // SAFETY: the segments of a packet live as long as it does, and it is checked that the bytes of each lie within
    // its buffer; the loop ends where the chain ends or exceeds the announced number of segments.
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

/// An array of mbuf pointers, as DPDK's burst functions take it.
pub(crate) struct Burst {
    mbufs: [*mut sys::rte_mbuf; RX_BURST],
    len: usize,
}

// SAFETY: the owner of the burst owns its packets.
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

    /// Moves frames to the end of the burst as long as there is room and the frame lies in an mbuf, is at most
    /// `longest` bytes long and has no offload request. Returns the sum of their bytes, and the first frame that does
    /// not qualify.
    ///
    /// The sum and length are kept in local variables until the end: updates in memory would make each packet wait for
    /// the previous one.
    #[inline(always)]
    pub(crate) fn fill(&mut self, frames: &mut Drain<'_, Frame>, longest: usize) -> (u64, Option<Frame>) {
        let (mut n, mut bytes, mut odd) = (0, 0, None);
        for slot in &mut self.mbufs[self.len..] {
            let Some(frame) = frames.next() else { break };
            let len = frame.len();
            if frame.has_offload_state() | (len > longest) {
                odd = Some(frame);
                break;
            }
            match in_place(frame) {
                Ok(mbuf) => *slot = mbuf.as_ptr(),
                Err(frame) => {
                    odd = Some(frame);
                    break;
                }
            }
            n += 1;
            bytes += len as u64;
        }
        self.len += n;
        (bytes, odd)
    }

    /// Copies frames, at most as many as there is room for, into new packets at the end of the burst, each in one segment. Returns the
    /// sum of their bytes; `None`, and nothing was copied: the pool has too few packets, or a frame needs several segments.
    pub(crate) fn copy(&mut self, frames: &[Frame], pool: &Mempool) -> Option<u64> {
        let new = self.mbufs[self.len..].get_mut(..frames.len())?;
        // SAFETY: the pool is alive and of packets, and there is room for that many pointers.
        if unsafe { sys::sluice_alloc_bulk(pool.raw(), new.as_mut_ptr(), new.len() as u32) } != 0 {
            return None;
        }
        let mut bytes = 0;
        for (frame, &mut m) in frames.iter().zip(&mut *new) {
            let len = frame.len();
            // SAFETY: the packet is ours and whole. Its bytes begin at its offset, and `room` of them are in its buffer.
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
                // SAFETY: the packets are ours, and not yet in the burst.
                unsafe { sys::sluice_free_bulk(new.as_mut_ptr(), new.len() as u32) };
                return None;
            }
            bytes += len as u64;
        }
        self.len += frames.len();
        Some(bytes)
    }

    /// Number of packets for which there is room.
    pub(crate) fn room(&self) -> usize {
        RX_BURST - self.len
    }

    /// Calls `receive`, which writes up to `max` pointers and returns their number, and appends their frames to `out`.
    /// Returns the numbers of packets and of those that made no frame. The burst must be empty, and stays so.
    ///
    /// # Safety
    ///
    /// The caller owns the packets that `receive` writes, which are as a driver returns them.
    #[inline]
    pub(crate) unsafe fn receive(
        &mut self,
        max: usize,
        pool: &mut FramePool,
        out: &mut FrameBatch,
        receive: impl FnOnce(*mut *mut sys::rte_mbuf, u16) -> u16,
    ) -> (usize, usize) {
        let n = usize::from(receive(self.mbufs.as_mut_ptr(), max.min(RX_BURST) as u16)).min(RX_BURST);
        // SAFETY: the caller's promise: pointers to packets, which are never null.
        (n, unsafe { append(&self.mbufs[..n], pool, out) })
    }

    /// Frees each packet that `accept` rejects: `accept` returns how many of the first packets it accepts. Returns the
    /// bytes of the freed packets.
    ///
    /// # Safety
    ///
    /// `accept` keeps no pointer, and the packets stay whole.
    pub(crate) unsafe fn keep(&mut self, accept: impl Fn(*mut *mut sys::rte_mbuf, u16) -> u16) -> u64 {
        let (mut good, mut freed) = (0, 0);
        while good < self.len {
            let rest = &mut self.mbufs[good..self.len];
            good += usize::from(accept(rest.as_mut_ptr(), rest.len() as u16)).min(rest.len());
            if good == self.len {
                break;
            }
            // SAFETY: the packet is ours and leaves the array: the ones behind it move up.
            unsafe {
                freed += u64::from((*self.mbufs[good]).pkt_len);
                sys::sluice_free_bulk(&raw mut self.mbufs[good], 1);
            }
            self.mbufs.copy_within(good + 1..self.len, good);
            self.len -= 1;
        }
        freed
    }

    /// Calls `send`, which returns how many of the first packets it took, until it takes none, and frees the rest.
    /// Returns the number of packets taken and the bytes of those that were not. `refused` is replaced by the bytes of
    /// the first packet that was not taken.
    ///
    /// # Safety
    ///
    /// The caller no longer owns the packets that `send` took.
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
        // SAFETY: the packets are ours and no longer in the burst: its length is 0.
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
            // SAFETY: the packets are ours, and nothing uses them afterwards.
            unsafe { sys::sluice_free_bulk(self.mbufs.as_mut_ptr(), self.len as u32) };
        }
    }
}

/// Whether the frame lies in an mbuf.
#[inline]
pub(crate) fn is_ours(frame: &Frame) -> bool {
    frame.source().is_some_and(|s| std::ptr::eq(s, &SOURCE))
}

/// The mbuf that a frame lies in; `Err` if it lies in none.
///
/// The frame's `offload` is not copied: the mbuf's flags request no offload.
#[inline]
pub(crate) fn in_place(frame: Frame) -> Result<Mbuf, Frame> {
    if !is_ours(&frame) {
        return Err(frame);
    }
    let len = frame.len();
    let (buffer, start) = frame.into_buffer();
    let mbuf: Mbuf = buffer.into_handle(&SOURCE).map_err(|_| ()).expect("its source was looked at").0.cast();
    // SAFETY: a whole packet that we own. Both numbers are at most its buffer's length, which has 16 bits.
    unsafe {
        let m = mbuf.as_ptr();
        (*m).data_off = start as u16;
        (*m).data_len = len as u16;
        (*m).pkt_len = len as u32;
        (*m).ol_flags &= EXTERNAL;
    }
    Ok(mbuf)
}

/// Writes an offload request to a packet. Returns whether it requests anything.
pub(crate) fn set_offload(mbuf: Mbuf, request: &OffloadRequest) -> bool {
    // SAFETY: we own the packet. Both words are plain numbers.
    unsafe {
        let m = mbuf.as_ptr();
        (*m).ol_flags |= request.flags;
        (*m).tx_offload = request.lengths;
    }
    request.flags != 0
}

/// Copies bytes into a new packet, with as many segments as needed. `None`: the pool is empty, or there are too many
/// bytes.
pub(crate) fn copied(bytes: &[u8], pool: &Mempool) -> Option<Mbuf> {
    filled(bytes.len(), pool, |at, to| to.copy_from_slice(&bytes[at..at + to.len()]))
}

/// As [`copied`], of a frame, whose tail is copied into the packet buffer directly if it is absent.
pub(crate) fn copied_frame(frame: &Frame, pool: &Mempool) -> Option<Mbuf> {
    filled(frame.len(), pool, |at, to| frame.read_at(at, to))
}

/// A packet of `len` bytes, which `fill` writes piece by piece: it gets where a piece begins.
fn filled(len: usize, pool: &Mempool, fill: impl Fn(usize, &mut [u8])) -> Option<Mbuf> {
    // SAFETY: the pool is alive and of packets; packets that it returns are ours and whole.
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
