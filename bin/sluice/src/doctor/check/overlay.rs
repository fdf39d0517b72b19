//! Checks of tunnels: whether the MTU leaves space for the tunnel headers, and whether the kernel answers ARP requests for the
//! address of the underlay.

use crate::doctor::facts::{Facts, Interface};
use crate::doctor::finding::{Finding, Level};

/// Length of the Ethernet header of a frame inside a tunnel, in bytes.
const ETHERNET: u32 = 14;

pub(crate) fn check(facts: &Facts, found: &mut Vec<Finding>) {
    for tunnel in facts.interfaces.iter().filter(|i| i.egress.is_some()) {
        mtu(facts, tunnel, found);
        kernel_arp(facts, tunnel, found);
    }
}

/// Length of a tunnel's headers in bytes, without the outer Ethernet header and without options; `None`: unknown.
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

/// Checks that the longest packet of the tunnel's bridge, with the tunnel's headers, fits the MTU of the
/// underlay device.
fn mtu(facts: &Facts, tunnel: &Interface, found: &mut Vec<Finding>) {
    let outside = facts.interfaces.iter().find(|i| tunnel.egress.as_ref() == Some(&i.name));
    let inside = facts.interfaces.iter().filter(|i| i.bridge == tunnel.bridge && i.egress.is_none());
    let longest = inside.filter(|i| i.mtu.is_some()).max_by_key(|i| i.mtu);
    let (Some(outside), Some(longest), Some(headers)) = (outside, longest, headers(tunnel)) else { return };
    let (Some(outer_mtu), Some(inner)) = (outside.mtu, longest.mtu) else { return };
    let len = inner + ETHERNET + headers;
    if len <= outer_mtu {
        return;
    }
    let fits = outer_mtu.saturating_sub(ETHERNET + headers);
    found.push(Finding::new(
        Level::Warning,
        "overlay-mtu",
        format!(
            "packets of {} ({inner} bytes) are {len} bytes long in tunnel {}, but the MTU of {} is {outer_mtu}: packets longer than \
             {fits} bytes are dropped",
            longest.name, tunnel.name, outside.name
        ),
        format!("sluice vsctl set Interface {} mtu_request={fits}   # or increase the MTU of {}", longest.name, outside.name),
    ));
}

/// Reports devices of the underlay's bridge on which the kernel, too, answers ARP requests for the bridge's address: the
/// kernel answers for any address of the host, with the Ethernet address of the device that received the request.
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
                "the kernel answers ARP requests received by {name} for the address of {} with the Ethernet address \
                 of {name}: packets for the tunnels of {} may be missed",
                bridge.name, bridge.name
            ),
            format!("ip link set {name} arp off   # or: sysctl -w net.ipv4.conf.{name}.arp_ignore=1"),
        ));
    }
}
