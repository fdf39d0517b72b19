//! Features of a datapath, by their names in commands and rows.

use dpif::Capabilities;
use runtime::Module;

static LOG: Module = Module::new("ofproto_dpif");

/// The value of a feature, which some commands may change.
pub enum FeatureValue<'a> {
    /// Supported or not.
    Flag(&'a mut bool),
    /// Number of levels.
    Size(&'a mut usize),
    /// The highest number of an algorithm.
    Number(&'a mut u32),
    /// Supported or not; no command can change the value.
    Fixed(bool),
}

/// All features in the order of Open vSwitch: the name in commands, the name in text.
pub const FEATURES: [(&str, &str); 27] = [
    ("masked_set_action", "Masked set action"),
    ("tnl_push_pop", "Tunnel push pop"),
    ("ufid", "Ufid"),
    ("trunc", "Truncate action"),
    ("clone", "Clone action"),
    ("sample_nesting", "Sample nesting"),
    ("ct_eventmask", "Conntrack eventmask"),
    ("ct_clear", "Conntrack clear"),
    ("max_hash_alg", "Max dp_hash algorithm"),
    ("check_pkt_len", "Check pkt length action"),
    ("ct_timeout", "Conntrack timeout policy"),
    ("explicit_drop_action", "Explicit Drop action"),
    ("lb_output_action", "Optimized Balance TCP mode"),
    ("ct_zero_snat", "Conntrack all-zero IP SNAT"),
    ("add_mpls", "MPLS Label add"),
    ("psample", "psample action"),
    ("max_vlan_headers", "Max VLAN headers"),
    ("max_mpls_depth", "Max MPLS depth"),
    ("recirc", "Recirc"),
    ("ct_state", "CT state"),
    ("ct_zone", "CT zone"),
    ("ct_mark", "CT mark"),
    ("ct_label", "CT label"),
    ("ct_state_nat", "CT state NAT"),
    ("ct_orig_tuple", "CT orig tuple"),
    ("ct_orig_tuple6", "CT orig tuple for IPv6"),
    ("nd_ext", "IPv6 ND Extension"),
];

/// The value of the feature with a name.
pub fn feature_value<'a>(c: &'a mut Capabilities, name: &str) -> FeatureValue<'a> {
    match name {
        "masked_set_action" => FeatureValue::Flag(&mut c.masked_set),
        "tnl_push_pop" => FeatureValue::Flag(&mut c.tunnels),
        "trunc" => FeatureValue::Flag(&mut c.trunc),
        "clone" => FeatureValue::Flag(&mut c.clone),
        "sample_nesting" => FeatureValue::Size(&mut c.sample_nesting),
        "max_hash_alg" => FeatureValue::Number(&mut c.max_hash_alg),
        "check_pkt_len" => FeatureValue::Flag(&mut c.check_pkt_len),
        "explicit_drop_action" => FeatureValue::Flag(&mut c.explicit_drop),
        "add_mpls" => FeatureValue::Flag(&mut c.add_mpls),
        "lb_output_action" => FeatureValue::Flag(&mut c.lb_output),
        "max_vlan_headers" => FeatureValue::Size(&mut c.max_vlan_headers),
        "max_mpls_depth" => FeatureValue::Size(&mut c.max_mpls_depth),
        "recirc" => FeatureValue::Flag(&mut c.recirc),
        // The switch sends no connection events, so every event mask is respected.
        "ufid" | "nd_ext" | "ct_eventmask" | "ct_timeout" => FeatureValue::Fixed(true),
        "psample" => FeatureValue::Fixed(false),
        "ct_state_nat" | "ct_zero_snat" => FeatureValue::Flag(&mut c.ct_nat),
        // All other features depend on connection tracking.
        _ => FeatureValue::Flag(&mut c.ct),
    }
}

/// The value of a feature as text. `[yes, no]`: the words for true and false.
pub fn value_text(slot: &FeatureValue<'_>, [yes, no]: [&str; 2]) -> String {
    let word = |b: bool| if b { yes.to_owned() } else { no.to_owned() };
    match slot {
        FeatureValue::Flag(b) => word(**b),
        FeatureValue::Fixed(b) => word(*b),
        FeatureValue::Size(n) => n.to_string(),
        FeatureValue::Number(n) => n.to_string(),
    }
}

/// The features that are logged, in the order of Open vSwitch, and their names in its log.
const LOGGED: [(&str, &str); 24] = [
    ("recirc", "recirculation"),
    ("max_vlan_headers", "VLAN header stack length probed as"),
    ("max_mpls_depth", "MPLS label stack length probed as"),
    ("trunc", "truncate action"),
    ("ufid", "unique flow ids"),
    ("clone", "clone action"),
    ("sample_nesting", "Max sample nesting level probed as"),
    ("ct_eventmask", "eventmask in conntrack action"),
    ("ct_clear", "ct_clear action"),
    ("max_hash_alg", "Max dp_hash algorithm probed to be"),
    ("check_pkt_len", "check_pkt_len action"),
    ("ct_timeout", "timeout policy in conntrack action"),
    ("explicit_drop_action", "explicit drop action"),
    ("ct_zero_snat", "ct_zero_snat"),
    ("add_mpls", "add_mpls action"),
    ("psample", "psample action"),
    ("ct_state", "ct_state"),
    ("ct_zone", "ct_zone"),
    ("ct_mark", "ct_mark"),
    ("ct_label", "ct_label"),
    ("ct_state_nat", "ct_state_nat"),
    ("ct_orig_tuple", "ct_orig_tuple"),
    ("ct_orig_tuple6", "ct_orig_tuple6"),
    ("nd_ext", "IPv6 ND Extensions"),
];

/// The log lines about the features of a new datapath. Existing scripts search for these lines.
fn announcement(datapath: &str) -> impl Iterator<Item = String> {
    let mut all = Capabilities::USERSPACE;
    LOGGED.into_iter().map(move |(name, text)| match feature_value(&mut all, name) {
        FeatureValue::Flag(&mut true) | FeatureValue::Fixed(true) => {
            format!("{datapath}: Datapath supports {text}")
        }
        FeatureValue::Flag(_) | FeatureValue::Fixed(_) => {
            format!("{datapath}: Datapath does not support {text}")
        }
        size => format!("{datapath}: {text} {}", value_text(&size, ["", ""])),
    })
}

/// Logs the features of a new datapath.
pub(crate) fn log_features(datapath: &str) {
    announcement(datapath).for_each(|line| runtime::info!(LOG, "{line}"));
}

/// The key-value pairs of column `capabilities` in table Datapath.
pub(crate) fn row() -> impl Iterator<Item = (&'static str, String)> {
    let text = |(name, _): (&'static str, _)| {
        let mut all = Capabilities::USERSPACE;
        match feature_value(&mut all, name) {
            // The row shows only whether nesting is supported.
            FeatureValue::Size(n) if name == "sample_nesting" => (name, (*n != 0).to_string()),
            slot => (name, value_text(&slot, ["true", "false"])),
        }
    };
    FEATURES.into_iter().map(text).chain([("ct_flush", "true".to_owned())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_as_rows_tell_them() {
        let row: std::collections::BTreeMap<_, _> = row().collect();
        assert_eq!((row["ct_label"].as_str(), row["ct_zero_snat"].as_str()), ("true", "true"));
        assert_eq!((row["max_hash_alg"].as_str(), row["sample_nesting"].as_str()), ("1", "true"));
    }

    #[test]
    fn features_as_the_log_tells_them() {
        let lines: Vec<_> = announcement("netdev@ovs-netdev").collect();
        assert_eq!(lines[0], "netdev@ovs-netdev: Datapath supports recirculation");
        assert_eq!(lines[2], "netdev@ovs-netdev: MPLS label stack length probed as 3");
        assert!(lines.contains(&"netdev@ovs-netdev: Datapath supports ct_clear action".to_owned()));
        assert!(lines.contains(&"netdev@ovs-netdev: Datapath does not support psample action".to_owned()));
    }
}
