//! Packets of DPDK as frames, and back.
//!
//! A packet that lies in one piece becomes a frame by handing over its buffer: no byte moves. One that lies in pieces, or
//! whose bytes somebody else may touch (a clone, memory that is not its pool's), is copied. Back, a frame whose buffer is a
//! packet of DPDK gets its length and offset written; any other is copied into one.
//!
//! # Invariants
//!
//! * A handle of [`SOURCE`] points to a packet that is whole: one reference, one segment, its bytes those of its pool or
//!   memory that was taken for it alone. [`is_whole`] says which are, and nobody else has the pointer afterwards.
//!
//! Runs on whatever thread polls the queue.

use crate::mempool::{HEADROOM, Mempool};
use crate::undone::Undone;
use buffer::{Buffer, Handle, Memory, Source};
use dpdk_sys as sys;
use packet::frame::{Frame, FrameBatch, FramePool};
use packet::queue::RX_BURST;
use std::ptr::NonNull;
use std::vec::Drain;

/// A packet of DPDK that is ours.
pub(crate) type Mbuf = NonNull<sys::rte_mbuf>;

/// Frames in packets of DPDK.
pub(crate) static SOURCE: Source = Source { name: "dpdk", free, another };

/// How many segments a packet that is sent may have.
const SEGMENTS_MAX: usize = 64;
/// Flags of a packet whose bytes are not its own.
const FOREIGN: u64 = EXTERNAL | sys::SLUICE_RTE_MBUF_F_INDIRECT;
/// Flag of a packet whose bytes are not those of its pool: it is freed in another way.
const EXTERNAL: u64 = sys::SLUICE_RTE_MBUF_F_EXTERNAL;
/// Reference count and number of segments of a packet that is whole.
const WHOLE: u32 = 0x0001_0001;

unsafe fn free(handles: &[Handle]) {
    let mbufs = handles.as_ptr().cast_mut().cast::<*mut sys::rte_mbuf>();
    // SAFETY: a handle is a pointer and nothing else; the caller owns these packets. The array is only read.
    unsafe { sys::sluice_free_bulk(mbufs, handles.len() as u32) }
}

unsafe fn another(handle: Handle) -> Option<Memory> {
    let like: Mbuf = handle.0.cast();
    // SAFETY: the caller owns the packet, so its pool lives; the new one is ours.
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

/// The packet is whole, and its bytes lie within its buffer. None of the `foreign` flags may be set.
///
/// # Safety
///
/// `mbuf` is a packet as a driver gives it, and the caller's.
#[inline(always)]
unsafe fn is_whole(mbuf: Mbuf, foreign: u64) -> bool {
    let m = mbuf.as_ptr();
    // SAFETY: the caller's promise. The two numbers are beside each other (asserted below); who holds a clone may change
    // the first, and then what is read is not `WHOLE` either.
    unsafe {
        let whole = (&raw const (*m).refcnt).cast::<u32>().read_unaligned() == WHOLE;
        let fits = u32::from((*m).data_off) + u32::from((*m).data_len) <= u32::from((*m).buf_len);
        whole & fits & ((*m).ol_flags & foreign == 0)
    }
}

/// Appends the frames of received packets to `out`. Gives how many made no frame: they make no sense or are longer than any
/// packet, and were freed.
///
/// Frames are made of all packets on the chance that all are whole, and are there only if that held.
///
/// # Safety
///
/// `mbufs` are packets as a driver gives them (none is null), and the caller's, who forgets them.
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
        // SAFETY: the caller's promise. What was made of a packet that is not whole is forgotten below, unused.
        unsafe {
            whole &= is_whole(m, FOREIGN);
            slot.write(frame_of(m));
        }
    }
    if !whole {
        // SAFETY: the caller's promise.
        return packets.filter(|&m| unsafe { !append_any(m, FOREIGN, pool, out) }).count();
    }
    // SAFETY: so many more were written, of whole packets that nobody else has.
    unsafe { out.set_len(out.len() + mbufs.len()) };
    0
}

/// # Safety
///
/// `mbuf` is a packet as a driver gives it. The frame may be used only if it is whole and the caller's, who forgets it.
#[inline(always)]
unsafe fn frame_of(mbuf: Mbuf) -> Frame {
    // SAFETY: the caller's promise.
    unsafe {
        let m = mbuf.as_ptr();
        let (start, len) = (usize::from((*m).data_off), usize::from((*m).data_len));
        Frame::within(Buffer::of(&SOURCE, memory_of(mbuf)), start, len)
    }
}

/// Appends the frame of one packet whose memory, its pool's or not, is nobody else's. `true`: it makes none, and was freed.
///
/// # Safety
///
/// As for [`append`], and memory that is not its pool's was taken for it alone.
pub(crate) unsafe fn append_alone(
    mbuf: *mut sys::rte_mbuf,
    pool: &mut FramePool,
    out: &mut FrameBatch,
) -> bool {
    // SAFETY: the caller's promise.
    unsafe { !append_any(NonNull::new_unchecked(mbuf), FOREIGN & !EXTERNAL, pool, out) }
}

/// Appends the frame of one packet, a copy if it is not whole; `false` if it makes none.
///
/// # Safety
///
/// As for [`append`]; without the flag of memory outside its pool among the `foreign` ones, as for [`append_alone`].
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

/// A copy of a packet's segments, in a frame of the switch's own; the packet is freed.
///
/// # Safety
///
/// As for [`append`].
unsafe fn joined(mbuf: Mbuf, pool: &mut FramePool) -> Option<Frame> {
    // SAFETY: the segments of a packet live as long as it does, and each has its bytes within its buffer, which is
    // checked; the walk ends where the chain does or where it is longer than it says.
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

/// Puts the bytes of a packet in the place of those of `out`: all of its segments.
///
/// # Safety
///
/// The packet is the caller's, and whole.
#[cold]
unsafe fn copy_out(mbuf: *const sys::rte_mbuf, out: &mut Vec<u8>) {
    out.clear();
    // SAFETY: the segments of a packet live as long as it does, and each has its bytes within its buffer, which is
    // checked; the walk ends where the chain does or where it is longer than it says.
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

/// A burst of pointers, as DPDK's functions take it.
pub(crate) struct Burst {
    mbufs: [*mut sys::rte_mbuf; RX_BURST],
    len: usize,
}

// SAFETY: whoever has the burst owns its packets.
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

    /// Puts one at the end. There must be room: `is_full` tells.
    #[inline]
    pub(crate) fn push(&mut self, mbuf: Mbuf) {
        self.mbufs[self.len] = mbuf.as_ptr();
        self.len += 1;
    }

    /// Puts frames that lie in packets of DPDK, are not longer than `longest` and have nothing left undone at the end: as
    /// many as there is room for, up to one that is none of these, which comes back. Also gives the sum of their bytes.
    ///
    /// Numbers are kept apart from the burst until the end: in it, each packet would wait for the one before.
    #[inline(always)]
    pub(crate) fn fill(&mut self, frames: &mut Drain<'_, Frame>, longest: usize) -> (u64, Option<Frame>) {
        let (mut n, mut bytes, mut odd) = (0, 0, None);
        for slot in &mut self.mbufs[self.len..] {
            let Some(frame) = frames.next() else { break };
            let len = frame.len();
            if frame.is_undone() | (len > longest) {
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

    /// Has `receive` write up to `max` pointers and say how many it wrote, then appends their frames to `out`. Gives how
    /// many there were, and how many made no frame. The burst must be empty, and is.
    ///
    /// # Safety
    ///
    /// `receive` writes that many packets that are the caller's, as a driver gives them.
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

    /// Frees each packet that `look` does not like: it says how many of the first it does. Gives how many bytes those had.
    ///
    /// # Safety
    ///
    /// `look` keeps nothing, and the packets stay whole.
    pub(crate) unsafe fn keep(&mut self, look: impl Fn(*mut *mut sys::rte_mbuf, u16) -> u16) -> u64 {
        let (mut good, mut freed) = (0, 0);
        while good < self.len {
            let rest = &mut self.mbufs[good..self.len];
            good += usize::from(look(rest.as_mut_ptr(), rest.len() as u16)).min(rest.len());
            if good == self.len {
                break;
            }
            // SAFETY: it is ours, and forgotten: those behind it move up.
            unsafe {
                freed += u64::from((*self.mbufs[good]).pkt_len);
                sys::sluice_free_bulk(&raw mut self.mbufs[good], 1);
            }
            self.mbufs.copy_within(good + 1..self.len, good);
            self.len -= 1;
        }
        freed
    }

    /// Has `send` take the packets (it says how many of the first), again and again while it takes some, and frees the
    /// others. Gives how many were taken, and how many bytes were not. The bytes of the first that was not replace those of
    /// `refused`.
    ///
    /// # Safety
    ///
    /// Packets that `send` says it took are no longer the caller's.
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
        // SAFETY: they are ours and forgotten: the length is 0.
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
            // SAFETY: they are ours, and nobody sees them again.
            unsafe { sys::sluice_free_bulk(self.mbufs.as_mut_ptr(), self.len as u32) };
        }
    }
}

/// The frame lies in a packet of DPDK.
#[inline]
pub(crate) fn is_ours(frame: &Frame) -> bool {
    frame.source().is_some_and(|s| std::ptr::eq(s, &SOURCE))
}

/// The packet that a frame lies in; `Err`: it lies in none.
///
/// What the frame's `offload` says is the caller's affair: the packet's flags say that nothing is left to do.
#[inline]
pub(crate) fn in_place(frame: Frame) -> Result<Mbuf, Frame> {
    if !is_ours(&frame) {
        return Err(frame);
    }
    let len = frame.len();
    let (buffer, start) = frame.into_buffer();
    let mbuf: Mbuf = buffer.into_handle(&SOURCE).map_err(|_| ()).expect("its source was looked at").0.cast();
    // SAFETY: a whole packet, ours. Both numbers are at most its buffer's length, which has 16 bits.
    unsafe {
        let m = mbuf.as_ptr();
        (*m).data_off = start as u16;
        (*m).data_len = len as u16;
        (*m).pkt_len = len as u32;
        (*m).ol_flags &= EXTERNAL;
    }
    Ok(mbuf)
}

/// Notes on a packet what is left to do on it. `true`: something is.
pub(crate) fn leave(mbuf: Mbuf, undone: &Undone) -> bool {
    // SAFETY: a packet that is ours. Both words are numbers.
    unsafe {
        let m = mbuf.as_ptr();
        (*m).ol_flags |= undone.flags;
        (*m).tx_offload = undone.lengths;
    }
    undone.flags != 0
}

/// A packet with these bytes, in as many segments as it takes. `None`: the pool has no more, or there are too many bytes.
pub(crate) fn copied(bytes: &[u8], pool: &Mempool) -> Option<Mbuf> {
    // SAFETY: the pool is alive and of packets; what it gives is ours and whole.
    unsafe {
        let first = NonNull::new(sys::sluice_alloc(pool.raw()))?;
        let room = usize::from((*first.as_ptr()).buf_len) - HEADROOM as usize;
        let n = bytes.len().div_ceil(room).max(1);
        let mut mbufs = [std::ptr::null_mut(); SEGMENTS_MAX];
        mbufs[0] = first.as_ptr();
        let more = n - 1;
        if n > SEGMENTS_MAX
            || more > 0 && sys::sluice_alloc_bulk(pool.raw(), &raw mut mbufs[1], more as u32) != 0
        {
            sys::sluice_free_bulk(mbufs.as_mut_ptr(), 1);
            return None;
        }
        for (i, part) in bytes.chunks(room).enumerate() {
            let m = mbufs[i];
            let data = (*m).buf_addr.cast::<u8>().add(usize::from((*m).data_off));
            std::ptr::copy_nonoverlapping(part.as_ptr(), data, part.len());
            (*m).data_len = part.len() as u16;
            (*m).next = if i + 1 < n { mbufs[i + 1] } else { std::ptr::null_mut() };
        }
        (*first.as_ptr()).pkt_len = bytes.len() as u32;
        (*first.as_ptr()).nb_segs = n as u16;
        Some(first)
    }
}
