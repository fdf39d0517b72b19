//! The counts in a record: sums over the samples of a flow.

use super::sample::IpfixSample;
use super::template::{Network, Template, Transport};
use crate::Now;
use crate::write::WriteBigEndian;

/// Flags of a TCP header, in the order in which they are reported (RFC 9293 §3.1).
const TCP_FLAGS: [u16; 6] = [ACK, FIN, PSH, RST, SYN, URG];
const FIN: u16 = 0x01;
const SYN: u16 = 0x02;
const RST: u16 = 0x04;
const PSH: u16 = 0x08;
const ACK: u16 = 0x10;
const URG: u16 = 0x20;

/// Why the record of a flow is sent (RFC 5102 §5.11.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowEndReason {
    ActiveTimeout = 2,
    Forced = 4,
    LackOfResources = 5,
}

/// Sums over all samples of an exporter. Records also contain these.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    dropped_packets: u64,
    packets: u64,
    /// Received packets: unicast, multicast, broadcast.
    received: [u64; 3],
    /// Sent packets: unicast, broadcast.
    sent: [u64; 2],
    /// Sent multicast packets, and their bytes.
    multicast: [u64; 2],
    layer2_bytes: u64,
    dropped_bytes: u64,
    bytes: u64,
    squares: u64,
    tcp: [u64; 6],
}

/// Sums over the samples of a flow.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    /// Time of the first sample, in microseconds since the Unix epoch.
    pub(super) start: u64,
    /// Time of the last sample, in microseconds since the Unix epoch.
    end: u64,
    dropped_packets: u64,
    packets: u64,
    multicast_packets: u64,
    multicast_bytes: u64,
    layer2_bytes: u64,
    dropped_bytes: u64,
    bytes: u64,
    squares: u64,
    /// Shortest and longest IP packet.
    lengths: (u64, u64),
    /// The exporter's sums after the last sample of the flow.
    totals: Totals,
}

impl Counts {
    /// The counts of one sample. Also adds the sample to the exporter's sums `totals`.
    pub(super) fn of(sampled: &IpfixSample<'_>, template: Template, totals: &mut Totals, now: Now) -> Counts {
        let packets = sampled.packets;
        let layer2_bytes = packets.wrapping_mul(u64::from(sampled.length));
        let dropped_packets = if sampled.forwarded { 0 } else { packets };
        let (is_broadcast, is_multicast) = (
            sampled.flow.dl_dst == flow::Mac::BROADCAST,
            sampled.flow.dl_dst.is_multicast() && sampled.flow.dl_dst != flow::Mac::BROADCAST,
        );
        let mut multicast_packets = 0;
        let counter = match (template.egress, is_broadcast, is_multicast) {
            (false, true, _) => &mut totals.received[2],
            (false, _, true) => &mut totals.received[1],
            (false, ..) => &mut totals.received[0],
            (true, true, _) => &mut totals.sent[1],
            (true, _, true) => {
                multicast_packets = packets;
                &mut totals.multicast[0]
            }
            (true, ..) => &mut totals.sent[0],
        };
        add(counter, packets);
        add(&mut totals.dropped_packets, dropped_packets);
        add(&mut totals.packets, packets);
        add(&mut totals.layer2_bytes, layer2_bytes);
        let mut counts = Counts {
            start: now.wall,
            end: now.wall,
            dropped_packets,
            packets,
            multicast_packets,
            multicast_bytes: 0,
            layer2_bytes,
            dropped_bytes: 0,
            bytes: 0,
            squares: 0,
            lengths: (0, 0),
            totals: Totals::default(),
        };
        if template.network != Network::Unknown {
            counts.add_ip(sampled, totals);
        }
        if template.transport == Transport::Tcp {
            let flags = sampled.flow.tcp_flags;
            for (total, _) in totals.tcp.iter_mut().zip(TCP_FLAGS).filter(|(_, flag)| flags & flag != 0) {
                add(total, packets);
            }
        }
        counts.totals = *totals;
        counts
    }

    /// Adds the counts of IP bytes, under the assumption that all packets are as long as the sampled one.
    fn add_ip(&mut self, sampled: &IpfixSample<'_>, totals: &mut Totals) {
        let length = u64::from(sampled.length.saturating_sub(sampled.ethernet_header()));
        self.bytes = self.packets.wrapping_mul(length);
        self.squares = self.bytes.wrapping_mul(length);
        self.lengths = (length, length);
        self.dropped_bytes = if sampled.forwarded { 0 } else { self.bytes };
        add(&mut totals.dropped_bytes, self.dropped_bytes);
        add(&mut totals.bytes, self.bytes);
        add(&mut totals.squares, self.squares);
        if self.multicast_packets != 0 {
            self.multicast_bytes = self.bytes;
            add(&mut totals.multicast[1], self.bytes);
        }
    }

    /// Adds the counts of a later sample of the flow.
    pub(super) fn merge(&mut self, later: &Counts) {
        self.start = self.start.min(later.start);
        self.end = self.end.max(later.end);
        let pairs = [
            (&mut self.dropped_packets, later.dropped_packets),
            (&mut self.packets, later.packets),
            (&mut self.multicast_packets, later.multicast_packets),
            (&mut self.multicast_bytes, later.multicast_bytes),
            (&mut self.layer2_bytes, later.layer2_bytes),
            (&mut self.dropped_bytes, later.dropped_bytes),
            (&mut self.bytes, later.bytes),
            (&mut self.squares, later.squares),
        ];
        pairs.into_iter().for_each(|(sum, more)| add(sum, more));
        self.lengths = (self.lengths.0.min(later.lengths.0), self.lengths.1.max(later.lengths.1));
        self.totals = later.totals;
    }

    /// Appends the counts to a record.
    pub(super) fn put(&self, template: Template, end: FlowEndReason, export_seconds: u64, out: &mut Vec<u8>) {
        let t = &self.totals;
        let export = export_seconds.wrapping_mul(1_000_000);
        // Times are in microseconds before the time in the message's header.
        out.u32(export.wrapping_sub(self.start) as u32);
        out.u32(export.wrapping_sub(self.end) as u32);
        let all = [
            self.dropped_packets,
            t.dropped_packets,
            self.packets,
            t.packets,
            t.received[0],
            t.received[1],
            t.received[2],
            t.sent[0],
            t.sent[1],
            self.multicast_packets,
            t.multicast[0],
            self.layer2_bytes,
            t.layer2_bytes,
        ];
        all.into_iter().for_each(|n| out.u64(n));
        out.u8(end as u8);
        if template.network != Network::Unknown {
            let ip = [
                self.dropped_bytes,
                t.dropped_bytes,
                self.bytes,
                t.bytes,
                self.squares,
                t.squares,
                self.lengths.0,
                self.lengths.1,
                self.multicast_bytes,
                t.multicast[1],
            ];
            ip.into_iter().for_each(|n| out.u64(n));
        }
        if template.transport == Transport::Tcp {
            t.tcp.into_iter().for_each(|n| out.u64(n));
        }
    }
}

fn add(sum: &mut u64, more: u64) {
    *sum = sum.wrapping_add(more);
}
