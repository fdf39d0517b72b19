//! `bridge/*` and `ofproto/list`.

use crate::answer::{Answer, unknown};
use bond::BucketRule;
use classifier::of::ClassifierRule;
use ctl::names;
use flow::text::NoNames;
use ofproto::{Rule, TABLE_INTERNAL};
use openflow::text::actions_text;
use switch::Switch;
use units::Millis;

pub(crate) fn execute(switch: &mut Switch, name: &str, args: &[String]) -> Answer {
    match name {
        names::BRIDGE_DUMP_FLOWS => dump_flows(switch, args).into(),
        names::BRIDGE_RECONNECT => reconnect(switch, args.first()).into(),
        names::OFPROTO_LIST => {
            switch.bridges.keys().map(|name| format!("{name}\n")).collect::<String>().into()
        }
        _ => unknown(name),
    }
}

fn dump_flows(switch: &mut Switch, args: &[String]) -> Result<String, String> {
    let (name, options) = args.split_last().ok_or("Unknown bridge")?;
    let now = switch.clock.now();
    let bridge = switch.bridges.get(name).ok_or("Unknown bridge")?;
    if let Some(backer) = switch.datapaths.of_bridge(bridge) {
        backer.datapath.maintain(now);
    }
    let offload = options.iter().any(|o| o == "--offload-stats");
    let own = bridge.ofproto.all_rules().map(|rule| rule_line(rule, offload, now) + "\n");
    let rules = switch.bucket_rules(bridge).into_iter();
    Ok(own.chain(rules.map(|(recirc, rule)| bucket_line(recirc, &rule, offload, now) + "\n")).collect())
}

/// The line of a rule that sends recirculated packets of a bond by their hash. The rule is in no table, because translations read it from the bond;
/// its table and priority in the line are those of Open vSwitch.
fn bucket_line(recirc: u32, rule: &BucketRule, offload: bool, now: Millis) -> String {
    let BucketRule { bucket, link, packets, bytes, created } = rule;
    let counters = Counters { packets: *packets, bytes: *bytes, created: *created };
    format!(
        "table_id={TABLE_INTERNAL}, {}priority=20,recirc_id={recirc:#x},dp_hash={bucket:#x}/0xff,actions=output:{}",
        counters.text(offload, now),
        link.0
    )
}

/// The counters of a flow.
struct Counters {
    packets: u64,
    bytes: u64,
    created: Millis,
}

impl Counters {
    fn text(&self, offload: bool, now: Millis) -> String {
        let Counters { packets, bytes, created } = self;
        let offload = if offload { "n_offload_packets=0, n_offload_bytes=0, " } else { "" };
        format!("duration={}s, n_packets={packets}, n_bytes={bytes}, {offload}", now.since(*created).0 / 1000)
    }
}

/// The line of a flow. It may be a hidden flow, whose priority no OpenFlow message can contain.
pub(crate) fn rule_line(rule: &Rule, offload: bool, now: Millis) -> String {
    let mut line = String::new();
    if rule.cookie != 0 {
        line += &format!("cookie={:#x}, ", rule.cookie);
    }
    if rule.table != 0 {
        line += &format!("table_id={}, ", rule.table);
    }
    let counters = Counters { packets: rule.packets(), bytes: rule.bytes(), created: rule.created };
    line += &counters.text(offload, now);
    let matching = rule.full_match().text(&NoNames);
    line += &match (rule.priority(), matching.is_empty()) {
        (0x8000, _) => matching,
        (priority, true) => format!("priority={priority}"),
        (priority, false) => format!("priority={priority},{matching}"),
    };
    line + ",actions=" + &actions_text(&rule.actions, &NoNames)
}

fn reconnect(switch: &mut Switch, name: Option<&String>) -> Result<String, String> {
    match name {
        Some(name) => switch.bridges.get_mut(name).ok_or("Unknown bridge")?.conns.reconnect_all(),
        None => switch.bridges.values_mut().for_each(|b| b.conns.reconnect_all()),
    }
    Ok(String::new())
}
