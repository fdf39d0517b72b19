//! Interface names that are reserved.

/// Whether Open vSwitch uses this name for a datapath or a tunnel device.
pub(crate) fn is_reserved(name: &str) -> bool {
    const TUNNELS: [&str; 9] = [
        "genev_sys",
        "gre_sys",
        "vxlan_sys",
        "erspan_sys",
        "ip6erspan_sys",
        "ip6gre_sys",
        "gtpu_sys",
        "udp_sys",
        "srv6_sys",
    ];
    TUNNELS.iter().any(|t| name.starts_with(t))
        || name.strip_prefix("ovs-").is_some_and(|kind| ["netdev", "dummy", "system"].contains(&kind))
}
