//! `dpctl/ipf-*`: settings, limits and counters of IP reassembly.

use crate::dpctl_call::{Call, EINVAL, Failed, select_datapath};
use crate::dpctl_ct::leading_number;
use reassembly::{Entry, Family, FamilyStatus, Status};
use switch::Switch;

/// The error for a number that is out of range.
const EPERM: &str = "Operation not permitted";

fn family(arg: &str) -> Option<Family> {
    match arg.get(..2)? {
        "v4" => Some(Family::V4),
        "v6" => Some(Family::V6),
        _ => None,
    }
}

pub(crate) fn set_enabled(
    switch: &Switch,
    call: &mut Call,
    args: &[String],
    enabled: bool,
) -> Result<(), Failed> {
    let (backer, _) = select_datapath(switch, call, args, 3)?;
    let family = args.last().and_then(|arg| family(arg));
    let missing = "parameter missing: 'v4' for IPv4 or 'v6' for IPv6";
    let family = family.ok_or_else(|| call.error(missing, Some(EINVAL)))?;
    backer.datapath.reassembly().set_enabled(family, enabled);
    call.text += match enabled {
        true => "enabling fragmentation reassembly successful",
        false => "disabling fragmentation reassembly successful",
    };
    Ok(())
}

pub(crate) fn set_min_size(switch: &Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let (backer, _) = select_datapath(switch, call, args, 3)?;
    let [.., version, size] = args else {
        return Err(call.error("parameter missing for minimum fragment size", Some(EINVAL)));
    };
    let missing = "parameter missing: v4 for IPv4 or v6 for IPv6";
    let family = family(version).ok_or_else(|| call.error(missing, Some(EINVAL)))?;
    let missing = "parameter missing for minimum fragment size";
    let bytes = leading_number(size).ok_or_else(|| call.error(missing, Some(EINVAL)))?;
    if !backer.datapath.reassembly().set_min_size(family, bytes) {
        let small = "requested minimum fragment size too small; see documentation";
        return Err(call.error(small, Some(EPERM)));
    }
    call.text += "setting minimum fragment size successful";
    Ok(())
}

pub(crate) fn set_max(switch: &Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let (backer, _) = select_datapath(switch, call, args, 2)?;
    let max = args.last().and_then(|arg| leading_number(arg));
    let max = max.ok_or_else(|| call.error("parameter missing for maximum fragments", Some(EINVAL)))?;
    if !backer.datapath.reassembly().set_max_fragments(max) {
        return Err(call.error("setting maximum fragments failed", Some(EPERM)));
    }
    call.text += "setting maximum fragments successful";
    Ok(())
}

pub(crate) fn status(switch: &Switch, call: &mut Call, args: &[String]) -> Result<(), Failed> {
    let (backer, _) = select_datapath(switch, call, args, 1)?;
    let reassembly = backer.datapath.reassembly();
    call.text += &status_text(&reassembly.status());
    if call.verbose {
        call.text += &lists_text(&reassembly.dump());
    }
    Ok(())
}

fn status_text(status: &Status) -> String {
    let Status { fragments, max_fragments, v4, v6 } = status;
    let lines = [
        "Fragmentation Module Status".to_owned(),
        "---------------------------".to_owned(),
        format!("v4 enabled: {}", u8::from(v4.enabled)),
        format!("v6 enabled: {}", u8::from(v6.enabled)),
        format!("max num frags (v4/v6): {max_fragments}"),
        format!("num frag: {fragments}"),
    ];
    let families = [family_lines("v4", v4), family_lines("v6", v6)].into_iter().flatten();
    lines.into_iter().chain(families).map(|line| format!("        {line}\n")).collect()
}

fn family_lines(version: &str, status: &FamilyStatus) -> [String; 7] {
    let counts = &status.counts;
    [
        format!("min {version} frag size: {}", status.min_size),
        format!("{version} frags accepted: {}", counts.accepted),
        format!("{version} frags completed: {}", counts.completed),
        format!("{version} frags expired: {}", counts.expired),
        format!("{version} frags too small: {}", counts.too_small),
        format!("{version} frags overlapped: {}", counts.overlapped),
        format!("{version} frags purged: {}", counts.purged),
    ]
}

fn lists_text(entries: &[Entry]) -> String {
    let lines: String = entries.iter().map(|entry| format!("{entry}\n")).collect();
    format!("\n        Fragment Lists:\n\n{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use reassembly::Reassembly;

    #[test]
    fn status_as_scripts_read_it() {
        let text = status_text(&Reassembly::<()>::new(1).status());
        let wanted = "        Fragmentation Module Status\n        ---------------------------\n        v4 enabled: 1\n        \
            v6 enabled: 1\n        max num frags (v4/v6): 1000\n        num frag: 0\n        min v4 frag size: 1200\n        \
            v4 frags accepted: 0\n";
        assert!(text.starts_with(wanted), "{text}");
        assert_eq!(text.lines().count(), 20);
        assert_eq!(lists_text(&[]), "\n        Fragment Lists:\n\n");
        assert_eq!(
            [family("v4"), family("v6x"), family("4"), family("")],
            [Some(Family::V4), Some(Family::V6), None, None]
        );
    }
}
