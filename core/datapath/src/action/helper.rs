//! Edits in packets of FTP control connections whose addresses are translated: text of a different length, and the
//! resulting shift of sequence numbers.

use crate::packet::Packet;
use conntrack::{InspectionResult, TextEdit};
use packet::checksum::{add, finish, pseudo_v4, pseudo_v6, update16};
use packet::{Ipv4, Ipv6, Tcp, ethertype, ipproto};

/// Offset of the checksum in a TCP header.
const CHECKSUM: usize = 16;

/// Applies the edits of a helper. Returns `None` if the buffer has not enough space for the text, or the packet has
/// no TCP header.
pub fn write(p: &mut Packet, inspected: &InspectionResult) -> Option<()> {
    if inspected.edit.is_none() && inspected.seq == 0 && inspected.ack == 0 {
        return Some(());
    }
    let offload_request = p.frame.offload();
    if offload_request.gso.is_some() {
        return None;
    }
    if offload_request.is_some() {
        offload_request.finish(p.frame.bytes_mut(), |_| ())?;
        p.frame.set_offload(Default::default());
    }
    let offsets = p.offsets();
    let l4 = usize::from(offsets.l4.filter(|_| offsets.proto == ipproto::TCP && !offsets.routed)?);
    (p.offsets, p.number) = (None, None);
    p.frame.trim(offsets.end as usize);
    let tcp = p.frame.bytes_mut().get_mut(l4..)?;
    let header = Tcp::parse_checked(tcp)?.0.header_len();
    shift(tcp, 4, inspected.seq)?;
    shift(tcp, 8, inspected.ack)?;
    if let Some(edit) = &inspected.edit {
        let by = replace(p, l4 + header, edit)?;
        lengthen(p.frame.bytes_mut().get_mut(usize::from(offsets.l3)..)?, offsets.dl_type, by)?;
    }
    checksum(p.frame.bytes_mut(), usize::from(offsets.l3), l4, offsets.dl_type)
}

/// Adds `by` to a sequence or acknowledgement number of the TCP header.
fn shift(tcp: &mut [u8], at: usize, by: i32) -> Option<()> {
    let number = tcp.get_mut(at..)?.first_chunk_mut::<4>()?;
    *number = u32::from_be_bytes(*number).wrapping_add_signed(by).to_be_bytes();
    Some(())
}

/// Replaces a part of the payload, which begins at offset `payload`. Returns by how many bytes the packet has grown.
fn replace(p: &mut Packet, payload: usize, TextEdit { range, text }: &TextEdit) -> Option<i16> {
    let (from, to, end) = (payload + range.start, payload + range.end, p.frame.len());
    let new_to = from + text.len();
    p.frame.bytes().get(from..to)?;
    if new_to > to {
        p.frame.push_back(new_to - to)?;
    }
    let bytes = p.frame.bytes_mut();
    bytes.copy_within(to..end, new_to);
    bytes[from..new_to].copy_from_slice(text.as_bytes());
    p.frame.trim(end + new_to - to);
    i16::try_from(new_to as i64 - to as i64).ok()
}

/// Adds `by` to the length in the network header.
fn lengthen(l3: &mut [u8], dl_type: u16, by: i16) -> Option<()> {
    let at = if dl_type == ethertype::IPV4 { 2 } else { 4 };
    let field = l3.get_mut(at..)?.first_chunk_mut::<2>()?;
    let old = u16::from_be_bytes(*field);
    let new = old.checked_add_signed(by)?;
    *field = new.to_be_bytes();
    if dl_type == ethertype::IPV4 {
        let sum = l3.get_mut(10..)?.first_chunk_mut::<2>()?;
        *sum = update16(u16::from_be_bytes(*sum), old, new).to_be_bytes();
    }
    Some(())
}

/// Computes the checksum of a TCP segment that ends with the frame.
fn checksum(frame: &mut [u8], l3: usize, l4: usize, dl_type: u16) -> Option<()> {
    let (network, tcp) = frame.split_at_mut_checked(l4)?;
    tcp.get_mut(CHECKSUM..CHECKSUM + 2)?.fill(0);
    let network = network.get(l3..)?;
    let pseudo = if dl_type == ethertype::IPV4 {
        let (ip, _) = Ipv4::parse(network)?;
        pseudo_v4(ip.src(), ip.dst(), ipproto::TCP, tcp.len() as u16)
    } else {
        let (ip, _) = Ipv6::parse(network)?;
        pseudo_v6(&ip.src(), &ip.dst(), ipproto::TCP, tcp.len() as u32)
    };
    let sum = finish(add(pseudo, tcp));
    tcp.get_mut(CHECKSUM..)?.first_chunk_mut::<2>()?.copy_from_slice(&sum.to_be_bytes());
    Some(())
}
