//! `sluice why`: explains in sentences where the packets of a flow go.
//!
//! Packets of both directions are captured for a short time. The first packet of each direction is traced through the current
//! tables (`ofproto/why`). The megaflow of the first packet is read twice, and recent drops of packets of the flow are read.
//!
//! * [`subject`][]: the flow that the user has given, and its opposite direction.
//! * [`watch`][]: captures.
//! * [`mod@facts`][]: the facts that were read from the switch.
//! * [`sentences`], [`conclusion`], [`mod@explain`][]: sentences about each fact, the conclusion, and both together.
//! * [`removed`]: ports that were removed recently.

mod conclusion;
mod explain;
mod facts;
mod removed;
mod sentences;
mod subject;
mod watch;
mod wording;

use crate::appctl::{ControlSession, Failure, report_failure};
use crate::call::Call;
use crate::common;
use crate::getopt::{Opt, Parsed, Takes, opt};
use crate::page::{Names, Page};
use explain::{Explanation, explain};
use facts::{Facts, Megaflow, new_drops};
use ovsdb::Json;
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;
use subject::Subject;
use watch::{DirectionCapture, FirstPacket, Watch};

const OPTIONS: [Opt; 5] = [
    opt("target", Some('t'), Takes::Value)
        .described("TARGET", "name of the daemon, or absolute path of its socket"),
    opt("port", Some('i'), Takes::Value)
        .described("PORT", "the port that receives the packets; if none comes, one is made from the flow"),
    opt("seconds", Some('s'), Takes::Value).described("N", "how long packets are watched (default: 2)"),
    opt("last-drop", Some('l'), Takes::Nothing)
        .described("", "about the flow of the packet that was dropped last"),
    opt("trace", None, Takes::Nothing).described("", "also prints the trace through the tables"),
];

/// Time between the two samples of a megaflow.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

fn options() -> Vec<Opt> {
    common::options(OPTIONS)
}

/// The names of the tool.
pub const NAMES: Names = Names { tool: "why", other_names: &[] };

/// The help page of the tool.
pub fn page() -> Page {
    Page {
        names: NAMES,
        title: "tells in sentences where the packets of a flow go",
        synopsis: "[OPTION...] {FLOW | PROTOCOL SOURCE[:PORT] DESTINATION[:PORT] | --last-drop [FLOW]}",
        commands: Vec::new(),
        options: options(),
        notes: vec![(
            "What it does",
            "It captures packets of the flow and their answers for two seconds, traces the first one of each direction through the tables, \
             reads its megaflow twice, and looks at its connections, its ports and recent drops. If no packet comes because the sender still asks \
             for a hardware address (ARP, neighbour discovery), it does this with the requests. The last line is the conclusion. Nothing \
             is changed and no packet is sent. FLOW is in the syntax of flows:\n  sluice why tcp,nw_dst=10.0.0.2,tp_dst=80\n  \
             sluice why tcp 10.0.0.1 10.0.0.2:80\n  sluice why arp 10.0.0.1 10.0.0.2\n  sluice why --last-drop"
                .into(),
        )],
    }
}

/// Runs the tool.
pub fn main(call: &Call) -> ExitCode {
    let (parsed, json) = match common::arguments(call, &options(), page) {
        Ok(known) => known,
        Err(code) => return code,
    };
    match run(call, &parsed, json) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report_failure(&call.name, failure),
    }
}

fn run(call: &Call, parsed: &Parsed, json: bool) -> Result<(), Failure> {
    let seconds = match parsed.value("seconds") {
        None => Some(2.0),
        Some(text) => text.parse::<f64>().ok().filter(|n| (0.1..=600.0).contains(n)),
    };
    let seconds = seconds.ok_or_else(|| Failure::Fatal("--seconds takes 0.1 to 600".into()))?;
    let mut session = ControlSession::new(call, parsed.value("target"))?;
    let subject = match parsed.has("last-drop") {
        true => last_drop(&mut session, &parsed.rest)?,
        false => Subject::parse(&parsed.rest).map_err(Failure::Fatal)?,
    };
    let facts = facts(&mut session, &subject, seconds, parsed.value("port"))?;
    let mut explanation = explain(&facts);
    removed::add(&facts, &session.ask_with_args("ofproto/why", &["removed".to_owned()])?, &mut explanation);
    let text = if json {
        format!("{}\n", object(&facts, &explanation))
    } else {
        words(&facts, &explanation, parsed.has("trace"))
    };
    // An error means that the reader has closed the pipe, which is not a failure.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}

/// Recent drops; if `flow` is given, only drops of packets of this flow.
fn recent(session: &mut ControlSession, flow: Option<&str>, most: usize) -> Result<Vec<Json>, Failure> {
    let words: Vec<String> =
        flow.map(|flow| format!("flow={flow}")).into_iter().chain([format!("recent={most}")]).collect();
    let reply = session.ask_with_args("dpif/show-drops", &words)?;
    Ok(reply["recent"].as_array().cloned().unwrap_or_default())
}

/// The flow of the packet that was dropped last: its addresses, protocol and ports.
fn last_drop(session: &mut ControlSession, words: &[String]) -> Result<Subject, Failure> {
    let all = recent(session, words.first().map(String::as_str), 1)?;
    let flow = all.first().and_then(|one| one["flow"].as_str());
    let flow = flow.ok_or_else(|| Failure::Fatal("no such packet was dropped recently".into()))?;
    Subject::parse(&[shared_fields(flow)]).map_err(Failure::Fatal)
}

/// The fields in a flow's text that all packets of the flow share.
fn shared_fields(flow: &str) -> String {
    const SHARED: [&str; 12] = [
        "dl_vlan",
        "dl_src",
        "dl_dst",
        "dl_type",
        "nw_src",
        "nw_dst",
        "ipv6_src",
        "ipv6_dst",
        "nw_proto",
        "tp_src",
        "tp_dst",
        "icmp_type",
    ];
    let is_shared = |field: &&str| match field.split_once('=') {
        None => true,
        Some((name, _)) => SHARED.contains(&name),
    };
    flow.split(',').filter(is_shared).collect::<Vec<_>>().join(",")
}

fn facts(
    session: &mut ControlSession,
    subject: &Subject,
    seconds: f64,
    port: Option<&str>,
) -> Result<Facts, Failure> {
    let requests = subject.requests();
    // It is not known which datapath receives the packets (bridges of different types use different datapaths), so watch all of them.
    let datapaths = session.ask_text_with_args("dpctl/dump-dps", &[])?;
    let datapaths: Vec<String> = datapaths.lines().map(str::to_owned).collect();
    let both = |session: &mut ControlSession, of: &Subject| -> Result<[Watch; 2], Failure> {
        let mut start = |flow: &str| Watch::start(session, &datapaths, flow);
        Ok([start(&of.flow)?, start(&of.answers)?])
    };
    let watched = both(session, subject)?;
    // The number of captures is limited. If the captures of requests fail, the packets themselves are still watched.
    let request_watches = requests.as_ref().and_then(|requests| both(session, &requests.subject).ok());
    sleep(Duration::from_secs_f64(seconds));
    let end = |[there, back]: [Watch; 2]| Ok::<_, Failure>((there.end()?, back.end()?));
    let seen = end(watched)?;
    let request_captures = request_watches.map(end).transpose()?;
    match requests.zip(request_captures) {
        // The sender sends no packets before it knows the hardware address of the next hop.
        Some((requests, asked))
            if seen.0.counts.is_empty() && !asked.0.counts.is_empty() && port.is_none() =>
        {
            let facts = facts_about(session, &requests.subject, seconds, asked, None)?;
            Ok(Facts { flow: subject.flow.clone(), requests: Some(requests), ..facts })
        }
        _ => facts_about(session, subject, seconds, seen, port),
    }
}

/// The facts about packets and their answers; `forward` and `reverse` are the packets that were captured.
fn facts_about(
    session: &mut ControlSession,
    subject: &Subject,
    seconds: f64,
    (forward, reverse): (DirectionCapture, DirectionCapture),
    port: Option<&str>,
) -> Result<Facts, Failure> {
    let mut facts = Facts { flow: subject.flow.clone(), seconds, forward, reverse, ..Facts::default() };
    facts.why_reverse = facts.reverse.first.as_ref().map(|first| why(session, first)).transpose()?;
    match (&facts.forward.first, port) {
        (Some(first), _) => {
            let first = first.clone();
            let before = why(session, &first)?;
            let megaflow = first.megaflow.clone();
            let sampled = megaflow.map(|ufid| samples(session, &first.datapath, ufid));
            facts.megaflow = sampled.transpose()?.flatten();
            if before["tunnels"].as_array().is_some_and(|tunnels| !tunnels.is_empty()) {
                // The captures do not match the packets inside the tunnel, but the drops of the tunnel's ports are counted.
                if facts.megaflow.is_none() {
                    sleep(SAMPLE_INTERVAL);
                }
                facts.outer_drops = new_drops(&before["outputs"], &why(session, &first)?["outputs"]);
            }
            facts.why_forward = Some(before);
        }
        (None, Some(port)) => {
            let words = [format!("port={port}"), format!("flow={}", subject.flow)];
            facts.why_forward = Some(session.ask_with_args("ofproto/why", &words)?);
            facts.is_synthetic = true;
        }
        (None, None) => {}
    }
    facts.recent = recent(session, Some(&subject.flow), 3)?;
    facts.recent_reverse = recent(session, Some(&subject.answers), 3)?;
    Ok(facts)
}

fn why(session: &mut ControlSession, first: &FirstPacket) -> Result<Json, Failure> {
    let hex: String = first.bytes.iter().map(|b| format!("{b:02x}")).collect();
    session.ask_with_args("ofproto/why", &[format!("port={}", first.port), format!("packet={hex}")])
}

/// Reads a megaflow twice. `None`: the megaflow no longer exists at the first reading.
fn samples(session: &mut ControlSession, datapath: &str, ufid: String) -> Result<Option<Megaflow>, Failure> {
    let Some((before, actions)) = read_megaflow(session, datapath, &ufid)? else { return Ok(None) };
    sleep(SAMPLE_INTERVAL);
    let after = read_megaflow(session, datapath, &ufid)?.map(|(n, _)| n);
    Ok(Some(Megaflow { ufid, actions, before, after }))
}

/// Packets and actions of a megaflow, from `dpctl/get-flow`.
fn read_megaflow(
    session: &mut ControlSession,
    datapath: &str,
    ufid: &str,
) -> Result<Option<(u64, String)>, Failure> {
    match session.ask_text_with_args("dpctl/get-flow", &[datapath.to_owned(), format!("ufid:{ufid}")]) {
        Ok(line) => Ok(parse_megaflow(&line)),
        Err(Failure::Refused(..)) => Ok(None),
        Err(other) => Err(other),
    }
}

fn parse_megaflow(line: &str) -> Option<(u64, String)> {
    let number = line.split("packets:").nth(1)?.split(',').next()?.parse().ok()?;
    Some((number, line.split("actions:").nth(1)?.trim().to_owned()))
}

fn words(facts: &Facts, explanation: &Explanation, trace: bool) -> String {
    let mut out = format!("{}\n", facts.flow);
    explanation.sentences.iter().for_each(|line| out += &format!("  {line}\n"));
    if trace {
        for why in [&facts.why_forward, &facts.why_reverse].into_iter().flatten() {
            out += &format!("\n{}\n", why["trace"].as_str().unwrap_or("").trim_end());
        }
    }
    out + &format!("\n{}\n", explanation.conclusion)
}

fn object(facts: &Facts, explanation: &Explanation) -> Json {
    let megaflow = facts.megaflow.as_ref().map(|m| {
        json!({ "ufid": m.ufid, "actions": m.actions, "packets-before": m.before, "packets-after": m.after })
    });
    json!({
        "flow": facts.flow,
        "requests": facts.requests.as_ref().map(|requests| &requests.subject.flow),
        "seconds": facts.seconds,
        "packets": facts.forward.object(),
        "answers": facts.reverse.object(),
        "tables": facts.why_forward,
        "tables-of-answers": facts.why_reverse,
        "synthetic": facts.is_synthetic,
        "megaflow": megaflow,
        "drops-behind-tunnel": facts.outer_drops.iter().map(|(port, reason, n)| {
            json!({ "port": port, "reason": reason, "packets": n })
        }).collect::<Vec<_>>(),
        "recent-drops": facts.recent,
        "sentences": explanation.sentences,
        "conclusion": explanation.conclusion,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_switch_are_read() {
        let line = "ufid:1, recirc_id(0),in_port(2), packets:12, bytes:98, used:1.2s, actions:3,4\n";
        assert_eq!(parse_megaflow(line), Some((12, "3,4".to_owned())));
        assert_eq!(parse_megaflow("nothing"), None);
        let flow = "icmp,in_port=1,vlan_tci=0x0000,dl_src=02:00:00:00:00:01,nw_src=10.1.1.1,nw_tos=32,nw_ttl=64,icmp_type=8,icmp_code=0";
        assert_eq!(shared_fields(flow), "icmp,dl_src=02:00:00:00:00:01,nw_src=10.1.1.1,icmp_type=8");
    }
}
