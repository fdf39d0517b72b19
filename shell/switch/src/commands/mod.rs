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

pub use counters::publish_drops;
pub use dpdk::DPDK_COMMANDS;
pub use knobs::Knobs;
pub use pmd_perf_log::PerfLog;
pub use time::{Pending, Wait, poll_pending, take_exits};

use crate::switch::Switch;
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

/// The commands that there are from the start; in the order of [`execute`].
const OFFERED: &[&str] = &[
    "bfd/set-forwarding",
    "bfd/show",
    "bridge/dump-flows",
    "bridge/reconnect",
    "coverage/read-counter",
    "coverage/show",
    "dpctl/add-dp",
    "dpctl/add-flow",
    "dpctl/add-flows",
    "dpctl/add-if",
    "dpctl/ct-bkts",
    "dpctl/ct-del-limits",
    "dpctl/ct-disable-tcp-seq-chk",
    "dpctl/ct-enable-tcp-seq-chk",
    "dpctl/ct-get-limits",
    "dpctl/ct-get-maxconns",
    "dpctl/ct-get-nconns",
    "dpctl/ct-get-sweep-interval",
    "dpctl/ct-get-tcp-seq-chk",
    "dpctl/ct-set-limits",
    "dpctl/ct-set-maxconns",
    "dpctl/ct-set-sweep-interval",
    "dpctl/ct-stats-show",
    "dpctl/del-dp",
    "dpctl/del-flow",
    "dpctl/del-flows",
    "dpctl/del-if",
    "dpctl/dump-conntrack",
    "dpctl/dump-dps",
    "dpctl/dump-flows",
    "dpctl/flush-conntrack",
    "dpctl/get-flow",
    "dpctl/mod-flow",
    "dpctl/mod-flows",
    "dpctl/parse-actions",
    "dpctl/set-if",
    "dpctl/show",
    "dpif-netdev/dpif-impl-get",
    "dpif-netdev/dpif-impl-set",
    "dpif-netdev/miniflow-parser-get",
    "dpif-netdev/miniflow-parser-set",
    "dpif-netdev/pmd-perf-log-set",
    "dpif-netdev/pmd-perf-show",
    "dpif-netdev/pmd-plan",
    "dpif-netdev/pmd-rxq-rebalance",
    "dpif-netdev/pmd-rxq-show",
    "dpif-netdev/pmd-sleep-show",
    "dpif-netdev/pmd-state",
    "dpif-netdev/pmd-stats-clear",
    "dpif-netdev/pmd-stats-show",
    "dpif-netdev/pmd-txq-show",
    "dpif-netdev/subtable-lookup-info-get",
    "dpif-netdev/subtable-lookup-prio-set",
    "dpif/dump-dps",
    "dpif/dump-flows",
    "dpif/set-dp-features",
    "dpif/show",
    "dpif/show-books",
    "dpif/show-caches",
    "dpif/show-dp-features",
    "dpif/show-shadow",
    "exit",
    "fdb/add",
    "fdb/del",
    "fdb/flush",
    "fdb/show",
    "fdb/stats-clear",
    "fdb/stats-show",
    "memory/show",
    "netdev-dummy/conn-state",
    "netdev-dummy/ip4addr",
    "netdev-dummy/ip6addr",
    "netdev-dummy/receive",
    "netdev-dummy/set-admin-state",
    "ofproto/detrace",
    "ofproto/list",
    "ofproto/trace",
    "ofproto/trace-packet-out",
    "revalidator/pause",
    "revalidator/purge",
    "revalidator/resume",
    "revalidator/wait",
    "time/stop",
    "time/warp",
    "upcall/disable-megaflows",
    "upcall/disable-ufid",
    "upcall/enable-megaflows",
    "upcall/enable-ufid",
    "upcall/set-flow-limit",
    "upcall/show",
    "vlog/close",
    "vlog/disable-rate-limit",
    "vlog/enable-rate-limit",
    "vlog/list",
    "vlog/list-pattern",
    "vlog/reopen",
    "vlog/set",
];

/// For tests: see `runtime::ordered_panic`.
const PANIC: &str = "panic";

/// Commands that only a switch with dummies has.
fn is_for_tests(name: &str) -> bool {
    name.starts_with("netdev-dummy/") || name.starts_with("time/")
}

/// Whether the command is there; `dummies`: the switch was started with `--enable-dummy`.
pub fn offered(name: &str, dummies: bool) -> bool {
    OFFERED.contains(&name) && (dummies || !is_for_tests(name))
}

/// The commands that there are, for the control socket; `panics`: the switch was started with `--enable-panic`.
pub fn all_offered(dummies: bool, panics: bool) -> Vec<&'static str> {
    let names = OFFERED.iter().copied().filter(|name| offered(name, dummies));
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
        ("exit" | "time", _) | ("revalidator", "wait") => time::execute(switch, name, args),
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
    fn every_offered_command_is_one_of_open_vswitch() {
        assert!(OFFERED.windows(2).all(|w| w[0] < w[1]));
        assert!(DPDK_COMMANDS.windows(2).all(|w| w[0] < w[1]));
        assert!(OFFERED.iter().chain(DPDK_COMMANDS).chain([&PANIC]).all(|name| ctl::find(name).is_some()));
        assert!(!all_offered(true, false).contains(&PANIC) && all_offered(false, true).contains(&PANIC));
        assert!(offered("time/warp", true) && !offered("time/warp", false));
        assert!(!offered("bond/show", true));
    }
}
