//! Fast path for the most frequent outer headers: VXLAN or Geneve without options, over IPv4, with a frame
//! inside and no UDP checksum. The result equals that of [`pop`](crate::pop()), without a step for each
//! header.

use crate::Kind;
use crate::pop::PADDED_MAX;
use crate::wire::{self, flag, vxlan};
use flow::Tunnel;

/// Bytes of the outer headers.
pub const QUICK_HEADER: usize = wire::ETHERNET + wire::IPV4 + wire::UDP + wire::VXLAN;
const _: () = assert!(wire::VXLAN == wire::GENEVE);

#[inline(always)]
fn word(head: &[u8; QUICK_HEADER], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&head[at..at + 8]);
    u64::from_be_bytes(word)
}

/// Parses the header of a frame that is too long to have padding. The inner frame is all that follows
/// [`QUICK_HEADER`] bytes. `None`: use [`pop`](crate::pop()).
#[inline(always)]
pub fn pop_quick(kind: Kind, frame: &[u8]) -> Option<Tunnel> {
    let head = frame.first_chunk::<QUICK_HEADER>().filter(|_| frame.len() > PADDED_MAX)?;
    // Type, version and length, TOS, total length, identification; flags and offset, TTL, protocol, checksum, half of the
    // source; the other half, destination, source port; destination port, length, checksum.
    let [second, third, fourth, fifth] = [12, 20, 28, 36].map(|at| word(head, at));
    let own = word(head, 42);
    let (total, len) = ((second >> 16) as u16, frame.len() - wire::ETHERNET);
    let is_plain = second >> 40 == 0x08_0045
        && third >> 48 & 0x3fff == 0
        && (third >> 32) as u8 == wire::PROTO_UDP
        && (fifth >> 16) as u16 == 0
        && (QUICK_HEADER - wire::ETHERNET..=len).contains(&usize::from(total))
        && len - usize::from(total) <= usize::from(u16::MAX);
    if !is_plain || !is_own(kind, own) || !is_right(second, third, fourth) {
        return None;
    }
    let dont_fragment = if third >> 62 & 1 != 0 { flag::DF } else { 0 };
    Some(Tunnel {
        tun_id: own >> 8 & 0xff_ffff,
        ip_src: (third as u32) << 16 | (fourth >> 48) as u32,
        ip_dst: (fourth >> 16) as u32,
        flags: flag::KEY | dont_fragment,
        ip_tos: (second >> 32) as u8,
        ip_ttl: (third >> 40) as u8,
        tp_src: fourth as u16,
        tp_dst: (fifth >> 48) as u16,
        ..Tunnel::default()
    })
}

/// Returns whether the tunnel's own header contains only a key, and a frame follows.
#[inline(always)]
fn is_own(kind: Kind, own: u64) -> bool {
    let want = match kind {
        Kind::Vxlan { .. } => vxlan::I,
        Kind::Geneve => wire::ETHERTYPE_TEB as u32,
        _ => return false,
    };
    (own >> 32) as u32 == want && own as u8 == 0
}

/// Returns whether the checksum of the IPv4 header is right.
#[inline(always)]
fn is_right(second: u64, third: u64, fourth: u64) -> bool {
    // The words from the version to the destination, 32 bits each.
    let halves = |word: u64| (word >> 32) + (word & 0xffff_ffff);
    let sum = halves(second & 0xffff_ffff_ffff) + halves(third) + halves(fourth & !0xffff);
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    (sum >> 16) + (sum & 0xffff) == 0xffff
}
