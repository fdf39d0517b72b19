//! The program `ovsdb-server` by itself, for tests: what the daemon's binary is under that name.

use runtime::Dirs;
use std::process::ExitCode;

fn main() -> ExitCode {
    let argv: Vec<String> = std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect();
    let dirs = Dirs::from_env(argv.first().map_or("ovsdb-server", String::as_str));
    ovsdb_server::program::main(&argv, &dirs)
}
