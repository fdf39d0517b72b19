//! `dpif-netdev/pmd-perf-show`: how a PMD thread spends its time. Scripts parse the columns.

use datapath::{Event, Tally};
use pmd::metrics::sample::HISTORY_LEN;
use pmd::metrics::{Recorder, text};

/// The parts of the recording that are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShownParts {
    histograms: bool,
    iterations: usize,
    millis: usize,
}

impl Default for ShownParts {
    fn default() -> ShownParts {
        ShownParts { histograms: true, iterations: 0, millis: 0 }
    }
}

impl ShownParts {
    /// Parses the options at the beginning of the arguments. Returns the other arguments, too.
    pub(crate) fn parse(args: &[String]) -> (ShownParts, &[String]) {
        let mut wanted = ShownParts::default();
        let mut rest = args;
        loop {
            rest = match rest {
                [option, rest @ ..] if option == "-nh" => {
                    wanted.histograms = false;
                    rest
                }
                [option, n, rest @ ..] if option == "-it" => {
                    wanted.iterations = count(n);
                    rest
                }
                [option, n, rest @ ..] if option == "-ms" => {
                    wanted.millis = count(n);
                    rest
                }
                _ => return (wanted, rest),
            }
        }
    }

    /// The text of the requested tables.
    pub(crate) fn text(&self, recorder: &Recorder) -> String {
        let mut out = String::new();
        if self.histograms {
            out += &format!("\n{}", text::histograms(recorder));
        }
        if self.iterations > 0 {
            out += &format!("\n{}", text::iterations(&recorder.last_iterations(self.iterations)));
        }
        if self.millis > 0 {
            out += &format!("\n{}", text::millis(&recorder.last_millis(self.millis)));
        }
        out
    }
}

/// Parses a number of samples; 0 if the text is not a number.
fn count(text: &str) -> usize {
    text.parse().map_or(0, |n: i64| n.clamp(0, HISTORY_LEN as i64) as usize)
}

/// The counters of a thread and the time that they cover.
pub(crate) struct Measurement {
    /// Counters since they were cleared.
    pub(crate) tally: Tally,
    /// Seconds since the counters were cleared.
    pub(crate) seconds: f64,
    /// Cycles per second.
    pub(crate) hz: u64,
}

fn ratio(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { a / b }
}

impl Measurement {
    fn n(&self, event: Event) -> u64 {
        self.tally.get(event)
    }

    fn micros(&self, cycles: u64) -> f64 {
        cycles as f64 * 1e6 / self.hz.max(1) as f64
    }

    /// The complete text; empty if no time has passed.
    pub(crate) fn text(&self) -> String {
        if self.seconds == 0.0 {
            return String::new();
        }
        self.iterations() + &self.received() + &self.sent()
    }

    fn iterations(&self) -> String {
        let (idle, busy) = (self.n(Event::IdleCycles), self.n(Event::BusyCycles));
        let (all, iterations) = (idle + busy, self.n(Event::Iterations));
        let (slept, sleeps) = (self.n(Event::SleepCycles), self.n(Event::SleepIterations));
        let busy_iterations = self.n(Event::BusyIterations).min(iterations);
        let share = |a: u64, b: u64| 100.0 * ratio(a as f64, b as f64);
        format!(
            "  Iterations:         {iterations:12}  ({:.2} us/it)\n  \
             - Used TSC cycles:  {all:12}  ({:5.1} % of total cycles)\n  \
             - idle iterations:  {:12}  ({:5.1} % of used cycles)\n  \
             - busy iterations:  {busy_iterations:12}  ({:5.1} % of used cycles)\n  \
             - sleep iterations: {sleeps:12}  ({:5.1} % of iterations)\n  \
             Sleep time (us):    {:12.0}  ({:3.0} us/iteration avg.)\n",
            ratio(self.micros(all + slept), iterations as f64),
            100.0 * ratio(all as f64 / self.seconds, self.hz as f64),
            iterations - busy_iterations,
            share(idle, all),
            share(busy, all),
            share(sleeps, iterations),
            self.micros(slept),
            ratio(self.micros(slept), sleeps as f64),
        )
    }

    fn received(&self) -> String {
        let packets = self.n(Event::Received);
        if packets == 0 {
            return format!("  Rx packets:         {packets:12}\n");
        }
        let passes = packets + self.n(Event::Recirculated);
        let share = |n: u64| 100.0 * ratio(n as f64, passes as f64);
        let hits = |name: &str, n: u64| format!("  - {name:<18}{n:12}  ({:5.1} %)\n", share(n));
        let (megaflow, upcalls) = (self.n(Event::MegaflowHit), self.n(Event::Missed));
        let mut text = format!(
            "  Rx packets:         {packets:12}  ({:.0} Kpps, {:.0} cycles/pkt)\n  \
             Datapath passes:    {passes:12}  ({:.2} passes/pkt)\n",
            packets as f64 / self.seconds / 1000.0,
            self.n(Event::BusyCycles) as f64 / packets as f64,
            passes as f64 / packets as f64,
        );
        text += &hits("PHWOL hits:", 0);
        text += &hits("MFEX Opt hits:", 0);
        let simple = self.n(Event::SimpleHit);
        text += &hits("Simple Match hits:", simple);
        // As in `pmd-stats-show`, hits of the cache in front of the flow cache are shown as EMC hits, hits of the flow
        // cache as SMC hits.
        let front = self.n(Event::FrontHit);
        text += &hits("EMC hits:", front.saturating_sub(simple));
        text += &hits("SMC hits:", self.n(Event::CacheHit).saturating_sub(front));
        text += &format!(
            "  - Megaflow hits:    {megaflow:12}  ({:5.1} %, {:.2} subtbl lookups/hit)\n  \
             - Upcalls:          {upcalls:12}  ({:5.1} %, {:.1} us/upcall)\n",
            share(megaflow),
            ratio(self.n(Event::MasksVisited) as f64, megaflow as f64),
            share(upcalls),
            ratio(self.micros(self.n(Event::UpcallCycles)), upcalls as f64),
        );
        text + &hits("Lost upcalls:", self.n(Event::Lost))
    }

    fn sent(&self) -> String {
        let (packets, batches) = (self.n(Event::Sent), self.n(Event::OutputBursts));
        if packets == 0 {
            return format!("  Tx packets:         {packets:12}\n\n");
        }
        format!(
            "  Tx packets:         {packets:12}  ({:.0} Kpps)\n  Tx batches:         {batches:12}  ({:.2} \
             pkts/batch)\n",
            packets as f64 / self.seconds / 1000.0,
            ratio(packets as f64, batches as f64),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histories_are_asked_for_first() {
        let args = ["-nh", "-it", "5000", "-ms", "-3", "-pmd", "1"].map(str::to_owned);
        let (wanted, rest) = ShownParts::parse(&args);
        assert_eq!(
            (wanted, rest),
            (ShownParts { histograms: false, iterations: 1000, millis: 0 }, &args[5..])
        );
        let recorder = Recorder::new(units::Millis(0), Default::default());
        assert!(ShownParts::default().text(&recorder).starts_with("\nHistograms\n   cycles/it  "));
        assert_eq!(ShownParts { iterations: 2, ..wanted }.text(&recorder).lines().count(), 4);
    }

    #[test]
    fn a_busy_thread_as_scripts_read_it() {
        let mut tally = Tally::default();
        for (event, n) in [
            (Event::Iterations, 1000),
            (Event::BusyIterations, 400),
            (Event::SleepIterations, 100),
            (Event::SleepCycles, 500_000_000),
            (Event::IdleCycles, 500_000_000),
            (Event::BusyCycles, 1_000_000_000),
            (Event::Received, 1_000_000),
            (Event::CacheHit, 750_000),
            (Event::FrontHit, 60_000),
            (Event::SimpleHit, 10_000),
            (Event::MegaflowHit, 249_000),
            (Event::MasksVisited, 498_000),
            (Event::Missed, 1000),
            (Event::UpcallCycles, 30_000_000),
            (Event::Sent, 999_000),
            (Event::OutputBursts, 40_000),
        ] {
            tally.add(event, n);
        }
        let text = Measurement { tally, seconds: 2.0, hz: 1_000_000_000 }.text();
        assert_eq!(
            text,
            "  Iterations:                 1000  (2000.00 us/it)
  - Used TSC cycles:    1500000000  ( 75.0 % of total cycles)
  - idle iterations:           600  ( 33.3 % of used cycles)
  - busy iterations:           400  ( 66.7 % of used cycles)
  - sleep iterations:          100  ( 10.0 % of iterations)
  Sleep time (us):          500000  (5000 us/iteration avg.)
  Rx packets:              1000000  (500 Kpps, 1000 cycles/pkt)
  Datapath passes:         1000000  (1.00 passes/pkt)
  - PHWOL hits:                  0  (  0.0 %)
  - MFEX Opt hits:               0  (  0.0 %)
  - Simple Match hits:       10000  (  1.0 %)
  - EMC hits:                50000  (  5.0 %)
  - SMC hits:               690000  ( 69.0 %)
  - Megaflow hits:          249000  ( 24.9 %, 2.00 subtbl lookups/hit)
  - Upcalls:                  1000  (  0.1 %, 30.0 us/upcall)
  - Lost upcalls:                0  (  0.0 %)
  Tx packets:               999000  (500 Kpps)
  Tx batches:                40000  (24.98 pkts/batch)
"
        );
    }

    #[test]
    fn an_idle_thread_has_no_packets() {
        let measured = Measurement { tally: Tally::default(), seconds: 1.0, hz: 1 };
        assert!(
            measured
                .text()
                .ends_with("  Rx packets:                    0\n  Tx packets:                    0\n\n")
        );
        assert_eq!(Measurement { seconds: 0.0, ..measured }.text(), "");
    }
}
