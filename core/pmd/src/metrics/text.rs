//! The tables of `pmd-perf-show`. Column positions are those of Open vSwitch, because scripts cut columns by position.

use super::histogram::BINS;
use super::recorder::{Histograms, Recorder};
use super::sample::Sample;
use std::fmt::Display;

/// Width of the line between the histograms and the means.
const DASHES: usize = 154;

/// Prints the histograms and the means.
pub fn histograms(recorder: &Recorder) -> String {
    let Histograms {
        cycles,
        packets,
        cycles_per_packet,
        packets_per_batch,
        queued,
        upcalls,
        cycles_per_upcall,
    } = recorder.histograms();
    let columns = [cycles, packets, cycles_per_packet, packets_per_batch, queued, upcalls, cycles_per_upcall];
    let mut text = String::from("Histograms\n") + &titles("max vhost qlen");
    for bin in 0..BINS {
        let cell = |h: &super::Histogram| {
            let limit = h.bin_limits().get(bin).map_or(">".to_owned(), u32::to_string);
            format!("{limit:<9} {:<11}", h.bins()[bin])
        };
        text += &line(columns.map(cell));
    }
    text += &format!("{:-<DASHES$}\n", "");
    text + &titles("vhost qlen") + &line(means(recorder.totals()))
}

/// The mean of each column.
fn means(totals: &Sample) -> [String; 7] {
    let integer = |a: u64, b: u64| format!("{:<21}", mean(a, b));
    let decimal = |a: u64, b: u64| format!("{:<21.5}", if b == 0 { 0.0 } else { a as f64 / b as f64 });
    [
        integer(totals.cycles, totals.iterations),
        decimal(totals.packets, totals.iterations),
        integer(totals.busy_cycles, totals.packets),
        decimal(totals.packets, totals.batches),
        decimal(totals.queued, totals.iterations),
        decimal(totals.upcalls, totals.iterations),
        integer(totals.upcall_cycles, totals.upcalls),
    ]
}

fn titles(queue: &str) -> String {
    let titles =
        ["cycles/it", "packets/it", "cycles/pkt", "pkts/batch", queue, "upcalls/it", "cycles/upcall"];
    line(titles.map(|t| format!("{t:<21}")))
}

fn line(cells: [String; 7]) -> String {
    format!("   {}\n", cells.join("  "))
}

/// A line about one sample: its stamp in a column of `width` characters, and the other columns. Also for the titles.
fn sample_line<T: Display, const N: usize>(width: usize, stamp: impl Display, columns: [T; N]) -> String {
    let columns = columns.map(|c| format!("{c:<11}"));
    format!("   {stamp:<width$}   {}\n", columns.join("  "))
}

/// Prints iterations, one per line.
pub fn iterations(samples: &[Sample]) -> String {
    const WIDTH: usize = 17;
    let titles = ["cycles", "packets", "cycles/pkt", "pkts/batch", "vhost qlen", "upcalls", "cycles/upcall"];
    let mut text = sample_line(WIDTH, "iter", titles);
    for s in samples {
        let columns = [
            s.cycles,
            s.packets,
            mean(s.cycles, s.packets),
            mean(s.packets, s.batches),
            s.queued,
            s.upcalls,
            mean(s.upcall_cycles, s.upcalls),
        ];
        text += &sample_line(WIDTH, s.stamp, columns);
    }
    text
}

/// Prints milliseconds, one per line.
pub fn millis(samples: &[Sample]) -> String {
    const WIDTH: usize = 12;
    let titles = [
        "iterations",
        "cycles/it",
        "Kpps",
        "cycles/pkt",
        "pkts/batch",
        "vhost qlen",
        "upcalls",
        "cycles/upcall",
    ];
    let mut text = sample_line(WIDTH, "ms", titles);
    for s in samples {
        let columns = [
            s.iterations,
            mean(s.cycles, s.iterations),
            s.packets,
            mean(s.busy_cycles, s.packets),
            mean(s.packets, s.batches),
            mean(s.queued, s.iterations),
            s.upcalls,
            mean(s.upcall_cycles, s.upcalls),
        ];
        text += &sample_line(WIDTH, s.stamp, columns);
    }
    text
}

/// `sum` divided by `n`, rounded down; 0 if `n` is 0.
fn mean(sum: u64, n: u64) -> u64 {
    sum.checked_div(n).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::{Burst, IterationCounters, Watch};
    use super::*;
    use units::Millis;

    fn recorder() -> Recorder {
        let mut recorder = Recorder::new(Millis(7), Watch::default());
        for i in 1..=5 {
            let counters = IterationCounters {
                iterations: i,
                cycles: 1000 * i,
                packets: 16 * i,
                ..IterationCounters::default()
            };
            let bursts = [Burst { packets: 16, waiting: None }];
            recorder.add_iteration(counters, bursts.into_iter(), Millis(6 + i / 2));
        }
        recorder.add_pending();
        recorder
    }

    #[test]
    fn tables_as_scripts_read_them() {
        let text = histograms(&recorder());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2 + BINS + 3);
        assert_eq!(
            lines[2],
            "   499       0            0         0            100       3            0         0            0         3            \
             0         3            999       0          "
        );
        assert!(
            lines[33].starts_with("   >         0            >         0            >         0          ")
        );
        assert!(lines[34].bytes().all(|b| b == b'-') && lines[34].len() == 154);
        assert_eq!(
            lines[36],
            "   1000                   16.00000               62                     16.00000               0.00000                \
             0.00000                0                    "
        );
    }

    #[test]
    fn histories_as_scripts_read_them() {
        let recorder = recorder();
        assert_eq!(
            iterations(&recorder.last_iterations(1)),
            "   iter                cycles       packets      cycles/pkt   pkts/batch   vhost qlen   upcalls      cycles/upcall
   4                   1000         16           62           16           0            0            0          \n"
        );
        assert_eq!(
            millis(&recorder.last_millis(1)),
            "   ms             iterations   cycles/it    Kpps         cycles/pkt   pkts/batch   vhost qlen   upcalls      cycles/upcall
   7              2            1000         32           62           16           0            0            0          \n"
        );
    }
}
