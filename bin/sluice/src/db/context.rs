//! The state of a running command, and its errors.

use super::options::Options;
use runtime::{Dirs, Module};

/// The module of the tool's log lines.
pub static LOG: Module = Module::new("ovsdb_client");

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

/// The state of a running command.
pub struct Context {
    /// The parsed options.
    pub options: Options,
    /// Directories of files and sockets.
    pub dirs: Dirs,
    /// The tool's name in messages.
    pub name: String,
    /// The command's name, and the maximum number of its arguments, not counting the server and the database.
    pub command: (&'static str, usize),
}

impl Context {
    /// JSON as text that ends with a newline; indented if `--pretty` is given.
    pub fn json(&self, json: &ovsdb::Json) -> String {
        let mut text = String::new();
        match self.options.style.pretty {
            true => crate::appctl::indented(json, 1, &mut text),
            false => text = ovsdb::json::sorted_string(json),
        }
        text + "\n"
    }
}

/// Prints to standard output. If the reader has closed the pipe, the command ends.
pub fn print(text: &str) -> Result<(), Fail> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|_| Fail::Exit(1))
}
