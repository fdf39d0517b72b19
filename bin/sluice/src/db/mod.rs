//! `sluice db` (`ovsdb-client`, `ovsdb-tool`): sends requests to a database server, and works on database
//! files.
//!
//! Under a name of the peer only that program's commands exist. `sluice db` has the commands of both. Where
//! both have a command of the same name (`transact`, `query`, `convert`, `needs-conversion`), it works on a
//! file if the first argument is a database file, and otherwise on a server. Exit status: 0 success, 1
//! failure; `db-is-clustered` and `db-is-standalone` exit with 2 for "no".

mod ask;
mod background;
mod commands;
mod dump;
mod files;
mod monitor;
mod options;
mod rpc;
mod server;
mod show_log;

use crate::Call;
use options::Options;
use runtime::{Clock, Dirs, Module};
use std::process::ExitCode;

pub use commands::{NAMES, page};

static LOG: Module = Module::new("ovsdb_client");

/// Why a command failed.
#[derive(Debug)]
pub enum Fail {
    /// The text for standard error.
    Message(String),
    /// The exit status, without a text.
    Exit(u8),
}

impl From<String> for Fail {
    fn from(text: String) -> Fail {
        Fail::Message(text)
    }
}

impl From<&str> for Fail {
    fn from(text: &str) -> Fail {
        Fail::Message(text.to_owned())
    }
}

impl From<ovsdb::Error> for Fail {
    fn from(error: ovsdb::Error) -> Fail {
        Fail::Message(error.to_string())
    }
}

/// Data that every command needs.
pub struct Context {
    /// From the options.
    pub options: Options,
    /// The directories of files and sockets.
    pub dirs: Dirs,
    /// The tool's name in messages.
    pub name: String,
    /// The command's name, and its maximum number of arguments without server and database.
    pub command: (&'static str, usize),
}

impl Context {
    /// The JSON text in the format of `--pretty`, with a line end.
    pub fn json(&self, json: &ovsdb::Json) -> String {
        let mut text = String::new();
        match self.options.style.pretty {
            true => crate::appctl::indented(json, 1, &mut text),
            false => text = ovsdb::json::sorted_string(json),
        }
        text + "\n"
    }
}

/// Runs the tool.
pub fn main(call: &Call) -> ExitCode {
    let mut dirs = Dirs::from_env(&call.argv0);
    dirs.progname = call.name.replace(' ', "-");
    runtime::log::init(&call.name, &Clock::new());
    runtime::log::set_tool_defaults();
    let parsed = match options::parse(call) {
        Ok(parsed) => parsed,
        Err(e) => {
            eprintln!("{}: {e}", call.argv0);
            return ExitCode::FAILURE;
        }
    };
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

/// Prints to standard output; an error (the reader has closed the pipe) ends the command.
pub fn print(text: &str) -> Result<(), Fail> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|_| Fail::Exit(1))
}
