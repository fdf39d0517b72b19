//! `dpctl/*conntrack` and `dpctl/ct-*`: shows, counts, limits and removes tracked connections.

use crate::dpctl_call::{Call, EINVAL, Failed, find, select_datapath};
use conntrack::{ConnectionSnapshot, TcpState, ZoneLimit};
use flow::text::next_key_value;
use packet::ipproto;
use std::collections::BTreeMap;
use std::fmt::Write;
use switch::{Backer, Switch, tracked_connections};

/// The protocols that are counted separately, by name.
const PROTOCOLS: [(&str, u8); 6] = [
    ("UDP", ipproto::UDP),
    ("UDPLITE", 136),
    ("SCTP", ipproto::SCTP),
    ("ICMP", ipproto::ICMP),
    ("DCCP", 33),
    ("IGMP", ipproto::IGMP),
];
/// Number of shards in a line of `ct-bkts`.
const SHARDS_PER_LINE: usize = 8;

/// Parses the number at the beginning of a text.
pub(crate) fn leading_number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text[..text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())].parse().ok()
}

fn zone_of(arg: &str) -> Option<u16> {
    leading_number(arg.strip_prefix("zone=")?)
}

/// The zone at the end of the arguments, if there is one, and the arguments before it.
pub(crate) fn split_zone(args: &[String]) -> (Option<u16>, &[String]) {
    match args {
        [before @ .., last] if zone_of(last).is_some() => (zone_of(last), before),
        _ => (None, args),
    }
}

/// The arguments after the datapath's name, if the first argument is such a name.
pub(crate) fn after_datapath_name<'a>(switch: &Switch, args: &'a [String]) -> &'a [String] {
    match args {
        [name, rest @ ..] if find(switch, name).is_some() => rest,
        _ => args,
    }
}

fn entries(switch: &Switch, backer: &Backer, zone: Option<u16>) -> Vec<ConnectionSnapshot> {
    backer.datapath.conntrack().dump(zone, switch.clock.now())
}

pub(crate) fn dump(switch: &Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let (zone, args) = split_zone(args);
    let (backer, _) = select_datapath(switch, call, args, 1)?;
    let (verbose, statistics) = (call.verbose, call.statistics);
    let lines = entries(switch, backer, zone);
    call.text.extend(lines.iter().map(|e| e.text(verbose, statistics) + "\n"));
    Ok(())
}

pub(crate) fn dump_expected(switch: &Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let (zone, args) = split_zone(args);
    let (backer, _) = select_datapath(switch, call, args, 1)?;
    let lines = backer.datapath.conntrack().dump_expected(zone);
    call.text.extend(lines.iter().map(|e| e.to_string() + "\n"));
    Ok(())
}

pub(crate) fn stats(switch: &Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let (verbose, zone, rest) = stats_args(call, args);
    let (backer, _) = select_datapath(switch, call, rest, 1)?;
    let mut counts = Counts::default();
    entries(switch, backer, zone).iter().for_each(|e| counts.add(e));
    call.text += &counts.text(verbose);
    Ok(())
}

/// The arguments of `ct-stats-show`: whether it is verbose, the zone, and the other arguments.
pub(crate) fn stats_args<'a>(call: &Call, args: &'a [String]) -> (bool, Option<u16>, &'a [String]) {
    let (mut rest, mut zone, mut verbose) = (args, None, call.verbose);
    while let [before @ .., last] = rest {
        match last.starts_with("verbose") {
            true => verbose = true,
            false if zone_of(last).is_some() => zone = zone_of(last),
            false => break,
        }
        rest = before;
    }
    (verbose, zone, rest)
}

/// Numbers of connections by protocol, and of TCP connections by state.
#[derive(Default)]
pub(crate) struct Counts {
    protocols: BTreeMap<u8, usize>,
    states: BTreeMap<TcpState, usize>,
}

impl Counts {
    pub(crate) fn add(&mut self, entry: &ConnectionSnapshot) {
        *self.protocols.entry(entry.original.proto()).or_default() += 1;
        entry.tcp_state().into_iter().for_each(|state| *self.states.entry(state).or_default() += 1);
    }

    pub(crate) fn text(&self, verbose: bool) -> String {
        let of = |proto: u8| self.protocols.get(&proto).copied().unwrap_or(0);
        let line = |name: &str, n: usize| if n == 0 { String::new() } else { format!("  {name}: {n}\n") };
        let total: usize = self.protocols.values().sum();
        let mut text = format!("Connections Stats:\n    Total: {total}\n");
        text += &line("TCP", of(ipproto::TCP));
        if verbose && of(ipproto::TCP) != 0 {
            text += "    Conn per TCP states:\n";
            for state in TcpState::ALL {
                if let Some(n) = self.states.get(&state) {
                    let _ = writeln!(text, "\t  [{}]={n}", state.name());
                }
            }
        }
        text.extend(PROTOCOLS.iter().map(|(name, proto)| line(name, of(*proto))));
        // As in Open vSwitch, connections of ICMPv6 count only in the total.
        let named =
            [ipproto::TCP, ipproto::ICMPV6].into_iter().chain(PROTOCOLS.iter().map(|(_, proto)| *proto));
        text + &line("Other", total - named.map(of).sum::<usize>())
    }
}

pub(crate) fn buckets(switch: &Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let (threshold, args) = match args {
        [before @ .., last] => match last.strip_prefix("gt=").and_then(leading_number::<usize>) {
            Some(n) => (n, before),
            None => (0, args),
        },
        [] => (0, args),
    };
    let (backer, _) = select_datapath(switch, call, args, 1)?;
    call.text += &buckets_text(&backer.datapath.conntrack().shard_lens(), threshold);
    Ok(())
}

fn buckets_text(lens: &[usize], threshold: usize) -> String {
    let total: usize = lens.iter().sum();
    let mut text = format!("Total Buckets: {}\nCurrent Connections: {total}\n\n", lens.len());
    if total == 0 {
        return text;
    }
    let rule = "+-----------+-----------------------------------------+\n";
    text += rule;
    text += "|  Buckets  |         Connections per Buckets         |\n";
    text += rule.trim_end();
    for (i, line) in lens.chunks(SHARDS_PER_LINE).enumerate() {
        let first = i * SHARDS_PER_LINE;
        let _ = write!(text, "\n {first:3}..{:3}   | ", first + SHARDS_PER_LINE - 1);
        for n in line {
            match *n > threshold {
                true => _ = write!(text, "{n:5}"),
                false => _ = write!(text, "{:>5}", "."),
            }
        }
    }
    text + "\n\n"
}

pub(crate) fn set_max(switch: &Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let (backer, _) = select_datapath(switch, call, args, 2)?;
    let max = args.last().and_then(|arg| leading_number(arg));
    let max = max.ok_or_else(|| call.error("maxconns missing or malformed", Some(EINVAL)))?;
    backer.datapath.conntrack().set_max(max);
    call.text += "setting maxconns successful";
    Ok(())
}

pub(crate) fn get_max(switch: &Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let (backer, _) = select_datapath(switch, call, args, 1)?;
    call.text += &format!("{}\n", backer.datapath.conntrack().max());
    Ok(())
}

pub(crate) fn count(switch: &Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let (backer, _) = select_datapath(switch, call, args, 1)?;
    call.text += &format!("{}\n", backer.datapath.conntrack().count());
    Ok(())
}

pub(crate) fn set_strict(
    switch: &Switch,
    call: &mut Call,
    args: &[String],
    strict: bool,
) -> Result<(), Failed> {
    let (backer, _) = select_datapath(switch, call, args, 2)?;
    backer.datapath.conntrack().set_strict(strict);
    call.text += match strict {
        true => "enabling TCP sequence checking successful",
        false => "disabling TCP sequence checking successful",
    };
    Ok(())
}

pub(crate) fn get_strict(switch: &Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let (backer, _) = select_datapath(switch, call, args, 1)?;
    let state = if backer.datapath.conntrack().is_strict() { "enabled" } else { "disabled" };
    call.text += &format!("TCP sequence checking: {state}\n");
    Ok(())
}

pub(crate) fn set_sweep(switch: &Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let (backer, _) = select_datapath(switch, call, args, 2)?;
    let millis = args.last().and_then(|arg| leading_number(arg)).filter(|n| *n != 0);
    let millis = millis.ok_or_else(|| call.error("invalid sweep value", Some(EINVAL)))?;
    backer.datapath.conntrack().set_sweep_interval(millis);
    call.text += "setting sweep interval successful\n";
    Ok(())
}

pub(crate) fn get_sweep(switch: &Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let (backer, _) = select_datapath(switch, call, args, 1)?;
    call.text += &backer.datapath.conntrack().sweep_interval().to_string();
    Ok(())
}

/// A requested limit: the zone (`None`: the default), and the number of connections.
type LimitRequest = (Option<u16>, u32);

fn parse_limits(args: &[String]) -> Result<Vec<LimitRequest>, String> {
    let (default, zones) = match args {
        [] => return Err("too few arguments".to_owned()),
        [first, rest @ ..] => match first.strip_prefix("default=") {
            Some(limit) => (Some(limit.parse().map_err(|_| "invalid default limit")?), rest),
            None => (None, args),
        },
    };
    let default = default.map(|limit| Ok((None, limit)));
    default.into_iter().chain(zones.iter().map(|text| parse_limit(text))).collect()
}

fn parse_limit(text: &str) -> Result<LimitRequest, String> {
    let (mut rest, mut zone, mut limit) = (text, None, None);
    while let Some((key, value)) = next_key_value(&mut rest) {
        let failed = |_| format!("failed to parse field {key}");
        match key {
            _ if value.is_empty() => return Err(format!("field {key} missing value")),
            "zone" => zone = Some(value.parse().map_err(failed)?),
            "limit" => limit = Some(value.parse().map_err(failed)?),
            _ => return Err(format!("invalid zone limit field: {key}")),
        }
    }
    Ok((Some(zone.ok_or("failed to parse zone limit")?), limit.ok_or("failed to parse zone limit")?))
}

/// Parses `zone=N1,N2...`.
fn parse_zones(text: &str) -> Result<Vec<u16>, String> {
    let list = text.strip_prefix("zone=").ok_or_else(|| format!("invalid argument {text}"))?;
    let zones = list.split(',').filter(|zone| !zone.is_empty());
    zones.map(|zone| leading_number(zone).ok_or_else(|| "invalid zone".to_owned())).collect()
}

/// Refuses a command that changes limits if the database has limits.
fn refuse_if_limits_in_database(call: &mut Call, backer: &Backer, verb: &str) -> Result<(), Failed> {
    if !backer.config.has_limits() {
        return Ok(());
    }
    let instead =
        format!("the zone limits are set via database, use 'ovs-vsctl {verb}-zone-limit <...>' instead.");
    Err(call.error(&instead, Some("Operation not permitted")))
}

pub(crate) fn set_limits(switch: &Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let wanted = after_datapath_name(switch, args);
    if wanted.is_empty() {
        return Err(call.error("too few arguments", Some(EINVAL)));
    }
    let (backer, _) = select_datapath(switch, call, args, usize::MAX)?;
    let limits = parse_limits(wanted).map_err(|e| call.error(&e, Some(EINVAL)))?;
    refuse_if_limits_in_database(call, backer, "set")?;
    limits.into_iter().for_each(|(zone, limit)| tracked_connections::set_limit(backer, zone, limit));
    Ok(())
}

pub(crate) fn del_limits(switch: &Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let wanted = after_datapath_name(switch, args);
    if wanted.is_empty() {
        return Err(call.error("too few arguments", Some(EINVAL)));
    }
    let (backer, _) = select_datapath(switch, call, args, 3)?;
    let (default, rest) = match wanted {
        [first, rest @ ..] if first == "default" => (true, rest),
        _ => (false, wanted),
    };
    let zones = rest.first().map_or(Ok(Vec::new()), |text| parse_zones(text));
    let zones = zones.map_err(|e| call.error(&e, Some(EINVAL)))?;
    refuse_if_limits_in_database(call, backer, "del")?;
    let all = default.then_some(None).into_iter().chain(zones.into_iter().map(Some));
    all.for_each(|zone| tracked_connections::remove_limit(backer, zone));
    Ok(())
}

pub(crate) fn get_limits(switch: &Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let (backer, _) = select_datapath(switch, call, args, 2)?;
    let table = backer.datapath.conntrack();
    let limits = match after_datapath_name(switch, args).first() {
        None => table.limits(),
        Some(text) => {
            let zones = parse_zones(text).map_err(|e| call.error(&e, Some(EINVAL)))?;
            let zones = zones.into_iter().map(|zone| table.limit(Some(zone)));
            [table.limit(None)].into_iter().chain(zones).collect()
        }
    };
    call.text += &limits_text(&limits);
    Ok(())
}

fn limits_text(limits: &[ZoneLimit]) -> String {
    let line = |ZoneLimit { zone, limit, count }: &ZoneLimit| match zone {
        None => format!("default limit={limit}\n"),
        Some(zone) => format!("zone={zone},limit={limit},count={count}\n"),
    };
    limits.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_or_refused() {
        let args = |list: &[&str]| parse_limits(&list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>());
        assert_eq!(args(&["default=5", "zone=1,limit=2"]), Ok(vec![(None, 5), (Some(1), 2)]));
        let why = |list: &[&str]| args(list).err();
        assert_eq!(why(&["default=x"]).as_deref(), Some("invalid default limit"));
        assert_eq!(why(&["zone=1"]).as_deref(), Some("failed to parse zone limit"));
        assert_eq!(why(&["zone=70000,limit=1"]).as_deref(), Some("failed to parse field zone"));
        assert_eq!(why(&["zone=,limit=1"]).as_deref(), Some("field zone missing value"));
        assert_eq!(why(&["lane=1"]).as_deref(), Some("invalid zone limit field: lane"));
        assert_eq!(parse_zones("zone=1,,2"), Ok(vec![1, 2]));
        assert_eq!((parse_zones("zone=x").ok(), parse_zones("1").ok()), (None, None));
    }

    #[test]
    fn buckets_as_scripts_read_them() {
        assert_eq!(buckets_text(&[0; 16], 0), "Total Buckets: 16\nCurrent Connections: 0\n\n");
        let text = buckets_text(&[0, 12, 3, 0, 0, 0, 0, 0], 5);
        assert!(text.contains("\n   0..  7   |     .   12    .    .    .    .    .    .\n\n"), "{text}");
    }
}
