//! The options of the command line.

use super::fail::{Fail, fail};
use crate::call::Call;
use crate::getopt::{self, LOGGING, Opt, Order, Parsed, Takes, opt};
use crate::remote::{TLS, TlsOptions};
use crate::{color, common};
use flow::FieldId;
use openflow::packet_io::PacketInFormat;
use openflow::text::Protocols;
use openflow::{Version, VersionSet};
use runtime::Dirs;
use std::io::IsTerminal;

const OPTIONS: [Opt; 20] = [
    opt("timeout", Some('t'), Takes::Value).described("SECS", "gives up after SECS seconds"),
    opt("strict", None, Takes::Nothing)
        .described("", "changes and deletes only the flow with exactly this match and priority"),
    opt("readd", None, Takes::Nothing).described("", "replace-flows also adds flows that already exist"),
    opt("flow-format", Some('F'), Takes::Value).described("LIST", "flow formats to use"),
    opt("packet-in-format", Some('P'), Takes::Value)
        .described("FORMAT", "form of packet-ins of monitor: standard, nxt_packet_in, nxt_packet_in2"),
    opt("more", Some('m'), Takes::Nothing).described("", "prints more"),
    opt("timestamp", None, Takes::Nothing).described("", "monitor and snoop print the time of each message"),
    opt("sort", None, Takes::Maybe).described("FIELD", "sorts flows by a field, or by priority"),
    opt("rsort", None, Takes::Maybe).described("FIELD", "like --sort, in descending order"),
    opt("names", None, Takes::Nothing).described("", "prints ports by name"),
    opt("no-names", None, Takes::Nothing).described("", "prints ports by number"),
    opt("stats", None, Takes::Nothing).described("", "dump-flows with counters (default)"),
    opt("no-stats", None, Takes::Nothing).described("", "dump-flows without counters"),
    opt("help", Some('h'), Takes::Nothing).described("", "prints this text"),
    opt("bundle", None, Takes::Nothing).described("", "changes flows in one step, all or none"),
    opt("color", None, Takes::Maybe).described(
        "WHEN",
        "dump-flows in colours: always, never or auto (default: auto; NO_COLOR is obeyed)",
    ),
    opt("may-create", None, Takes::Nothing).described("", "mod-group adds missing groups"),
    opt("read-only", None, Takes::Nothing).described("", "refuses commands that change something"),
    opt("version", Some('V'), Takes::Nothing).described("", "prints the version"),
    opt("protocols", Some('O'), Takes::Value)
        .described("LIST", "OpenFlow versions to speak, such as OpenFlow13 (default: OpenFlow10)"),
];

/// All options. The options for JSON do not exist if the tool is called as `ovs-ofctl` (`compat`).
pub fn all(compat: bool) -> Vec<Opt> {
    let json = common::FORMAT.into_iter().filter(|_| !compat);
    OPTIONS.into_iter().chain(json).chain(TLS).chain(LOGGING).collect()
}

/// A sort criterion of a dump.
#[derive(Clone, Copy, Debug)]
pub struct Criterion {
    /// The field to sort by; `None`: the priority.
    pub field: Option<FieldId>,
    /// Whether the largest value comes first.
    pub descending: bool,
}

/// The parsed options.
#[derive(Debug)]
pub struct Settings {
    /// `-F`, `--flow-format`: allowed flow formats.
    pub flow_formats: Protocols,
    /// `-O`, `--protocols`: allowed OpenFlow versions.
    pub versions: VersionSet,
    /// `--json`
    pub json: bool,
    /// `--strict`
    pub strict: bool,
    /// `--readd`
    pub readd: bool,
    /// `--bundle`
    pub bundle: bool,
    /// `--may-create`
    pub may_create: bool,
    /// `--read-only`
    pub read_only: bool,
    /// `--names`, `--no-names`; `None`: names if the output is a terminal.
    pub names: Option<bool>,
    /// `--stats`
    pub stats: bool,
    /// Number of times that `-m` is given.
    pub verbosity: u8,
    /// `--timestamp`
    pub timestamp: bool,
    /// `-P`
    pub packet_in_format: Option<PacketInFormat>,
    /// `--color`
    pub color: bool,
    /// `--sort`, `--rsort`
    pub criteria: Vec<Criterion>,
    /// `--timeout`, in seconds.
    pub timeout: Option<u32>,
}

/// Parses the command line.
pub fn parse(call: &Call) -> Result<Parsed, String> {
    getopt::parse(&all(call.compat), Order::Anywhere, &call.args)
}

/// Values of `--color`; an empty value means `auto`.
const COLOR: [&str; 10] = ["", "always", "yes", "force", "never", "no", "none", "auto", "tty", "if-tty"];

/// Returns the parsed options and the other arguments.
pub fn settings(parsed: Parsed, dirs: &Dirs) -> Result<(Settings, Vec<String>), Fail> {
    let mut s = Settings {
        flow_formats: Protocols::ANY,
        versions: VersionSet::only(Version::V10),
        json: common::wants_json(&parsed).map_err(Fail::Message)?,
        strict: false,
        readd: false,
        bundle: false,
        may_create: false,
        read_only: false,
        names: None,
        stats: true,
        verbosity: 0,
        timestamp: false,
        packet_in_format: None,
        color: crate::color::is_wanted(),
        criteria: Vec::new(),
        timeout: std::env::var("OVS_CTL_TIMEOUT").ok().and_then(|t| t.parse().ok()).filter(|n| *n > 0),
    };
    let mut tls_options = TlsOptions::default();
    for (name, value) in parsed.options {
        let text = value.as_deref().unwrap_or("");
        match name {
            "timeout" => {
                let seconds = text.parse::<u32>().ok().filter(|n| *n > 0);
                let Some(seconds) = seconds else {
                    return fail(format!("value {text} on -t or --timeout is invalid"));
                };
                s.timeout = Some(seconds);
            }
            "json" | "format" => {}
            "strict" => s.strict = true,
            "readd" => s.readd = true,
            "bundle" => s.bundle = true,
            "may-create" => s.may_create = true,
            "read-only" => s.read_only = true,
            "names" => s.names = Some(true),
            "no-names" => s.names = Some(false),
            "stats" => s.stats = true,
            "no-stats" => s.stats = false,
            "more" => s.verbosity = s.verbosity.saturating_add(1),
            "timestamp" => s.timestamp = true,
            "flow-format" => s.flow_formats = Protocols::parse(text).map_err(Fail::Message)?,
            "packet-in-format" => s.packet_in_format = Some(packet_in_format(text)?),
            "sort" | "rsort" => s.criteria.push(criterion(value.as_deref(), name == "rsort")?),
            "protocols" => s.versions = versions(text)?,
            "color" if !COLOR.contains(&text.to_ascii_lowercase().as_str()) => {
                return fail(format!("incorrect value `{text}' for --color"));
            }
            "color" => s.color = is_colored(&text.to_ascii_lowercase()),
            _ if tls_options.handle_option(name, value.as_deref()) => {}
            _ => getopt::log_option(name, value.as_deref(), &dirs.logfile()).map_err(Fail::Message)?,
        }
    }
    tls_options.configure();
    if !s.criteria.is_empty() {
        // Flows that are equal by all criteria are ordered by priority.
        s.criteria.push(Criterion { field: None, descending: true });
    }
    restrict(&mut s)?;
    Ok((s, parsed.rest))
}

/// Removes allowed versions without an allowed flow format, and allowed flow formats without an allowed version. With
/// `--bundle`, OpenFlow 1.4 is used if no allowed version has bundles. Returns an error if nothing is left.
fn restrict(s: &mut Settings) -> Result<(), Fail> {
    if s.bundle && Protocols::OF13_UP.versions().and(s.versions).newest().is_none() {
        s.versions = VersionSet::only(Version::V14);
    }
    let both = s.flow_formats & Protocols::of_versions(s.versions);
    if both.is_empty() {
        let names: Vec<&str> = s.versions.iter().map(Version::name).collect();
        return fail(format!(
            "None of the enabled OpenFlow versions ({}) supports any of the enabled flow formats ({}).  \
             (Use -O to enable additional OpenFlow versions or -F to enable additional flow formats.)",
            names.join(", "),
            s.flow_formats
        ));
    }
    s.flow_formats = both;
    s.versions = both.versions();
    Ok(())
}

fn versions(text: &str) -> Result<VersionSet, Fail> {
    let mut set = VersionSet::default();
    for name in text.split([',', ' ', '\t', '\r', '\n']).filter(|n| !n.is_empty()) {
        match Version::from_name(name) {
            Some(v) => set = set.with(v),
            None => return fail(format!("Unknown OpenFlow version: \"{name}\"")),
        }
    }
    Ok(set)
}

/// Returns whether `--color=WHEN` asks for colours.
fn is_colored(when: &str) -> bool {
    match when {
        "always" | "yes" | "force" => true,
        "never" | "no" | "none" => false,
        _ => color::is_allowed() && std::io::stdout().is_terminal(),
    }
}

fn packet_in_format(text: &str) -> Result<PacketInFormat, Fail> {
    match text {
        "standard" | "openflow10" => Ok(PacketInFormat::Standard),
        "nxt_packet_in" | "nxm" => Ok(PacketInFormat::Nxt),
        "nxt_packet_in2" => Ok(PacketInFormat::Nxt2),
        _ => fail(format!("unknown packet-in format `{text}'")),
    }
}

fn criterion(field: Option<&str>, descending: bool) -> Result<Criterion, Fail> {
    let field = match field {
        None => None,
        Some(name) if name.eq_ignore_ascii_case("priority") => None,
        Some(name) => match FieldId::from_name(name) {
            Some(field) => Some(field),
            None => return fail(format!("{name}: unknown field name")),
        },
    };
    Ok(Criterion { field, descending })
}
