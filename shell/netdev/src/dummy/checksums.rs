//! Checksum offloads of a dummy, as `options:ol_*` request them. The device may lie: it states that a wrong checksum is
//! right, or offers a checksum offload and leaves the field as it is. So tests see which side computes a checksum.

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
/// Offsets of checksums from the start of their headers.
const IP_SUM: usize = 10;
const TCP_SUM: usize = 16;
const UDP_SUM: usize = 6;
/// A UDP checksum that is still to be computed, in Open vSwitch.
const UDP_OPEN: u16 = 0xffff;

/// The options of what the device states: that a checksum is right, that it is wrong, that it is to be completed.
const STATED_IP: [Setting; 3] =
    [DUMMY_OL_IP_RX_CSUM_SET_GOOD, DUMMY_OL_IP_RX_CSUM_SET_BAD, DUMMY_OL_IP_RX_CSUM_SET_PARTIAL];
const STATED_TRANSPORT: [Setting; 3] =
    [DUMMY_OL_L4_RX_CSUM_SET_GOOD, DUMMY_OL_L4_RX_CSUM_SET_BAD, DUMMY_OL_L4_RX_CSUM_SET_PARTIAL];
/// The options of what it sends: that it offers to compute a checksum, that it does not do so.
const SENT_IP: [Setting; 2] = [DUMMY_OL_IP_TX_CSUM, DUMMY_OL_IP_TX_CSUM_DISABLED];
const SENT_TRANSPORT: [Setting; 2] = [DUMMY_OL_L4_TX_CSUM, DUMMY_OL_L4_TX_CSUM_DISABLED];
const SENT_OUTER_IP: [Setting; 2] = [DUMMY_OL_OUT_IP_TX_CSUM, DUMMY_OL_OUT_IP_TX_CSUM_DISABLED];
const SENT_OUTER_UDP: [Setting; 2] = [DUMMY_OL_OUT_UDP_TX_CSUM, DUMMY_OL_OUT_UDP_TX_CSUM_DISABLED];

/// What the device states about checksums of received packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stated {
    #[default]
    Nothing,
    Good,
    Bad,
    /// The sender left the checksum to the receiver.
    Partial,
}

impl Stated {
    /// If several are set, the first counts, as in Open vSwitch.
    fn of(options: &BTreeMap<String, String>, [good, bad, partial]: [Setting; 3]) -> Stated {
        if good.flag_of(options) {
            Stated::Good
        } else if bad.flag_of(options) {
            Stated::Bad
        } else if partial.flag_of(options) {
            Stated::Partial
        } else {
            Stated::Nothing
        }
    }

    /// What it states about a checksum with this value; `None`: the packet has no such checksum.
    fn mark(self, sum: Option<u16>) -> Mark {
        match (self, sum) {
            (Stated::Nothing, _) | (_, None) => Mark::Nothing,
            (Stated::Good, Some(sum)) => Mark::Right(sum),
            (Stated::Bad, Some(_)) => Mark::Wrong,
            (Stated::Partial, Some(_)) => Mark::Open,
        }
    }
}

/// Whether a checksum of sent packets is computed by the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sent {
    /// It is right before the device has the packet.
    #[default]
    BySwitch,
    ByDevice,
    /// The device offers the offload, and does not do it.
    Left,
}

impl Sent {
    fn of(options: &BTreeMap<String, String>, [offered, disabled]: [Setting; 2]) -> Sent {
        match (offered.flag_of(options), disabled.flag_of(options)) {
            (false, _) => Sent::BySwitch,
            (true, false) => Sent::ByDevice,
            (true, true) => Sent::Left,
        }
    }
}

/// The checksum offloads of one dummy.
#[derive(Clone, Debug, Default)]
pub(super) struct Checksums {
    ip: Stated,
    transport: Stated,
    sent_ip: Sent,
    sent_transport: Sent,
    sent_outer_ip: Sent,
    sent_outer_udp: Sent,
}

impl Checksums {
    pub(super) fn of(options: &BTreeMap<String, String>) -> Checksums {
        Checksums {
            ip: Stated::of(options, STATED_IP),
            transport: Stated::of(options, STATED_TRANSPORT),
            sent_ip: Sent::of(options, SENT_IP),
            sent_transport: Sent::of(options, SENT_TRANSPORT),
            sent_outer_ip: Sent::of(options, SENT_OUTER_IP),
            sent_outer_udp: Sent::of(options, SENT_OUTER_UDP),
        }
    }

    /// Names of the options that are set.
    pub(super) fn names(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for (stated, [good, bad, partial]) in [(self.ip, STATED_IP), (self.transport, STATED_TRANSPORT)] {
            names.extend(match stated {
                Stated::Nothing => None,
                Stated::Good => Some(good.key),
                Stated::Bad => Some(bad.key),
                Stated::Partial => Some(partial.key),
            });
        }
        for (sent, [offered, disabled]) in [
            (self.sent_ip, SENT_IP),
            (self.sent_transport, SENT_TRANSPORT),
            (self.sent_outer_ip, SENT_OUTER_IP),
            (self.sent_outer_udp, SENT_OUTER_UDP),
        ] {
            names.extend((sent != Sent::BySwitch).then_some(offered.key));
            names.extend((sent == Sent::Left).then_some(disabled.key));
        }
        names
    }

    /// Marks a received packet.
    pub(super) fn received(&self, frame: &mut Frame) {
        if self.ip == Stated::Nothing && self.transport == Stated::Nothing {
            return;
        }
        let Some((layout, words)) = of_packet(frame.bytes()) else { return };
        let Ok(l4) = u16::try_from(layout.l4) else { return };
        let at = Place { l3: layout.l3, l4: layout.l4, udp: layout.protocol == UDP };
        let bytes = frame.bytes_mut();
        if self.ip == Stated::Partial && !layout.v6 {
            // The next hop must get a right checksum, so the device completes what its sender left open.
            let sum = at.right_ip(bytes);
            put(bytes, at.l3 + IP_SUM, sum);
        }
        let ip = if layout.v6 { None } else { get(bytes, at.l3 + IP_SUM) };
        let ip = self.ip.mark(ip);
        let sum = layout.checksum().and_then(|offset| get(bytes, layout.l4 + usize::from(offset)));
        let transport = self.transport.mark(sum.filter(|sum| *sum != 0 || !at.udp));
        let partial = if transport == Mark::Open { segment::make_partial(bytes) } else { None };
        match partial {
            Some((start, offset)) if ip == Mark::Nothing => {
                frame.set_offload(Offload { csum: Some(PartialChecksum { start, offset }), gso: None });
                return;
            }
            // A frame has either of both records.
            Some((start, offset)) => {
                segment::complete(bytes, start, offset);
            }
            None => {}
        }
        if [ip, transport] != [Mark::Nothing; 2] {
            frame.set_rx_checksums(RxChecksums { l4, ip_words: words, ip, transport, udp: at.udp });
        }
    }

    /// Changes a packet to what a device with these offloads sends. A stated checksum that has changed since is
    /// computed again.
    pub(super) fn sent(&self, bytes: &mut [u8], stated: RxChecksums) {
        let (good_ip, good) = (stated.ip.right(), stated.transport.right());
        if good_ip.is_none() && good.is_none() {
            return;
        }
        let inner = Place { l3: stated.l3(), l4: stated.l4.into(), udp: stated.udp };
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
        let is_open = old_ip.is_some() || old_sum.is_some();
        let (mut ip, mut transport) = (self.sent_ip, self.sent_transport);
        if let Some(outer) = outer {
            let outer_at = Place { l3: outer.l3, l4: outer.l4, udp: true };
            let has_sum = outer.protocol == UDP && get(bytes, outer_at.sum_at()).is_some_and(|sum| sum != 0);
            let (outer_ip, outer_udp) = match is_open {
                true => (self.sent_outer_ip, self.sent_outer_udp),
                false => (ip, transport),
            };
            if has_sum {
                let sum = outer_at.right_transport(bytes);
                put(bytes, outer_at.sum_at(), sum);
            }
            // Without a known inner transport checksum, the outer one can only be computed over finished bytes.
            if has_sum && outer_udp != Sent::Left && good.is_none() {
                (ip, transport) = (Sent::BySwitch, Sent::BySwitch);
            }
            if outer_ip == Sent::Left && !outer.v6 {
                put(bytes, outer_at.l3 + IP_SUM, Some(0));
            }
            if outer_udp == Sent::Left && has_sum {
                put(bytes, outer_at.sum_at(), Some(UDP_OPEN));
            }
        }
        if ip == Sent::Left && old_ip.is_some() {
            put(bytes, ip_at, old_ip);
        }
        if transport == Sent::Left && old_sum.is_some() {
            put(bytes, sum_at, old_sum);
        }
    }
}

/// The layout of an IP packet whose IP header is complete, and the length of this header in words.
fn of_packet(frame: &[u8]) -> Option<(Layout, u8)> {
    let layout = segment::layout(frame).filter(|layout| layout.l4 <= frame.len())?;
    let header = layout.l4.checked_sub(layout.l3)?;
    Some((layout, u8::try_from(header / 4).ok()?))
}

/// Where the headers of a packet are.
struct Place {
    l3: usize,
    l4: usize,
    udp: bool,
}

impl Place {
    fn sum_at(&self) -> usize {
        self.l4 + if self.udp { UDP_SUM } else { TCP_SUM }
    }

    /// The right checksum of the IPv4 header.
    fn right_ip(&self, bytes: &[u8]) -> Option<u16> {
        let header = bytes.get(self.l3..self.l4)?;
        let (before, after) = (header.get(..IP_SUM)?, header.get(IP_SUM + 2..)?);
        Some(checksum::finish(checksum::add(checksum::add(0, before), after)))
    }

    /// The right transport checksum.
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
        // Zero would mean "no checksum" (RFC 768).
        Some(if sum == 0 && self.udp { 0xffff } else { sum })
    }
}

fn get(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Writes a checksum, if one could be computed.
fn put(bytes: &mut [u8], at: usize, sum: Option<u16>) {
    if let (Some(sum), Some(field)) = (sum, bytes.get_mut(at..at + 2)) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
}
