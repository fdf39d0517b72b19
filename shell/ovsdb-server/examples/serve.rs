//! The program `ovsdb-server` alone, for tests. The binary `sluice` runs the same program if it is called
//! `ovsdb-server`.

use runtime::Dirs;
use std::process::ExitCode;

fn main() -> ExitCode {
    let argv: Vec<String> = std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect();
    let dirs = Dirs::from_env(argv.first().map_or("ovsdb-server", String::as_str));
    ovsdb_server::program::main(&argv, &dirs)
}
