//! `dpctl/*`: the commands of ovs-dpctl(8) in the switch. This file has `show` and dispatches the others.

use crate::answer::{Answer, unknown};
use crate::dpctl_call::{Call, EINVAL, Failed, all, find, select_datapath};
use crate::dpctl_flows::FileOp;
use crate::dpif::config_text;
use crate::{dpctl_ct, dpctl_ct_many, dpctl_flows, dpctl_ipf, dpctl_ports};
use ctl::names;
use netdev::stats::Stats;
use std::collections::BTreeMap;
use std::sync::Arc;
use switch::{Backer, PortInfo, Switch};

pub(crate) fn execute(switch: &mut Switch, name: &str, args: &[String]) -> Answer {
    let (mut call, args) = match Call::new(&switch.options.progname, args) {
        Ok(parsed) => parsed,
        Err(text) => return Answer::Now(Err(text)),
    };
    if let Some(text) = dpctl_ct_many::execute(switch, &mut call, name, args) {
        return Answer::Long(text);
    }
    let done = match name {
        names::DPCTL_FLUSH_CONNTRACK => match dpctl_ct_many::flush(switch, &mut call, args) {
            Ok(answer) => return answer,
            Err(failed) => Err(failed),
        },
        names::DPCTL_DUMP_DPS => {
            call.text.extend(all(switch).map(|b| b.name() + "\n"));
            Ok(())
        }
        names::DPCTL_SHOW => show(switch, &mut call, args),
        names::DPCTL_ADD_DP => dpctl_ports::add_dp(switch, &mut call, args),
        names::DPCTL_DEL_DP => dpctl_ports::del_dp(switch, &mut call, args),
        names::DPCTL_ADD_IF => dpctl_ports::add_if(switch, &mut call, args),
        names::DPCTL_SET_IF => dpctl_ports::set_if(switch, &mut call, args),
        names::DPCTL_DEL_IF => dpctl_ports::del_if(switch, &mut call, args),
        names::DPCTL_LIST_COMMANDS => list_commands(&mut call),
        names::DPCTL_CACHE_GET_SIZE => cache_sizes(switch, &mut call, args),
        names::DPCTL_CACHE_SET_SIZE => set_cache_size(switch, &mut call, args),
        names::DPCTL_OFFLOAD_STATS_SHOW => offload_stats(switch, &mut call, args),
        names::DPCTL_PARSE_ACTIONS => parse_actions(&mut call, args),
        names::DPCTL_DUMP_FLOWS => dpctl_flows::dump(switch, &mut call, args),
        names::DPCTL_ADD_FLOW => dpctl_flows::put(switch, &mut call, args, false),
        names::DPCTL_MOD_FLOW => dpctl_flows::put(switch, &mut call, args, true),
        names::DPCTL_ADD_FLOWS => dpctl_flows::from_file(switch, &mut call, args, FileOp::Add),
        names::DPCTL_MOD_FLOWS => dpctl_flows::from_file(switch, &mut call, args, FileOp::Modify),
        names::DPCTL_DEL_FLOWS if is_file(switch, args) => {
            dpctl_flows::from_file(switch, &mut call, args, FileOp::Delete)
        }
        names::DPCTL_GET_FLOW => dpctl_flows::get(switch, &mut call, args),
        names::DPCTL_DEL_FLOW => dpctl_flows::del(switch, &mut call, args),
        names::DPCTL_DEL_FLOWS => dpctl_flows::flush(switch, &mut call, args),
        _ => match connections(switch, &mut call, name, args) {
            Some(done) => done,
            None => return unknown(name),
        },
    };
    match done {
        Ok(()) => call.text.into(),
        Err(Failed) => Answer::Now(Err(call.text)),
    }
}

/// Commands about tracked connections.
fn connections(switch: &Switch, call: &mut Call, name: &str, args: &[String]) -> Option<Result<(), Failed>> {
    Some(match name {
        names::DPCTL_DUMP_CONNTRACK => dpctl_ct::dump(switch, call, args),
        names::DPCTL_DUMP_CONNTRACK_EXP => dpctl_ct::dump_expected(switch, call, args),
        names::DPCTL_CT_STATS_SHOW => dpctl_ct::stats(switch, call, args),
        names::DPCTL_CT_BKTS => dpctl_ct::buckets(switch, call, args),
        names::DPCTL_CT_SET_MAXCONNS => dpctl_ct::set_max(switch, call, args),
        names::DPCTL_CT_GET_MAXCONNS => dpctl_ct::get_max(switch, call, args),
        names::DPCTL_CT_GET_NCONNS => dpctl_ct::count(switch, call, args),
        names::DPCTL_CT_ENABLE_TCP_SEQ_CHK => dpctl_ct::set_strict(switch, call, args, true),
        names::DPCTL_CT_DISABLE_TCP_SEQ_CHK => dpctl_ct::set_strict(switch, call, args, false),
        names::DPCTL_CT_GET_TCP_SEQ_CHK => dpctl_ct::get_strict(switch, call, args),
        names::DPCTL_CT_SET_LIMITS => dpctl_ct::set_limits(switch, call, args),
        names::DPCTL_CT_DEL_LIMITS => dpctl_ct::del_limits(switch, call, args),
        names::DPCTL_CT_GET_LIMITS => dpctl_ct::get_limits(switch, call, args),
        names::DPCTL_CT_SET_SWEEP_INTERVAL => dpctl_ct::set_sweep(switch, call, args),
        names::DPCTL_CT_GET_SWEEP_INTERVAL => dpctl_ct::get_sweep(switch, call, args),
        names::DPCTL_IPF_SET_ENABLED => dpctl_ipf::set_enabled(switch, call, args, true),
        names::DPCTL_IPF_SET_DISABLED => dpctl_ipf::set_enabled(switch, call, args, false),
        names::DPCTL_IPF_SET_MIN_FRAG => dpctl_ipf::set_min_size(switch, call, args),
        names::DPCTL_IPF_SET_MAX_NFRAGS => dpctl_ipf::set_max(switch, call, args),
        names::DPCTL_IPF_GET_STATUS => dpctl_ipf::status(switch, call, args),
        _ => return None,
    })
}

/// Whether the last argument of `del-flows` is a flow file: yes, unless there is no argument, or the only argument
/// names a datapath.
fn is_file(switch: &Switch, args: &[String]) -> bool {
    match args {
        [] => false,
        [one] => find(switch, one).is_none(),
        _ => true,
    }
}

/// `dpctl/offload-stats-show`: only the headline, because there is no hardware offload.
fn offload_stats(switch: &Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    select_datapath(switch, call, args, 1)?;
    call.text += "HW Offload stats:\n";
    Ok(())
}

fn parse_actions(call: &mut Call, args: &[String]) -> Result<(), Failed> {
    for arg in args {
        let Ok(actions) = dpif::text::parse_actions(arg, &dpif::text::NoNames) else {
            return Err(call.error("odp_actions_from_string", Some(EINVAL)));
        };
        call.text += &(dpif::text::actions_text(&actions, &dpif::text::NoNames) + "\n");
    }
    Ok(())
}

/// The `dpctl` commands of the switch, in the order of Open vSwitch's list.
fn list_commands(call: &mut Call) -> Result<(), Failed> {
    call.text += "The available commands are:\n";
    for command in LISTED.iter().filter_map(|name| ctl::find(name)) {
        call.text +=
            &format!("  dpctl/{:<23} {}\n", command.name.trim_start_matches("dpctl/"), command.usage);
    }
    Ok(())
}

const LISTED: [&str; 41] = [
    names::DPCTL_ADD_DP,
    names::DPCTL_DEL_DP,
    names::DPCTL_ADD_IF,
    names::DPCTL_DEL_IF,
    names::DPCTL_SET_IF,
    names::DPCTL_DUMP_DPS,
    names::DPCTL_SHOW,
    names::DPCTL_DUMP_FLOWS,
    names::DPCTL_ADD_FLOW,
    names::DPCTL_MOD_FLOW,
    names::DPCTL_GET_FLOW,
    names::DPCTL_DEL_FLOW,
    names::DPCTL_ADD_FLOWS,
    names::DPCTL_MOD_FLOWS,
    names::DPCTL_DEL_FLOWS,
    names::DPCTL_OFFLOAD_STATS_SHOW,
    names::DPCTL_DUMP_CONNTRACK,
    names::DPCTL_DUMP_CONNTRACK_EXP,
    names::DPCTL_FLUSH_CONNTRACK,
    names::DPCTL_CACHE_GET_SIZE,
    names::DPCTL_CACHE_SET_SIZE,
    names::DPCTL_CT_STATS_SHOW,
    names::DPCTL_CT_BKTS,
    names::DPCTL_CT_SET_MAXCONNS,
    names::DPCTL_CT_GET_MAXCONNS,
    names::DPCTL_CT_GET_NCONNS,
    names::DPCTL_CT_ENABLE_TCP_SEQ_CHK,
    names::DPCTL_CT_DISABLE_TCP_SEQ_CHK,
    names::DPCTL_CT_GET_TCP_SEQ_CHK,
    names::DPCTL_CT_SET_LIMITS,
    names::DPCTL_CT_DEL_LIMITS,
    names::DPCTL_CT_GET_LIMITS,
    names::DPCTL_CT_GET_SWEEP_INTERVAL,
    names::DPCTL_CT_SET_SWEEP_INTERVAL,
    names::DPCTL_IPF_SET_ENABLED,
    names::DPCTL_IPF_SET_DISABLED,
    names::DPCTL_IPF_SET_MIN_FRAG,
    names::DPCTL_IPF_SET_MAX_NFRAGS,
    names::DPCTL_IPF_GET_STATUS,
    names::DPCTL_LIST_COMMANDS,
    names::DPCTL_PARSE_ACTIONS,
];

/// The datapath with this name. The error says why there is none.
fn find_datapath<'s>(switch: &'s Switch, name: &str) -> Result<&'s Backer, &'static str> {
    find(switch, name).ok_or_else(|| {
        let kind = name.split_once('@').map_or("system", |(kind, _)| kind);
        match switch.options.datapath_types().contains(&kind) {
            true => "No such device",
            false => "Address family not supported by protocol",
        }
    })
}

/// The caches in these commands exist in kernel datapaths only; a userspace datapath has none of them.
fn cache_sizes(switch: &Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let wanted: Vec<Result<&Backer, &str>> = match args {
        [name, ..] => vec![find_datapath(switch, name)],
        [] => all(switch).map(Ok).collect(),
    };
    for datapath in wanted {
        match datapath {
            Ok(backer) => call.text += &(backer.name() + ":\n"),
            Err(why) => return Err(call.error(&format!("Opening datapath {} failed", args[0]), Some(why))),
        }
    }
    Ok(())
}

fn set_cache_size(switch: &Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let [name, _, size] = args else { return Err(call.error("Invalid number of arguments", Some(EINVAL))) };
    if !size.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(call.error("size is malformed", Some(EINVAL)));
    }
    Err(match find_datapath(switch, name) {
        Ok(_) => call.error("Setting caches not supported", Some("Operation not supported")),
        Err(why) => call.error(&format!("Opening datapath {name} failed"), Some(why)),
    })
}

fn show(switch: &mut Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    if args.is_empty() {
        let names: Vec<String> = all(switch).map(Backer::name).collect();
        names.iter().for_each(|name| show_one(switch, call, name));
        return Ok(());
    }
    let mut done = Ok(());
    for name in args {
        match find_datapath(switch, name).map(Backer::name) {
            Ok(name) => show_one(switch, call, &name),
            Err(why) => done = Err(call.error(&format!("opening datapath {name} failed"), Some(why))),
        }
    }
    done
}

/// The options of a datapath port that tunnels share, as Open vSwitch shows them. The UDP port is at the end of the
/// port's name.
fn tunnel_options(port: &PortInfo) -> BTreeMap<String, String> {
    let mut options = BTreeMap::from([("packet_type".to_owned(), "ptap".to_owned())]);
    if port.kind.ends_with("erspan") {
        options.insert("erspan_ver".to_owned(), "0".to_owned());
    }
    let usual = match port.kind.as_str() {
        "vxlan" => "4789",
        "geneve" => "6081",
        "gtpu" => "2152",
        _ => return options,
    };
    let udp = port.name.rsplit('_').next().filter(|udp| *udp != usual);
    options.extend(udp.map(|udp| ("dst_port".to_owned(), udp.to_owned())));
    options
}

fn show_one(switch: &mut Switch, call: &mut Call, name: &str) {
    let Some(backer) = find(switch, name) else { return };
    let stats = backer.datapath.stats(&backer.upcall_translator.command_settings.counts_when_cleared());
    call.text += &format!(
        "{}:\n  lookups: hit:{} missed:{} lost:{}\n  flows: {}\n",
        backer.name(),
        stats.hit,
        stats.missed,
        stats.lost,
        stats.n_flows
    );
    let ports: Vec<_> = backer.ports.iter().map(|(n, p)| (*n, p.clone())).collect();
    let datapath = Arc::clone(&backer.datapath);
    for (number, port) in ports {
        let device = dpctl_ports::device(switch, name, number);
        let config = match port.tunnels {
            0 => device.as_ref().map(|d| d.options()).unwrap_or_default(),
            _ => tunnel_options(&port),
        };
        let kind = match port.kind.as_str() {
            "system" => String::new(),
            kind => format!(" ({kind}{})", config_text(&config)),
        };
        call.text += &format!("  port {}: {}{kind}\n", number.0, port.name);
        if call.statistics {
            let zero = Stats { rx_packets: Some(0), tx_packets: Some(0), ..Stats::default() };
            let zero = Stats { rx_bytes: Some(0), tx_bytes: Some(0), ..zero };
            match device.map_or(Ok(zero), |d| switch::qos::statistics(Some(&datapath), number, &mut **d)) {
                Ok(stats) => call.text += &stats_text(&stats),
                Err(e) => call.text += &format!(", could not retrieve stats ({e})"),
            }
        }
    }
}

fn stats_text(s: &Stats) -> String {
    let n = |value: Option<u64>| value.map_or("?".to_owned(), |n| n.to_string());
    format!(
        "    RX packets:{} errors:{} dropped:{} overruns:{} frame:{}
    TX packets:{} errors:{} dropped:{} aborted:? carrier:?
    collisions:{}
    RX bytes:{}{}  TX bytes:{}{}
    UPCALL packets:? errors:?
",
        n(s.rx_packets),
        n(s.rx_errors),
        n(s.rx_dropped),
        n(s.rx_over_errors),
        n(s.rx_frame_errors),
        n(s.tx_packets),
        n(s.tx_errors),
        n(s.tx_dropped),
        n(s.collisions),
        n(s.rx_bytes),
        human_size(s.rx_bytes),
        n(s.tx_bytes),
        human_size(s.tx_bytes),
    )
}

fn human_size(bytes: Option<u64>) -> String {
    const UNITS: [(u32, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let bytes = bytes.unwrap_or(0);
    let unit = UNITS.iter().find(|(bits, _)| bytes >> bits != 0);
    unit.map_or(String::new(), |(bits, name)| {
        format!(" ({:.1} {name})", bytes as f64 / (1u64 << bits) as f64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_their_unit() {
        assert_eq!(human_size(Some(1023)), "");
        assert_eq!(human_size(Some(6_333_866_466)), " (5.9 GiB)");
        assert_eq!(human_size(Some(4_847_039)), " (4.6 MiB)");
    }

    #[test]
    fn counters_as_scripts_read_them() {
        let stats = Stats {
            rx_packets: Some(3),
            tx_packets: Some(0),
            rx_bytes: Some(2048),
            tx_bytes: Some(0),
            ..Stats::default()
        };
        assert_eq!(
            stats_text(&stats),
            "    RX packets:3 errors:? dropped:? overruns:? frame:?
    TX packets:0 errors:? dropped:? aborted:? carrier:?
    collisions:?
    RX bytes:2048 (2.0 KiB)  TX bytes:0
    UPCALL packets:? errors:?
"
        );
    }
}
