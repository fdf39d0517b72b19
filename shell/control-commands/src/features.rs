//! `dpif/show-dp-features` and `dpif/set-dp-features`: shows the datapath's features, and enables or disables features
//! for translations.

use crate::answer::{Answer, unknown};
use ctl::names;
use dpif::Capabilities;
use switch::Switch;
use switch::capabilities::{FEATURES, FeatureValue, feature_value, value_text};

pub(crate) fn execute(switch: &mut Switch, name: &str, args: &[String]) -> Answer {
    match name {
        names::DPIF_SHOW_DP_FEATURES => show(switch, args).into(),
        names::DPIF_SET_DP_FEATURES => set(switch, args).into(),
        _ => unknown(name),
    }
}

fn show_text(mut c: Capabilities) -> String {
    let line = |(name, title): &(&str, &str)| {
        format!("{title}: {}\n", value_text(&feature_value(&mut c, name), ["Yes", "No"]))
    };
    FEATURES.iter().map(line).collect()
}

fn show(switch: &Switch, args: &[String]) -> Result<String, String> {
    let bridge = args.last().and_then(|name| switch.bridges.get(name)).ok_or("no such bridge")?;
    switch.datapaths.of_bridge(bridge).ok_or("no such bridge")?;
    Ok(show_text(Capabilities::USERSPACE))
}

fn field_text((name, title): (&str, &str), now: &mut Capabilities) -> String {
    let words = ["true", "false"];
    let run = value_text(&feature_value(now, name), words);
    let boot = value_text(&feature_value(&mut Capabilities::USERSPACE.clone(), name), words);
    format!("{name} ({title}) : [run time]:{run}, [boot time]:{boot}\n")
}

/// Sets a feature. `Err`: the reason why this is not possible; the command sends it as the text of a successful reply.
fn set_feature(c: &mut Capabilities, name: &str, value: &str, force: bool) -> Result<(), &'static str> {
    const BEYOND: &str = "Can not set value beyond the datapath capability";
    let mut boot = Capabilities::USERSPACE;
    match (feature_value(c, name), feature_value(&mut boot, name)) {
        (FeatureValue::Flag(now), boot) => match value.to_ascii_lowercase().as_str() {
            "true" if force || matches!(boot, FeatureValue::Flag(&mut true)) => *now = true,
            "true" => return Err("Can not enable features not supported by the datapath"),
            "false" => *now = false,
            _ => return Err("Boolean value expected"),
        },
        (FeatureValue::Size(now), FeatureValue::Size(most)) => {
            let wanted = size(value)?;
            *now = Some(wanted).filter(|n| *n <= *most).ok_or(BEYOND)?;
        }
        (FeatureValue::Number(now), FeatureValue::Number(most)) => {
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
    let backer = switch.datapaths.of_bridge_mut(bridge).ok_or("no such bridge")?;
    let settings = &backer.upcall_translator.command_settings;
    let mut capabilities = settings.capabilities();
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
    settings.set_capabilities(capabilities);
    backer.datapath.flow_flush(now);
    backer.mark_all_changed();
    Ok(String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_as_scripts_read_them() {
        let text = show_text(Capabilities::USERSPACE);
        assert!(text.starts_with("Masked set action: Yes\nTunnel push pop: Yes\nUfid: Yes\n"));
        assert!(text.contains("\nSample nesting: 10\n") && text.ends_with("IPv6 ND Extension: Yes\n"));
        assert_eq!(text.lines().count(), FEATURES.len());
        assert!(text.contains("\nCT mark: Yes\n") && text.contains("\nCT state NAT: Yes\n"));
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
        assert_eq!(set_feature(&mut c, "ct_state_nat", "false", false), Ok(()));
        assert!(set_feature(&mut c, "psample", "true", false).is_err());
        assert_eq!(set_feature(&mut c, "sample_nesting", "3", false), Ok(()));
        assert_eq!(c.sample_nesting, 3);
        assert_eq!(set_feature(&mut c, "sample_nesting", "x", false), Err("Integer number expected"));
        assert_eq!(set_feature(&mut c, "sample_nesting", "-1", false), Err("Negative number not expected"));
        assert!(set_feature(&mut c, "sample_nesting", "11", false).is_err());
    }
}
