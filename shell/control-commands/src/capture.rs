//! `capture/start` and `capture/show`: Sluice's own commands for `sluice capture`.
//!
//! `capture/start NAME=VALUE...` starts a capture and replies with the path of a socket, from which one client reads the packets as pcapng. The
//! capture ends when the client closes the socket (crate `capture`). `capture/show` lists ports and captures.

use crate::dpctl_flows::split_ufid;
use crate::names::DatapathNames;
use capture::{Names, WallClock};
use datapath::capture::{Capture, CaptureSpec};
use dpif::DropReason;
use dpif::text::DpPortNames;
use flow::Match;
use flow::text::NoNames;
use openflow::stats::FlowStatsRequest;
use openflow::text::parse_flow_filter;
use ovsdb::Json;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use switch::{Backer, Switch};
use units::{PortNo, Ufid};
use unixctl::Reply;

/// The number in the name of the next socket.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Maximum and default number of bytes that are kept of a packet.
const SNAPLEN: usize = 1 << 18;
/// Default and maximum number of bytes that wait for the client.
const MEMORY: (usize, usize) = (8 << 20, 256 << 20);

/// The arguments of `capture/start`.
#[derive(Default)]
struct StartArguments {
    datapath: Option<String>,
    ports: Vec<String>,
    sides: Option<String>,
    reason: Option<String>,
    flow: Option<String>,
    megaflow: Option<String>,
    passes: bool,
    snaplen: Option<usize>,
    every: u64,
    rate: u64,
    memory: Option<usize>,
}

impl StartArguments {
    fn parse(args: &[String]) -> Result<StartArguments, String> {
        let mut arguments = StartArguments::default();
        for arg in args {
            let (name, value) =
                arg.split_once('=').ok_or_else(|| format!("{arg}: not of the form NAME=VALUE"))?;
            let text = || Some(value.to_owned());
            let number = || {
                value.parse::<u32>().map_err(|_| format!("{name}: \"{value}\" is not a number below 2^32"))
            };
            match name {
                "datapath" => arguments.datapath = text(),
                "port" => arguments.ports.push(value.to_owned()),
                "sides" => arguments.sides = text(),
                "reason" => arguments.reason = text(),
                "flow" => arguments.flow = text(),
                "megaflow" => arguments.megaflow = text(),
                "passes" => {
                    arguments.passes = match value {
                        "all" => true,
                        "first" => false,
                        _ => return Err(format!("passes: \"{value}\" is neither all nor first")),
                    }
                }
                "snaplen" => arguments.snaplen = Some(number()? as usize),
                "every" => arguments.every = number()?.into(),
                "rate" => arguments.rate = number()?.into(),
                "memory" => arguments.memory = Some(number()? as usize),
                _ => return Err(format!("{name}: not known to capture/start")),
            }
        }
        Ok(arguments)
    }

    /// The datapath of the capture: the named one, else the one that has the ports, else the only one.
    fn backer<'s>(&self, switch: &'s Switch) -> Result<&'s Backer, String> {
        let has_ports = |b: &&Backer| self.ports.iter().all(|port| number_of(b, port).is_some());
        let all = || switch.datapaths.all();
        let names = || all().map(Backer::name).collect::<Vec<_>>().join(", ");
        if let Some(name) = &self.datapath {
            return all()
                .find(|b| b.name() == *name || b.dp_name == *name)
                .ok_or_else(|| format!("{name}: no such datapath (there are: {})", names()));
        }
        if let Some(port) = self.ports.iter().find(|port| all().all(|b| number_of(b, port).is_none())) {
            return Err(format!("{port}: no datapath has such a port"));
        }
        let found: Vec<&Backer> = all().filter(has_ports).collect();
        match found[..] {
            [one] => Ok(one),
            [] if self.ports.is_empty() => Err("there is no datapath".to_owned()),
            [] => Err("the ports are of different datapaths".to_owned()),
            _ => Err(format!("more than one datapath, use datapath=NAME: {}", names())),
        }
    }

    /// The specification of the capture. `number`: returns the number of a port.
    fn spec(&self, number: impl Fn(&str) -> Option<u32>) -> Result<CaptureSpec, String> {
        let (rx, tx, drops) = sides(self.sides.as_deref())?;
        let ports: BTreeSet<u32> = self.ports.iter().filter_map(|port| number(port)).collect();
        let megaflow = match &self.megaflow {
            Some(text) => Some(ufid(text).ok_or_else(|| format!("{text}: not the ufid of a megaflow"))?),
            None => None,
        };
        if megaflow.is_some() && !rx {
            return Err(
                "packets of a megaflow are captured where they are received: sides needs rx".to_owned()
            );
        }
        Ok(CaptureSpec {
            ports,
            rx,
            // The megaflow of a packet is known only when the packet is looked up.
            tx: tx && megaflow.is_none(),
            drops: drops && megaflow.is_none(),
            reasons: reasons(self.reason.as_deref())?,
            filter: self.flow.as_deref().map(filter).transpose()?,
            megaflow,
            passes: self.passes,
            snaplen: self.snaplen.unwrap_or(SNAPLEN).clamp(1, SNAPLEN),
            every: self.every,
            rate: self.rate,
            memory: self.memory.unwrap_or(MEMORY.0).min(MEMORY.1),
        })
    }
}

/// A port by its name, or by its number in the datapath.
fn number_of(backer: &Backer, port: &str) -> Option<u32> {
    let by_number = || port.parse().ok().filter(|no| backer.ports.contains_key(&PortNo(*no)));
    DatapathNames(backer).number(port).map(|no| no.0).or_else(by_number)
}

/// Parses the ufid of a megaflow, with or without the prefix `ufid:`.
fn ufid(text: &str) -> Option<Ufid> {
    let text = if text.starts_with("ufid:") { text.to_owned() } else { format!("ufid:{text}") };
    split_ufid(&text).ok().filter(|(_, rest)| rest.is_empty())?.0
}

/// Parses a list of `rx`, `tx` and `drops`, separated by commas. Without a list, all of them.
fn sides(text: Option<&str>) -> Result<(bool, bool, bool), String> {
    let Some(text) = text else { return Ok((true, true, true)) };
    let mut sides = (false, false, false);
    for side in text.split(',') {
        match side {
            "rx" => sides.0 = true,
            "tx" => sides.1 = true,
            "drops" => sides.2 = true,
            _ => return Err(format!("sides: \"{side}\" is none of rx, tx and drops")),
        }
    }
    Ok(sides)
}

/// The drop reasons whose names contain the text. Empty: all reasons.
fn reasons(part: Option<&str>) -> Result<BTreeSet<DropReason>, String> {
    let Some(part) = part else { return Ok(BTreeSet::new()) };
    let found: BTreeSet<DropReason> =
        DropReason::ALL.iter().copied().filter(|r| r.name().contains(part)).collect();
    if found.is_empty() {
        return Err(format!("{part}: no drop reason has such a name (sluice drops --list prints them)"));
    }
    Ok(found)
}

/// Parses a match in the syntax of flows, which may match only fields of packets.
pub(crate) fn filter(text: &str) -> Result<Match, String> {
    let (request, _) = parse_flow_filter(text, &NoNames).map_err(|e| format!("{text}: {e}"))?;
    let plain = FlowStatsRequest { matching: request.matching, ..FlowStatsRequest::default() };
    if request != plain {
        return Err("packets have no table, cookie, out_port or out_group".to_owned());
    }
    if request.matching.mask.in_port != 0 {
        return Err("name the port by --port, not by in_port".to_owned());
    }
    Ok(request.matching)
}

pub(crate) fn start(switch: &Switch, args: &[String]) -> Result<Reply, String> {
    let arguments = StartArguments::parse(args)?;
    let backer = arguments.backer(switch)?;
    let spec = arguments.spec(|port| number_of(backer, port))?;
    let clock = WallClock::new();
    let capture = Arc::new(Capture::new(spec, Arc::new(move || clock.now())));
    let ports = backer.ports.iter().map(|(no, port)| (no.0, port.name.clone())).collect();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = switch.options.rundir.join(format!("capture.{}.{number}", std::process::id()));
    let names = Names { ports, datapath: backer.name() };
    capture::start(Arc::clone(&backer.datapath), capture, names, &path)
        .map_err(|e| format!("cannot start a capture: {}", runtime::error_text(&e)))?;
    // A sleeping worker sees the new capture in its next iteration.
    Ok(Reply::Json(json!({ "socket": path.display().to_string() })))
}

pub(crate) fn show(switch: &Switch) -> Reply {
    Reply::Json(switch.datapaths.all().map(|b| (b.name(), datapath(b))).collect())
}

fn datapath(backer: &Backer) -> Json {
    let ports: Json =
        backer.ports.iter().map(|(no, port)| (no.0.to_string(), Json::from(port.name.as_str()))).collect();
    let captures: Vec<Json> = backer.datapath.captures().iter().map(|capture| object(capture)).collect();
    json!({ "ports": ports, "captures": captures })
}

fn object(capture: &Capture) -> Json {
    let (spec, n) = (capture.spec(), capture.counts());
    json!({
        "ports": spec.ports, "rx": spec.rx, "tx": spec.tx, "drops": spec.drops,
        "wanted": n.wanted, "kept": n.kept, "sampled-out": n.sampled_out, "over-rate": n.over_rate, "lost": n.lost,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An argument with any name and value, valid or invalid.
    fn value() -> impl Strategy<Value = String> {
        prop_oneof![
            any::<u64>().prop_map(|n| n.to_string()),
            "(rx|tx|drops|,){0,4}",
            "(all|first|mtu|drop|p1|tcp|in_port=1)",
            "(tcp|udp|ip|ipv6|arp|icmp|nw_src=|tp_dst=|ct_state=|,|=|/|\\+|[0-9]|0x[0-9a-f]{1,9}){0,9}",
            "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            ".{0,40}",
        ]
    }

    fn word() -> impl Strategy<Value = String> {
        let name =
            "(datapath|port|sides|reason|flow|megaflow|passes|snaplen|every|rate|memory|[a-z]{0,4})(=|==|)";
        (name, value()).prop_map(|(name, value)| name + &value)
    }

    proptest! {
        /// Every request of a client of the control socket is refused with a text, or is within the limits of a capture.
        #[test]
        fn any_words_are_refused_or_bounded(words in proptest::collection::vec(word(), 0..6)) {
            let found = StartArguments::parse(&words).and_then(|arguments| {
                let spec = arguments.spec(|port| port.parse().ok())?;
                Ok((arguments, spec))
            });
            let (arguments, spec) = match found {
                Ok(found) => found,
                Err(text) => {
                    prop_assert!(!text.is_empty());
                    return Ok(());
                }
            };
            prop_assert!((1..=SNAPLEN).contains(&spec.snaplen) && spec.memory <= MEMORY.1);
            prop_assert!(spec.rx || spec.tx || spec.drops);
            prop_assert!(spec.megaflow.is_none() || (spec.rx && !spec.tx && !spec.drops));
            prop_assert!(spec.every <= u32::MAX.into() && spec.rate <= u32::MAX.into());
            prop_assert_eq!(spec.megaflow.is_some(), arguments.megaflow.is_some());
            prop_assert_eq!(spec.filter.is_some(), arguments.flow.is_some());
            prop_assert!(spec.filter.is_none_or(|filter| filter.mask.in_port == 0));
            prop_assert!(arguments.reason.is_none_or(|part| !spec.reasons.is_empty()
                && spec.reasons.iter().all(|reason| reason.name().contains(&part))));
        }
    }

    #[test]
    fn words() {
        let parse =
            |words: &str| StartArguments::parse(&words.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let arguments = parse("port=p1 port=p2 flow=tcp,tp_dst=80 rate=7").unwrap();
        assert_eq!(
            (arguments.ports.len(), arguments.flow.as_deref(), arguments.rate),
            (2, Some("tcp,tp_dst=80"), 7)
        );
        for wrong in ["p1", "rate=-1", "rate=4294967296", "nosuch=1", "passes=", "passes=every"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(sides(Some("tx,drops")), Ok((false, true, true)));
        assert!(sides(Some("tx,")).is_err());
        assert!(reasons(Some("mtu")).unwrap().contains(&DropReason::TxTooLong));
        assert!(reasons(Some("nosuch")).is_err());
        assert!(filter("tcp,tp_dst=80").is_ok());
        for wrong in ["in_port=1", "table=1", "nosuch", "cookie=1/-1"] {
            assert!(filter(wrong).is_err(), "{wrong}");
        }
    }
}
