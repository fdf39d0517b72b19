use super::*;
use ovsdb::Datum;

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
        ("ovn-chassis-idx-hv1", ""),
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
    assert_eq!(
        texts("Open_vSwitch", &[("other_config", Datum::map([("hw-offload", "true")]))]),
        [
            "other_config:hw-offload has no effect in this version of Sluice: hardware offload is not built yet; \
             all packets are forwarded in software"
        ]
    );
    let caches = |cache: &str| {
        let config = [("smc-enable", "true"), ("emc-insert-inv-prob", "1"), ("flow-cache", cache)];
        texts("Open_vSwitch", &[("other_config", Datum::map(config))])
    };
    assert!(caches("ovs").is_empty());
    assert_eq!(
        caches("dfc"),
        ["other_config:smc-enable has no effect in this version of Sluice: flow-cache=dfc does not use it"]
    );
    assert_eq!(caches("unified").len(), 2);
    assert!(texts("Bridge", &[("stp_enable", Datum::scalar(true))]).is_empty());
    assert!(
        texts("Open_vSwitch", &[("other_config", Datum::map([("offload-rebalance", "false")]))]).is_empty()
    );
    let set = [("id", Datum::scalar(1)), ("bridge", Datum::scalar("b"))];
    assert!(texts("Flow_Sample_Collector_Set", &set).is_empty());
    assert!(texts("Port", &[("lacp", Datum::scalar("off"))]).is_empty());
    assert!(texts("Port", &[("fake_bridge", Datum::scalar(true))]).is_empty());
    assert!(texts("Controller", &[("connection_mode", Datum::scalar("out-of-band"))]).is_empty());
    assert!(texts("Port", &[("lacp", Datum::scalar("active"))]).is_empty());
    // OVN writes 0 for unlimited rates.
    let rates = Datum::map([("min-rate", "0"), ("max-rate", "0"), ("burst", "0")]);
    assert!(texts("Queue", &[("other_config", rates)]).is_empty());
}

#[test]
fn trunks_of_an_access_port_are_ignored() {
    let port =
        |columns: &[(&str, Datum)]| texts("Port", &[&[("name", Datum::scalar("p"))], columns].concat());
    let (tag, trunks) = (("tag", Datum::set([3])), ("trunks", Datum::set([4, 5])));
    let text = "Port p: ignoring trunks in favor of implicit vlan";
    assert_eq!(port(&[tag.clone(), trunks.clone()]), [text]);
    assert_eq!(
        port(&[tag.clone(), ("cvlans", Datum::set([9]))]),
        ["Port p: ignoring cvlans in favor of implicit vlan"]
    );
    assert!(port(&[tag.clone(), trunks.clone(), ("vlan_mode", Datum::scalar("native-tagged"))]).is_empty());
    assert!(port(&[tag, ("trunks", Datum::set::<i64>([]))]).is_empty() && port(&[trunks]).is_empty());
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
