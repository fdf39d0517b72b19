//! `dpctl/{add,del}-dp` and `dpctl/{add,set,del}-if`: datapaths and ports managed by commands.

use crate::dpctl_call::{Call, EINVAL, Failed, find, full_name};
use netdev::device::Netdev;
use netdev::error::strerror;
use runtime::{Module, RateLimit};
use std::collections::BTreeMap;
use switch::{Backer, Switch, UnbridgedDatapath};
use units::PortNo;

static LOG: Module = Module::new("dpif");
static LIMIT: RateLimit = RateLimit::new(60, 5);

const EXISTS: &str = "File exists";
const NO_DEVICE: &str = "No such device";
const BUSY: &str = "Device or resource busy";
const NO_ROOM: &str = "No space left on device";

pub(crate) fn add_dp(switch: &mut Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let name = full_name(args.first().map(String::as_str).unwrap_or_default());
    if find(switch, &name).is_some() {
        return Err(call.error("add_dp", Some(EXISTS)));
    }
    let (kind, short) = name.split_once('@').unwrap_or_default();
    // The kernel's datapath module is not supported (97: EAFNOSUPPORT).
    let kind = switch.options.datapath_type(kind).filter(|k| *k != "system");
    let kind = kind.ok_or_else(|| call.error("add_dp", Some(&strerror(97))))?;
    let threads = switch.options.threads();
    let backer = Backer::new(
        kind,
        threads,
        &switch.machine.topology,
        &switch.clock,
        switch.waker.clone(),
        switch.options.seed,
        (&switch.underlay.neighbours, &switch.datapaths.exporters),
    );
    let backer = backer.map_err(|e| call.error("add_dp", Some(&runtime::error_text(&e))))?;
    let unbridged = UnbridgedDatapath::new(backer, short);
    switch.datapaths.add_unbridged(unbridged);
    if args.len() > 1 { add_if(switch, call, args) } else { Ok(()) }
}

/// Removes a datapath that a command added. As in Open vSwitch, the command succeeds for a datapath of bridges, too, but that datapath remains until
/// its last bridge is removed.
pub(crate) fn del_dp(switch: &mut Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let name = datapath_name(switch, call, args)?;
    switch.datapaths.remove_unbridged(&name);
    Ok(())
}

/// The full name of the datapath in the first argument.
fn datapath_name(switch: &Switch, call: &mut Call, args: &[String]) -> Result<String, Failed> {
    let name = args.first().map(String::as_str).unwrap_or_default();
    match find(switch, name) {
        Some(backer) => Ok(backer.name()),
        None => Err(call.error("opening datapath", Some(NO_DEVICE))),
    }
}

/// A port argument of a command.
#[derive(Debug, Default, PartialEq, Eq)]
struct PortArgument<'a> {
    name: &'a str,
    kind: Option<&'a str>,
    number: Option<PortNo>,
    options: BTreeMap<String, String>,
}

/// Parses `NAME[,type=TYPE][,port_no=N][,OPTION=VALUE]...`.
fn port_argument(arg: &str) -> PortArgument<'_> {
    let mut words = arg.split(',').filter(|w| !w.is_empty());
    let mut port_argument =
        PortArgument { name: words.next().unwrap_or_default(), ..PortArgument::default() };
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("type", kind) => port_argument.kind = Some(kind),
            ("port_no", number) => port_argument.number = Some(PortNo(number.parse().unwrap_or(0))),
            (key, value) => _ = port_argument.options.insert(key.to_owned(), value.to_owned()),
        }
    }
    port_argument
}

/// Calls `act` for each argument after the first. After a failure the other arguments are still processed.
fn for_each_port<'a>(
    args: &'a [String],
    mut act: impl FnMut(&'a str) -> Result<(), Failed>,
) -> Result<(), Failed> {
    args.iter().skip(1).map(|arg| act(arg)).fold(Ok(()), Result::and)
}

pub(crate) fn add_if(switch: &mut Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let dp = datapath_name(switch, call, args)?;
    for_each_port(args, |arg| {
        let port_argument = port_argument(arg);
        let name = port_argument.name;
        if name.is_empty() {
            return Err(call.error(&format!("{arg} is not a valid network device name"), None));
        }
        let failed = |call: &mut Call, why: &str| {
            runtime::log_rl!(
                LOG,
                LIMIT,
                runtime::log::Level::Warn,
                "{dp}: failed to add {name} as port: {why}"
            );
            call.error(&format!("adding {name} to {dp} failed"), Some(why))
        };
        // Ports cannot be added to a datapath of bridges: its ports are configured in the database.
        let Some(unbridged) = switch.datapaths.unbridged_named_mut(&dp) else {
            return Err(failed(call, BUSY));
        };
        if unbridged.backer.ports.values().any(|p| p.name == name) {
            return Err(failed(call, EXISTS));
        }
        let number = port_argument.number.unwrap_or_else(|| unbridged.backer.free_number(name));
        if unbridged.backer.ports.contains_key(&number) {
            return Err(failed(call, EXISTS));
        }
        let kind = unbridged.backer.open_kind(port_argument.kind.unwrap_or("system")).to_owned();
        let mut device = match switch.devices.netdevs.open(name, &kind, &port_argument.options) {
            Ok((device, None)) => device,
            Ok((_, Some(refused))) => return Err(call.error(&refused.to_string(), None)),
            Err(e) => {
                let why = strerror(e.errno());
                return Err(call.error(&format!("{name}: failed to open network device"), Some(&why)));
            }
        };
        unbridged.backer.add_port(number, &mut *device).map_err(|_| failed(call, NO_ROOM))?;
        let up = device.set_admin(true);
        unbridged.devices.insert(number, device);
        up.map_err(|e| {
            call.error(&format!("{name}: failed bringing interface up"), Some(&strerror(e.errno())))
        })
    })
}

/// The device of a datapath port. The datapath's own port may have no device.
pub(crate) fn device<'a>(
    switch: &'a mut Switch,
    dp: &str,
    number: PortNo,
) -> Option<&'a mut Box<dyn Netdev>> {
    let of_bridges = switch.datapaths.with_bridges().find(|b| b.name() == dp);
    let Some(kind) = of_bridges.map(|b| b.datapath_type.as_str()) else {
        return switch.datapaths.unbridged_named_mut(dp)?.devices.get_mut(&number);
    };
    let mut bridges = switch.bridges.values_mut().filter(|b| b.config.datapath_type == kind);
    bridges.find_map(|bridge| {
        let ofport = bridge.ports.values().find(|p| p.number() == Some(number))?.ofport;
        bridge.ports.get_mut_unmarked(&ofport)?.netdev()
    })
}

pub(crate) fn set_if(switch: &mut Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let dp = datapath_name(switch, call, args)?;
    for_each_port(args, |arg| {
        let port_argument = port_argument(arg);
        let name = port_argument.name;
        let port = find(switch, &dp).and_then(|b| b.ports.iter().find(|(_, p)| p.name == name));
        let Some((number, kind)) = port.map(|(n, p)| (*n, p.kind.clone())) else {
            return Err(call.error(&format!("{name}: failed to query port in {dp}"), Some(NO_DEVICE)));
        };
        if let Some(wanted) = port_argument.kind.filter(|k| *k != kind) {
            return Err(call.error(&format!("{name}: can't change type from {kind} to {wanted}"), None));
        }
        if let Some(wanted) = port_argument.number.filter(|n| *n != number) {
            let text = format!("{name}: can't change port number from {} to {}", number.0, wanted.0);
            return Err(call.error(&text, None));
        }
        let Some(device) = device(switch, &dp, number).filter(|_| !port_argument.options.is_empty()) else {
            return Ok(());
        };
        let mut options = device.options();
        options.extend(port_argument.options);
        options.retain(|_, value| !value.is_empty());
        let renewed = device.set_options(&options).map_err(|e| call.error(&e.to_string(), None))?;
        if renewed && let Some(unbridged) = switch.datapaths.unbridged_named_mut(&dp) {
            let device = unbridged.devices.get_mut(&number);
            device.into_iter().for_each(|d| unbridged.backer.replace_queues(number, &mut **d));
        }
        Ok(())
    })
}

pub(crate) fn del_if(switch: &mut Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let dp = datapath_name(switch, call, args)?;
    for_each_port(args, |name| {
        let Some(backer) = find(switch, &dp) else { return Err(Failed) };
        let number = match name.parse() {
            Ok(number) => PortNo(number),
            Err(_) => match backer.ports.iter().find(|(_, p)| p.name == name) {
                Some((number, _)) => *number,
                None => return Err(call.error(&format!("no port named {name}"), None)),
            },
        };
        remove_port(switch, &dp, number).map_err(|why| {
            runtime::log_rl!(
                LOG,
                LIMIT,
                runtime::log::Level::Warn,
                "{dp}: port_del failed (number {}): {why}",
                number.0
            );
            call.error(&format!("deleting port {name} from {dp} failed"), Some(why))
        })
    })
}

/// Removes a port. The next reconfiguration adds a port of a bridge again.
fn remove_port(switch: &mut Switch, dp: &str, number: PortNo) -> Result<(), &'static str> {
    if number == PortNo::LOCAL {
        return Err(EINVAL);
    }
    if let Some(unbridged) = switch.datapaths.unbridged_named_mut(dp) {
        if !unbridged.backer.ports.contains_key(&number) {
            return Err("No such file or directory");
        }
        unbridged.backer.remove_port(number);
        unbridged.devices.remove(&number);
        return Ok(());
    }
    let name = device(switch, dp, number).map(|d| d.name().to_owned()).ok_or("No such file or directory")?;
    let bridge = switch.bridges.values().find(|b| b.port_named(&name).is_some());
    let bridge = bridge.map(|b| b.name.clone()).ok_or(NO_DEVICE)?;
    switch.remove_interface(&bridge, &name);
    switch.removed_by_command.insert((bridge, name));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_argument_says() {
        let port_argument = port_argument("vif1.0,type=dummy,port_no=5,n_rxq=2");
        assert_eq!(
            (port_argument.name, port_argument.kind, port_argument.number),
            ("vif1.0", Some("dummy"), Some(PortNo(5)))
        );
        assert_eq!(port_argument.options.get("n_rxq").map(String::as_str), Some("2"));
        assert_eq!(super::port_argument(",").name, "");
    }
}
