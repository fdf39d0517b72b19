//! Dispatches commands to the files that implement them.

use crate::answer::{Answer, unknown};
use crate::lasting_requests::LastingRequests;
use crate::{actions_impl, bfd, bridge, capture, cfm, counters, detrace, dpctl, dpdk, dpif, lldp};
use crate::{
    dummy, fdb, features, link_aggregation, mdb, neighbours, pmd, qos, route, rx_pool, spanning_tree, time,
    trace, tunnels, upcall,
};
use ctl::names;
use switch::Switch;
use unixctl::Format;

/// Requests a panic in a thread (for tests), and wakes threads that may sleep for a long time without traffic.
fn order_panic(switch: &Switch, thread: &str) {
    runtime::ordered_panic::order(thread);
    switch.datapaths.with_bridges().for_each(|b| b.upcall_translator.wakeup.wake());
    runtime::background::run(runtime::ordered_panic::panic_if_ordered);
}

/// Executes a command. The caller has checked the number of arguments.
pub(crate) fn execute(
    requested: &mut LastingRequests,
    switch: &mut Switch,
    name: &str,
    args: &[String],
    format: Format,
) -> Answer {
    match name {
        names::DPIF_SET_DP_FEATURES | names::DPIF_SHOW_DP_FEATURES => {
            return features::execute(switch, name, args);
        }
        names::CAPTURE_SHOW => return capture::show(switch).into(),
        names::CAPTURE_START => return capture::start(switch, args).into(),
        names::OFPROTO_DETRACE => return detrace::execute(switch, args).into(),
        names::OFPROTO_WHY => return crate::why::execute(switch, args).into(),
        names::OFPROTO_LIST => return bridge::execute(switch, name, args),
        names::OFPROTO_LIST_TUNNELS | names::TNL_PORTS_SHOW | names::TNL_EGRESS_PORT_RANGE => {
            return tunnels::execute(switch, name, args);
        }
        names::REVALIDATOR_VERIFY | names::REVALIDATOR_WAIT => {
            return time::execute(&mut requested.exiting, switch, name, args);
        }
        names::PANIC => {
            order_panic(switch, args.first().map_or("", String::as_str));
            return "".into();
        }
        _ => {}
    }
    match name.split_once('/').unwrap_or((name, "")).0 {
        "autoattach" | "lldp" => lldp::execute(switch, name, args),
        "bfd" => bfd::execute(switch, name, args),
        "bond" | "lacp" => link_aggregation::execute(switch, name, args),
        "bridge" => bridge::execute(switch, name, args),
        "cfm" => cfm::execute(switch, name, args),
        "coverage" | "memory" => counters::execute(switch, name, args),
        "dpctl" => dpctl::execute(switch, name, args),
        "dpdk" | "netdev-dpdk" => dpdk::execute(switch, name, args),
        "dpif" => dpif::execute(switch, name, args, format),
        "dpif-netdev" => pmd::execute(&mut requested.perf_log, switch, name, args, format),
        "fdb" => fdb::execute(switch, name, args, format),
        "mdb" => mdb::execute(switch, name, args, format),
        "dpif-dummy" | "netdev-dummy" => dummy::execute(switch, name, args),
        "odp-execute" => match actions_impl::execute(name, args) {
            Some(result) => result.into(),
            None => unknown(name),
        },
        "ovs" => route::execute(switch, name, args, format),
        "qos" => qos::execute(switch, name, args),
        "tnl" => neighbours::execute(switch, name, args),
        "ofproto" => trace::execute(switch, name, args),
        "exit" | "time" => time::execute(&mut requested.exiting, switch, name, args),
        "rstp" | "stp" => spanning_tree::execute(switch, name, args),
        "rxpool" => rx_pool::show(switch, format).into(),
        "upcall" | "revalidator" => upcall::execute(switch, name, args),
        "vlog" => match runtime::log::command(name, args) {
            Some(result) => result.into(),
            None => unknown(name),
        },
        _ => unknown(name),
    }
}
