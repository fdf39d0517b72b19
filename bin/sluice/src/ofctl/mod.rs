//! `sluice ofctl` (`ovs-ofctl`): shows and controls an OpenFlow switch.
//!
//! Exit status: 0 success, 1 failure or refusal by the switch, 2 flows differ (`diff-flows`).

mod bundle;
mod change;
mod commands;
mod conn;
mod context;
mod diff;
mod encode;
mod extensions;
mod fail;
mod fetch;
mod flow_file;
mod groups;
mod json;
mod meters;
mod monitor;
mod names;
mod options;
mod parse;
mod ports;
mod query;
mod recorded;
mod replies;
mod requests;
mod tables;

pub use commands::{NAMES, page};

use crate::call::Call;
use context::Context;
use fail::Fail;
use runtime::Dirs;
use std::process::ExitCode;

/// Runs the tool.
pub fn main(call: &Call) -> ExitCode {
    let begin = || {
        // Print log lines about fields that are removed from a match, which usually is a mistake. Open vSwitch prints them, too.
        if let Err(why) = runtime::log::set("ofp_match:console:info") {
            eprintln!("{}: {why}", call.name);
        }
        options::parse(call)
    };
    let (dirs, parsed) = match crate::common::begin(call, begin) {
        Ok(begun) => begun,
        Err(code) => return code,
    };
    match run(parsed, dirs, call) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Fail::Message(text)) => {
            eprintln!("{}: {text}", call.name);
            ExitCode::FAILURE
        }
        Err(Fail::ExitStatus(code)) => ExitCode::from(code),
    }
}

fn run(parsed: crate::getopt::Parsed, dirs: Dirs, call: &Call) -> Result<(), Fail> {
    let has = |name: &str| parsed.options.iter().any(|(n, _)| *n == name);
    if has("help") {
        return fail::print(&page().help(&call.name));
    }
    if has("version") {
        return fail::print(&format!(
            "{}\nOpenFlow versions 0x1:0x6\n",
            crate::common::version(call, NAMES.other_names)
        ));
    }
    let (settings, args) = options::settings(parsed, &dirs)?;
    if let Some(limit) = settings.timeout {
        crate::alarm::set(limit);
    }
    let mut cx = Context::new(settings, dirs, call.name.clone());
    commands::run(&mut cx, &args)
}
