//! `sluice db` (`ovsdb-client`, `ovsdb-tool`): sends requests to a database server, and works on database
//! files.
//!
//! Called as `ovsdb-client` or `ovsdb-tool`, the tool has the commands of that program only; `sluice db` has the
//! commands of both. If both programs have a command of the same name (`transact`, `query`, `convert`,
//! `needs-conversion`), `sluice db` uses a file if the first argument is a database file, and otherwise a server.
//! Exit status: 0 success, 1 failure; `db-is-clustered`, `db-is-standalone` and `compare-versions` exit with 2
//! for "no".

mod arguments;
mod background;
mod commands;
mod context;
mod dump;
mod files;
mod monitor;
mod options;
mod rpc;
mod server;
mod server_commands;
mod show_log;

use crate::call::Call;
use context::{Context, Fail};
use std::process::ExitCode;

pub use commands::{NAMES, page};

/// Runs the tool.
pub fn main(call: &Call) -> ExitCode {
    let (mut dirs, parsed) = match crate::common::begin(call, || options::parse(call)) {
        Ok(begun) => begun,
        Err(code) => return code,
    };
    // The program name is part of file names, which must not contain a blank.
    dirs.progname = call.name.replace(' ', "-");
    let done = options::settings(parsed, &dirs).map_err(Fail::Message).and_then(|(options, args)| {
        if let Some(limit) = options.timeout {
            crate::alarm::set(limit);
        }
        let command = ("", 0);
        commands::run(Context { options, dirs, name: call.name.clone(), command }, call, &args)
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Fail::Exit(status)) => ExitCode::from(status),
        Err(Fail::Message(text)) => {
            eprintln!("{}: {text}", call.name);
            ExitCode::FAILURE
        }
    }
}
