//! Packets that a guest sends.

use super::Lie;
use super::access::Descriptor;
use super::chain::{Direction, Parts};
use super::split::{HEADER, Ring};
use crate::feature;
use crate::guest::Received;
use crate::memory::Part;
use packet::frame::{FRAME_MAX, Frame, FrameBatch, FramePool};
use packet::offload::{GsoKind, Offload};
use packet::queue::RX_BURST;
use packet::{segment, vnet};

/// Bytes of an Ethernet header: no packet is shorter.
const ETHERNET: usize = 14;
// The packet header has the byte order of the machine below, and of virtio 1 on the wire.
const _: () = assert!(cfg!(target_endian = "little"));

impl Ring {
    /// Takes up to `max` packets off the ring and appends them to `out`. A lie ends the ring.
    pub fn receive(&mut self, max: usize, pool: &mut FramePool, out: &mut FrameBatch) -> Received {
        let before = out.len();
        if self.lie.is_some() {
            return Received::default();
        }
        let start = self.next;
        if let Err(lie) = self.take(max, pool, out) {
            self.lie = Some(lie);
        }
        let packets = usize::from(self.next.wrapping_sub(start));
        let interrupts = if packets > 0 { self.publish() } else { 0 };
        Received { packets, refused: packets - (out.len() - before), interrupts }
    }

    fn take(&mut self, max: usize, pool: &mut FramePool, out: &mut FrameBatch) -> Result<(), Lie> {
        let n = usize::from(self.offered()?).min(max).min(RX_BURST);
        let mut heads = [0u16; RX_BURST];
        let mut first = [Descriptor::default(); RX_BURST];
        for (i, head) in heads.iter_mut().enumerate().take(n) {
            *head = self.memory.available(self.next.wrapping_add(i as u16));
            self.memory.prefetch(*head);
        }
        let mut hint = self.hint;
        for (descriptor, head) in first.iter_mut().zip(heads).take(n) {
            *descriptor = self.memory.descriptor(head).ok_or(Lie::Head)?;
            if let Some(part) = self.memory.memory().part(descriptor.address, descriptor.len, &mut hint) {
                part.prefetch();
            }
        }
        for (descriptor, head) in first.into_iter().zip(heads).take(n) {
            out.extend(self.packet(descriptor, &mut hint, pool)?);
            self.memory.put_used(self.next, head, 0);
            self.next = self.next.wrapping_add(1);
        }
        self.hint = hint;
        Ok(())
    }

    /// The packet of one chain; `None`: it is longer or shorter than any packet, or asks for work that was not negotiated.
    #[inline]
    fn packet(
        &self,
        first: Descriptor,
        hint: &mut usize,
        pool: &mut FramePool,
    ) -> Result<Option<Frame>, Lie> {
        let mut parts = Parts::new();
        let total = self.walk(Direction::FromGuest).chain(first, &mut parts, hint)? as usize;
        let mut header = [0; HEADER];
        let header_len = self.header();
        let Some(len) = total.checked_sub(header_len) else { return Err(Lie::Header) };
        let Some(mut frame) = (ETHERNET..=FRAME_MAX).contains(&len).then(|| pool.alloc(len)).flatten() else {
            return Ok(None);
        };
        let rest = gather(&parts, &mut header[..header_len]);
        let (part, more) = rest.unwrap_or((None, &[]));
        let read = part.map_or(0, |part| part.read(frame.bytes_mut()));
        gather(more, &mut frame.bytes_mut()[read..]);
        if header[..vnet::LEN] == [0; vnet::LEN] || self.set_offload(&header, &mut frame) {
            return Ok(Some(frame));
        }
        pool.free(frame);
        Ok(None)
    }

    /// Sets the work that the guest left to the switch. Returns false if it does not fit the packet or was not
    /// negotiated.
    #[cold]
    fn set_offload(&self, header: &[u8; HEADER], frame: &mut Frame) -> bool {
        let Some(header) = header.first_chunk() else { return false };
        let Some(offload) = vnet::decode(header, frame.bytes_mut()) else { return false };
        let needs = offload.csum.map_or(0, |_| feature::CSUM)
            | match offload.gso.map(|gso| gso.kind) {
                None => 0,
                Some(GsoKind::Tcp4) => feature::HOST_TSO4,
                Some(GsoKind::Tcp6) => feature::HOST_TSO6,
                Some(GsoKind::Udp) => return false,
            };
        if self.features() & needs != needs {
            return false;
        }
        let Some(csum) = offload.csum else { return true };
        // The rest of the switch expects the checksum where the transport header is. Another one, of a packet inside a
        // tunnel, is finished here.
        let layout = segment::layout(frame.bytes());
        if layout.is_some_and(|l| l.l4 == usize::from(csum.start) && l.checksum() == Some(csum.offset)) {
            return set(frame, offload, layout.and_then(|l| l.kind()));
        }
        offload.gso.is_none() && segment::complete(frame.bytes_mut(), csum.start, csum.offset).is_some()
    }
}

/// Sets the request unless it asks to cut a packet of another kind.
fn set(frame: &mut Frame, offload: Offload, kind: Option<GsoKind>) -> bool {
    let fits = offload.gso.is_none_or(|gso| Some(gso.kind) == kind);
    if fits {
        frame.set_offload(offload);
    }
    fits
}

/// Fills `to` from the parts. Returns the rest of the part that was read last, and the parts after it; `None` if nothing
/// is left.
#[inline(always)]
fn gather<'p, 'm>(parts: &'p [Part<'m>], to: &mut [u8]) -> Option<(Option<Part<'m>>, &'p [Part<'m>])> {
    let mut done = 0;
    for (i, part) in parts.iter().enumerate() {
        let n = part.read(&mut to[done..]);
        done += n;
        if done == to.len() {
            return Some((Some(part.skip(n)), &parts[i + 1..]));
        }
    }
    None
}
