//! Debug log of the messages on a connection, and periodic log lines about the flow mods of the peer.

use openflow::flow_mod::FlowCommand;
use openflow::text::NoNames;
use openflow::{Body, Dialect, Message, Version, VersionSet};
use runtime::log::Level;
use runtime::{Module, RateLimit};
use std::fmt;
use units::Millis;

pub(crate) static VCONN: Module = Module::new("vconn");
static MESSAGES: RateLimit = RateLimit::new(600, 600);
static CONNMGR: Module = Module::new("connmgr");
static OFP_FLOW: Module = Module::new("ofp_flow");
static OVERSIZED: RateLimit = RateLimit::new(1, 5);

/// An encoded message that is formatted as text only if it is logged, because formatting is expensive.
struct MessageText<'a>(&'a [u8]);

impl fmt::Display for MessageText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(openflow::text::message_text(self.0, &NoNames, 1).trim_end())
    }
}

pub(crate) fn sent(name: &str, bytes: &[u8]) {
    runtime::log_rl!(VCONN, MESSAGES, Level::Dbg, "{name}: sent (Success): {}", MessageText(bytes));
}

pub(crate) fn received(name: &str, bytes: &[u8]) {
    runtime::log_rl!(VCONN, MESSAGES, Level::Dbg, "{name}: received: {}", MessageText(bytes));
}

pub(crate) fn negotiated(name: &str, agreed: Version, ours: VersionSet, peers: VersionSet) {
    runtime::debug!(
        VCONN,
        "{name}: negotiated OpenFlow version 0x{:02x} (we support {}, peer supports {})",
        agreed.wire(),
        versions(ours),
        versions(peers)
    );
}

/// Encodes a reply that is a list without the entries that are too large for a message. `None` for other messages, or if that fails.
pub(crate) fn without_oversized(message: &Message, dialect: Dialect) -> Option<Vec<Vec<u8>>> {
    let body = match &message.body {
        Body::FlowStatsReply(list) => fitting(message, list, Body::FlowStatsReply, dialect),
        Body::FlowMonitorReply(list) => fitting(message, list, Body::FlowMonitorReply, dialect),
        Body::GroupStatsReply(list) => fitting(message, list, Body::GroupStatsReply, dialect),
        Body::GroupDescReply(list) => fitting(message, list, Body::GroupDescReply, dialect),
        Body::MeterStatsReply(list) => fitting(message, list, Body::MeterStatsReply, dialect),
        Body::MeterConfigReply(list) => fitting(message, list, Body::MeterConfigReply, dialect),
        _ => return None,
    };
    openflow::encode(&Message { more: message.more, ..message.reply(body) }, dialect).ok()
}

/// A body with the entries of `list` that fit into a message.
fn fitting<T: Clone>(message: &Message, list: &[T], body: fn(Vec<T>) -> Body, dialect: Dialect) -> Body {
    let fits = |entry: &&T| openflow::encode(&message.reply(body(vec![(*entry).clone()])), dialect).is_ok();
    let fitting: Vec<T> = list.iter().filter(fits).cloned().collect();
    if fitting.len() < list.len() {
        // The text of Open vSwitch, which has this case for flows only.
        let text = match &message.body {
            Body::FlowStatsReply(_) => {
                "Flow exceeded the maximum flow statistics reply size and was excluded from the response set"
            }
            _ => "Entry exceeded the maximum size of a message and was excluded from the list",
        };
        runtime::warn_rl!(OFP_FLOW, OVERSIZED, "{text}");
    }
    body(fitting)
}

/// A set of versions as text for log lines and error messages.
pub(crate) fn versions(set: VersionSet) -> String {
    let all: Vec<u8> = set.iter().map(|v| v.wire()).collect();
    match all[..] {
        [one] => format!("version 0x{one:02x}"),
        [1, .., last] if usize::from(last) == all.len() => format!("version 0x{last:02x} and earlier"),
        _ => {
            let texts: Vec<String> = all.iter().map(|v| format!("0x{v:02x}")).collect();
            format!("versions {}", texts.join(", "))
        }
    }
}

/// Shortest time from the first unreported flow mod to the report.
const FIRST_REPORT: Millis = Millis::from_secs(10);
/// Shortest time between two reports.
const REPORT_INTERVAL: Millis = Millis::from_secs(60);

/// Flow mods of a connection since the last report.
#[derive(Debug, Default)]
pub(crate) struct FlowModCounts {
    adds: u32,
    deletes: u32,
    modifications: u32,
    first: Millis,
    last: Millis,
    due: Option<Millis>,
    not_before: Millis,
}

impl FlowModCounts {
    pub(crate) fn count(&mut self, command: FlowCommand, now: Millis) {
        match command {
            FlowCommand::Add => self.adds += 1,
            FlowCommand::Modify | FlowCommand::ModifyStrict => self.modifications += 1,
            FlowCommand::Delete | FlowCommand::DeleteStrict => self.deletes += 1,
        }
        if self.due.is_none() {
            let due = (now + FIRST_REPORT).max(self.not_before);
            (self.first, self.due) = (now, Some(due));
            self.not_before = due + REPORT_INTERVAL;
        }
        self.last = now;
    }

    pub(crate) fn due(&self) -> Option<Millis> {
        self.due
    }

    /// Logs the counts and resets them.
    pub(crate) fn report(&mut self, connection: &str, now: Millis) {
        if self.due.take().is_none() {
            return;
        }
        let total = self.adds + self.deletes + self.modifications;
        let secs = |a: Millis, b: Millis| b.since(a).0 / 1000;
        let (ago, span) = (secs(self.first, now), secs(self.first, self.last));
        let when = match span {
            s if s == ago => format!("in the last {ago} s"),
            0 => format!("{ago} s ago"),
            s => format!("in the {s} s starting {ago} s ago"),
        };
        let parts: Vec<String> =
            [(self.adds, "adds"), (self.deletes, "deletes"), (self.modifications, "modifications")]
                .iter()
                .filter(|(n, _)| *n > 0)
                .map(|(n, what)| format!("{n} {what}"))
                .collect();
        runtime::info!(CONNMGR, "{connection}: {total} flow_mods {when} ({})", parts.join(", "));
        (self.adds, self.deletes, self.modifications) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openflow::Xid;
    use openflow::group::GroupStats;

    #[test]
    fn an_entry_that_is_too_large_is_left_out_of_a_part() {
        let group =
            |group, buckets| GroupStats { group, buckets: vec![(0, 0); buckets], ..GroupStats::default() };
        let body = Body::GroupStatsReply(vec![group(1, 2), group(2, 5000), group(3, 2)]);
        let part = Message { more: true, ..Message::new(Version::V13, Xid(7), body) };
        assert!(openflow::encode(&part, Dialect::default()).is_err());
        let frames = without_oversized(&part, Dialect::default()).unwrap();
        let [frame] = &frames[..] else { panic!("{} messages", frames.len()) };
        let decoded = openflow::decode(frame, Dialect::default()).unwrap();
        assert!(decoded.more);
        assert_eq!(decoded.body, Body::GroupStatsReply(vec![group(1, 2), group(3, 2)]));
    }
}
