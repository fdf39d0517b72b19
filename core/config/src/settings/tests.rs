use super::check::{Checker, Problem};
use super::*;
use crate::not_built;
use ovsdb::Datum;
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn the_table_covers_the_schema_and_nothing_else() {
    let schema = ovsdb::schema::open_vswitch();
    let mut wrong = Vec::new();
    let mut known = BTreeSet::new();
    for table in &schema.tables {
        let columns = table.columns.iter().map(|c| c.name.as_str()).filter(|c| !c.starts_with('_'));
        for column in columns {
            known.insert((table.name.as_str(), column));
            let set = all().any(|s| s.table == table.name && s.column == column);
            let told = state::COLUMNS.iter().filter(|(t, _)| *t == table.name).flat_map(|(_, c)| *c);
            match (set, told.filter(|(c, _)| *c == column).count()) {
                (true, 0) | (false, 1) => {}
                (set, n) => wrong.push(format!("{}.{column}: setting {set}, state {n} times", table.name)),
            }
        }
    }
    let strangers = all().filter(|s| !known.contains(&(s.table, s.column)));
    wrong.extend(strangers.map(|s| format!("{}: not in the schema", s.place())));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_setting_has_two_entries_and_each_has_a_description() {
    let mut seen = BTreeSet::new();
    for s in all() {
        for kind in if s.kinds.is_empty() { &[""] } else { s.kinds } {
            assert!(seen.insert((s.place(), *kind)), "{} twice for {kind}", s.place());
        }
        assert!(s.doc.ends_with('.') && !s.doc[..s.doc.len() - 1].contains(". "), "{}: {}", s.place(), s.doc);
        if let Value::Int { min, max, default: Some(d), .. } = s.value {
            let ok = (min..=max).contains(&d) || s == &connection::INACTIVITY_PROBE;
            assert!(ok, "{}: default {d} outside {min}..{max}", s.place());
        }
        if let Value::Choice(words, default) = s.value {
            assert!(default.is_empty() || words.contains(&default), "{}", s.place());
        }
    }
}

fn map(key: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}

#[test]
fn values_are_parsed_as_the_entry_specifies() {
    let memory = |v: &str| root::MEGAFLOW_MEMORY.number(&map("megaflow-memory", v));
    assert_eq!(["7", "0x10", " 8 ", "-1", "x", ""].map(memory), [7, 16, 8, 1024, 1024, 1024]);
    let aging = |v: &str| bridge::MAC_AGING_TIME.number(&map("mac-aging-time", v));
    assert_eq!(["5", "100", "99999", "x"].map(aging), [15, 100, 3600, 300]);
    let isolate = |v: &str| root::PMD_RXQ_ISOLATE.flag_of(&map("pmd-rxq-isolate", v));
    assert_eq!(["false", "FALSE", "true", "what"].map(isolate), [false, false, true, true]);
    assert!(root::PMD_RXQ_ISOLATE.flag_of(&BTreeMap::new()));
    assert!(!root::PER_PORT_MEMORY.flag_of(&map("per-port-memory", "yes")));
    assert_eq!(root::BUNDLE_IDLE_TIMEOUT.opt_number(&BTreeMap::new()), None);
    assert_eq!(options::XDP_N_RXQ.number(&map("n_rxq", "17")), 17);
}

fn findings(table: &str, columns: &[(&str, Datum)]) -> Vec<(String, Problem)> {
    let checkers = Checker::of_all_tables();
    let checker = checkers.iter().find(|c| c.table() == table).unwrap();
    let get = |column: &str| columns.iter().find(|(c, _)| *c == column).map(|(_, d)| d);
    checker.row(get, |kind| kind == "internal").into_iter().map(|f| (f.to_string(), f.problem)).collect()
}

fn texts(table: &str, columns: &[(&str, Datum)]) -> Vec<String> {
    findings(table, columns).into_iter().map(|(text, _)| text).collect()
}

#[test]
fn findings_name_key_value_range_and_what_is_used() {
    let config = Datum::map([
        ("megaflow-memory", "much"),
        ("max-idle", "3"),
        ("nonsense", "1"),
        ("offload-rebalance", "true"),
    ]);
    assert_eq!(
        texts("Open_vSwitch", &[("other_config", config)]),
        [
            "other_config:max-idle=3 is outside of 500 to 4294967295; 500 is used",
            "other_config:megaflow-memory=much is not a valid value (1 to 1048576); 1024 is used",
            "other_config:nonsense is unknown and has no effect",
            "other_config:offload-rebalance has no effect in this version of Sluice: hardware offload is not built yet",
        ]
    );
    let bridge = [("name", Datum::scalar("br0")), ("stp_enable", Datum::scalar(true))];
    assert_eq!(
        texts("Bridge", &bridge),
        [
            "Bridge br0: stp_enable has no effect in this version of Sluice: spanning tree is not built yet; ports always forward: a loop is not broken"
        ]
    );
    assert!(texts("Bridge", &[("stp_enable", Datum::scalar(false))]).is_empty());
    assert!(
        texts("Open_vSwitch", &[("other_config", Datum::map([("offload-rebalance", "false")]))]).is_empty()
    );
    let set = [("id", Datum::scalar(1)), ("bridge", Datum::scalar("b"))];
    assert_eq!(texts("Flow_Sample_Collector_Set", &set).len(), 1);
    assert!(texts("Port", &[("lacp", Datum::scalar("off"))]).is_empty());
    assert!(texts("Port", &[("fake_bridge", Datum::scalar(true))]).is_empty());
    assert!(texts("Controller", &[("connection_mode", Datum::scalar("out-of-band"))]).is_empty());
    assert!(texts("Port", &[("lacp", Datum::scalar("active"))]).is_empty());
}

#[test]
fn options_are_those_of_the_type() {
    let interface = |kind: &str, key: &str, value: &str| {
        let row = [
            ("name", Datum::scalar("p")),
            ("type", Datum::scalar(kind)),
            ("options", Datum::map([(key, value)])),
        ];
        findings("Interface", &row).pop().map(|(_, problem)| problem)
    };
    assert_eq!(interface("dpdk", "n_rxq", "2"), None);
    assert_eq!(interface("dpdk", "peer", "x"), Some(Problem::Unknown));
    assert!(matches!(interface("", "n_rxq", "2"), Some(Problem::NoEffect(_))));
    assert_eq!(interface("internal", "n_rxq", "2"), None);
    assert_eq!(interface("vxlan", "remote_ip", "flow"), None);
    assert_eq!(interface("vxlan", "psk", "x"), Some(Problem::NotBuilt(not_built::IPSEC)));
    assert!(matches!(
        interface("dpdkvhostuserclient", "tx-retries-max", "33"),
        Some(Problem::Invalid { .. })
    ));
}

#[test]
fn unknown_keys_of_ports_and_interfaces_are_not_reported() {
    assert!(texts("Port", &[("other_config", Datum::map([("net_uuid", "1")]))]).is_empty());
    assert_eq!(texts("Bridge", &[("other_config", Datum::map([("net_uuid", "1")]))]).len(), 1);
}

#[test]
fn settings_md_matches_the_table() {
    let page = include_str!("../../../../docs/settings.md");
    assert!(
        page == text::markdown(),
        "docs/settings.md is old: sluice settings --markdown > docs/settings.md"
    );
}
