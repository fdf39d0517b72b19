//! `dpif-netdev/subtable-lookup-*`: implementations of the subtable look-up.

use runtime::Module;
use switch::Switch;

static IMPLS: Module = Module::new("dpif_netdev_lookup");
static NETDEV: Module = Module::new("dpif_netdev");

/// Parses a priority as Open vSwitch does: the digits at the beginning of a text. `None`: the number is negative or
/// above 255.
fn number(text: &str) -> Option<u8> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    match &text[..end] {
        "" if text.starts_with('-') && text[1..].starts_with(|c: char| c.is_ascii_digit()) => None,
        "" => Some(0),
        digits => digits.parse().ok(),
    }
}

/// `dpif-netdev/subtable-lookup-info-get`, and the older name `dpif-netdev/subtable-lookup-prio-get`.
pub(crate) fn show(switch: &Switch) -> String {
    let (mut used, mut differences) = (0, 0);
    for backer in switch.datapaths.all() {
        used += backer.datapath.subtables().1;
        differences += backer.datapath.lookup_differences();
    }
    let text = switch.limits.lookups.text(used);
    if differences == 0 { text } else { text + &format!("Look-ups that differed: {differences}\n") }
}

/// `dpif-netdev/subtable-lookup-prio-set`.
pub(crate) fn set(switch: &mut Switch, args: &[String]) -> Result<String, String> {
    let [name, priority] = args else {
        return Err("error, subtable lookup function not found\n".to_owned());
    };
    let Some(priority) = number(priority) else {
        return Err("error converting priority, use integer in range 0-255\n".to_owned());
    };
    let Some(lookups) = switch.limits.lookups.with(name, priority) else {
        runtime::warn!(IMPLS, "Subtable function '{name}' not found, failed to set priority");
        return Err("error, subtable lookup function not found\n".to_owned());
    };
    runtime::info!(IMPLS, "Subtable function '{name}' set priority to {priority}");
    let changed = lookups.uses_autovalidator() != switch.limits.lookups.uses_autovalidator();
    switch.limits.lookups = lookups;
    let (mut ports, mut subtables) = (0, 0);
    for backer in switch.datapaths.all().filter(|_| changed) {
        backer.datapath.set_validate(lookups.uses_autovalidator());
        let there = backer.datapath.subtables();
        ports += there.0;
        subtables += there.1;
    }
    let text = format!("Lookup priority change affected {ports} dpcls ports and {subtables} subtables.\n");
    runtime::info!(NETDEV, "{}", text.trim_end());
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_read_as_the_peer_reads_them() {
        assert_eq!(["4", "255", "12x", "abc", ""].map(number), [4, 255, 12, 0, 0].map(Some));
        assert_eq!(["256", "-1", "300x"].map(number), [None; 3]);
    }
}
