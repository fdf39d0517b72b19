//! Checks the event counters of the running daemon (`coverage/read-counter`).

use crate::doctor::facts::Facts;
use crate::doctor::finding::{Finding, Level};
use dpif::DropReason;

/// A counter that is 0 in a switch without problems.
struct WatchedCounter {
    counter: &'static str,
    level: Level,
    /// Description of the events; the text follows their number.
    events: &'static str,
    fix: &'static str,
}

const WATCHED: [WatchedCounter; 4] = [
    WatchedCounter {
        counter: "revalidate_repaired",
        level: Level::Problem,
        events: "megaflows were not updated by a change of flows and were repaired by the sweep; \
                 the log names each",
        fix: "grep 'was wrong' sluiced.log   # a fault of Sluice: report these lines",
    },
    WatchedCounter {
        counter: "rconn_overflow",
        level: Level::Warning,
        events: "packet-ins were dropped, because a controller does not read fast enough",
        fix: "sluice vsctl list Controller   # see status:packet-in-*-dropped",
    },
    WatchedCounter {
        counter: "rconn_unsent_closed",
        level: Level::Warning,
        events: "OpenFlow connections were closed, because their controller did not read",
        fix: "sluice vsctl list Controller",
    },
    WatchedCounter {
        counter: "ofconn_refused",
        level: Level::Warning,
        events: "OpenFlow connections were refused, because the bridge had the maximum number of connections",
        fix: "sluice appctl ofproto/list   # then look for clients that leave connections open",
    },
];

/// The drop reasons that do not occur in a switch without problems, each with the command that shows more.
fn watched_drops() -> impl Iterator<Item = (DropReason, &'static str)> {
    DropReason::ALL.iter().filter_map(|reason| Some((*reason, reason.diagnostic_command()?)))
}

/// The names of the counters to request from the daemon.
pub fn names() -> impl Iterator<Item = &'static str> {
    WATCHED.iter().map(|w| w.counter).chain(watched_drops().map(|(reason, _)| reason.name()))
}

pub(crate) fn check(facts: &Facts, found: &mut Vec<Finding>) {
    let count_of = |name| facts.counters.get(name).copied().unwrap_or(0);
    for watched in &WATCHED {
        let count = count_of(watched.counter);
        if count > 0 {
            let text = format!("since its start: {count} {}", watched.events);
            found.push(Finding::new(watched.level, "counter", text, watched.fix));
        }
    }
    // These findings are only advice, because it is not known how long ago the packets were dropped.
    for (reason, command) in watched_drops() {
        let count = count_of(reason.name());
        if count > 0 {
            let text =
                format!("since its start: {count} packets dropped as {}. {}", reason.name(), reason.help());
            found.push(Finding::new(Level::Advice, "drops", text, command));
        }
    }
}
