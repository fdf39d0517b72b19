//! Checks of tunnels: room for their headers, and the kernel's own answers on the devices of the underlay.

use crate::doctor::facts::{Facts, Interface};
use crate::doctor::finding::{Finding, Level};

/// An Ethernet header, which every frame inside a tunnel has.
const ETHERNET: u32 = 14;

pub(crate) fn check(facts: &Facts, found: &mut Vec<Finding>) {
    for tunnel in facts.interfaces.iter().filter(|i| i.egress.is_some()) {
        mtu(facts, tunnel, found);
        kernel_arp(facts, tunnel, found);
    }
}

/// Bytes that a tunnel puts in front of a frame, without the outer Ethernet header and without options.
fn headers(tunnel: &Interface) -> Option<u32> {
    let ip = if tunnel.kind.starts_with("ip6") || tunnel.remote.contains(':') { 40 } else { 20 };
    let own = match tunnel.kind.as_str() {
        "vxlan" | "geneve" => 8 + 8,
        "gre" | "ip6gre" => 4,
        "erspan" | "ip6erspan" => 4 + 4 + 8,
        _ => return None,
    };
    Some(ip + own)
}

/// The longest packet of a port of the tunnel's bridge, with the headers around it, must fit the device it leaves by.
fn mtu(facts: &Facts, tunnel: &Interface, found: &mut Vec<Finding>) {
    let outside = facts.interfaces.iter().find(|i| tunnel.egress.as_ref() == Some(&i.name));
    let inside = facts.interfaces.iter().filter(|i| i.bridge == tunnel.bridge && i.egress.is_none());
    let longest = inside.filter(|i| i.mtu.is_some()).max_by_key(|i| i.mtu);
    let (Some(outside), Some(longest), Some(headers)) = (outside, longest, headers(tunnel)) else { return };
    let (Some(room), Some(inner)) = (outside.mtu, longest.mtu) else { return };
    let len = inner + ETHERNET + headers;
    if len <= room {
        return;
    }
    let fits = room.saturating_sub(ETHERNET + headers);
    found.push(Finding::new(
        Level::Warning,
        "overlay-mtu",
        format!(
            "packets of {} ({inner} bytes) are {len} bytes long in tunnel {}, and {} takes {room}: those longer than \
             {fits} bytes are lost",
            longest.name, tunnel.name, outside.name
        ),
        format!("sluice vsctl set Interface {} mtu_request={fits}   # or a larger MTU of {}", longest.name, outside.name),
    ));
}

/// The kernel answers ARP requests on a device of the underlay's bridge for all addresses of the host, so for the bridge's,
/// and with the device's own Ethernet address.
fn kernel_arp(facts: &Facts, tunnel: &Interface, found: &mut Vec<Finding>) {
    let Some(bridge) = facts.interfaces.iter().find(|i| tunnel.egress.as_ref() == Some(&i.name)) else {
        return;
    };
    for device in facts.interfaces.iter().filter(|i| i.bridge == bridge.bridge && i.answers_arp) {
        let name = &device.name;
        found.push(Finding::new(
            Level::Warning,
            "kernel-arp",
            format!(
                "the kernel answers ARP requests that come by {name} for the address of {}, with the Ethernet address \
                 of {name}: packets for the tunnels of {} may not be recognised",
                bridge.name, bridge.name
            ),
            format!("ip link set {name} arp off   # or: sysctl -w net.ipv4.conf.{name}.arp_ignore=1"),
        ));
    }
}
