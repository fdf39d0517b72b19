//! An IPFIX exporter: collects samples by flow, and produces messages with records and templates.

use super::cache::{Cache, Entry};
use super::record::{Counts, FlowEndReason, Totals};
use super::sample::{IpfixSample, Key, PacketKind, put_variable};
use super::template::{self, Template};
use crate::Now;
use crate::write::WriteBigEndian;
use std::collections::BTreeMap;
use units::Millis;

/// The version of IPFIX.
const VERSION: u16 = 10;
/// No template is added to a message that has reached this length in bytes, so that a message with templates fits in one
/// packet of most networks.
const TEMPLATE_MESSAGE_LEN: usize = 1024;
/// Maximum length of a virtual observation id, in bytes: the encoding of longer elements is not implemented.
pub const VIRTUAL_ID_MAX: usize = 254;

/// Settings of an exporter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// How long a flow stays in the cache before its record is sent.
    pub active_timeout: Millis,
    /// Maximum number of flows in the cache.
    pub flows_max: u32,
    /// Shortest interval between two messages with the exporter's own statistics. These are sent only before a record.
    pub stats_interval: Millis,
    /// Shortest interval between two transmissions of the templates. These are sent only before a record.
    pub template_interval: Millis,
    /// The virtual observation id, which each record then contains.
    pub virtual_id: Option<String>,
}

/// Statistics of an exporter (`ovs-ofctl dump-ipfix-bridge`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Flows that were created.
    pub flows: u64,
    /// Flows in the cache.
    pub current: u64,
    /// Sampled packets.
    pub packets: u64,
    /// Sampled packets of IPv4 with a known protocol.
    pub ipv4: u64,
    /// Sampled packets of IPv6 with a known protocol.
    pub ipv6: u64,
    /// Sampled IP packets with an unknown protocol.
    pub errors: u64,
    /// Sampled packets of IPv4 with an unknown protocol.
    pub ipv4_errors: u64,
    /// Sampled packets of IPv6 with an unknown protocol.
    pub ipv6_errors: u64,
    /// Sent messages; a message to several collectors counts for each of them.
    pub sent: u64,
    /// Messages that could not be sent.
    pub send_errors: u64,
}

/// An exporter.
pub struct Exporter {
    settings: Settings,
    /// Number of this exporter in its own statistics.
    number: u32,
    /// Sequence number of the next record.
    sequence: u32,
    cache: Cache,
    totals: Totals,
    stats: Stats,
    /// When the exporter's own statistics were last put into a message.
    stats_sent: Option<Millis>,
    /// When the templates of each observation domain were last put into messages.
    templates_sent: BTreeMap<u32, Millis>,
    /// Complete messages, which the caller sends ([`Exporter::take`]).
    out: Vec<Vec<u8>>,
}

/// Maximum number of observation domains in `templates_sent`. A `sample` action can take the domain from a field of the
/// packet, so there can be any number of domains.
const DOMAINS_MAX: usize = 1024;

impl Exporter {
    /// An empty exporter. `number`: identifies it in its own statistics.
    pub fn new(settings: Settings, number: u32) -> Exporter {
        Exporter {
            settings,
            number,
            sequence: 1,
            cache: Cache::default(),
            totals: Totals::default(),
            stats: Stats::default(),
            stats_sent: None,
            templates_sent: BTreeMap::new(),
            out: Vec::new(),
        }
    }

    /// Changes the settings, and produces messages for the flows whose new timeout has already passed.
    pub fn configure(&mut self, settings: Settings, now: Now) {
        self.settings = settings;
        self.templates_sent.clear();
        self.run(now);
    }

    /// Adds a sampled packet.
    pub fn sample(&mut self, sampled: &IpfixSample<'_>, now: Now) {
        let (template, packet_kind) = sampled.template();
        let counts = Counts::of(sampled, template, &mut self.totals, now);
        let entry = Entry { template, counts, since: now.mono };
        let is_new = self.cache.add(sampled.key(template), entry);
        self.count(packet_kind);
        if is_new {
            self.stats.flows += 1;
            if self.cache.len() > self.settings.flows_max as usize {
                self.run(now);
            }
        }
    }

    fn count(&mut self, packet_kind: PacketKind) {
        let s = &mut self.stats;
        s.packets += 1;
        match packet_kind {
            PacketKind::Ipv4 => s.ipv4 += 1,
            PacketKind::Ipv6 => s.ipv6 += 1,
            PacketKind::UnknownIpv4 => (s.ipv4_errors, s.errors) = (s.ipv4_errors + 1, s.errors + 1),
            PacketKind::UnknownIpv6 => (s.ipv6_errors, s.errors) = (s.ipv6_errors + 1, s.errors + 1),
            PacketKind::Other => {}
        }
    }

    /// When to call [`run`](Self::run) next.
    pub fn deadline(&self) -> Option<Millis> {
        self.cache.oldest().map(|since| since + self.settings.active_timeout)
    }

    /// Produces messages with the records of flows that have been in the cache for the timeout; if the cache is too large,
    /// also of the oldest flows.
    pub fn run(&mut self, now: Now) {
        while let Some(since) = self.cache.oldest() {
            let end = if now.mono >= since + self.settings.active_timeout {
                FlowEndReason::ActiveTimeout
            } else if self.cache.len() > self.settings.flows_max as usize {
                FlowEndReason::LackOfResources
            } else {
                return;
            };
            self.put_oldest(end, now);
        }
    }

    /// Produces messages with the records of all flows, because the exporter ends.
    pub fn finish(&mut self, now: Now) {
        while self.cache.oldest().is_some() {
            self.put_oldest(FlowEndReason::Forced, now);
        }
    }

    /// Removes the oldest flow from the cache and produces a message with its record, after the statistics and templates
    /// that are due.
    fn put_oldest(&mut self, end: FlowEndReason, now: Now) {
        let Some((key, entry)) = self.cache.take_oldest() else { return };
        let interval = self.settings.stats_interval;
        if self.stats_sent.is_none_or(|sent| now.mono >= sent + interval) {
            self.stats_sent = Some(now.mono);
            self.put_own_statistics(now);
        }
        if self.are_templates_due(key.domain, now.mono) {
            self.put_templates(key.domain, now);
        }
        self.put_record(&key, &entry, end, now);
    }

    /// Whether the templates of an observation domain are due; if so, records that they are put into messages now.
    fn are_templates_due(&mut self, domain: u32, now: Millis) -> bool {
        let sent = self.templates_sent.get(&domain);
        let due = sent.is_none_or(|sent| now >= *sent + self.settings.template_interval);
        if due {
            if sent.is_none() && self.templates_sent.len() >= DOMAINS_MAX {
                self.templates_sent.clear();
            }
            self.templates_sent.insert(domain, now);
        }
        due
    }

    /// Begins a message. Messages with templates do not count in the sequence (RFC 7011 §3.1).
    fn begin_message(&self, domain: u32, now: Now) -> Vec<u8> {
        let mut out = Vec::with_capacity(TEMPLATE_MESSAGE_LEN);
        out.u16(VERSION);
        // The length is set when the message is complete.
        out.u16(0);
        // Times in records are relative to the time in the header and before it, so the time in the header is rounded up.
        out.u32(now.seconds_up() as u32);
        out.u32(self.sequence);
        out.u32(domain);
        out
    }

    /// Sets the length of a message and adds the message to the complete ones.
    fn finish_message(&mut self, mut message: Vec<u8>) {
        message.set_u16(2, message.len() as u16);
        self.out.push(message);
    }

    fn put_own_statistics(&mut self, now: Now) {
        let mut message = self.begin_message(0, now);
        let set = begin_set(&mut message, template::OPTIONS);
        message.u32(self.number);
        message.u64(self.stats.send_errors);
        end_set(&mut message, set);
        self.sequence = self.sequence.wrapping_add(1);
        self.finish_message(message);
    }

    fn put_templates(&mut self, domain: u32, now: Now) {
        let has_virtual_id = self.settings.virtual_id.is_some();
        let mut message = self.begin_message(domain, now);
        let mut set = begin_set(&mut message, template::TEMPLATE_SET);
        for one in Template::all() {
            if message.len() >= TEMPLATE_MESSAGE_LEN {
                end_set(&mut message, set);
                let next = self.begin_message(domain, now);
                self.finish_message(std::mem::replace(&mut message, next));
                set = begin_set(&mut message, template::TEMPLATE_SET);
            }
            one.put(has_virtual_id, &mut message);
        }
        end_set(&mut message, set);
        self.finish_message(message);
        // The template of the exporter's own statistics. Like the statistics, it has observation domain 0: none.
        let mut message = self.begin_message(0, now);
        let set = begin_set(&mut message, template::OPTIONS_TEMPLATE_SET);
        template::put_options(&mut message);
        end_set(&mut message, set);
        self.finish_message(message);
    }

    fn put_record(&mut self, key: &Key, entry: &Entry, end: FlowEndReason, now: Now) {
        let mut message = self.begin_message(key.domain, now);
        let set = begin_set(&mut message, key.template);
        message.bytes(&key.record);
        if let Some(id) = &self.settings.virtual_id {
            put_variable(&mut message, &id.as_bytes()[..id.len().min(VIRTUAL_ID_MAX)]);
        }
        entry.counts.put(entry.template, end, now.seconds_up(), &mut message);
        end_set(&mut message, set);
        self.sequence = self.sequence.wrapping_add(1);
        self.finish_message(message);
    }

    /// Removes and returns the complete messages.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.out)
    }

    /// Adds to the statistics how often a message was sent to a collector, and how often that failed.
    pub fn add_sent(&mut self, sent: u64, errors: u64) {
        self.stats.sent += sent;
        self.stats.send_errors += errors;
    }

    /// The statistics of the exporter.
    pub fn stats(&self) -> Stats {
        Stats { current: self.cache.len() as u64, ..self.stats }
    }
}

/// Begins a set (RFC 7011 §3.3); returns its offset in the message.
fn begin_set(message: &mut Vec<u8>, id: u16) -> usize {
    let at = message.len();
    message.u16(id);
    message.u16(0);
    at
}

fn end_set(message: &mut Vec<u8>, at: usize) {
    message.set_u16(at + 2, (message.len() - at) as u16);
}
