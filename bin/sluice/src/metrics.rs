//! `sluice metrics [PREFIX]`: the metrics of the running switch, from its Unix socket.

use crate::call::Call;
use crate::common;
use crate::getopt::{Opt, Takes, opt};
use crate::page::{Names, Page};
use runtime::Dirs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const MARKDOWN: Opt =
    opt("markdown", None, Takes::Nothing).described("", "prints the whole of docs/metrics.md");
const TARGET: Opt = opt("target", Some('t'), Takes::Value)
    .described("TARGET", "name of the daemon, or path of its metrics socket");
/// Maximum size of a reply in bytes. For comparison: the metrics of 10,000 ports have about 10 MB (ADR 32).
const ANSWER_MAX: u64 = 256 << 20;
/// Time limit for the reply of the switch.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

fn options() -> Vec<Opt> {
    common::FORMAT.into_iter().chain([TARGET, MARKDOWN]).chain(common::INFORMATIVE).collect()
}

/// The names of the tool.
pub const NAMES: Names = Names { tool: "metrics", other_names: &[] };

/// The help page of the tool.
pub fn page() -> Page {
    Page {
        names: NAMES,
        title: "prints the metrics of the switch",
        synopsis: "[--json | --markdown] [PREFIX]",
        commands: Vec::new(),
        options: options(),
        notes: vec![(
            "What it prints",
            "The samples of all metrics whose name begins with PREFIX, in the format of Prometheus or as JSON. The switch has them at the Unix \
             socket PROGRAM.metrics.sock in its run directory, and, if other_config:metrics-listen is set, by HTTP."
                .into(),
        )],
    }
}

/// Runs the tool.
pub fn main(call: &Call) -> ExitCode {
    let (parsed, json) = match common::arguments_or_markdown(call, &options(), page, metrics::markdown) {
        Ok(known) => known,
        Err(code) => return code,
    };
    if let Some(word) = parsed.rest.get(1) {
        return common::no_such_argument(call, word);
    }
    let prefix = parsed.rest.first().map_or("", String::as_str);
    match ask(parsed.value("target"), json, prefix) {
        Ok(text) if text.is_empty() => {
            common::refuse(call, &format!("no metric's name begins with \"{prefix}\""))
        }
        Ok(text) => {
            // An error means that the reader has closed the pipe, which is not a failure.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(why) => common::refuse(call, &why),
    }
}

fn ask(target: Option<&str>, json: bool, prefix: &str) -> Result<String, String> {
    if !prefix.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(format!("\"{prefix}\" is not the beginning of a name"));
    }
    let (path, mut stream) = connect(target)?;
    let failed = |e: std::io::Error| format!("{}: {}", path.display(), runtime::error_text(&e));
    let resource = if json { format!("/api/metrics?name={prefix}") } else { "/metrics".to_owned() };
    let request = format!("GET {resource} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(failed)?;
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut answer = String::new();
    stream.take(ANSWER_MAX).read_to_string(&mut answer).map_err(failed)?;
    let (head, body) =
        answer.split_once("\r\n\r\n").ok_or_else(|| format!("{}: no answer", path.display()))?;
    match head.split_whitespace().nth(1) {
        Some("200") if json => Ok(body.to_owned()),
        Some("200") => Ok(only(body, prefix)),
        _ => Err(body.trim_end().to_owned()),
    }
}

/// Only the lines about metrics whose names begin with the prefix.
fn only(text: &str, prefix: &str) -> String {
    let name =
        |line: &str| line.strip_prefix("# HELP ").or(line.strip_prefix("# TYPE ")).unwrap_or(line).to_owned();
    text.split_inclusive('\n').filter(|line| name(line).starts_with(prefix)).collect()
}

fn connect(target: Option<&str>) -> Result<(PathBuf, UnixStream), String> {
    let dirs = Dirs::from_env("sluice");
    let path = |name: &str| match name.contains('/') {
        true => Path::new(name).to_path_buf(),
        false => dirs.in_run(&format!("{name}.metrics.sock")),
    };
    let names = target.map_or_else(|| vec!["sluiced", "ovs-vswitchd"], |name| vec![name]);
    let mut why = String::new();
    for path in names.into_iter().map(path) {
        match UnixStream::connect(&path) {
            Ok(stream) => return Ok((path, stream)),
            Err(e) => {
                let text = runtime::error_text(&e);
                why = format!(
                    "{}: {text}{}",
                    path.display(),
                    common::hint_about(&text, "; is the switch running?")
                );
            }
        }
    }
    Err(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_selects_lines() {
        let text = "# HELP a_b x\n# TYPE a_b gauge\na_b 1\n# HELP c y\n# TYPE c gauge\nc 2\n";
        assert_eq!(only(text, "a_"), "# HELP a_b x\n# TYPE a_b gauge\na_b 1\n");
        assert_eq!(only(text, ""), text);
        assert!(ask(None, false, "x y").is_err());
    }
}
