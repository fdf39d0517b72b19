//! Sentences about threads and queues that need attention.

use super::rates::{DatapathRates, Queue, Thread};

/// Share of its time above which a thread counts as busy: it has little time left for more packets.
const BUSY: f64 = 0.9;
/// Difference of busy shares from which two PMD threads count as unbalanced, if one of them is busy.
const UNBALANCED: f64 = 0.5;
/// Share of polls with a full burst above which the queue's ring is reported as full: packets wait there all the time.
const FULL: f64 = 0.5;
/// Packets per second up to which a queue is not reported.
const QUIET: f64 = 1000.0;
/// Maximum number of sentences about queues.
const QUEUES_MAX: usize = 3;
/// Misses per second above which translation takes most of the time.
const MANY_MISSES: f64 = 10_000.0;

/// The sentences about a datapath; none if nothing needs attention.
pub fn findings(datapath: &DatapathRates) -> Vec<String> {
    let full = datapath.queues.iter().filter(|q| q.full > FULL && q.packets > QUIET);
    let mut out: Vec<String> = full.take(QUEUES_MAX).map(full_queue).collect();
    out.extend(unbalanced(&datapath.threads));
    let misses: f64 = datapath.threads.iter().map(|t| t.misses).sum();
    if misses > MANY_MISSES {
        out.push(format!(
            "! {misses:.0} upcalls/s: most packets are of new flows; page 4 shows their megaflows."
        ));
    }
    let worst = datapath.drops.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    out.extend(
        worst.map(|(reason, n)| {
            format!("! {n:.0} packets/s are dropped, most as {reason}; page 3 shows where.")
        }),
    );
    out
}

fn full_queue(q: &Queue) -> String {
    let at =
        format!("! Port {}, queue {}: most polls find a full burst, so its ring is full", q.port, q.queue);
    match q.core {
        Some(core) => format!("{at}. Core {core} does not keep up."),
        None => format!("{at}."),
    }
}

fn unbalanced(threads: &[Thread]) -> Option<String> {
    let polling = || threads.iter().filter(|t| t.core.is_some());
    let most = polling().max_by(|a, b| a.busy.total_cmp(&b.busy))?;
    let least = polling().min_by(|a, b| a.busy.total_cmp(&b.busy))?;
    if most.busy < BUSY || most.busy - least.busy < UNBALANCED {
        return None;
    }
    let cores = most.core.zip(least.core)?;
    let what = match most.isolated {
        true => "its queues are bound to it (pmd-rxq-affinity)",
        false => "sluice pmd plan shows what moving queues would do",
    };
    let share = |t: &Thread| t.busy * 100.0;
    Some(format!(
        "! Poll threads are unbalanced: core {} is {:.0} % busy, core {} {:.0} %; {what}.",
        cores.0,
        share(most),
        cores.1,
        share(least)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(core: u64, busy: f64) -> Thread {
        Thread { core: Some(core), busy, ..Thread::default() }
    }

    #[test]
    fn what_stands_out_is_said() {
        assert!(findings(&DatapathRates::default()).is_empty());
        let queue =
            Queue { port: "p1".into(), queue: 2, core: Some(0), packets: 9e6, full: 0.9, ..Queue::default() };
        let mut datapath = DatapathRates {
            threads: vec![thread(0, 1.0), thread(1, 0.1), Thread { busy: 0.0, ..Thread::default() }],
            queues: vec![queue.clone(); 5],
            drops: vec![("a".into(), 1.0), ("b".into(), 7.0)],
            ..DatapathRates::default()
        };
        let said = findings(&datapath);
        assert_eq!(said.len(), QUEUES_MAX + 2, "{said:?}");
        assert!(said[0].starts_with("! Port p1, queue 2:") && said[0].ends_with("Core 0 does not keep up."));
        assert!(said[3].contains("core 0 is 100 % busy, core 1 10 %; sluice pmd plan"), "{said:?}");
        assert!(said[4].contains("7 packets/s are dropped, most as b"), "{said:?}");
        datapath.threads[0].isolated = true;
        assert!(findings(&datapath)[3].ends_with("bound to it (pmd-rxq-affinity)."));
        datapath.threads[1].busy = 0.9;
        datapath.queues[0].packets = 10.0;
        assert_eq!(findings(&datapath).len(), QUEUES_MAX + 1);
        datapath.threads[1].misses = 20_000.0;
        assert!(findings(&datapath)[3].starts_with("! 20000 upcalls/s"));
    }
}
