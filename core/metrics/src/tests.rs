//! Checks that the table of metrics follows Prometheus's conventions, and that the formats escape special characters.

use crate::table::{BUILD, DROPS, PORT_RX_PACKETS, RXQ_FORECAST, RXQ_RESIDENCE, THREAD_BUSY};
use crate::{ALL, Format, Histogram, Kind, Object, Samples, Unit, json, markdown, render};
use proptest::prelude::*;
use std::collections::BTreeSet;

#[test]
fn names_keep_the_conventions_of_prometheus() {
    let mut names = BTreeSet::new();
    for m in ALL {
        let valid = m.name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_');
        assert!(valid && (m.name.starts_with("sluice_") || m.name.starts_with("process_")), "{}", m.name);
        assert_eq!(m.name.ends_with("_total"), m.kind == Kind::Counter, "{}", m.name);
        assert_eq!(m.name.ends_with("_info"), m.kind == Kind::Info, "{}", m.name);
        if m.unit != Unit::None {
            assert!(m.family().ends_with(m.unit.name()), "{} lacks its unit {}", m.name, m.unit.name());
        }
        assert!(m.help.ends_with('.') && !m.help.contains(['\n', '\\', '"', '|']), "{}", m.name);
        assert!(names.insert(m.family()), "{} occurs twice", m.name);
    }
    assert!(names.len() > 80);
}

fn samples() -> Samples {
    let mut samples = Samples::default();
    let port = samples.object(Object::Port, &["br0", "a\"b\\c\nd"]).unwrap();
    samples.set(&PORT_RX_PACKETS, port, u64::MAX);
    let thread = samples.object(Object::Thread, &["netdev@ovs-netdev", "pmd-c01"]).unwrap();
    samples.set(&THREAD_BUSY, thread, 1.5);
    let rxq = samples.object(Object::Rxq, &["netdev@ovs-netdev", "p", "0"]).unwrap();
    samples.set(&RXQ_FORECAST, rxq, f64::NAN);
    let build = samples.object(Object::Build, &["0.1.0", "3.7.1"]).unwrap();
    samples.set(&BUILD, build, 1u64);
    samples.finish();
    samples
}

#[test]
fn prometheus_text() {
    let text = String::from_utf8(render(&samples(), Format::Prometheus)).unwrap();
    for line in [
        "# TYPE sluice_port_receive_packets_total counter",
        "sluice_port_receive_packets_total{bridge=\"br0\",port=\"a\\\"b\\\\c\\nd\"} 18446744073709551615",
        "sluice_thread_busy_seconds_total{datapath=\"netdev@ovs-netdev\",thread=\"pmd-c01\"} 1.5",
        "sluice_rxq_forecast_ratio{datapath=\"netdev@ovs-netdev\",port=\"p\",queue=\"0\"} 0",
        "# TYPE sluice_build_info gauge",
        "sluice_metrics_omitted_objects{object=\"ports\"} 0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\nis not in\n{text}");
    }
}

#[test]
fn openmetrics_text() {
    let text = String::from_utf8(render(&samples(), Format::OpenMetrics)).unwrap();
    assert!(text.ends_with("# EOF\n"));
    let head = "# TYPE sluice_thread_busy_seconds counter\n# UNIT sluice_thread_busy_seconds seconds\n# HELP sluice_thread_busy_seconds ";
    assert!(text.contains(head) && text.contains("# TYPE sluice_build info\n"), "{text}");
}

#[test]
fn json_has_the_same_names() {
    let whole: serde_json::Value = serde_json::from_slice(&json(&samples(), &[])).unwrap();
    let family = &whole["metrics"]["sluice_port_receive_packets_total"];
    assert_eq!(family["labels"], serde_json::json!(["bridge", "port"]));
    assert_eq!(family["samples"], serde_json::json!([[["br0", "a\"b\\c\nd"], u64::MAX]]));
    let part: serde_json::Value =
        serde_json::from_slice(&json(&samples(), &["sluice_thread_", "sluice_build"])).unwrap();
    let names: Vec<&String> = part["metrics"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["sluice_build_info", "sluice_thread_busy_seconds_total"]);
}

#[test]
fn histograms_are_cumulative() {
    let mut samples = Samples::default();
    let queue = samples.object(Object::RxqResidence, &["d", "p", "0"]).unwrap();
    let histogram = Histogram { buckets: vec![(0.000001, 3), (0.000002, 4)], above: 5, sum: 0.25 };
    samples.set_histogram(&RXQ_RESIDENCE, queue, histogram);
    let text = String::from_utf8(render(&samples, Format::OpenMetrics)).unwrap();
    let labels = "datapath=\"d\",port=\"p\",queue=\"0\"";
    let name = "sluice_rxq_latency_bound_seconds";
    let expected = format!(
        "{name}_bucket{{{labels},le=\"0.000001\"}} 3\n{name}_bucket{{{labels},le=\"0.000002\"}} 7\n\
         {name}_bucket{{{labels},le=\"+Inf\"}} 12\n{name}_sum{{{labels}}} 0.25\n{name}_count{{{labels}}} 12\n# EOF\n"
    );
    assert!(text.contains("_seconds histogram\n") && text.ends_with(&expected), "{text}");
    assert_eq!(samples.len(), 5);
    let whole: serde_json::Value = serde_json::from_slice(&json(&samples, &[])).unwrap();
    let value = &whole["metrics"][name]["samples"][0][1];
    let buckets = serde_json::json!([[0.000001, 3], [0.000002, 7], [null, 12]]);
    assert_eq!(value, &serde_json::json!({"count": 12, "sum": 0.25, "buckets": buckets}));
}

#[test]
fn objects_beyond_the_limit_are_counted() {
    let mut samples = Samples::default();
    for i in 0..Object::Drop.limit() + 3 {
        let drop = samples.object(Object::Drop, &["d", &i.to_string()]);
        assert_eq!(drop.is_some(), i < Object::Drop.limit());
        drop.into_iter().for_each(|labels| samples.set(&DROPS, labels, 1u64));
    }
    samples.finish();
    let text = String::from_utf8(render(&samples, Format::Prometheus)).unwrap();
    assert!(text.contains("\nsluice_metrics_omitted_objects{object=\"drop reasons\"} 3\n"));
    assert_eq!(samples.len(), Object::Drop.limit() + 2);
}

#[test]
fn metrics_md_matches_the_table() {
    let page = include_str!("../../../docs/metrics.md");
    assert!(page == markdown(), "docs/metrics.md is old: sluice metrics --markdown > docs/metrics.md");
    assert!(ALL.iter().all(|m| page.contains(&format!("| `{}` |", m.name))));
}

proptest! {
    /// With any port name a sample is one line of text, and the JSON is valid.
    #[test]
    fn any_name_is_escaped(name in any::<String>()) {
        let mut samples = Samples::default();
        let port = samples.object(Object::Port, &["b", &name]).unwrap();
        samples.set(&PORT_RX_PACKETS, port, 7u64);
        let text = String::from_utf8(render(&samples, Format::Prometheus)).unwrap();
        prop_assert_eq!(text.lines().count(), 3);
        let ended = text.lines().last().unwrap().ends_with("\"} 7");
        prop_assert!(ended);
        let whole: serde_json::Value = serde_json::from_slice(&json(&samples, &[])).unwrap();
        prop_assert_eq!(&whole["metrics"][PORT_RX_PACKETS.name]["samples"][0][0][1], &serde_json::json!(name));
    }
}
