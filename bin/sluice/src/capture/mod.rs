//! `sluice capture`: packets of a port, a flow, a drop reason or a megaflow, as text or as pcapng.
//!
//! The command `capture/start` of the daemon starts a capture and returns the path of a socket. The daemon writes pcapng to the socket;
//! this tool copies it to a file or prints it as text. The capture ends when this tool closes the socket.
//!
//! * [`control`]: requests to the daemon.
//! * [`stream`]: copies from the socket to the output.
//! * [`sink`]: the output: a file, a pipe or a terminal.
//! * [`lines`]: packets as text.
//! * [`extcap`]: the interface to Wireshark.

mod control;
mod extcap;
mod lines;
mod sink;
mod stream;

use crate::appctl::{Failure, report_failure};
use crate::call::Call;
use crate::common;
use crate::getopt::{Opt, Parsed, Takes, opt};
use crate::page::{Names, Page};
use control::{ports, session};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;
use stream::Output;

const OPTIONS: [Opt; 16] = [
    opt("target", Some('t'), Takes::Value)
        .described("TARGET", "name of the daemon, or absolute path of its socket"),
    opt("port", Some('i'), Takes::Value)
        .described("PORT", "packets of this port; more than once: of each of these ports"),
    opt("datapath", None, Takes::Value)
        .described("NAME", "the datapath; needed if there are several and no --port is given"),
    opt("rx", None, Takes::Nothing).described("", "packets that ports receive"),
    opt("tx", None, Takes::Nothing).described("", "packets that ports send"),
    opt("drops", None, Takes::Nothing)
        .described("", "packets that are dropped; without --rx, --tx and --drops: all three"),
    opt("reason", None, Takes::Value)
        .described("PART", "drops for reasons whose name contains PART, as in \"mtu\"; implies --drops"),
    opt("megaflow", None, Takes::Value)
        .described("UFID", "packets that hit this megaflow (dpctl/dump-flows -m); implies --rx"),
    opt("passes", None, Takes::Nothing).described("", "also later passes of packets that are recirculated"),
    opt("write", Some('w'), Takes::Value)
        .described("FILE", "writes pcapng to FILE; to standard output if FILE is -"),
    opt("count", Some('c'), Takes::Value).described("N", "ends after N packets"),
    opt("snaplen", Some('s'), Takes::Value)
        .described("BYTES", "bytes of each packet that are kept (default: all)"),
    opt("every", None, Takes::Value).described("N", "keeps one of N packets"),
    opt("rate", None, Takes::Value)
        .described("N", "keeps at most N packets in a second (default: 100000; 0: no limit)"),
    opt("memory", None, Takes::Value)
        .described("MIB", "memory of the switch for packets that wait (default: 8, at most 256)"),
    opt("interfaces", Some('D'), Takes::Nothing).described("", "lists the ports"),
];

fn options() -> Vec<Opt> {
    OPTIONS.into_iter().chain(extcap::OPTIONS).chain(common::INFORMATIVE).collect()
}

/// The names of the tool; Wireshark looks for the second one in its folder of external captures.
pub const NAMES: Names = Names { tool: "capture", other_names: &["sluice-extcap"] };

/// The help page of the tool.
pub fn page() -> Page {
    Page {
        names: NAMES,
        title: "captures packets at ports, at both sides of the switch, and dropped packets",
        synopsis: "[-i PORT]... [--rx] [--tx] [--drops] [-w FILE] [OPTION...] [FLOW]",
        commands: Vec::new(),
        options: options(),
        notes: vec![
            (
                "What is captured",
                "FLOW selects packets in the syntax of flows, as in tcp,tp_dst=80. A received packet is captured once it was looked up, \
                 with its megaflow, before its actions; a packet that its port's policer drops is captured as a drop. A sent \
                 packet is captured before the device gets it; if the device refuses it, a drop follows (one for each burst). Without -w \
                 the packets are printed, one line each. In pcapng each port is an interface, the direction is in the flags of the \
                 packet, and its comment has what the switch knows: side, reason of the drop, recirculation id, hash, megaflow."
                    .into(),
            ),
            (
                "Cost",
                "Without a capture, packets cost nothing more. A capture costs the captured ports; others, a test for each burst. Packets \
                 wait for this tool in bounded memory: if it is too slow, packets are missing in the capture, and the last line says how \
                 many. The switch is not slowed by a tool that does not read."
                    .into(),
            ),
            (
                "Wireshark",
                "Put a link to this program, named sluice-extcap, into Wireshark's folder of external captures, and the ports appear in its \
                 list of interfaces:\n  ln -s $(which sluice) ~/.local/lib/wireshark/extcap/sluice-extcap\nOr pass packets by a pipe:\n  \
                 sluice capture -i eth1 -w - | wireshark -k -i -"
                    .into(),
            ),
        ],
    }
}

/// Runs the tool.
pub fn main(call: &Call) -> ExitCode {
    let parsed = match common::arguments(call, &options(), page) {
        Ok((parsed, _)) => parsed,
        Err(code) => return code,
    };
    if let Some(word) = parsed.rest.get(1) {
        return common::no_such_argument(call, word);
    }
    let done = match extcap::answer(call, &parsed) {
        Some(done) => done,
        None => run(call, &parsed),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report_failure(&call.name, failure),
    }
}

fn run(call: &Call, parsed: &Parsed) -> Result<(), Failure> {
    let words = start_arguments(parsed).map_err(Failure::Fatal)?;
    let packets_max =
        parsed.value("count").map(|text| number("count", text)).transpose().map_err(Failure::Fatal)?;
    let mut session = session(call, parsed)?;
    if parsed.has("interfaces") {
        ports(&mut session)?.iter().for_each(|port| println!("{port}"));
        return Ok(());
    }
    let fatal = |e: io::Error, what: &str| Failure::Fatal(format!("{what}: {}", runtime::error_text(&e)));
    let stdout = || io::stdout().as_fd().try_clone_to_owned().map_err(|e| fatal(e, "standard output"));
    let output = match parsed.value("fifo").or(parsed.value("write")) {
        Some("-") => Output::blocks(stdout()?),
        Some(path) => Output::blocks(File::create(path).map_err(|e| fatal(e, path))?.into()),
        None => Output::lines(stdout()?),
    };
    let reply = session.ask_with_args("capture/start", &words)?;
    let path = reply["socket"]
        .as_str()
        .ok_or_else(|| Failure::Unexpected("capture/start names no socket".into()))?;
    let summary = stream::copy(path, output, packets_max).map_err(|e| fatal(e, "the capture has ended"))?;
    eprintln!("{summary}");
    Ok(())
}

fn number(name: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("--{name}: \"{text}\" is not a number"))
}

/// The arguments of `capture/start`.
fn start_arguments(parsed: &Parsed) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    for (name, value) in &parsed.options {
        let value = value.as_deref().unwrap_or_default();
        match *name {
            "port" | "datapath" | "reason" | "megaflow" => words.push(format!("{name}={value}")),
            "snaplen" | "every" => words.push(format!("{name}={}", number(name, value)?)),
            // The limit here only prevents an overflow; the daemon limits the value to 256 MiB.
            "memory" => {
                words.push(format!("memory={}", number(name, value)?.saturating_mul(1 << 20).min(1 << 31)))
            }
            "passes" => words.push("passes=all".to_owned()),
            _ => {}
        }
    }
    words.push(format!("rate={}", number("rate", parsed.value("rate").unwrap_or("100000"))?));
    let drops = parsed.has("drops") || parsed.has("reason");
    let rx = parsed.has("rx") || parsed.has("megaflow");
    let sides = [("rx", rx), ("tx", parsed.has("tx")), ("drops", drops)];
    let sides: Vec<&str> = sides.iter().filter(|(_, on)| *on).map(|(side, _)| *side).collect();
    if !sides.is_empty() {
        words.push(format!("sides={}", sides.join(",")));
    }
    words.extend(extcap::start_arguments(parsed));
    let flow = parsed
        .rest
        .first()
        .map(String::as_str)
        .or(parsed.value("extcap-capture-filter"))
        .filter(|f| !f.is_empty());
    words.extend(flow.map(|flow| format!("flow={flow}")));
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::getopt::{Order, parse};

    fn asked(line: &str) -> Result<String, String> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        start_arguments(&parse(&options(), Order::Anywhere, &args)?).map(|words| words.join(" "))
    }

    #[test]
    fn options_become_words() {
        assert_eq!(asked(""), Ok("rate=100000".to_owned()));
        assert_eq!(
            asked("-i p1 -i p2 --tx --reason mtu -s 64 --rate 0 tcp,tp_dst=80").unwrap(),
            "port=p1 port=p2 reason=mtu snaplen=64 rate=0 sides=tx,drops flow=tcp,tp_dst=80"
        );
        assert_eq!(asked("--memory 4 --passes").unwrap(), "memory=4194304 passes=all rate=100000");
        assert!(asked("--every many").is_err());
        assert_eq!(asked("--capture --extcap-interface sluice-drops").unwrap(), "rate=100000 sides=drops");
        assert_eq!(
            asked("--capture --extcap-interface sluice-port-p1 --extcap-capture-filter icmp").unwrap(),
            "rate=100000 port=p1 flow=icmp"
        );
    }
}
