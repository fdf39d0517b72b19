//! The tables of `pmd-perf-show`. The columns are fixed, because scripts cut them.

use super::histogram::BINS;
use super::recorder::{Histograms, Recorder};
use super::sample::Sample;
use std::fmt::Display;

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
            let wall = h.walls().get(bin).map_or(">".to_owned(), u32::to_string);
            format!("{wall:<9} {:<11}", h.bins()[bin])
        };
        text += &line(columns.map(cell));
    }
    text += &format!("{:-<DASHES$}\n", "");
    text + &titles("vhost qlen") + &line(means(recorder.totals()))
}

fn means(totals: &Sample) -> [String; 7] {
    let whole = |a: u64, b: u64| format!("{:<21}", each(a, b));
    let part = |a: u64, b: u64| format!("{:<21.5}", if b == 0 { 0.0 } else { a as f64 / b as f64 });
    [
        whole(totals.cycles, totals.turns),
        part(totals.packets, totals.turns),
        whole(totals.busy_cycles, totals.packets),
        part(totals.packets, totals.batches),
        part(totals.queued, totals.turns),
        part(totals.upcalls, totals.turns),
        whole(totals.upcall_cycles, totals.upcalls),
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

/// A line about one sample: its stamp, in a column of this width, and the other columns; or their titles.
fn sample_line<T: Display, const N: usize>(width: usize, stamp: impl Display, columns: [T; N]) -> String {
    let columns = columns.map(|c| format!("{c:<11}"));
    format!("   {stamp:<width$}   {}\n", columns.join("  "))
}

/// Prints the iterations, one a line.
pub fn turns(samples: &[Sample]) -> String {
    const WIDTH: usize = 17;
    let titles = ["cycles", "packets", "cycles/pkt", "pkts/batch", "vhost qlen", "upcalls", "cycles/upcall"];
    let mut text = sample_line(WIDTH, "iter", titles);
    for s in samples {
        let columns = [
            s.cycles,
            s.packets,
            each(s.cycles, s.packets),
            each(s.packets, s.batches),
            s.queued,
            s.upcalls,
            each(s.upcall_cycles, s.upcalls),
        ];
        text += &sample_line(WIDTH, s.stamp, columns);
    }
    text
}

/// Prints the milliseconds, one a line.
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
            s.turns,
            each(s.cycles, s.turns),
            s.packets,
            each(s.busy_cycles, s.packets),
            each(s.packets, s.batches),
            each(s.queued, s.turns),
            s.upcalls,
            each(s.upcall_cycles, s.upcalls),
        ];
        text += &sample_line(WIDTH, s.stamp, columns);
    }
    text
}

/// The mean of `sum` over `n`; 0 for none.
fn each(sum: u64, n: u64) -> u64 {
    sum.checked_div(n).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::{Burst, Counted, Watch};
    use super::*;
    use units::Millis;

    fn recorder() -> Recorder {
        let mut recorder = Recorder::new(Millis(7), Watch::default());
        for i in 1..=5 {
            let counted = Counted { turns: i, cycles: 1000 * i, packets: 16 * i, ..Counted::default() };
            let bursts = [Burst { packets: 16, waiting: None }];
            recorder.turn(counted, bursts.into_iter(), Millis(6 + i / 2));
        }
        recorder.settle();
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
            turns(&recorder.last_turns(1)),
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
