//! What `ovs-appctl` asks of the switch: each command's arguments, effects and text.
//!
//! Names and numbers of arguments are checked before (`ctl::check`); `version`, `list-commands` and `set-options` are
//! the control socket's own. Scripts compare the text, so it is that of Open vSwitch 3.7 byte for byte.
//!
//! **Thread**: the main loop. All packets that were there before a command have been forwarded before it runs.

mod bfd;
mod books;
mod bridge;
mod caches;
mod counters;
mod detrace;
mod dpctl;
mod dpctl_ct;
mod dpctl_flows;
mod dpctl_ports;
mod dpdk;
mod dpif;
mod dummy;
mod fdb;
pub(crate) mod features;
pub(crate) mod flow_text;
mod knobs;
mod last_drop;
mod names;
mod pmd;
mod pmd_impl;
mod pmd_perf;
mod pmd_perf_log;
mod pmd_state;
mod pmd_txq;
mod shadow;
mod time;
mod trace;
mod trace_args;
pub(crate) mod trace_run;
mod upcall;
mod verify;

pub use counters::publish_drops;
pub use ctl::offered::WITH_DPDK as DPDK_COMMANDS;
pub use knobs::Knobs;
pub use pmd_perf_log::PerfLog;
pub use time::{Pending, Wait, poll_pending, take_exits};

use crate::switch::Switch;
use ctl::offered::ALWAYS;
use unixctl::{Format, Reply};

/// How a command went, or when that will be known.
pub enum Answer {
    /// Now.
    Now(Result<Reply, String>),
    /// After something has happened.
    Later(Wait),
}

impl From<String> for Answer {
    fn from(text: String) -> Answer {
        Answer::Now(Ok(Reply::Text(text)))
    }
}

impl From<&str> for Answer {
    fn from(text: &str) -> Answer {
        Answer::from(text.to_owned())
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Answer {
        Answer::Now(Ok(reply))
    }
}

impl From<Result<String, String>> for Answer {
    fn from(result: Result<String, String>) -> Answer {
        Answer::Now(result.map(Reply::Text))
    }
}

impl From<Result<Reply, String>> for Answer {
    fn from(result: Result<Reply, String>) -> Answer {
        Answer::Now(result)
    }
}

/// For tests: see `runtime::ordered_panic`.
const PANIC: &str = "panic";

/// Commands that only a switch with dummies has.
fn is_for_tests(name: &str) -> bool {
    name.starts_with("netdev-dummy/") || name.starts_with("time/")
}

/// Whether the command is there; `dummies`: the switch was started with `--enable-dummy`.
pub fn offered(name: &str, dummies: bool) -> bool {
    ALWAYS.contains(&name) && (dummies || !is_for_tests(name))
}

/// The commands that there are, for the control socket; `panics`: the switch was started with `--enable-panic`.
pub fn all_offered(dummies: bool, panics: bool) -> Vec<&'static str> {
    let names = ALWAYS.iter().copied().filter(|name| offered(name, dummies));
    names.chain(panics.then_some(PANIC)).collect()
}

/// Orders a panic, and wakes the threads that might sleep for ever without traffic.
fn order_panic(switch: &Switch, thread: &str) {
    runtime::ordered_panic::order(thread);
    switch.backers.values().for_each(|b| b.handler.bfd.bell.ring());
    crate::background::run(runtime::ordered_panic::obey);
}

/// Runs a command. `args` are as many as the command takes.
pub fn execute(switch: &mut Switch, name: &str, args: &[String], format: Format) -> Answer {
    match name.split_once('/').unwrap_or((name, "")) {
        ("bfd", _) => bfd::execute(switch, name, args),
        ("bridge", _) => bridge::execute(switch, name, args),
        ("coverage" | "memory", _) => counters::execute(switch, name, args),
        ("dpctl", _) => dpctl::execute(switch, name, args),
        ("dpdk" | "netdev-dpdk", _) => dpdk::execute(switch, name, args),
        ("dpif", "set-dp-features" | "show-dp-features") => features::execute(switch, name, args),
        ("dpif", _) => dpif::execute(switch, name, args, format),
        ("dpif-netdev", _) => pmd::execute(switch, name, args, format),
        ("fdb", _) => fdb::execute(switch, name, args, format),
        ("netdev-dummy", _) => dummy::execute(switch, name, args),
        ("ofproto", "detrace") => detrace::execute(switch, args).into(),
        ("ofproto", "list") => bridge::execute(switch, name, args),
        ("ofproto", _) => trace::execute(switch, name, args),
        (PANIC, _) => {
            order_panic(switch, args.first().map_or("", String::as_str));
            Answer::Now(Ok(Reply::Text(String::new())))
        }
        ("exit" | "time", _) | ("revalidator", "verify" | "wait") => time::execute(switch, name, args),
        ("upcall" | "revalidator", _) => upcall::execute(switch, name, args),
        ("vlog", _) => match runtime::log::command(name, args) {
            Some(result) => result.into(),
            None => unknown(name),
        },
        _ => unknown(name),
    }
}

/// The tables of commands and modules disagree.
fn unknown(name: &str) -> Answer {
    Answer::Now(Err(format!("\"{name}\" is not a valid command")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_for_tests_need_an_option() {
        assert!(!all_offered(true, false).contains(&PANIC) && all_offered(false, true).contains(&PANIC));
        assert!(offered("time/warp", true) && !offered("time/warp", false));
        assert!(!offered("ovsdb-server/compact", true));
    }
}
