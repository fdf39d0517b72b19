//! NetFlow version 5: counters of IPv4 flows, computed from the counters of megaflows.

use crate::Now;
use crate::write::WriteBigEndian;
use std::collections::HashMap;
use units::Millis;

/// The version of NetFlow.
const VERSION: u16 = 5;
/// Maximum number of records of a datagram.
const RECORDS_MAX: u16 = 30;
/// Bytes of a datagram's header.
const HEADER: usize = 24;
/// Bits of the TOS that are the DSCP.
const DSCP: u8 = 0xfc;
/// Interval at which timeouts are checked.
const CHECK: Millis = Millis(1000);
/// A flow with at least this many bytes since the last report is not reported: a 10 Gbit/s interface needs 600 s to transfer
/// this number of bytes, so the counter must be wrong.
const BYTES_MAX: u64 = 176 << 32;
/// Maximum number of flows. When it is reached, all flows are reported and removed. The default limit of megaflows is the
/// same.
const FLOWS_MAX: usize = 200_000;
const ICMP: u8 = 1;

/// Output numbers that do not stand for a single port.
pub mod output {
    /// Sent to all ports.
    pub const FLOOD: u16 = u16::MAX;
    /// Sent to several ports.
    pub const MULTI: u16 = u16::MAX - 1;
    /// Dropped.
    pub const DROP: u16 = u16::MAX - 2;
}

/// Settings of a bridge's exporter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Engine type.
    pub engine_type: u8,
    /// Engine id.
    pub engine_id: u8,
    /// An active flow is reported after this time.
    pub active_timeout: Millis,
    /// The engine id is written to the upper bits of port numbers.
    pub add_id: bool,
}

/// Identifies a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "fields of a packet")]
pub struct Key {
    /// OpenFlow number.
    pub in_port: u16,
    pub nw_src: u32,
    pub nw_dst: u32,
    pub nw_tos: u8,
    pub nw_proto: u8,
    pub tp_src: u16,
    pub tp_dst: u16,
}

/// What a megaflow has counted since the last update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// The TCP flags of all packets, combined.
    pub tcp_flags: u16,
    /// When the last packet was received.
    pub used: Millis,
}

/// The state of a flow.
#[derive(Clone, Copy, Debug, Default)]
struct FlowState {
    output: u16,
    packets: u64,
    bytes: u64,
    tcp_flags: u16,
    created: Millis,
    used: Millis,
    /// Start of the present reporting interval: the flow's first update, or its first one after a change of the timeout;
    /// each report adds one timeout. `None`: there was no update.
    interval_start: Option<Millis>,
}

/// The exporter of one bridge.
pub struct Exporter {
    settings: Settings,
    boot: Millis,
    flows: HashMap<Key, FlowState>,
    /// Number of records that were written so far.
    records: u32,
    /// The datagram that is being filled.
    datagram: Vec<u8>,
    next_check: Millis,
    /// When the timeout was last changed.
    reconfigured: Millis,
    out: Vec<Vec<u8>>,
    /// Byte counters that were not reported because they must be wrong.
    impossible: Vec<u64>,
}

impl Exporter {
    /// An empty exporter.
    pub fn new(settings: Settings, now: Now) -> Exporter {
        Exporter {
            settings,
            boot: now.mono,
            flows: HashMap::new(),
            records: 0,
            datagram: Vec::new(),
            next_check: now.mono,
            reconfigured: now.mono,
            out: Vec::new(),
            impossible: Vec::new(),
        }
    }

    /// Changes the settings.
    pub fn configure(&mut self, settings: Settings, now: Now) {
        if settings.active_timeout != self.settings.active_timeout {
            (self.reconfigured, self.next_check) = (now.mono, now.mono);
        }
        self.settings = settings;
    }

    /// Adds the counts of a megaflow to a flow. If the flow has another output now, the counts before are reported first.
    pub fn update(&mut self, key: Key, output: u16, delta: Delta, now: Now) {
        if self.flows.len() >= FLOWS_MAX && !self.flows.contains_key(&key) {
            let keys: Vec<Key> = self.flows.keys().copied().collect();
            keys.into_iter().for_each(|key| self.end_flow(key, now));
        }
        let fresh = FlowState { output, created: delta.used, ..FlowState::default() };
        let known = *self.flows.entry(key).or_insert(fresh);
        if known.output != output {
            self.report(key, now);
        }
        let Some(flow) = self.flows.get_mut(&key) else { return };
        if flow.output != output {
            (flow.output, flow.created) = (output, delta.used);
        }
        flow.packets = flow.packets.saturating_add(delta.packets);
        flow.bytes = flow.bytes.saturating_add(delta.bytes);
        flow.tcp_flags |= delta.tcp_flags;
        if delta.used > flow.used {
            flow.used = delta.used;
            if flow.interval_start.is_none_or(|start| self.reconfigured > start) {
                flow.interval_start = Some(now.mono);
            }
        }
    }

    /// Called when the megaflow of a flow was deleted: reports and removes the flow.
    pub fn end_flow(&mut self, key: Key, now: Now) {
        self.report(key, now);
        self.flows.remove(&key);
    }

    /// Reports the counts of a flow and resets them.
    fn report(&mut self, key: Key, now: Now) {
        let timeout = self.settings.active_timeout;
        let Some(flow) = self.flows.get_mut(&key) else { return };
        flow.interval_start = Some(flow.interval_start.unwrap_or_default() + timeout);
        let ended = *flow;
        (flow.packets, flow.bytes, flow.tcp_flags) = (0, 0, 0);
        if ended.packets == 0 {
            return;
        }
        if ended.bytes >= BYTES_MAX {
            self.impossible.push(ended.bytes);
            return;
        }
        // Counters in records have 32 bits: larger counts are split evenly among several records.
        let (mut packets, mut bytes) = (ended.packets, ended.bytes);
        while bytes != 0 {
            let parts = bytes.div_ceil(u64::from(u32::MAX));
            let part = (packets / parts, bytes / parts);
            self.add_record(key, &ended, (part.0 as u32, part.1 as u32), now);
            (packets, bytes) = (packets - part.0, bytes - part.1);
        }
    }

    fn add_record(&mut self, key: Key, flow: &FlowState, (packets, bytes): (u32, u32), now: Now) {
        if self.datagram.is_empty() {
            let Settings { engine_type, engine_id, .. } = self.settings;
            let out = &mut self.datagram;
            out.u16(VERSION);
            out.u16(0);
            out.u32(now.mono.since(self.boot).0 as u32);
            out.u32(now.seconds() as u32);
            out.u32((now.wall % 1_000_000 * 1000) as u32);
            out.u32(0);
            out.bytes(&[engine_type, engine_id]);
            // No sampling: all packets are counted.
            out.u16(0);
        }
        self.put_record(key, flow, (packets, bytes));
        let count = ((self.datagram.len() - HEADER) / RECORD) as u16;
        self.datagram.set_u16(2, count);
        if let Some(sequence) = self.datagram.get_mut(16..20) {
            sequence.copy_from_slice(&self.records.to_be_bytes());
        }
        self.records = self.records.wrapping_add(1);
        if count >= RECORDS_MAX {
            self.flush();
        }
    }

    fn put_record(&mut self, key: Key, flow: &FlowState, (packets, bytes): (u32, u32)) {
        let ports = [self.port(key.in_port), self.port(flow.output)];
        let uptime = |at: Millis| at.since(self.boot).0 as u32;
        let (first, last) = (uptime(flow.created), uptime(flow.created.max(flow.used)));
        let out = &mut self.datagram;
        out.u32(key.nw_src);
        out.u32(key.nw_dst);
        // The next hop.
        out.u32(0);
        ports.into_iter().for_each(|port| out.u16(port));
        [packets, bytes, first, last].into_iter().for_each(|word| out.u32(word));
        if key.nw_proto == ICMP {
            out.u16(0);
            out.bytes(&[key.tp_src as u8, key.tp_dst as u8]);
        } else {
            out.u16(key.tp_src);
            out.u16(key.tp_dst);
        }
        out.bytes(&[0, flow.tcp_flags as u8, key.nw_proto, key.nw_tos & DSCP]);
        // Autonomous systems, prefix lengths, padding.
        out.u64(0);
    }

    /// A port's number, with the engine id in its upper bits if that is configured.
    fn port(&self, port: u16) -> u16 {
        if self.settings.add_id {
            u16::from(self.settings.engine_id & 0x7f) << 9 | port & 0x1ff
        } else {
            port
        }
    }

    fn flush(&mut self) {
        if !self.datagram.is_empty() {
            self.out.push(std::mem::take(&mut self.datagram));
        }
    }

    /// When to call [`run`](Self::run) next.
    pub fn deadline(&self) -> Option<Millis> {
        (!self.flows.is_empty()).then_some(self.next_check)
    }

    /// Reports the flows whose timeout has passed, and completes the datagram.
    pub fn run(&mut self, now: Now) {
        let timeout = self.settings.active_timeout;
        if now.mono >= self.next_check && timeout != Millis(0) {
            self.next_check = now.mono + CHECK;
            let is_due = |flow: &FlowState| now.mono > flow.interval_start.unwrap_or_default() + timeout;
            let due: Vec<Key> =
                self.flows.iter().filter(|(_, flow)| is_due(flow)).map(|(key, _)| *key).collect();
            for key in due {
                let idle = self.flows.get(&key).is_some_and(|f| Some(f.used) < f.interval_start);
                self.report(key, now);
                if idle {
                    // The megaflow may have been deleted without a call of `end_flow`.
                    self.flows.remove(&key);
                }
            }
        }
        self.flush();
    }

    /// Removes and returns the complete datagrams.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.out)
    }

    /// Removes and returns the byte counters that must be wrong.
    pub fn take_impossible(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.impossible)
    }
}

/// Bytes of a record.
const RECORD: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: u64) -> Now {
        Now { mono: Millis(ms), wall: 1_700_000_000_000_000 + ms * 1000 }
    }

    fn delta(packets: u64, bytes: u64, used: u64) -> Delta {
        Delta { packets, bytes, tcp_flags: 0x12, used: Millis(used) }
    }

    fn settings() -> Settings {
        Settings { engine_type: 2, engine_id: 0x81, active_timeout: Millis(10_000), add_id: false }
    }

    /// Returns the input, output, packets and bytes of all records.
    fn records(exporter: &mut Exporter) -> Vec<(u16, u16, u32, u32)> {
        let mut all = Vec::new();
        for datagram in exporter.take() {
            let u16_at = |at: usize| u16::from_be_bytes([datagram[at], datagram[at + 1]]);
            let u32_at = |at: usize| u32::from_be_bytes(datagram[at..at + 4].try_into().unwrap());
            let count = usize::from(u16_at(2));
            assert_eq!((u16_at(0), datagram.len()), (5, HEADER + count * RECORD));
            assert!(count <= usize::from(RECORDS_MAX));
            for i in 0..count {
                let at = HEADER + i * RECORD;
                all.push((u16_at(at + 12), u16_at(at + 14), u32_at(at + 16), u32_at(at + 20)));
            }
        }
        all
    }

    #[test]
    fn another_output_ends_a_flow() {
        let mut exporter = Exporter::new(settings(), at(0));
        let key = Key { in_port: 1, nw_proto: 1, tp_src: 8, ..Key::default() };
        exporter.update(key, output::FLOOD, delta(1, 106, 5), at(5));
        exporter.update(key, 2, delta(1, 106, 9), at(9));
        exporter.update(key, 2, delta(1, 106, 20), at(20));
        exporter.run(at(30));
        assert_eq!(records(&mut exporter), [(1, output::FLOOD, 1, 106)]);
        exporter.end_flow(key, at(40));
        exporter.run(at(40));
        assert_eq!(records(&mut exporter), [(1, 2, 2, 212)]);
        assert_eq!(exporter.deadline(), None);
    }

    #[test]
    fn an_active_flow_is_reported_at_the_timeout_and_an_idle_one_is_forgotten() {
        let mut exporter = Exporter::new(Settings { add_id: true, ..settings() }, at(1000));
        let key = Key { in_port: 3, nw_proto: 6, tp_dst: 80, ..Key::default() };
        exporter.update(key, 4, delta(2, 200, 2000), at(2000));
        exporter.run(at(12_000));
        assert_eq!(records(&mut exporter), []);
        exporter.run(at(13_001));
        assert_eq!(records(&mut exporter), [(1 << 9 | 3, 1 << 9 | 4, 2, 200)]);
        assert!(exporter.deadline().is_some());
        exporter.run(at(40_000));
        assert_eq!((records(&mut exporter), exporter.deadline()), (vec![], None));
    }

    #[test]
    fn numbers_beyond_32_bits_are_divided() {
        let mut exporter = Exporter::new(settings(), at(0));
        let key = Key::default();
        exporter.update(key, 1, delta(10_000_000, 10_000_000_000, 1), at(1));
        exporter.end_flow(key, at(2));
        exporter.update(key, 1, delta(1, u64::MAX, 1), at(3));
        exporter.end_flow(key, at(4));
        exporter.run(at(5));
        let all = records(&mut exporter);
        assert_eq!(all.len(), 3);
        assert_eq!(all.iter().map(|r| u64::from(r.3)).sum::<u64>(), 10_000_000_000);
        assert_eq!(exporter.take_impossible(), [u64::MAX]);
    }

    proptest! {
        /// Every packet and byte is reported once.
        #[test]
        fn all_packets_are_reported(
            steps in prop::collection::vec((0u16..4, 0u16..3, 0u64..100, 0u64..20_000, 0u8..8), 1..100),
        ) {
            let mut exporter = Exporter::new(settings(), at(0));
            let (mut now, mut sums, mut seen) = (1, (0, 0), (0, 0));
            for (port, output, packets, wait, what) in steps {
                now += wait;
                let key = Key { in_port: port, ..Key::default() };
                match what {
                    0 => exporter.end_flow(key, at(now)),
                    1 => exporter.run(at(now)),
                    _ => {
                        exporter.update(key, output, delta(packets, packets * 100, now), at(now));
                        sums = (sums.0 + packets, sums.1 + packets * 100);
                    }
                }
            }
            (0..4).for_each(|in_port| exporter.end_flow(Key { in_port, ..Key::default() }, at(now)));
            exporter.run(at(now));
            for record in records(&mut exporter) {
                seen = (seen.0 + u64::from(record.2), seen.1 + u64::from(record.3));
            }
            prop_assert_eq!(seen, sums);
        }
    }
}
