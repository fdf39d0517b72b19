//! `dpctl/*-flow*`: shows, adds, changes and removes megaflows.

use crate::dpctl_call::{Call, EINVAL, Failed, select_datapath};
use crate::flow_file;
use crate::names::{DatapathNames, DatapathNumbers};
use datapath::PutError;
use dpif::text::{DpPortNames, NoNames, parse_actions, parse_key};
use dpif::{DpFlow, NoOwner};
use flow::Flow;
use flow::tlv::Layout;
use runtime::Module;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use switch::{Backer, Switch};
use translation::flow_text::{Style, flow_line, stats_text};
use units::{CoreId, Millis, PortNo, Ufid, WorkerId};

static LOG: Module = Module::new("dpif_netdev");

const NOT_FOUND: &str = "No such file or directory";

fn style<'a>(
    call: &Call,
    names: &'a DatapathNames<'a>,
    numbers: &'a DatapathNumbers<'a>,
    now: Millis,
) -> Style<'a> {
    let shown: &dyn DpPortNames = if call.names { names } else { numbers };
    Style { verbose: call.verbose, names: Some(shown), after_ufid: ", ", before_actions: ", dp:ovs", now }
}

/// Filters of `dump-flows`.
#[derive(Default)]
struct Filter<'a> {
    flow: Option<&'a str>,
    types: Option<&'a str>,
    core: Option<CoreId>,
}

/// Parses the filters at the end of the arguments. Returns the filters and the arguments before them.
fn parse_filters(args: &[String]) -> Result<(Filter<'_>, &[String]), Failed> {
    let (mut rest, mut filter) = (args, Filter::default());
    while let [before @ .., last] = rest {
        match last.split_once('=') {
            Some(("filter", text)) if filter.flow.is_none() => filter.flow = Some(text),
            Some(("type", text)) if filter.types.is_none() => filter.types = Some(text),
            Some(("pmd", text)) => {
                let core: i64 = text.parse().map_err(|_| Failed)?;
                filter.core = Some(u32::try_from(core).map_or(CoreId::UNPINNED, CoreId));
            }
            _ => break,
        }
        rest = before;
    }
    Ok((filter, rest))
}

/// Whether a list of flow types includes the flows of the userspace datapath; no flows are offloaded to hardware. The error is the first unknown
/// type.
fn includes_userspace(types: &str) -> Result<bool, &str> {
    let mut is_userspace_listed = false;
    for name in types.split(',').filter(|t| !t.is_empty()) {
        match name {
            "ovs" | "non-offloaded" | "all" => is_userspace_listed = true,
            "tc" | "dpdk" | "offloaded" | "partially-offloaded" => {}
            _ => return Err(name),
        }
    }
    Ok(is_userspace_listed)
}

pub(crate) fn dump(switch: &Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let (filter, rest) = parse_filters(args)?;
    let (backer, _) = select_datapath(switch, call, rest, 1)?;
    let names = DatapathNames(backer);
    let wanted =
        filter.flow.map(|text| flow::text::parse_exact_flow(text, &names, &Layout::EMPTY)).transpose();
    let wanted = wanted.map_err(|e| call.error(&format!("Failed to parse filter ({e})"), None))?;
    let is_userspace_listed = filter.types.map_or(Ok(true), includes_userspace);
    let is_userspace_listed = is_userspace_listed
        .map_err(|name| call.error(&format!("Failed to parse type ({name})"), Some(EINVAL)))?;
    let now = switch.clock.now();
    for (core, flows) in by_core(backer, now) {
        let mut flows = flows;
        flows.retain(|f| wanted.as_ref().is_none_or(|w| matches_filter(f, w)));
        if flows.is_empty() || filter.core.is_some_and(|c| c != core) {
            continue;
        }
        if filter.core.is_none() && is_userspace_listed {
            call.text += &match core {
                CoreId::UNPINNED => "flow-dump from the main thread:\n".to_owned(),
                CoreId(core) => format!("flow-dump from pmd on cpu core: {core}\n"),
            };
        }
        if is_userspace_listed {
            let lines: String = flows
                .iter()
                .map(|f| flow_line(f, style(call, &names, &DatapathNumbers(backer), now)) + "\n")
                .collect();
            call.text += &lines;
        }
    }
    Ok(())
}

/// The flows of each core, with the counters of that core. The flows of workers without a core (kernel ports, the control half) come first.
fn by_core(backer: &Backer, now: Millis) -> Vec<(CoreId, Vec<DpFlow>)> {
    let infos = backer.workers.infos();
    let core_of = |worker: Option<WorkerId>| {
        let info = infos.iter().find(|p| Some(p.id) == worker);
        info.map_or(CoreId::UNPINNED, |p| p.core)
    };
    backer.datapath.maintain(now);
    let mut all: Vec<(CoreId, Vec<DpFlow>)> = vec![(CoreId::UNPINNED, Vec::new())];
    // The index of each flow in the list of its core.
    let mut indices: HashMap<(CoreId, Ufid), usize> = HashMap::new();
    let counted = backer.datapath.flow_dump_by_worker(poll_threads::KERNEL_WORKER, now);
    // A flow that was added by a command is shown for all workers, even if it has counted no packets.
    let is_added_by_command = |flow: &&DpFlow| flow.created.is_none();
    let added_by_command: Vec<DpFlow> = infos
        .iter()
        .flat_map(|info| {
            let uncounted =
                |f: &DpFlow| DpFlow { worker: Some(info.id), stats: Default::default(), ..f.clone() };
            counted.iter().filter(is_added_by_command).map(uncounted).collect::<Vec<_>>()
        })
        .collect();
    for flow in added_by_command.into_iter().chain(counted) {
        let core = core_of(flow.worker);
        let at = all.iter().position(|(c, _)| *c == core).unwrap_or_else(|| {
            all.push((core, Vec::new()));
            all.len() - 1
        });
        let (_, flows) = &mut all[at];
        match indices.get(&(core, flow.ufid)).and_then(|i| flows.get_mut(*i)) {
            Some(same) => same.stats.add(&flow.stats),
            None => {
                indices.insert((core, flow.ufid), flows.len());
                flows.push(flow);
            }
        }
    }
    all
}

/// Whether the filter and the flow agree in all bits that both of them match.
fn matches_filter(flow: &DpFlow, (wanted, mask): &(Flow, Flow)) -> bool {
    let bits = flow.mask.words().iter().zip(mask.words()).map(|(a, b)| a & b);
    let differ = flow.key.words().iter().zip(wanted.words()).map(|(a, b)| a ^ b);
    bits.zip(differ).all(|(bits, differ)| bits & differ == 0)
}

/// Splits `ufid:...` from the beginning of a text. The error: the ufid is invalid.
pub(crate) fn split_ufid(text: &str) -> Result<(Option<Ufid>, &str), ()> {
    let Some(after) = text.strip_prefix("ufid:") else { return Ok((None, text)) };
    let (ufid, rest) = after.split_at_checked(36).ok_or(())?;
    let uuid = ovsdb::json::parse_uuid(ufid).ok_or(())?;
    let digits: String = uuid.to_string().chars().filter(char::is_ascii_hexdigit).collect();
    Ok((Some(Ufid(u128::from_str_radix(&digits, 16).map_err(|_| ())?)), rest))
}

pub(crate) fn put(switch: &Switch, call: &mut Call, args: &[String], modify: bool) -> Result<(), Failed> {
    let (backer, _) = select_datapath(switch, call, args, 3)?;
    let [.., flow, actions] = args else { return Err(call.error("datapath not found", Some(EINVAL))) };
    let (ufid, flow) = split_ufid(flow).map_err(|()| call.error("parsing flow ufid", Some(EINVAL)))?;
    let names = DatapathNames(backer);
    let parsed = parse_key(flow, &names);
    let (key, mask) = parsed.map_err(|e| call.error(&format!("parsing flow key ({e})"), Some(EINVAL)))?;
    let actions = parse_actions(actions, &NoNames);
    let actions: Arc<[_]> = actions.map_err(|_| call.error("parsing actions", Some(EINVAL)))?.into();
    let (datapath, now) = (&backer.datapath, switch.clock.now());
    let flow_ufid = ufid.unwrap_or_else(|| datapath.ufid(&key, &mask));
    let modified = modify
        && datapath.flow_modify(flow_ufid, Arc::clone(&actions), Some((Arc::new(NoOwner), 0)), now).is_ok();
    // Every flow of a userspace datapath must match its input port; an existing flow can be named by its
    // ufid alone.
    if !modified && PortNo(key.in_port) == PortNo::NONE {
        runtime::err!(LOG, "failed to put flow: in_port is not an exact match");
        return Err(call.error("updating flow table", Some("Invalid argument")));
    }
    let result = match modified {
        true => Ok(flow_ufid),
        false if modify && !call.may_create => Err(PutError::NotFound),
        false => datapath.flow_put(&key, &mask, actions, Arc::new(NoOwner)),
    };
    let now = switch.clock.now();
    match result {
        Ok(ufid) => {
            if call.statistics
                && let Some(flow) = datapath.flow_get(ufid, now)
            {
                call.text += &(stats_text(&flow.stats, now) + "\n");
            }
            Ok(())
        }
        Err(e) => {
            let why = match e {
                PutError::Exists => "File exists",
                PutError::NotFound => NOT_FOUND,
                PutError::LimitReached => "File too large",
            };
            Err(call.error("updating flow table", Some(why)))
        }
    }
}

pub(crate) fn get(switch: &Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let (backer, _) = select_datapath(switch, call, args, 2)?;
    let text = args.last().map(String::as_str).unwrap_or_default();
    // An invalid ufid is reported without failing, as in ovs-appctl.
    let ufid = match split_ufid(text) {
        Ok((Some(ufid), _)) => ufid,
        Ok((None, _)) => {
            call.error("parsing flow ufid", None);
            return Ok(());
        }
        Err(()) => {
            call.error("parsing flow ufid", Some(EINVAL));
            return Ok(());
        }
    };
    let now = switch.clock.now();
    let flow = backer.datapath.flow_get(ufid, now);
    let flow = flow.ok_or_else(|| call.error("getting flow", Some(NOT_FOUND)))?;
    let names = DatapathNames(backer);
    let line = flow_line(&flow, style(call, &names, &DatapathNumbers(backer), now));
    call.text += &(line + "\n");
    Ok(())
}

pub(crate) fn del(switch: &Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let (backer, _) = select_datapath(switch, call, args, 2)?;
    let text = args.last().map(String::as_str).unwrap_or_default();
    let (given, text) = split_ufid(text).map_err(|()| call.error("parsing flow ufid", Some(EINVAL)))?;
    let parsed = parse_key(text, &DatapathNames(backer));
    let (key, mask) = match (parsed, given) {
        (Ok(parsed), _) => parsed,
        (Err(_), Some(_)) if text.trim().is_empty() => (Flow::ZERO, Flow::ZERO),
        (Err(e), _) => return Err(call.error(&e.to_string(), Some(EINVAL))),
    };
    let ufid = given.unwrap_or_else(|| backer.datapath.ufid(&key, &mask));
    let now = switch.clock.now();
    let Some(flow) = backer.datapath.flow_del(ufid, now) else {
        call.error("deleting flow", Some(NOT_FOUND));
        if given.is_none() {
            call.text += "Perhaps you need to specify a UFID?\n";
        }
        return Err(Failed);
    };
    if call.statistics {
        call.text += &(stats_text(&flow.stats, now) + "\n");
    }
    Ok(())
}

/// The operation of a line in a flow file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileOp {
    /// Add the flow.
    Add,
    /// Replace the actions of the flow.
    Modify,
    /// Remove the flow.
    Delete,
}

/// A line of a flow file: `[add|modify|delete] FLOW [ACTIONS]`. A comment begins with `#`, at the beginning of the line or after the flow.
#[derive(Debug, PartialEq, Eq)]
enum FileLine<'a> {
    /// The line is empty, or a comment only.
    Empty,
    /// The line lacks a part that the operation needs, or has a part too many.
    Malformed,
    /// An operation, its flow, and its actions (empty for `Delete`).
    Operation(FileOp, &'a str, &'a str),
}

/// Parses a line of a flow file. `default`: the operation of a line that names none.
fn file_line(line: &str, default: FileOp) -> FileLine<'_> {
    let line = line.split('#').next().unwrap_or_default().trim();
    if line.is_empty() {
        return FileLine::Empty;
    }
    let words = [("add", FileOp::Add), ("modify", FileOp::Modify), ("delete", FileOp::Delete)];
    let word_len = |text: &str| text.find(char::is_whitespace).unwrap_or(text.len());
    let operation = words.iter().find(|(name, _)| *name == &line[..word_len(line)]);
    let (op, rest) = operation.map_or((default, line), |(name, op)| (*op, line[name.len()..].trim_start()));
    let (flow, actions) = rest.split_at(flow_len(rest));
    match (op, flow, actions.trim_start()) {
        (FileOp::Delete, flow, "") if !flow.is_empty() => FileLine::Operation(op, flow, ""),
        (FileOp::Delete, ..) | (_, _, "") => FileLine::Malformed,
        (op, flow, actions) => FileLine::Operation(op, flow, actions),
    }
}

/// Length of the flow at the beginning of a text: one word, or two words in the format of `dump-flows`, which has a blank after `ufid:...,`.
fn flow_len(text: &str) -> usize {
    let word_len = text.find(char::is_whitespace).unwrap_or(text.len());
    if text.starts_with("ufid:") && text[..word_len].ends_with(',') {
        let rest = &text[word_len..];
        let key = rest.trim_start();
        let blanks = rest.len() - key.len();
        return word_len + blanks + key.find(char::is_whitespace).unwrap_or(key.len());
    }
    word_len
}

/// Carries out the operations of a flow file. As in Open vSwitch, lines that fail are reported and skipped, and the command succeeds.
pub(crate) fn from_file(
    switch: &Switch,
    call: &mut Call,
    args: &[String],
    default: FileOp,
) -> Result<(), Failed> {
    let (backer, _) = select_datapath(switch, call, args, 2)?;
    let dp = backer.name();
    let path = args.last().map(String::as_str).unwrap_or_default();
    let text = match flow_file::read(Path::new(path)) {
        Ok(text) => text,
        Err(e) => {
            call.error(&format!("Opening file \"{path}\" failed"), Some(&runtime::error_text(&e)));
            return Ok(());
        }
    };
    for (number, line) in text.lines().enumerate() {
        // The text of a failure is already in the output.
        let _ = match file_line(line, default) {
            FileLine::Empty => Ok(()),
            FileLine::Malformed => {
                Err(call.error(&format!("Failed parsing line number {}, skipped!", number + 1), None))
            }
            FileLine::Operation(FileOp::Delete, flow, _) => del(switch, call, &[dp.clone(), flow.to_owned()]),
            FileLine::Operation(op, flow, actions) => {
                let args = [dp.clone(), flow.to_owned(), actions.to_owned()];
                put(switch, call, &args, op == FileOp::Modify)
            }
        };
    }
    Ok(())
}

pub(crate) fn flush(switch: &Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let (backer, _) = select_datapath(switch, call, args, 1)?;
    backer.datapath.flow_flush(switch.clock.now());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_at_the_end() {
        let args: Vec<String> = ["dp", "filter=tcp", "pmd=-1"].iter().map(|s| (*s).to_owned()).collect();
        let (filter, rest) = parse_filters(&args).unwrap_or_else(|e| panic!("{e:?}"));
        assert_eq!((filter.flow, filter.core, rest.len()), (Some("tcp"), Some(CoreId::UNPINNED), 1));
        assert!(parse_filters(&["pmd=x".to_owned()]).is_err());
    }

    #[test]
    fn lines_of_a_file() {
        use FileLine::{Empty, Malformed, Operation};
        let add = |line| file_line(line, FileOp::Add);
        assert_eq!(add("in_port(1),eth() 2, 3"), Operation(FileOp::Add, "in_port(1),eth()", "2, 3"));
        assert_eq!(add("delete in_port(1) # gone"), Operation(FileOp::Delete, "in_port(1)", ""));
        let listed = Operation(FileOp::Modify, "ufid:1, in_port(1)", "drop");
        assert_eq!(add("modify ufid:1, in_port(1) drop"), listed);
        assert_eq!(add("  # nothing"), Empty);
        assert_eq!(add("in_port(1)"), Malformed);
        assert_eq!(add("delete"), Malformed);
        assert_eq!(file_line("in_port(1) 2", FileOp::Delete), Malformed);
    }

    #[test]
    fn types_of_flows() {
        assert_eq!(includes_userspace("tc,ovs"), Ok(true));
        assert_eq!(includes_userspace("offloaded"), Ok(false));
        assert_eq!(includes_userspace("ovs,foo"), Err("foo"));
    }

    #[test]
    fn identifiers_are_in_front() {
        let text = "ufid:c2975cb9-bc49-4970-8162-a78c7c37bdeb in_port(1)";
        let (ufid, rest) = split_ufid(text).unwrap_or_else(|()| panic!("no ufid"));
        assert_eq!(ufid.map(|u| format!("ufid:{u}{rest}")).as_deref(), Some(text));
        assert!(split_ufid("ufid:1").is_err());
        assert_eq!(split_ufid("in_port(1)"), Ok((None, "in_port(1)")));
    }
}
