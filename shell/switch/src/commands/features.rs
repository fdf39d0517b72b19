//! `dpif/show-dp-features` and `dpif/set-dp-features`: what the datapath can do, and to make believe that it cannot.

use super::{Answer, unknown};
use crate::switch::Switch;
use dpif::Capabilities;

pub(super) fn execute(switch: &mut Switch, name: &str, args: &[String]) -> Answer {
    match name {
        "dpif/show-dp-features" => show(switch, args).into(),
        "dpif/set-dp-features" => set(switch, args).into(),
        _ => unknown(name),
    }
}

/// A value of a feature.
enum Slot<'a> {
    /// Has it or not.
    Flag(&'a mut bool),
    /// How much.
    Size(&'a mut usize),
    /// As much as the highest number of an algorithm.
    Number(&'a mut u32),
    /// It is so, and no command changes it.
    Fixed(bool),
}

/// All features in their order: the name in commands, the name in text.
const FEATURES: [(&str, &str); 27] = [
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

fn slot<'a>(c: &'a mut Capabilities, name: &str) -> Slot<'a> {
    match name {
        "masked_set_action" => Slot::Flag(&mut c.masked_set),
        "tnl_push_pop" => Slot::Flag(&mut c.tunnels),
        "trunc" => Slot::Flag(&mut c.trunc),
        "clone" => Slot::Flag(&mut c.clone),
        "sample_nesting" => Slot::Size(&mut c.sample_nesting),
        "max_hash_alg" => Slot::Number(&mut c.max_hash_alg),
        "check_pkt_len" => Slot::Flag(&mut c.check_pkt_len),
        "explicit_drop_action" => Slot::Flag(&mut c.explicit_drop),
        "add_mpls" => Slot::Flag(&mut c.add_mpls),
        "lb_output_action" => Slot::Flag(&mut c.lb_output),
        "max_vlan_headers" => Slot::Size(&mut c.max_vlan_headers),
        "max_mpls_depth" => Slot::Size(&mut c.max_mpls_depth),
        "recirc" => Slot::Flag(&mut c.recirc),
        "ufid" | "nd_ext" => Slot::Fixed(true),
        "psample" | "ct_eventmask" | "ct_timeout" => Slot::Fixed(false),
        "ct_state_nat" | "ct_zero_snat" => Slot::Flag(&mut c.ct_nat),
        // Of connection tracking without that there is all or nothing.
        _ => Slot::Flag(&mut c.ct),
    }
}

/// The value as text; truth in the two words given.
fn value_text(slot: &Slot<'_>, [yes, no]: [&str; 2]) -> String {
    let word = |b: bool| if b { yes.to_owned() } else { no.to_owned() };
    match slot {
        Slot::Flag(b) => word(**b),
        Slot::Fixed(b) => word(*b),
        Slot::Size(n) => n.to_string(),
        Slot::Number(n) => n.to_string(),
    }
}

fn show_text(mut c: Capabilities) -> String {
    let line = |(name, title): &(&str, &str)| {
        format!("{title}: {}\n", value_text(&slot(&mut c, name), ["Yes", "No"]))
    };
    FEATURES.iter().map(line).collect()
}

/// What a row of `Datapath` says of this datapath.
pub(crate) fn row() -> impl Iterator<Item = (&'static str, String)> {
    let text = |(name, _): (&'static str, _)| {
        let mut all = Capabilities::USERSPACE;
        match slot(&mut all, name) {
            // How deep, nobody asks there.
            Slot::Size(n) if name == "sample_nesting" => (name, (*n != 0).to_string()),
            slot => (name, value_text(&slot, ["true", "false"])),
        }
    };
    FEATURES.into_iter().map(text).chain([("ct_flush", "true".to_owned())])
}

fn show(switch: &Switch, args: &[String]) -> Result<String, String> {
    let bridge = args.last().and_then(|name| switch.bridges.get(name)).ok_or("no such bridge")?;
    switch.backers.get(&bridge.config.datapath_type).ok_or("no such bridge")?;
    Ok(show_text(Capabilities::USERSPACE))
}

fn field_text((name, title): (&str, &str), now: &mut Capabilities) -> String {
    let words = ["true", "false"];
    let run = value_text(&slot(now, name), words);
    let boot = value_text(&slot(&mut Capabilities::USERSPACE.clone(), name), words);
    format!("{name} ({title}) : [run time]:{run}, [boot time]:{boot}\n")
}

/// Sets a feature; `Err`: the text of why not, which is no error to the command.
fn set_feature(c: &mut Capabilities, name: &str, value: &str, force: bool) -> Result<(), &'static str> {
    const BEYOND: &str = "Can not set value beyond the datapath capability";
    let mut boot = Capabilities::USERSPACE;
    match (slot(c, name), slot(&mut boot, name)) {
        (Slot::Flag(now), boot) => match value.to_ascii_lowercase().as_str() {
            "true" if force || matches!(boot, Slot::Flag(&mut true)) => *now = true,
            "true" => return Err("Can not enable features not supported by the datapath"),
            "false" => *now = false,
            _ => return Err("Boolean value expected"),
        },
        (Slot::Size(now), Slot::Size(most)) => {
            let wanted = size(value)?;
            *now = Some(wanted).filter(|n| *n <= *most).ok_or(BEYOND)?;
        }
        (Slot::Number(now), Slot::Number(most)) => {
            let wanted = u32::try_from(size(value)?).map_err(|_| BEYOND)?;
            *now = Some(wanted).filter(|n| *n <= *most).ok_or(BEYOND)?;
        }
        _ => return Err("Can not enable features not supported by the datapath"),
    }
    Ok(())
}

fn size(value: &str) -> Result<usize, &'static str> {
    let n: i32 = value.parse().map_err(|_| "Integer number expected")?;
    usize::try_from(n).map_err(|_| "Negative number not expected")
}

fn set(switch: &mut Switch, args: &[String]) -> Result<String, String> {
    let force = args.len() > 1 && args.first().is_some_and(|a| a == "--force");
    let args = if force { args.get(1..).unwrap_or_default() } else { args };
    let now = switch.clock.now();
    let bridge = args.first().and_then(|name| switch.bridges.get(name)).ok_or("no such bridge")?;
    let backer = switch.backers.get_mut(&bridge.config.datapath_type).ok_or("no such bridge")?;
    let knobs = &backer.handler.knobs;
    let mut capabilities = knobs.capabilities();
    let Some(name) = args.get(1) else {
        return Ok(FEATURES.iter().map(|f| field_text(*f, &mut capabilities)).collect());
    };
    let Some(feature) = FEATURES.iter().find(|(n, _)| n == name) else {
        return Ok("Unexpected support field".to_owned());
    };
    let Some(value) = args.get(2) else { return Ok(field_text(*feature, &mut capabilities)) };
    if let Err(text) = set_feature(&mut capabilities, name, value, force) {
        return Ok(text.to_owned());
    }
    knobs.set_capabilities(capabilities);
    backer.datapath.flow_flush(now);
    backer.changed();
    Ok(String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_as_scripts_read_them() {
        let text = show_text(Capabilities::USERSPACE);
        assert!(text.starts_with("Masked set action: Yes\nTunnel push pop: No\nUfid: Yes\n"));
        assert!(text.contains("\nSample nesting: 10\n") && text.ends_with("IPv6 ND Extension: Yes\n"));
        assert_eq!(text.lines().count(), FEATURES.len());
        let row: std::collections::BTreeMap<_, _> = row().collect();
        assert_eq!((row["ct_label"].as_str(), row["ct_zero_snat"].as_str()), ("true", "false"));
        assert_eq!((row["max_hash_alg"].as_str(), row["sample_nesting"].as_str()), ("1", "true"));
        assert!(text.contains("\nCT mark: Yes\n") && text.contains("\nCT state NAT: No\n"));
        let field =
            field_text(("recirc", "Recirc"), &mut Capabilities { recirc: false, ..Capabilities::USERSPACE });
        assert_eq!(field, "recirc (Recirc) : [run time]:false, [boot time]:true\n");
    }

    #[test]
    fn only_what_the_datapath_has_can_be_set() {
        let mut c = Capabilities::USERSPACE;
        assert_eq!(set_feature(&mut c, "recirc", "False", false), Ok(()));
        assert!(!c.recirc);
        assert_eq!(set_feature(&mut c, "recirc", "xx", false), Err("Boolean value expected"));
        assert!(set_feature(&mut c, "tnl_push_pop", "true", false).is_err());
        assert_eq!(set_feature(&mut c, "sample_nesting", "3", false), Ok(()));
        assert_eq!(c.sample_nesting, 3);
        assert_eq!(set_feature(&mut c, "sample_nesting", "x", false), Err("Integer number expected"));
        assert_eq!(set_feature(&mut c, "sample_nesting", "-1", false), Err("Negative number not expected"));
        assert!(set_feature(&mut c, "sample_nesting", "11", false).is_err());
    }
}
