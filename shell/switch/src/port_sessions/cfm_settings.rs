//! Reads column `cfm_mpid` of an interface and the CFM keys of `other_config`.

use bridge::cfm::{Settings, Vlan};
use config::InterfaceConfig;
use settings::interface::{CFM_CCM_PCP, CFM_CCM_VLAN, CFM_DEMAND, CFM_EXTENDED, CFM_INTERVAL, CFM_OPSTATE};
use std::collections::BTreeMap;
use units::Millis;

type Row = BTreeMap<String, String>;

/// The settings; `None`: no session is configured.
pub(super) fn read(row: &InterfaceConfig) -> Option<Settings> {
    row.cfm_mpid.map(|id| read_from(id, &row.other_config, &row.options))
}

fn read_from(id: i64, map: &Row, options: &Row) -> Settings {
    let vlan = match CFM_CCM_VLAN.get(map) {
        Some(text) if text.eq_ignore_ascii_case("random") => Vlan::Random,
        Some(text) => Vlan::Id(text.parse().unwrap_or(0)),
        None => Vlan::Id(0),
    };
    // With key `flow` the tunnel key of a packet does not tell to which session it belongs, so only messages with
    // tunnel key 0 are accepted.
    let flow_key = |key: &str| options.get(key).is_some_and(|value| value == "flow");
    Settings {
        // Identifiers are positive; 0 means an invalid identifier.
        id: u64::try_from(id).unwrap_or(0),
        interval: Millis(CFM_INTERVAL.number(map).unsigned_abs()),
        extended: CFM_EXTENDED.flag_of(map),
        demand: CFM_DEMAND.flag_of(map),
        is_up: CFM_OPSTATE.get(map).is_none_or(|state| state.eq_ignore_ascii_case("up")),
        vlan,
        priority: (CFM_CCM_PCP.number(map) & 7) as u8,
        check_tnl_key: flow_key("key") || flow_key("in_key"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Pairs<'a> = &'a [(&'a str, &'a str)];

    fn settings_of(id: i64, other_config: Pairs<'_>, options: Pairs<'_>) -> Settings {
        let map = |pairs: Pairs<'_>| -> BTreeMap<String, String> {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
        };
        read_from(id, &map(other_config), &map(options))
    }

    #[test]
    fn invalid_values_leave_the_default() {
        assert_eq!(settings_of(7, &[], &[]), Settings { id: 7, ..Settings::default() });
        let keys =
            [("cfm_interval", "0"), ("cfm_ccm_vlan", "x"), ("cfm_opstate", "no"), ("cfm_extended", "true")];
        let settings = settings_of(-1, &keys, &[("in_key", "flow")]);
        assert_eq!((settings.id, settings.interval, settings.vlan), (0, Millis(1000), Vlan::Id(0)));
        assert!(settings.extended && !settings.is_up && settings.check_tnl_key);
        let random = settings_of(1, &[("cfm_ccm_vlan", "RANDOM"), ("cfm_ccm_pcp", "5")], &[]);
        assert_eq!((random.vlan, random.priority), (Vlan::Random, 5));
    }
}
