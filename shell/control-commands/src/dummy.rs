//! `netdev-dummy/*` and `dpif-dummy/*`: packets, addresses, link states and port numbers of dummy ports.

use crate::answer::{Answer, unknown};
use ctl::names;
use flow::Flow;
use flow::text::address::{parse_ipv4_masked, parse_ipv6_masked, prefix_len};
use netdev::dummy::{ConnState, DummyHandle};
use router::Prefix;
use std::net::{Ipv4Addr, Ipv6Addr};
use switch::Switch;
use units::PortNo;

const UNKNOWN: &str = "Unknown Dummy Interface";
/// Length of the shortest Ethernet frame (IEEE 802.3) in bytes, without the frame check sequence.
const FRAME_MIN: u16 = 60;
/// Default length of the payload of a composed packet in bytes.
const DEFAULT_PAYLOAD: usize = 64;

pub(crate) fn execute(switch: &mut Switch, name: &str, args: &[String]) -> Answer {
    match (name, args) {
        (names::NETDEV_DUMMY_RECEIVE, [device, rest @ ..]) => receive(switch, device, rest).into(),
        (names::NETDEV_DUMMY_SET_ADMIN_STATE, _) => set_admin_state(switch, args).into(),
        (names::NETDEV_DUMMY_CONN_STATE, _) => conn_state(switch, args.first()).into(),
        (names::NETDEV_DUMMY_IP4ADDR, [device, addr]) => ip4addr(switch, device, addr).into(),
        (names::NETDEV_DUMMY_IP6ADDR, [device, addr]) => ip6addr(switch, device, addr).into(),
        (names::DPIF_DUMMY_CHANGE_PORT_NUMBER, [dp, port, wanted]) => {
            change_port_number(switch, dp, port, wanted).into()
        }
        _ => unknown(name),
    }
}

/// Changes the number of a port in its dummy datapath.
fn change_port_number(switch: &mut Switch, dp: &str, port: &str, wanted: &str) -> Result<String, String> {
    let backer = switch.datapaths.with_bridges().find(|b| b.datapath_type == "dummy" && b.dp_name == dp);
    let backer = backer.ok_or("unknown datapath")?;
    let has_port = |b: &&openflow_service::Bridge| {
        b.config.datapath_type == backer.datapath_type
            && b.port_named(port).is_some_and(|p| p.number().is_some())
    };
    let bridge = switch.bridges.values().find(has_port).ok_or("unknown port")?.name.clone();
    let number = u32::try_from(number(wanted)).ok().filter(|n| (1..=datapath::ports::MAX_PORT).contains(n));
    let number = PortNo(number.ok_or("bad port number")?);
    if backer.ports.contains_key(&number) {
        return Err("port number already in use".to_owned());
    }
    switch.change_dummy_number(&bridge, port, number);
    switch.publish_changes();
    Ok(String::new())
}

/// Parses the number at the beginning of a text; 0 if there is none.
fn number(text: &str) -> i64 {
    let text = text.trim_start();
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let digits = digits.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse::<i64>().map_or(0, |n| sign * n)
}

fn receive(switch: &Switch, device: &str, args: &[String]) -> Result<String, String> {
    let dummy = switch.devices.netdevs.dummy(device).ok_or("no such dummy netdev")?;
    let (queue, mut rest) = match args {
        [option, queue, rest @ ..] if option == "--qid" => {
            let queue = usize::try_from(number(queue)).ok().filter(|q| *q < dummy.n_rxq());
            (queue.ok_or("bad rx queue id.")?, rest)
        }
        _ => (0, args),
    };
    while let Some((text, after)) = rest.split_first() {
        rest = after;
        let frame = match packet::hex::parse(text).filter(|bytes| bytes.len() >= 14) {
            Some(bytes) => bytes,
            None => {
                let mut size = None;
                if let [option, len, after @ ..] = rest
                    && option == "--len"
                {
                    size = Some(frame_size(len)?);
                    rest = after;
                }
                frame_of(text, size)?
            }
        };
        dummy.inject(&frame, queue).map_err(|_| "bad rx queue id.")?;
    }
    Ok(String::new())
}

fn frame_size(text: &str) -> Result<u16, String> {
    let size = u16::try_from(number(text)).ok().filter(|n| *n >= FRAME_MIN);
    size.ok_or_else(|| "too small packet len".to_owned())
}

/// Composes a packet with the fields of a datapath flow.
fn frame_of(text: &str, size: Option<u16>) -> Result<Vec<u8>, String> {
    let (key, _) = dpif::text::parse_key(text, &dpif::text::NoNames).map_err(|e| e.to_string())?;
    match size {
        None => Ok(flow::compose::compose_len(&key, DEFAULT_PAYLOAD)),
        Some(size) => compose_sized(&key, size),
    }
}

fn compose_sized(key: &Flow, size: u16) -> Result<Vec<u8>, String> {
    flow::compose::compose_sized(key, size).ok_or_else(|| "headers are longer than the packet".to_owned())
}

fn set_admin_state(switch: &Switch, args: &[String]) -> Result<String, String> {
    let up = match args.last().map(|s| s.to_ascii_lowercase()).as_deref() {
        Some("up") => true,
        Some("down") => false,
        _ => return Err("Invalid Admin State".to_owned()),
    };
    match args {
        [device, _] => find(switch, device)?.set_admin(up),
        _ => switch.devices.netdevs.dummies().for_each(|d| d.set_admin(up)),
    }
    switch.waker.wake();
    Ok("OK".to_owned())
}

fn find<'a>(switch: &'a Switch, device: &str) -> Result<&'a DummyHandle, String> {
    switch.devices.netdevs.dummy(device).ok_or_else(|| UNKNOWN.to_owned())
}

fn conn_state(switch: &Switch, device: Option<&String>) -> String {
    match device {
        Some(device) => {
            let state =
                switch.devices.netdevs.dummy(device).map_or(ConnState::Unknown, DummyHandle::conn_state);
            state_line(device, state)
        }
        None => {
            let states = switch.devices.netdevs.dummies().map(|d| (d.name(), d.conn_state()));
            states.filter(|(_, s)| *s != ConnState::Unknown).map(|(name, s)| state_line(name, s)).collect()
        }
    }
}

fn state_line(name: &str, state: ConnState) -> String {
    let state = match state {
        ConnState::Connected => "connected",
        ConnState::Disconnected => "disconnected",
        ConnState::Unknown => "unknown",
    };
    format!("{name}: {state}\n")
}

fn ip4addr(switch: &mut Switch, device: &str, text: &str) -> Result<String, String> {
    let dummy = find(switch, device)?;
    let (addr, prefix) = parse_ip4(text)?;
    dummy.add_ip4(addr, prefix);
    add_address(switch, device, Prefix::of_interface(addr.into(), prefix))
}

fn ip6addr(switch: &mut Switch, device: &str, text: &str) -> Result<String, String> {
    let dummy = find(switch, device)?;
    let (addr, prefix) = parse_ip6(text)?;
    dummy.add_ip6(addr, prefix);
    add_address(switch, device, Prefix::of_interface(addr.into(), prefix))
}

fn add_address(switch: &mut Switch, device: &str, address: Prefix) -> Result<String, String> {
    switch.underlay.add_dummy_address(device, address).map_err(|e| e.to_string())?;
    switch.routes_changed();
    Ok("OK".to_owned())
}

/// Parses an IPv4 address, alone or with a prefix length or a contiguous mask.
fn parse_ip4(text: &str) -> Result<(Ipv4Addr, u8), String> {
    let (addr, mask) = parse_ipv4_masked(text).map_err(|e| e.to_string())?;
    let len = prefix_len(mask.into(), 32).ok_or_else(|| format!("{text}: CIDR network required"))?;
    Ok((addr.into(), len as u8))
}

/// Parses an IPv6 address, alone or with a prefix length or a contiguous mask.
fn parse_ip6(text: &str) -> Result<(Ipv6Addr, u8), String> {
    let (addr, mask) = parse_ipv6_masked(text).map_err(|e| e.to_string())?;
    let len = prefix_len(mask, 128).ok_or_else(|| format!("{text}: IPv6 CIDR network required"))?;
    Ok((addr.into(), len as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_errors_in_addresses() {
        assert_eq!(parse_ip4("1.2.3.4/24"), Ok((Ipv4Addr::new(1, 2, 3, 4), 24)));
        assert_eq!(parse_ip4("1.2.3.4/255.255.0.0"), Ok((Ipv4Addr::new(1, 2, 3, 4), 16)));
        assert_eq!(parse_ip4("1.2.3.4"), Ok((Ipv4Addr::new(1, 2, 3, 4), 32)));
        assert_eq!(parse_ip4("foo"), Err("foo: invalid IP address".to_owned()));
        let range = "1.2.3.4/99: IPv4 network prefix bits not between 0 and 32, inclusive";
        assert_eq!(parse_ip4("1.2.3.4/99"), Err(range.to_owned()));
        assert!(parse_ip4("1.2.3.4/255.0.255.0").unwrap_err().ends_with("CIDR network required"));
        assert_eq!(parse_ip6("fe80::1/64").map(|(_, p)| p), Ok(64));
        assert_eq!(parse_ip6("fe80::1/ffff::").map(|(_, p)| p), Ok(16));
        assert!(parse_ip6("fe80::1/::1").unwrap_err().ends_with("IPv6 CIDR network required"));
        assert_eq!(parse_ip6("zz"), Err("zz: invalid IPv6 address".to_owned()));
    }

    #[test]
    fn packets_from_flows() {
        let tcp = "in_port(1),eth(src=50:54:00:00:00:05,dst=50:54:00:00:00:07),eth_type(0x0800),\
                   ipv4(src=192.168.0.1,dst=192.168.0.2,proto=6,tos=0,ttl=64,frag=no),tcp(src=8,dst=9),\
                   tcp_flags(ack)";
        assert_eq!(frame_of(tcp, None).map(|f| f.len()), Ok(118));
        assert_eq!(frame_of(tcp, Some(200)).map(|f| f.len()), Ok(200));
        assert_eq!(frame_of("zz", None), Err("syntax error at zz".to_owned()));
        assert_eq!(frame_size("5"), Err("too small packet len".to_owned()));
    }
}
