//! `dpif/show-accounting`: packet accounting of each datapath.
//!
//! Sluice's own command, for operators and tests. Each packet that was received or created was sent, delivered, dropped
//! for a counted reason, or waits. "queued" is the rest: packets in the recirculation queue, in output bursts and in
//! shapers. The counters of the threads are read one after another, so under traffic it is approximate; without traffic
//! it is 0.

use datapath::{Event, Tally};
use ovsdb::Json;
use switch::Switch;
use unixctl::{Format, Reply};

pub(crate) fn show(switch: &Switch, format: Format) -> Reply {
    let all = switch.datapaths.all().map(|b| (b.name(), b.datapath.tally()));
    match format {
        Format::Text => Reply::Text(all.map(|(name, tally)| text(&name, &tally)).collect()),
        Format::Json => Reply::Json(all.map(|(name, tally)| (name, object(&tally))).collect()),
    }
}

/// The sums in the order of the text.
fn sums(tally: &Tally) -> [(&'static str, Json); 8] {
    let event = |e| Json::from(tally.get(e));
    [
        ("received", event(Event::Received)),
        ("created", event(Event::Created)),
        ("sent", event(Event::Sent)),
        ("delivered", event(Event::Delivered)),
        ("parked", tally.parked().into()),
        ("fragments", tally.waiting_fragments().into()),
        ("dropped", tally.dropped_total().into()),
        ("queued", Json::from(i64::try_from(tally.balance()).unwrap_or(i64::MAX))),
    ]
}

fn text(name: &str, tally: &Tally) -> String {
    let mut text = format!("{name}:\n");
    for (key, n) in sums(tally) {
        text += &format!("  {key}: {n}\n");
        if key == "dropped" {
            text.extend(tally.drops().map(|(reason, n)| format!("    {}: {n}\n", reason.name())));
        }
    }
    text
}

fn object(tally: &Tally) -> Json {
    let pairs = sums(tally).into_iter().map(|(key, n)| (key.replace(' ', "-"), n));
    let drops: Json = tally.drops().map(|(reason, n)| (reason.name(), Json::from(n))).collect();
    pairs.chain([("drops".to_owned(), drops)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpif::DropReason;

    #[test]
    fn sums_and_reasons() {
        let mut tally = Tally::default();
        tally.add(Event::Received, 9);
        tally.add(Event::Sent, 4);
        tally.add(Event::Parked, 2);
        tally.count_drops(DropReason::PortRemoved, 2);
        let reason = DropReason::PortRemoved.name();
        assert_eq!(
            text("netdev@ovs-netdev", &tally),
            format!(
                "netdev@ovs-netdev:\n  received: 9\n  created: 0\n  sent: 4\n  delivered: 0\n  parked: 2\n  \
                 fragments: 0\n  dropped: 2\n    {reason}: 2\n  queued: 1\n"
            )
        );
        let json = ovsdb::json::sorted_string(&object(&tally));
        assert!(json.contains(&format!("\"drops\":{{\"{reason}\":2}}")) && json.contains("\"queued\":1"));
    }
}
