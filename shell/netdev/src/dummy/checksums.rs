//! Checksum offloads of a dummy, as `options:ol_*` configure them. The device can be configured to give wrong information: it reports a
//! wrong checksum as right, or offers a checksum offload but does not change the field. So tests can detect which side computes a checksum.

use packet::checksum;
use packet::frame::Frame;
use packet::offload::{Offload, PartialChecksum};
use packet::rx_checksums::{RxChecksum as Mark, RxChecksums};
use packet::segment::{self, Layout};
use settings::Setting;
use settings::options::{
    DUMMY_OL_IP_RX_CSUM_SET_BAD, DUMMY_OL_IP_RX_CSUM_SET_GOOD, DUMMY_OL_IP_RX_CSUM_SET_PARTIAL,
    DUMMY_OL_IP_TX_CSUM, DUMMY_OL_IP_TX_CSUM_DISABLED, DUMMY_OL_L4_RX_CSUM_SET_BAD,
    DUMMY_OL_L4_RX_CSUM_SET_GOOD, DUMMY_OL_L4_RX_CSUM_SET_PARTIAL, DUMMY_OL_L4_TX_CSUM,
    DUMMY_OL_L4_TX_CSUM_DISABLED, DUMMY_OL_OUT_IP_TX_CSUM, DUMMY_OL_OUT_IP_TX_CSUM_DISABLED,
    DUMMY_OL_OUT_UDP_TX_CSUM, DUMMY_OL_OUT_UDP_TX_CSUM_DISABLED,
};
use std::collections::BTreeMap;

const UDP: u8 = 17;
/// Offset of the checksum in an IPv4 header.
const IP_SUM: usize = 10;
/// Offset of the checksum in a TCP header.
const TCP_SUM: usize = 16;
/// Offset of the checksum in a UDP header.
const UDP_SUM: usize = 6;
/// The value with which Open vSwitch marks a UDP checksum that is still to be computed.
const UDP_INCOMPLETE: u16 = 0xffff;

/// The options of received IPv4 header checksums: reported as right, reported as wrong, left to the receiver.
const RX_IP_OPTIONS: [Setting; 3] =
    [DUMMY_OL_IP_RX_CSUM_SET_GOOD, DUMMY_OL_IP_RX_CSUM_SET_BAD, DUMMY_OL_IP_RX_CSUM_SET_PARTIAL];
/// The same options of received transport checksums.
const RX_TRANSPORT_OPTIONS: [Setting; 3] =
    [DUMMY_OL_L4_RX_CSUM_SET_GOOD, DUMMY_OL_L4_RX_CSUM_SET_BAD, DUMMY_OL_L4_RX_CSUM_SET_PARTIAL];
/// The options of sent IPv4 header checksums: the device offers to compute them; despite the offer it does not compute them.
const TX_IP_OPTIONS: [Setting; 2] = [DUMMY_OL_IP_TX_CSUM, DUMMY_OL_IP_TX_CSUM_DISABLED];
/// The same options of sent transport checksums.
const TX_TRANSPORT_OPTIONS: [Setting; 2] = [DUMMY_OL_L4_TX_CSUM, DUMMY_OL_L4_TX_CSUM_DISABLED];
/// The same options of the IPv4 header checksums of tunnels.
const TX_OUTER_IP_OPTIONS: [Setting; 2] = [DUMMY_OL_OUT_IP_TX_CSUM, DUMMY_OL_OUT_IP_TX_CSUM_DISABLED];
/// The same options of the UDP checksums of tunnels.
const TX_OUTER_UDP_OPTIONS: [Setting; 2] = [DUMMY_OL_OUT_UDP_TX_CSUM, DUMMY_OL_OUT_UDP_TX_CSUM_DISABLED];

/// What the device reports about a checksum of received packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RxReport {
    #[default]
    Nothing,
    Good,
    Bad,
    /// The sender left the checksum to the receiver.
    Partial,
}

impl RxReport {
    /// Reads the options. If several are set, the first counts, as in Open vSwitch.
    fn from_options(options: &BTreeMap<String, String>, [good, bad, partial]: [Setting; 3]) -> RxReport {
        if good.flag_of(options) {
            RxReport::Good
        } else if bad.flag_of(options) {
            RxReport::Bad
        } else if partial.flag_of(options) {
            RxReport::Partial
        } else {
            RxReport::Nothing
        }
    }

    /// The mark of a checksum with this value; `None`: the packet has no such checksum.
    fn mark(self, sum: Option<u16>) -> Mark {
        match (self, sum) {
            (RxReport::Nothing, _) | (_, None) => Mark::Unknown,
            (RxReport::Good, Some(sum)) => Mark::Right(sum),
            (RxReport::Bad, Some(_)) => Mark::Wrong,
            (RxReport::Partial, Some(_)) => Mark::Unfinished,
        }
    }
}

/// Whether the device computes a checksum of sent packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TxChecksum {
    /// The switch computes it before it passes the packet to the device.
    #[default]
    BySwitch,
    ByDevice,
    /// The device offers to compute it, but does not.
    OfferedOnly,
}

impl TxChecksum {
    fn from_options(options: &BTreeMap<String, String>, [offered, disabled]: [Setting; 2]) -> TxChecksum {
        match (offered.flag_of(options), disabled.flag_of(options)) {
            (false, _) => TxChecksum::BySwitch,
            (true, false) => TxChecksum::ByDevice,
            (true, true) => TxChecksum::OfferedOnly,
        }
    }
}

/// The checksum offloads of one dummy.
#[derive(Clone, Debug, Default)]
pub(super) struct Checksums {
    ip: RxReport,
    transport: RxReport,
    sent_ip: TxChecksum,
    sent_transport: TxChecksum,
    sent_outer_ip: TxChecksum,
    sent_outer_udp: TxChecksum,
}

impl Checksums {
    pub(super) fn from_options(options: &BTreeMap<String, String>) -> Checksums {
        Checksums {
            ip: RxReport::from_options(options, RX_IP_OPTIONS),
            transport: RxReport::from_options(options, RX_TRANSPORT_OPTIONS),
            sent_ip: TxChecksum::from_options(options, TX_IP_OPTIONS),
            sent_transport: TxChecksum::from_options(options, TX_TRANSPORT_OPTIONS),
            sent_outer_ip: TxChecksum::from_options(options, TX_OUTER_IP_OPTIONS),
            sent_outer_udp: TxChecksum::from_options(options, TX_OUTER_UDP_OPTIONS),
        }
    }

    /// Keys of the options that are set.
    pub(super) fn names(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for (stated, [good, bad, partial]) in
            [(self.ip, RX_IP_OPTIONS), (self.transport, RX_TRANSPORT_OPTIONS)]
        {
            names.extend(match stated {
                RxReport::Nothing => None,
                RxReport::Good => Some(good.key),
                RxReport::Bad => Some(bad.key),
                RxReport::Partial => Some(partial.key),
            });
        }
        for (sent, [offered, disabled]) in [
            (self.sent_ip, TX_IP_OPTIONS),
            (self.sent_transport, TX_TRANSPORT_OPTIONS),
            (self.sent_outer_ip, TX_OUTER_IP_OPTIONS),
            (self.sent_outer_udp, TX_OUTER_UDP_OPTIONS),
        ] {
            names.extend((sent != TxChecksum::BySwitch).then_some(offered.key));
            names.extend((sent == TxChecksum::OfferedOnly).then_some(disabled.key));
        }
        names
    }

    /// Sets the checksum marks of a received packet, or its offload request.
    pub(super) fn mark_received(&self, frame: &mut Frame) {
        if self.ip == RxReport::Nothing && self.transport == RxReport::Nothing {
            return;
        }
        let Some((layout, words)) = of_packet(frame.bytes()) else { return };
        let Ok(l4) = u16::try_from(layout.l4) else { return };
        let at = HeaderOffsets { l3: layout.l3, l4: layout.l4, udp: layout.protocol == UDP };
        let bytes = frame.bytes_mut();
        if self.ip == RxReport::Partial && !layout.v6 {
            // The next hop must receive a right checksum, so the device computes it.
            let sum = at.right_ip(bytes);
            put(bytes, at.l3 + IP_SUM, sum);
        }
        let ip = if layout.v6 { None } else { get(bytes, at.l3 + IP_SUM) };
        let ip = self.ip.mark(ip);
        let sum = layout.checksum_offset().and_then(|offset| get(bytes, layout.l4 + usize::from(offset)));
        let transport = self.transport.mark(sum.filter(|sum| *sum != 0 || !at.udp));
        let partial =
            if transport == Mark::Unfinished { segment::make_partial_checksum(bytes) } else { None };
        match partial {
            Some((start, offset)) if ip == Mark::Unknown => {
                frame.set_offload(Offload { csum: Some(PartialChecksum { start, offset }), gso: None });
                return;
            }
            // A frame has either an offload request or checksum marks. So the checksum is completed here.
            Some((start, offset)) => {
                segment::finish_checksum(bytes, start, offset);
            }
            None => {}
        }
        if [ip, transport] != [Mark::Unknown; 2] {
            frame.set_rx_checksums(RxChecksums { l4, ip_words: words, ip, transport, udp: at.udp });
        }
    }

    /// Changes a packet as a device with these offloads does before it sends the packet. `stated`: the checksums that were reported as right
    /// on reception. If the switch changed a field that such a checksum covers, the checksum is computed again.
    pub(super) fn change_sent(&self, bytes: &mut [u8], stated: RxChecksums) {
        let (good_ip, good) = (stated.ip.right(), stated.transport.right());
        if good_ip.is_none() && good.is_none() {
            return;
        }
        let inner = HeaderOffsets { l3: stated.l3(), l4: stated.l4.into(), udp: stated.udp };
        let outer = segment::layout(bytes).filter(|outer| outer.l4 != inner.l4);
        let (ip_at, sum_at) = (inner.l3 + IP_SUM, inner.sum_at());
        let old_ip = good_ip.filter(|old| get(bytes, ip_at) != Some(*old));
        let old_sum = good.filter(|old| get(bytes, sum_at) != Some(*old));
        if old_ip.is_some() {
            let sum = inner.right_ip(bytes);
            put(bytes, ip_at, sum);
        }
        if old_sum.is_some() {
            let sum = inner.right_transport(bytes);
            put(bytes, sum_at, sum);
        }
        let is_incomplete = old_ip.is_some() || old_sum.is_some();
        let (mut ip, mut transport) = (self.sent_ip, self.sent_transport);
        if let Some(outer) = outer {
            let outer_at = HeaderOffsets { l3: outer.l3, l4: outer.l4, udp: true };
            let has_sum = outer.protocol == UDP && get(bytes, outer_at.sum_at()).is_some_and(|sum| sum != 0);
            let (outer_ip, outer_udp) = match is_incomplete {
                true => (self.sent_outer_ip, self.sent_outer_udp),
                false => (ip, transport),
            };
            if has_sum {
                let sum = outer_at.right_transport(bytes);
                put(bytes, outer_at.sum_at(), sum);
            }
            // If the inner transport checksum is not known, the outer one can be computed only after the inner one is complete.
            if has_sum && outer_udp != TxChecksum::OfferedOnly && good.is_none() {
                (ip, transport) = (TxChecksum::BySwitch, TxChecksum::BySwitch);
            }
            if outer_ip == TxChecksum::OfferedOnly && !outer.v6 {
                put(bytes, outer_at.l3 + IP_SUM, Some(0));
            }
            if outer_udp == TxChecksum::OfferedOnly && has_sum {
                put(bytes, outer_at.sum_at(), Some(UDP_INCOMPLETE));
            }
        }
        if ip == TxChecksum::OfferedOnly && old_ip.is_some() {
            put(bytes, ip_at, old_ip);
        }
        if transport == TxChecksum::OfferedOnly && old_sum.is_some() {
            put(bytes, sum_at, old_sum);
        }
    }
}

/// The layout of a packet with a complete IP header, and the length of this header in 32-bit words.
fn of_packet(frame: &[u8]) -> Option<(Layout, u8)> {
    let layout = segment::layout(frame).filter(|layout| layout.l4 <= frame.len())?;
    let header = layout.l4.checked_sub(layout.l3)?;
    Some((layout, u8::try_from(header / 4).ok()?))
}

/// Offsets of the headers of a packet.
struct HeaderOffsets {
    l3: usize,
    l4: usize,
    udp: bool,
}

impl HeaderOffsets {
    fn sum_at(&self) -> usize {
        self.l4 + if self.udp { UDP_SUM } else { TCP_SUM }
    }

    /// Computes the checksum of the IPv4 header.
    fn right_ip(&self, bytes: &[u8]) -> Option<u16> {
        let header = bytes.get(self.l3..self.l4)?;
        let (before, after) = (header.get(..IP_SUM)?, header.get(IP_SUM + 2..)?);
        Some(checksum::finish(checksum::add(checksum::add(0, before), after)))
    }

    /// Computes the transport checksum.
    fn right_transport(&self, bytes: &[u8]) -> Option<u16> {
        let v6 = bytes.get(self.l3)? >> 4 == 6;
        let end = self.l3
            + if v6 { 40 + usize::from(get(bytes, self.l3 + 4)?) } else { get(bytes, self.l3 + 2)?.into() };
        let addresses =
            if v6 { bytes.get(self.l3 + 8..self.l3 + 40)? } else { bytes.get(self.l3 + 12..self.l3 + 20)? };
        let (before, after) = (bytes.get(self.l4..self.sum_at())?, bytes.get(self.sum_at() + 2..end)?);
        let len = u16::try_from(end - self.l4).ok()?;
        let protocol = if self.udp { UDP } else { 6 };
        let pseudo = checksum::add16(checksum::add16(checksum::add(0, addresses), protocol.into()), len);
        let sum = checksum::finish(checksum::add(checksum::add(pseudo, before), after));
        // 0 would mean "no checksum" (RFC 768), so it is sent as 0xffff.
        Some(if sum == 0 && self.udp { 0xffff } else { sum })
    }
}

fn get(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Writes a checksum; `None`: it could not be computed, and nothing is written.
fn put(bytes: &mut [u8], at: usize, sum: Option<u16>) {
    if let (Some(sum), Some(field)) = (sum, bytes.get_mut(at..at + 2)) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
}
