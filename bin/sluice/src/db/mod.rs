//! `sluice db` (`ovsdb-client`, `ovsdb-tool`): asks a database server, and works on database files.
//!
//! Under a name of the peer only that program's commands are there. `sluice db` has both; where both have one of a name
//! (`transact`, `query`, `convert`, `needs-conversion`), a database file as the first argument means that file, and
//! otherwise a server is asked. Exit status: 0 done, 1 failed, 2 for `db-is-clustered` and its like: no.

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

/// Why a command ends without success.
#[derive(Debug)]
pub enum Fail {
    /// The words for standard error.
    Says(String),
    /// The exit status says it.
    Exit(u8),
}

impl From<String> for Fail {
    fn from(text: String) -> Fail {
        Fail::Says(text)
    }
}

impl From<&str> for Fail {
    fn from(text: &str) -> Fail {
        Fail::Says(text.to_owned())
    }
}

impl From<ovsdb::Error> for Fail {
    fn from(error: ovsdb::Error) -> Fail {
        Fail::Says(error.to_string())
    }
}

/// What a command has to work with.
pub struct Context {
    /// From the options.
    pub options: Options,
    /// Where files and sockets are.
    pub dirs: Dirs,
    /// What the tool calls itself.
    pub name: String,
    /// The command, and how many arguments it has at most, without a server and a database.
    pub command: (&'static str, usize),
}

impl Context {
    /// JSON as `--pretty` wants it, with a line end.
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
    let done = options::settings(parsed, &dirs).map_err(Fail::Says).and_then(|(options, args)| {
        if let Some(limit) = options.timeout {
            crate::alarm::set(limit);
        }
        let command = ("", 0);
        commands::run(Context { options, dirs, name: call.name.clone(), command }, call, &args)
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Fail::Exit(status)) => ExitCode::from(status),
        Err(Fail::Says(text)) => {
            eprintln!("{}: {text}", call.name);
            ExitCode::FAILURE
        }
    }
}

/// To standard output; a reader that is gone ends the command.
pub fn print(text: &str) -> Result<(), Fail> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|_| Fail::Exit(1))
}
