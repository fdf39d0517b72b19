//! What a guest is sent.
//!
//! The library copies a packet into the guest's memory while it is called, and keeps nothing. So a frame needs no packet
//! buffer of DPDK's to be sent, wherever it lies: the library is shown a descriptor of our own that points at the
//! frame's bytes. The descriptors of a sender are used over and over and stay in its core's cache; those of the packets
//! received are not touched, and frames of kernel ports are copied once, not twice.

use super::feature;
use super::gate::{Inside, Pass};
use super::link::Link;
use dpdk_sys as sys;
use packet::offload::PartialChecksum;
use packet::queue::RX_BURST;
use packet::segment;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The library takes so many at a time.
const BURST: usize = RX_BURST;
const IPPROTO_TCP: u8 = 6;
const IPPROTO_UDP: u8 = 17;

/// Descriptors that point at frames, and the list of them that the library wants.
struct Descriptors {
    mbufs: [sys::rte_mbuf; BURST],
    list: [*mut sys::rte_mbuf; BURST],
}

// SAFETY: the pointers are written and used while a `Sending` borrows what they lead to, and by nobody afterwards.
unsafe impl Send for Descriptors {}

impl Descriptors {
    fn new() -> Box<Descriptors> {
        // SAFETY: all zeros are valid for these structures: numbers and pointers, none of them a reference.
        let mut new: Box<Descriptors> = unsafe { Box::new(std::mem::zeroed()) };
        for mbuf in &mut new.mbufs {
            mbuf.nb_segs = 1;
            mbuf.refcnt = 1;
        }
        new
    }
}

/// One sender. Several may fill the same ring; the library has a lock for each.
pub struct ToGuest {
    link: Arc<Link>,
    pass: Pass,
    slot: usize,
    descriptors: Box<Descriptors>,
}

impl ToGuest {
    pub(super) fn new(link: &Arc<Link>, slot: usize) -> ToGuest {
        ToGuest { pass: link.door.pass(), link: link.clone(), slot, descriptors: Descriptors::new() }
    }

    /// Begins to send to a ring that is on; `None`: there is none. A burst that was accepted in part is offered again
    /// up to `retries` times.
    #[inline]
    pub fn begin<'q, 'f>(&'q mut self, retries: u32) -> Option<Sending<'q, 'f>> {
        let ring = self.link.ring_of(self.slot)? * 2;
        let inside = self.link.door.enter(&mut self.pass)?;
        let takes_csum = self.link.features.load(Ordering::Relaxed) & feature::GUEST_CSUM != 0;
        Some(Sending {
            inside,
            ring,
            takes_csum,
            descriptors: &mut self.descriptors,
            len: 0,
            retries_left: retries,
            retries: 0,
            stuck: false,
            frames: PhantomData,
        })
    }
}

/// Frames on their way to one ring; the guest cannot go away meanwhile. It borrows the frames until it is dropped.
pub struct Sending<'q, 'f> {
    inside: Inside<'q>,
    ring: u16,
    takes_csum: bool,
    descriptors: &'q mut Descriptors,
    len: usize,
    retries_left: u32,
    retries: u32,
    stuck: bool,
    frames: PhantomData<&'f mut [u8]>,
}

impl<'f> Sending<'_, 'f> {
    /// The next `push` needs a `flush` first.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len == BURST
    }

    /// The queue pair whose ring is filled.
    #[inline]
    pub fn pair(&self) -> usize {
        usize::from(self.ring / 2)
    }

    /// Whether the guest finishes such a checksum.
    pub fn takes(&self, bytes: &[u8], csum: PartialChecksum) -> bool {
        self.partial(bytes, csum).is_some()
    }

    /// Appends a packet; `false`: no room, or too long for any ring.
    #[inline]
    pub fn push(&mut self, bytes: &'f [u8]) -> bool {
        self.put(bytes.as_ptr().cast_mut(), bytes.len(), 0, 0)
    }

    /// Appends a packet whose checksum the guest is to finish. `false`: no room, or the guest cannot.
    pub fn push_partial(&mut self, bytes: &'f mut [u8], csum: PartialChecksum) -> bool {
        let Some((flags, lengths)) = self.partial(bytes, csum) else { return false };
        // The library writes the sum of the pseudo header, which is there already, once more: hence `mut`.
        self.put(bytes.as_mut_ptr(), bytes.len(), flags, lengths)
    }

    /// How DPDK says it: flags, and the lengths of the headers.
    fn partial(&self, bytes: &[u8], csum: PartialChecksum) -> Option<(u64, u64)> {
        let layout = segment::layout(bytes).filter(|_| self.takes_csum)?;
        let (l2, l3) = (layout.l3 as u64, (layout.l4 - layout.l3) as u64);
        let (kind, offset, header) = match layout.protocol {
            IPPROTO_TCP => (sys::SLUICE_RTE_MBUF_F_TX_TCP_CKSUM, 16, 20),
            IPPROTO_UDP => (sys::SLUICE_RTE_MBUF_F_TX_UDP_CKSUM, 6, 8),
            _ => return None,
        };
        let fits = l2 < 1 << 7
            && l3 < 1 << 9
            && layout.l4 + header <= bytes.len()
            && bytes.len() <= usize::from(u16::MAX);
        let same = usize::from(csum.start) == layout.l4 && csum.offset == offset;
        let version = if layout.v6 { sys::SLUICE_RTE_MBUF_F_TX_IPV6 } else { sys::SLUICE_RTE_MBUF_F_TX_IPV4 };
        // rte_mbuf.h: 7 bits of l2_len, 9 of l3_len, 8 of l4_len.
        (fits && same).then_some((kind | version, l2 | l3 << 7 | (header as u64) << 16))
    }

    #[inline]
    fn put(&mut self, data: *mut u8, len: usize, flags: u64, lengths: u64) -> bool {
        let Ok(short) = u16::try_from(len) else { return false };
        let Some(mbuf) = self.descriptors.mbufs.get_mut(self.len) else { return false };
        mbuf.buf_addr = data.cast();
        mbuf.data_len = short;
        mbuf.buf_len = short;
        mbuf.pkt_len = len as u32;
        mbuf.ol_flags = flags;
        mbuf.__bindgen_anon_3.tx_offload = lengths;
        self.descriptors.list[self.len] = mbuf;
        self.len += 1;
        true
    }

    /// Sends at once a packet that lives only now; what was pushed before goes first, as by `flush`. Gives how many were
    /// not sent.
    pub fn send_now(&mut self, bytes: &[u8], mut sent: impl FnMut(&[u8])) -> usize {
        let before = self.flush(&mut sent);
        if !self.put(bytes.as_ptr().cast_mut(), bytes.len(), 0, 0) {
            return before + 1;
        }
        before + self.flush(&mut sent)
    }

    /// Sends what was pushed and tells `sent` of each packet that the ring took. Gives the number of the others. Once
    /// the ring is full, it stays so for this `Sending`.
    #[inline]
    pub fn flush(&mut self, mut sent: impl FnMut(&[u8])) -> usize {
        let n = std::mem::take(&mut self.len);
        let mut at = 0;
        while at < n && !self.stuck {
            let list = &mut self.descriptors.list[at..n];
            // SAFETY: the number is valid while we are inside. Each pointer leads to a descriptor whose packet is
            // borrowed by `self` ('f), or by the caller of `send_now`, which is this call's. The library reads those
            // and, where a checksum is left undone, writes a packet that is borrowed as `mut`; it keeps no pointer,
            // frees nothing, checks the ring's number and takes its lock.
            let k = unsafe {
                sys::rte_vhost_enqueue_burst(
                    self.inside.vid(),
                    self.ring,
                    list.as_mut_ptr(),
                    list.len() as u16,
                )
            };
            let k = usize::from(k).min(n - at);
            for mbuf in &self.descriptors.mbufs[at..at + k] {
                // SAFETY: as above: the packet is borrowed and that long.
                sent(unsafe { std::slice::from_raw_parts(mbuf.buf_addr.cast(), usize::from(mbuf.data_len)) });
            }
            at += k;
            if at < n {
                match (k, self.retries_left) {
                    (0, _) | (_, 0) => self.stuck = true,
                    _ => {
                        self.retries_left -= 1;
                        self.retries += 1;
                    }
                }
            }
        }
        n - at
    }

    /// How often a burst was offered again.
    #[inline]
    pub fn retries(&self) -> u32 {
        self.retries
    }
}
