//! `tnl/neigh/*`, also under its old name `tnl/arp/*`: the neighbours that tunnels use as next hops.

use crate::answer::{Answer, unknown};
use std::net::IpAddr;
use switch::Switch;

pub(crate) fn execute(switch: &mut Switch, name: &str, args: &[String]) -> Answer {
    let now = switch.clock.now();
    match (name.rsplit('/').next().unwrap_or_default(), args) {
        ("show", []) => switch.underlay.neighbours.lock().text(now).into(),
        ("flush", []) => {
            switch.flush_neighbours(None);
            "OK".into()
        }
        ("set", [bridge, ip, mac]) => set(switch, bridge, ip, mac).into(),
        ("aging", []) => switch.underlay.neighbours.lock().aging_s().to_string().into(),
        ("aging", [seconds]) => set_aging(switch, seconds).into(),
        _ => unknown(name),
    }
}

fn set(switch: &mut Switch, bridge: &str, ip: &str, mac: &str) -> Result<String, String> {
    let ip: IpAddr = ip.parse().map_err(|_| "bad IP address")?;
    let mac = flow::text::address::parse_mac(mac).ok_or("bad MAC address")?;
    switch.note_neighbour(bridge, ip, mac);
    Ok("OK".to_owned())
}

fn set_aging(switch: &mut Switch, seconds: &str) -> Result<String, String> {
    let now = switch.clock.now();
    let bad = || "bad aging value".to_owned();
    let seconds = seconds.parse().map_err(|_| bad())?;
    switch.underlay.neighbours.lock().set_aging_s(seconds, now).map_err(|_| bad())?;
    Ok("OK".to_owned())
}
