//! `capture/start` and `capture/show`: Sluice's own commands for `sluice capture`.
//!
//! `capture/start NAME=VALUE...` starts a capture and replies with the path of the socket from which one client reads it as
//! pcapng; the capture ends with the client (crate `capture`). `capture/show` lists ports and captures.

use crate::dpctl_flows::split_ufid;
use crate::names::DatapathNames;
use capture::{Names, WallClock};
use datapath::capture::{Capture, CaptureSpec};
use dpif::DropReason;
use dpif::text::DpPortNames;
use flow::Match;
use flow::text::NoNames;
use openflow::stats::FlowStatsRequest;
use openflow::text::parse_flow;
use ovsdb::Json;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use switch::{Backer, Switch};
use units::{PortNo, Ufid};
use unixctl::Reply;

/// Numbers the sockets.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Bytes of a packet that are kept if nothing else is asked, and at most.
const SNAPLEN: usize = 1 << 18;
/// Bytes that wait for the client if nothing else is asked, and at most.
const MEMORY: (usize, usize) = (8 << 20, 256 << 20);

/// The words of a call.
#[derive(Default)]
struct Asked {
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

impl Asked {
    fn parse(args: &[String]) -> Result<Asked, String> {
        let mut asked = Asked::default();
        for arg in args {
            let (name, value) =
                arg.split_once('=').ok_or_else(|| format!("{arg}: not of the form NAME=VALUE"))?;
            let text = || Some(value.to_owned());
            let number = || {
                value.parse::<u32>().map_err(|_| format!("{name}: \"{value}\" is not a number below 2^32"))
            };
            match name {
                "datapath" => asked.datapath = text(),
                "port" => asked.ports.push(value.to_owned()),
                "sides" => asked.sides = text(),
                "reason" => asked.reason = text(),
                "flow" => asked.flow = text(),
                "megaflow" => asked.megaflow = text(),
                "passes" => {
                    asked.passes = match value {
                        "all" => true,
                        "first" => false,
                        _ => return Err(format!("passes: \"{value}\" is neither all nor first")),
                    }
                }
                "snaplen" => asked.snaplen = Some(number()? as usize),
                "every" => asked.every = number()?.into(),
                "rate" => asked.rate = number()?.into(),
                "memory" => asked.memory = Some(number()? as usize),
                _ => return Err(format!("{name}: not known to capture/start")),
            }
        }
        Ok(asked)
    }

    /// The datapath that is named, or that has the ports, or the only one.
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
            _ => Err(format!("which datapath? name one of: {}", names())),
        }
    }

    /// What is captured. `number` gives the number of a port.
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
            // Which megaflow a packet hit is known at its look-up only.
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

/// The identifier of a megaflow, with `ufid:` before it or without.
fn ufid(text: &str) -> Option<Ufid> {
    let text = if text.starts_with("ufid:") { text.to_owned() } else { format!("ufid:{text}") };
    split_ufid(&text).ok().filter(|(_, rest)| rest.is_empty())?.0
}

/// `rx`, `tx` and `drops`, separated by commas; all if none is named.
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

/// The reasons whose names contain this; empty: all.
fn reasons(part: Option<&str>) -> Result<BTreeSet<DropReason>, String> {
    let Some(part) = part else { return Ok(BTreeSet::new()) };
    let found: BTreeSet<DropReason> =
        DropReason::ALL.iter().copied().filter(|r| r.name().contains(part)).collect();
    if found.is_empty() {
        return Err(format!("{part}: no drop reason has such a name (sluice drops --list prints them)"));
    }
    Ok(found)
}

/// A match in the syntax of flows, on fields that are in packets.
pub(crate) fn filter(text: &str) -> Result<Match, String> {
    let (request, _) = parse_flow(text, &NoNames).map_err(|e| format!("{text}: {e}"))?;
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
    let asked = Asked::parse(args)?;
    let backer = asked.backer(switch)?;
    let spec = asked.spec(|port| number_of(backer, port))?;
    let clock = WallClock::new();
    let capture = Arc::new(Capture::new(spec, Arc::new(move || clock.now())));
    let ports = backer.ports.iter().map(|(no, port)| (no.0, port.name.clone())).collect();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = switch.options.rundir.join(format!("capture.{}.{number}", std::process::id()));
    let names = Names { ports, datapath: backer.name() };
    capture::start(Arc::clone(&backer.datapath), capture, names, &path)
        .map_err(|e| format!("cannot start a capture: {}", runtime::error_text(&e)))?;
    // A sleeping worker takes notice in its next iteration.
    Ok(Reply::Json(json!({ "socket": path.display().to_string() })))
}

pub(crate) fn show(switch: &Switch) -> Reply {
    Reply::Json(switch.datapaths.all().map(|b| (b.name(), datapath(b))).collect())
}

fn datapath(backer: &Backer) -> Json {
    let ports: Json =
        backer.ports.iter().map(|(no, port)| (no.0.to_string(), Json::from(port.name.as_str()))).collect();
    let captures: Vec<Json> = backer.datapath.captures().iter().map(|capture| one(capture)).collect();
    json!({ "ports": ports, "captures": captures })
}

fn one(capture: &Capture) -> Json {
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

    /// A value of any name, right or wrong.
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
        /// Whatever a client of the control socket asks for is refused with a text, or is within the bounds of a capture.
        #[test]
        fn any_words_are_refused_or_bounded(words in proptest::collection::vec(word(), 0..6)) {
            let found = Asked::parse(&words).and_then(|asked| {
                let spec = asked.spec(|port| port.parse().ok())?;
                Ok((asked, spec))
            });
            let (asked, spec) = match found {
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
            prop_assert_eq!(spec.megaflow.is_some(), asked.megaflow.is_some());
            prop_assert_eq!(spec.filter.is_some(), asked.flow.is_some());
            prop_assert!(spec.filter.is_none_or(|filter| filter.mask.in_port == 0));
            prop_assert!(asked.reason.is_none_or(|part| !spec.reasons.is_empty()
                && spec.reasons.iter().all(|reason| reason.name().contains(&part))));
        }
    }

    #[test]
    fn words() {
        let parse = |words: &str| Asked::parse(&words.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let asked = parse("port=p1 port=p2 flow=tcp,tp_dst=80 rate=7").unwrap();
        assert_eq!((asked.ports.len(), asked.flow.as_deref(), asked.rate), (2, Some("tcp,tp_dst=80"), 7));
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
