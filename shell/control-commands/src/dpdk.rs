//! `dpdk/*` and `netdev-dpdk/*`: available once DPDK is initialized.

use crate::answer::{Answer, unknown};
use ::dpdk::log::{self, Level};
use ::dpdk::{dump, mempool};
use ctl::names;
use netdev::device::Netdev;
use switch::Switch;

pub(crate) fn execute(switch: &mut Switch, name: &str, args: &[String]) -> Answer {
    match name {
        names::DPDK_GET_MALLOC_STATS => dumped(dump::malloc_stats()),
        names::DPDK_GET_MEMZONE_STATS => dumped(dump::memzones()),
        names::DPDK_LCORE_LIST => dumped(dump::lcores()),
        names::DPDK_LOG_LIST => dumped(dump::log_levels()),
        names::DPDK_LOG_SET => log_set(args).into(),
        names::NETDEV_DPDK_DETACH => detach(args).into(),
        names::NETDEV_DPDK_GET_MEMPOOL_INFO => mempool_info(switch, args).into(),
        names::NETDEV_DPDK_SET_ADMIN_STATE => set_admin_state(switch, args).into(),
        _ => unknown(name),
    }
}

fn dumped(text: Option<String>) -> Answer {
    text.ok_or_else(|| "Unable to open memstream: Cannot allocate memory.".to_owned()).into()
}

/// Sets log levels of DPDK. `level` applies to all components, `pattern:level` to those that match; without arguments
/// everything is logged.
fn log_set(args: &[String]) -> Result<String, String> {
    if args.is_empty() {
        log::set_level("*", Level::Debug);
    }
    for arg in args {
        let (pattern, level) = arg.split_once(':').unwrap_or(("*", arg));
        let known = Level::from_name(level).ok_or_else(|| format!("invalid log level: '{level}'"))?;
        if !log::set_level(pattern, known) {
            return Err(format!("cannot set log level for '{arg}'"));
        }
    }
    Ok(String::new())
}

fn detach(args: &[String]) -> Result<String, String> {
    let device = args.first().map_or("", String::as_str);
    ::dpdk::ethdev::detach(device)?;
    Ok(format!("All devices shared with device '{device}' have been detached"))
}

const NOT_DPDK: &str = "Not a DPDK Interface";

fn mempool_info(switch: &mut Switch, args: &[String]) -> Result<String, String> {
    let Some(name) = args.first() else { return Ok(mempool::info_of_all()) };
    let device = devices(switch).find(|d| d.name() == name).ok_or(NOT_DPDK)?;
    match device.mempool_info().ok_or(NOT_DPDK)? {
        info if info.is_empty() => Err("Not allocated".to_owned()),
        info => Ok(info),
    }
}

fn set_admin_state(switch: &mut Switch, args: &[String]) -> Result<String, String> {
    let (name, state) = match args {
        [name, state, ..] => (Some(name), state.as_str()),
        [state] => (None, state.as_str()),
        [] => (None, ""),
    };
    let up = match state {
        s if s.eq_ignore_ascii_case("up") => true,
        s if s.eq_ignore_ascii_case("down") => false,
        _ => return Err("Invalid Admin State".to_owned()),
    };
    let mut found = false;
    let theirs = |d: &&mut dyn Netdev| d.mempool_info().is_some() && name.is_none_or(|n| d.name() == n);
    for device in devices(switch).filter(theirs) {
        found = true;
        device.set_admin(up).map_err(|e| e.to_string())?;
    }
    if !found && name.is_some() {
        return Err(NOT_DPDK.to_owned());
    }
    switch.status.due = true;
    Ok("OK".to_owned())
}

fn devices(switch: &mut Switch) -> impl Iterator<Item = &mut dyn Netdev> {
    let devices = switch.bridges.values_mut().flat_map(|b| b.ports.devices());
    let of_bridges = devices.map(|(_, device)| &mut **device as &mut dyn Netdev);
    let of_unbridged = switch.datapaths.unbridged_mut().flat_map(|m| m.devices.values_mut());
    of_bridges.chain(of_unbridged.map(|d| &mut **d as &mut dyn Netdev))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_levels_are_refused_with_the_text_that_scripts_know() {
        assert_eq!(log_set(&["foo".to_owned()]), Err("invalid log level: 'foo'".to_owned()));
        assert_eq!(log_set(&["a:b:debug".to_owned()]), Err("invalid log level: 'b:debug'".to_owned()));
    }
}
