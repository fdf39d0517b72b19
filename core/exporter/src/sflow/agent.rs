//! The sFlow agent of one bridge: its sample counters, the timers of its sources, and the incomplete datagram.

use super::counters::CounterRecord;
use super::datagram::Datagram;
use super::sample::{self, Sample};
use super::source::Source;
use crate::Now;
use crate::write::WriteBigEndian;
use std::collections::BTreeMap;
use std::net::IpAddr;
use units::Millis;

/// Interval at which polling timers count down and an incomplete datagram is sent.
const TICK: Millis = Millis(1000);

/// The next whole second.
fn next_second(now: Millis) -> Millis {
    Millis((now.0 / TICK.0 + 1) * TICK.0)
}

/// Settings of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The agent's address.
    pub address: IpAddr,
    /// The agent's number (sub-agent) under this address.
    pub number: u32,
    /// One of this many packets is sampled.
    pub sampling: u32,
    /// Seconds between two reports of counters; 0: counters are not reported.
    pub polling: u32,
    /// Maximum number of bytes of a packet that a sample contains.
    pub header: u32,
}

impl Settings {
    /// The sampling probability; `u32::MAX` means all packets.
    pub fn probability(&self) -> u32 {
        u32::MAX.checked_div(self.sampling).map_or(0, |share| share.max(1))
    }
}

/// The timer of a source whose counters are reported.
struct Poller {
    /// Ticks until the next report; 0: never.
    ticks_left: u32,
    /// Sequence number of the last report.
    reports: u32,
}

/// The agent of one bridge.
pub struct Agent {
    settings: Settings,
    /// The wall clock when the agent was created, in seconds.
    started: u64,
    /// The wall clock at the last tick, in seconds.
    ticked: u64,
    next_tick: Millis,
    /// Sequence number of the last sample.
    samples: u32,
    /// Number of packets from which the samples were selected.
    pool: u32,
    pollers: BTreeMap<Source, Poller>,
    datagram: Datagram,
    random: fastrand::Rng,
    out: Vec<Vec<u8>>,
    /// Samples that did not fit in a datagram.
    oversized: u64,
}

impl Agent {
    /// Creates an agent. `seed`: seed of the random numbers that spread the first reports of counters over the polling
    /// interval.
    pub fn new(settings: Settings, now: Now, seed: u64) -> Agent {
        let mut agent = Agent {
            datagram: Datagram::new(settings.address, settings.number),
            started: now.seconds(),
            ticked: now.seconds(),
            next_tick: next_second(now.mono),
            samples: 0,
            pool: 0,
            pollers: BTreeMap::new(),
            random: fastrand::Rng::with_seed(seed),
            out: Vec::new(),
            oversized: 0,
            settings,
        };
        agent.start_polling(agent.bridge());
        agent
    }

    /// The agent's settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The source of the agent's samples.
    fn bridge(&self) -> Source {
        Source::Bridge(self.settings.number)
    }

    fn start_polling(&mut self, source: Source) {
        let interval = self.settings.polling;
        let ticks_left = if interval == 0 { 0 } else { self.random.u32(1..=interval) };
        self.pollers.entry(source).or_insert(Poller { ticks_left, reports: 0 });
    }

    /// Sets the interfaces whose counters are reported.
    pub fn set_interfaces(&mut self, indexes: &[u32]) {
        let is_wanted = |source: &Source| match source {
            Source::Interface(index) => indexes.contains(index),
            Source::Bridge(_) => true,
        };
        self.pollers.retain(|source, _| is_wanted(source));
        indexes.iter().for_each(|index| self.start_polling(Source::Interface(*index)));
    }

    /// Adds a sampled packet. Returns false if it does not fit in a datagram.
    pub fn sample(&mut self, sample: &Sample<'_>) -> bool {
        self.pool = self.pool.wrapping_add(self.settings.sampling);
        self.samples = self.samples.wrapping_add(1);
        let mut body = Vec::new();
        body.u32(self.samples);
        body.u32(self.bridge().word());
        body.u32(self.settings.sampling);
        body.u32(self.pool);
        // The number of samples that were dropped for lack of resources: unknown.
        body.u32(0);
        body.u32(sample.input);
        body.u32(sample.output.word());
        let records = sample.records(self.settings.header as usize);
        body.u32(records.len() as u32);
        records.iter().for_each(|record| sample::put_record(&mut body, record));
        self.add(sample::FLOW_SAMPLE, &body)
    }

    /// Adds the counters of a source. Returns false if they do not fit in a datagram.
    pub fn counters(&mut self, source: Source, records: &[CounterRecord]) -> bool {
        let Some(poller) = self.pollers.get_mut(&source) else { return true };
        poller.reports = poller.reports.wrapping_add(1);
        let mut body = Vec::new();
        body.u32(poller.reports);
        body.u32(source.word());
        body.u32(records.len() as u32);
        records.iter().for_each(|record| sample::put_record(&mut body, &record.encode()));
        self.add(sample::COUNTERS_SAMPLE, &body)
    }

    fn add(&mut self, kind: u32, body: &[u8]) -> bool {
        let uptime = self.uptime();
        let done = self.datagram.add(kind, body, uptime, &mut self.out);
        self.oversized += u64::from(!done);
        done
    }

    /// Milliseconds since the agent was created, at a resolution of one tick.
    fn uptime(&self) -> u32 {
        (self.ticked.wrapping_sub(self.started) as u32).wrapping_mul(1000)
    }

    /// When to call [`tick`](Self::tick) next.
    pub fn next_tick(&self) -> Millis {
        self.next_tick
    }

    /// Counts the polling timers down, once a second; returns the sources whose counters must be reported. After the caller
    /// has added these counters, it must call [`flush`](Self::flush).
    pub fn tick(&mut self, now: Now) -> Vec<Source> {
        if now.mono < self.next_tick {
            return Vec::new();
        }
        self.next_tick = next_second(now.mono);
        self.ticked = now.seconds();
        let interval = self.settings.polling;
        let is_due = |poller: &mut Poller| {
            poller.ticks_left = poller.ticks_left.saturating_sub(1);
            let due = poller.ticks_left == 0 && interval != 0;
            if due {
                poller.ticks_left = interval;
            }
            due
        };
        // Open vSwitch also reports the highest index first.
        self.pollers
            .iter_mut()
            .rev()
            .filter_map(|(source, poller)| is_due(poller).then_some(*source))
            .collect()
    }

    /// Completes the datagram.
    pub fn flush(&mut self) {
        let uptime = self.uptime();
        self.datagram.end(uptime, &mut self.out);
    }

    /// Removes and returns the complete datagrams.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.out)
    }

    /// Returns the number of samples that did not fit in a datagram since the last call.
    pub fn take_oversized(&mut self) -> u64 {
        std::mem::take(&mut self.oversized)
    }
}
