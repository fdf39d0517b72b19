//! `dpctl/*`: the words of ovs-dpctl(8) inside the switch. This file: options, datapaths by name, `show`.

use super::dpctl_flows::FileOp;
use super::dpif::config_text;
use super::{Answer, dpctl_ct, dpctl_flows, dpctl_ports, unknown};
use crate::backer::Backer;
use crate::switch::Switch;
use netdev::stats::Stats;

pub(super) const EINVAL: &str = "Invalid argument";

/// Options of a call, and what it has printed so far.
pub(super) struct Call {
    pub(super) verbose: bool,
    pub(super) names: bool,
    pub(super) statistics: bool,
    pub(super) may_create: bool,
    progname: String,
    pub(super) text: String,
}

/// The call has failed; why is in its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failed;

impl Call {
    /// Takes the options off the arguments; the error is the reply's text.
    fn new<'a>(progname: &str, args: &'a [String]) -> Result<(Call, &'a [String]), String> {
        let (mut verbose, mut names, mut statistics, mut may_create) = (false, None, false, false);
        let mut rest = args;
        while let [arg, after @ ..] = rest {
            if arg.starts_with("--") {
                match arg.as_str() {
                    "--statistics" => statistics = true,
                    "--clear" => {}
                    "--may-create" => may_create = true,
                    "--more" => verbose = true,
                    "--names" => names = Some(true),
                    "--no-names" => names = Some(false),
                    _ => return Err(format!("Unrecognized option {arg}")),
                }
            } else if let Some(letters) = arg.strip_prefix('-').filter(|l| !l.is_empty()) {
                for letter in letters.chars() {
                    match letter {
                        'm' => verbose = true,
                        's' => statistics = true,
                        _ => return Err(format!("Unrecognized option -{letter}")),
                    }
                }
            } else {
                break;
            }
            rest = after;
        }
        let names = names.unwrap_or(verbose);
        let progname = progname.to_owned();
        Ok((Call { verbose, names, statistics, may_create, progname, text: String::new() }, rest))
    }

    /// Says what is wrong.
    pub(super) fn error(&mut self, text: &str, why: Option<&str>) -> Failed {
        let why = why.map_or(String::new(), |why| format!(" ({why})"));
        self.text += &format!("{}: {text}{why}\n", self.progname);
        Failed
    }
}

pub(super) fn execute(switch: &mut Switch, name: &str, args: &[String]) -> Answer {
    let (mut call, args) = match Call::new(&switch.options.progname, args) {
        Ok(parsed) => parsed,
        Err(text) => return Answer::Now(Err(text)),
    };
    let done = match name {
        "dpctl/dump-dps" => {
            call.text.extend(all(switch).map(|b| b.name() + "\n"));
            Ok(())
        }
        "dpctl/show" => show(switch, &mut call, args),
        "dpctl/add-dp" => dpctl_ports::add_dp(switch, &mut call, args),
        "dpctl/del-dp" => dpctl_ports::del_dp(switch, &mut call, args),
        "dpctl/add-if" => dpctl_ports::add_if(switch, &mut call, args),
        "dpctl/set-if" => dpctl_ports::set_if(switch, &mut call, args),
        "dpctl/del-if" => dpctl_ports::del_if(switch, &mut call, args),
        "dpctl/parse-actions" => parse_actions(&mut call, args),
        "dpctl/dump-flows" => dpctl_flows::dump(switch, &mut call, args),
        "dpctl/add-flow" => dpctl_flows::put(switch, &mut call, args, false),
        "dpctl/mod-flow" => dpctl_flows::put(switch, &mut call, args, true),
        "dpctl/add-flows" => dpctl_flows::from_file(switch, &mut call, args, FileOp::Add),
        "dpctl/mod-flows" => dpctl_flows::from_file(switch, &mut call, args, FileOp::Modify),
        "dpctl/del-flows" if is_file(switch, args) => {
            dpctl_flows::from_file(switch, &mut call, args, FileOp::Delete)
        }
        "dpctl/get-flow" => dpctl_flows::get(switch, &mut call, args),
        "dpctl/del-flow" => dpctl_flows::del(switch, &mut call, args),
        "dpctl/del-flows" => dpctl_flows::flush(switch, &mut call, args),
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

/// The commands about connections.
fn connections(switch: &Switch, call: &mut Call, name: &str, args: &[String]) -> Option<Result<(), Failed>> {
    Some(match name {
        "dpctl/dump-conntrack" => dpctl_ct::dump(switch, call, args),
        "dpctl/flush-conntrack" => dpctl_ct::flush(switch, call, args),
        "dpctl/ct-stats-show" => dpctl_ct::stats(switch, call, args),
        "dpctl/ct-bkts" => dpctl_ct::buckets(switch, call, args),
        "dpctl/ct-set-maxconns" => dpctl_ct::set_max(switch, call, args),
        "dpctl/ct-get-maxconns" => dpctl_ct::get_max(switch, call, args),
        "dpctl/ct-get-nconns" => dpctl_ct::count(switch, call, args),
        "dpctl/ct-enable-tcp-seq-chk" => dpctl_ct::set_strict(switch, call, args, true),
        "dpctl/ct-disable-tcp-seq-chk" => dpctl_ct::set_strict(switch, call, args, false),
        "dpctl/ct-get-tcp-seq-chk" => dpctl_ct::get_strict(switch, call, args),
        "dpctl/ct-set-limits" => dpctl_ct::set_limits(switch, call, args),
        "dpctl/ct-del-limits" => dpctl_ct::del_limits(switch, call, args),
        "dpctl/ct-get-limits" => dpctl_ct::get_limits(switch, call, args),
        "dpctl/ct-set-sweep-interval" => dpctl_ct::set_sweep(switch, call, args),
        "dpctl/ct-get-sweep-interval" => dpctl_ct::get_sweep(switch, call, args),
        _ => return None,
    })
}

/// Whether the last argument of `del-flows` is a file of flows: it is unless it names a datapath.
fn is_file(switch: &Switch, args: &[String]) -> bool {
    match args {
        [] => false,
        [one] => find(switch, one).is_none(),
        _ => true,
    }
}

/// `TYPE@NAME`: without a type it is `system`.
pub(super) fn full_name(name: &str) -> String {
    if name.contains('@') { name.to_owned() } else { format!("system@{name}") }
}

/// All datapaths, those of bridges first.
fn all(switch: &Switch) -> impl Iterator<Item = &Backer> {
    switch.backers.values().chain(switch.hand_made.values().map(|m| &m.backer))
}

/// The datapath that a name means, if there is one.
pub(super) fn find<'s>(switch: &'s Switch, name: &str) -> Option<&'s Backer> {
    let name = full_name(name);
    all(switch).find(|b| b.name() == name)
}

/// The datapath that a command is about, and its other arguments: the first argument if it names one; else the only
/// datapath there is, unless there are so many arguments (`most`) that the first has to be a name.
pub(super) fn open<'s, 'a>(
    switch: &'s Switch,
    call: &mut Call,
    args: &'a [String],
    most: usize,
) -> Result<(&'s Backer, &'a [String]), Failed> {
    let named = args.first().and_then(|name| find(switch, name));
    let (backer, rest) = match named {
        Some(backer) => (Some(backer), args.get(1..).unwrap_or_default()),
        None if args.len() == most => (None, args),
        None => {
            let mut all = all(switch);
            match (all.next(), all.next()) {
                (Some(only), None) => (Some(only), args),
                (first, _) => {
                    let text = match first {
                        None => "no datapaths exist",
                        Some(_) => "multiple datapaths, specify one",
                    };
                    call.error(text, None);
                    (None, args)
                }
            }
        }
    };
    backer.map(|b| (b, rest)).ok_or_else(|| call.error("datapath not found", Some(EINVAL)))
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

fn show(switch: &mut Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let mut names: Vec<String> = all(switch).map(Backer::name).collect();
    let mut done = Ok(());
    if !args.is_empty() {
        names.clear();
        for name in args {
            match find(switch, name) {
                Some(backer) => names.push(backer.name()),
                None => {
                    let known = |kind: &str| switch.options.datapath_types().contains(&kind);
                    let kind = name.split_once('@').map_or("system", |(kind, _)| kind);
                    let why = if known(kind) {
                        "No such device"
                    } else {
                        "Address family not supported by protocol"
                    };
                    done = Err(call.error(&format!("opening datapath {name} failed"), Some(why)));
                }
            }
        }
    }
    for name in names {
        show_one(switch, call, &name);
    }
    done
}

fn show_one(switch: &mut Switch, call: &mut Call, name: &str) {
    let Some(backer) = find(switch, name) else { return };
    let stats = backer.datapath.stats(&backer.handler.knobs.all_cleared());
    call.text += &format!(
        "{}:\n  lookups: hit:{} missed:{} lost:{}\n  flows: {}\n",
        backer.name(),
        stats.hit,
        stats.missed,
        stats.lost,
        stats.n_flows
    );
    let ports: Vec<_> = backer.ports.iter().map(|(n, p)| (*n, p.clone())).collect();
    for (number, port) in ports {
        let device = dpctl_ports::device(switch, name, number);
        let config = device.as_ref().map(|d| d.options()).unwrap_or_default();
        let kind = match port.kind.as_str() {
            "system" => String::new(),
            kind => format!(" ({kind}{})", config_text(&config)),
        };
        call.text += &format!("  port {}: {}{kind}\n", number.0, port.name);
        if call.statistics {
            let zero = Stats { rx_packets: Some(0), tx_packets: Some(0), ..Stats::default() };
            let zero = Stats { rx_bytes: Some(0), tx_bytes: Some(0), ..zero };
            match device.map_or(Ok(zero), |d| d.stats()) {
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

    fn args(list: &[&str]) -> Vec<String> {
        list.iter().map(|s| (*s).to_owned()).collect()
    }

    #[test]
    fn options_come_first() {
        let all = args(&["-ms", "--no-names", "dp", "-x"]);
        let (call, rest) = Call::new("ovs-vswitchd", &all).unwrap_or_else(|e| panic!("{e}"));
        assert!(call.verbose && call.statistics && !call.names);
        assert_eq!(rest, args(&["dp", "-x"]));
        assert_eq!(Call::new("x", &args(&["-x"])).err(), Some("Unrecognized option -x".to_owned()));
        assert_eq!(Call::new("x", &args(&["--foo"])).err(), Some("Unrecognized option --foo".to_owned()));
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
