//! Common parts of all tools: `--help`, `--version`, `--json`, and error messages.

use crate::call::Call;
use crate::getopt::{self, Opt, Order, Parsed, Takes, opt};
use crate::page::Page;
use crate::suggest;
use ovsdb::Json;
use runtime::{Clock, Dirs};
use std::io::Write;
use std::process::ExitCode;

/// `--help` and `--version`.
pub const INFORMATIVE: [Opt; 2] = [
    opt("help", Some('h'), Takes::Nothing).described("", "prints this text"),
    opt("version", Some('V'), Takes::Nothing).described("", "prints the version"),
];
/// The output format, in tools whose default format is text.
pub const FORMAT: [Opt; 2] =
    [opt("format", Some('f'), Takes::Value).described("FORMAT", "text or json (default: text)"), JSON];
/// The short form of `--format=json`. Tools with an option `--format` of their own add only this.
pub const JSON: Opt = opt("json", None, Takes::Nothing).described("", "the same as --format=json");

/// The options of a tool without a counterpart in Open vSwitch: the options `of_tool`, then the output format, help and version.
pub fn options<const N: usize>(of_tool: [Opt; N]) -> Vec<Opt> {
    of_tool.into_iter().chain(FORMAT).chain(INFORMATIVE).collect()
}

/// Returns whether the options of `FORMAT` select JSON. If several are given, the last one counts.
pub fn wants_json(parsed: &Parsed) -> Result<bool, String> {
    let mut json = false;
    for (name, value) in &parsed.options {
        json = match (*name, value.as_deref()) {
            ("json", _) | ("format", Some("json")) => true,
            ("format", Some("text")) => false,
            ("format", Some(other)) => {
                return Err(format!("unknown output format \"{other}\" (text or json)"));
            }
            _ => json,
        };
    }
    Ok(json)
}

/// The text of `--version`. Under its own name, a tool prints its version and that of the program that it replaces, if any; under a
/// name of Open vSwitch, it prints the version line of that program.
pub fn version(call: &Call, other_names: &[&str]) -> String {
    if call.compat {
        return runtime::version_text(&call.name);
    }
    let own = format!("{} (Sluice) {}", call.name, env!("CARGO_PKG_VERSION"));
    match other_names.first() {
        Some(other) => format!("{own}, as {}", runtime::version_text(other)),
        None => own,
    }
}

/// Handles `--help` and `--version` of a tool without a counterpart in Open vSwitch.
pub fn handle_informative(call: &Call, parsed: &Parsed, page: fn() -> Page) -> Option<ExitCode> {
    let text = if parsed.has("help") {
        page().help(&call.name)
    } else if parsed.has("version") {
        format!("{}\n", version(call, page().names.other_names))
    } else {
        return None;
    };
    print!("{text}");
    Some(ExitCode::SUCCESS)
}

/// Parses the arguments of a tool without a counterpart in Open vSwitch; also returns whether output is JSON. Returns an exit
/// code if the arguments are wrong, or if `--help` or `--version` was given and has been handled.
pub fn arguments(call: &Call, options: &[Opt], page: fn() -> Page) -> Result<(Parsed, bool), ExitCode> {
    let parsed = getopt::parse(options, Order::Anywhere, &call.args);
    let (parsed, json) = parsed
        .and_then(|parsed| wants_json(&parsed).map(|json| (parsed, json)))
        .map_err(|text| refuse(call, &text))?;
    match handle_informative(call, &parsed, page) {
        Some(code) => Err(code),
        None => Ok((parsed, json)),
    }
}

/// Parses the arguments like [`arguments`], for a tool that has options only.
pub fn options_only(call: &Call, options: &[Opt], page: fn() -> Page) -> Result<(Parsed, bool), ExitCode> {
    let (parsed, json) = arguments(call, options, page)?;
    match parsed.rest.first() {
        Some(word) => Err(no_such_argument(call, word)),
        None => Ok((parsed, json)),
    }
}

/// Parses the arguments like [`arguments`], for a tool whose option `--markdown` prints a page of the documentation.
pub fn arguments_or_markdown(
    call: &Call,
    options: &[Opt],
    page: fn() -> Page,
    markdown: fn() -> String,
) -> Result<(Parsed, bool), ExitCode> {
    let (parsed, json) = arguments(call, options, page)?;
    if parsed.has("markdown") {
        print!("{}", markdown());
        return Err(ExitCode::SUCCESS);
    }
    Ok((parsed, json))
}

/// Runs a tool that prints entries of a table. The only argument is a pattern that selects entries; without a pattern all entries are
/// printed. `print` returns the number of selected entries and their text.
pub fn print_matching(call: &Call, parsed: &Parsed, print: impl FnOnce(&str) -> (usize, String)) -> ExitCode {
    if let Some(word) = parsed.rest.get(1) {
        return no_such_argument(call, word);
    }
    let pattern = parsed.rest.first().map_or("", String::as_str);
    let (count, text) = print(pattern);
    // Errors are ignored: usually the reader has closed the pipe, which is not a failure.
    let _ = std::io::stdout().write_all(text.as_bytes());
    match count {
        0 => refuse(call, &format!("nothing matches \"{pattern}\"")),
        _ => ExitCode::SUCCESS,
    }
}

/// The number of entries, and the entries as text or as a JSON array.
pub fn entries<'t, T: 't>(
    found: impl Iterator<Item = &'t T>,
    json: bool,
    as_json: impl Fn(&T) -> Json,
    as_text: impl Fn(&T) -> String,
) -> (usize, String) {
    let found: Vec<&T> = found.collect();
    let text = match json {
        true => format!("{}\n", Json::Array(found.iter().map(|e| as_json(e)).collect())),
        false => found.iter().map(|e| as_text(e)).collect::<Vec<_>>().join("\n"),
    };
    (found.len(), text)
}

/// Prints an error, and returns the exit status of a failure.
pub fn refuse(call: &Call, text: &str) -> ExitCode {
    eprintln!("{}: {text}", call.name);
    ExitCode::FAILURE
}

/// Reports an unexpected argument.
pub fn no_such_argument(call: &Call, word: &str) -> ExitCode {
    refuse(call, &format!("no such argument \"{word}\" (use --help for help)"))
}

/// Begins a tool that replaces a tool of Open vSwitch: initializes directories and log, and parses the arguments with `parse`. Returns an
/// exit code if the arguments are wrong; the error has been printed then.
pub fn begin(
    call: &Call,
    parse: impl FnOnce() -> Result<Parsed, String>,
) -> Result<(Dirs, Parsed), ExitCode> {
    let mut dirs = Dirs::from_env(&call.argv0);
    dirs.progname.clone_from(&call.name);
    runtime::log::init(&call.name, &Clock::new());
    runtime::log::set_tool_defaults();
    match parse() {
        Ok(parsed) => Ok((dirs, parsed)),
        Err(e) => {
            eprintln!("{}: {e}", call.argv0);
            Err(ExitCode::FAILURE)
        }
    }
}

/// The hint to print after `why`, the reason why a connection failed. Under a name of Open vSwitch there is none. If permission is
/// denied, the hint is about the user; otherwise it is `otherwise`.
pub fn hint_about(why: &str, otherwise: &'static str) -> &'static str {
    match (suggest::is_compat(), why.starts_with("Permission denied")) {
        (true, _) => "",
        (false, true) => {
            "; run the command as the user of the switch, usually root (for example with sudo -E)"
        }
        (false, false) => otherwise,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::getopt::parse;

    #[test]
    fn json_by_either_name() {
        let wants = |line: &str| {
            let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
            wants_json(&parse(&FORMAT, Order::Anywhere, &args).unwrap())
        };
        assert_eq!(
            [wants("x"), wants("--json"), wants("--format=json"), wants("-f json")],
            [Ok(false), Ok(true), Ok(true), Ok(true)]
        );
        assert_eq!(wants("--json --format=text"), Ok(false));
        assert!(wants("--format=xml").is_err());
    }

    #[test]
    fn versions_name_the_product() {
        let call =
            |name: &str, compat| Call { argv0: name.into(), name: name.into(), compat, args: Vec::new() };
        assert!(version(&call("sluice vsctl", false), &["ovs-vsctl"]).starts_with("sluice vsctl (Sluice) "));
        assert_eq!(version(&call("ovs-vsctl", true), &["ovs-vsctl"]), runtime::version_text("ovs-vsctl"));
    }

    #[test]
    fn missing_permission_has_a_hint() {
        assert!(hint_about("Permission denied", "x").contains("sudo"));
        assert_eq!(hint_about("Connection refused", "x"), "x");
    }
}
