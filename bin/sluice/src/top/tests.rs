//! Compares two replies of a daemon, and checks rates and output.

use super::rates::{DatapathRates, between};
use super::thread_lines::{Selection, Sort, lines, object};
use ovsdb::Json;
use serde_json::json;

fn state(seconds: u64, core_of_p1: u64) -> Json {
    let n = seconds * 1000;
    let rxq = |port: &str, cycles: u64| {
        json!({ "port": port, "queue": 0, "enabled": true, "cycles": cycles, "packets": n, "bursts": n / 4,
                "full-bursts": n / 8, "forecast": 0.5 })
    };
    let p1 = rxq("p1", 300 * n);
    let of = |core: u64| if core == core_of_p1 { vec![p1.clone()] } else { vec![] };
    let thread = |core: u64, mut rxqs: Vec<Json>| {
        rxqs.extend(of(core));
        json!({ "core": core, "numa": 0, "isolated": false, "busy-cycles": 400 * n, "idle-cycles": 500 * n,
                "sleep-cycles": 100 * n, "received": 2 * n, "cache-hits": n, "megaflow-hits": n, "missed": 0,
                "sleeps": 0, "drops": { "tx_full": n / 10 }, "rxqs": rxqs })
    };
    let threads = [thread(1, vec![rxq("p0", 100 * n)]), thread(2, vec![])];
    json!({ "cycles-per-second": 1_000_000, "now": 1_000_000 * seconds, "datapaths": {
        "netdev": { "auto-lb": true, "policy": "predictive", "moves": seconds, "threads": threads } } })
}

fn seen() -> DatapathRates {
    between(&state(2, 1), &state(4, 2)).remove(0)
}

#[test]
fn rates_are_differences_over_time() {
    let datapath = seen();
    let thread = &datapath.threads[0];
    assert_eq!((thread.busy, thread.asleep, thread.cached), (0.4, 0.1, 0.5));
    assert_eq!((thread.packets, thread.cost, thread.drops), (2000.0, 200.0, 100.0));
    assert_eq!((datapath.moves, datapath.drops.clone()), ((4, 2), vec![("tx_full".to_owned(), 200.0)]));
    // A queue that moved to another thread continues its counters.
    let p1 = datapath.queues.iter().find(|q| q.port == "p1").unwrap();
    assert_eq!((p1.core, p1.packets, p1.burst, p1.full), (Some(2), 1000.0, 4.0, 0.5));
    assert!((p1.load - 0.3).abs() < 1e-9);
}

#[test]
fn nonsense_is_nothing() {
    assert_eq!(between(&Json::Null, &Json::Null), []);
    let odd = json!({ "now": -1, "datapaths": { "x": { "threads": 3, "moves": "many" } } });
    assert_eq!(between(&odd, &odd)[0].threads, []);
    // Counters that restarted, and no time between the two samples.
    assert_eq!(between(&state(4, 1), &state(2, 1))[0].threads[0].packets, 0.0);
}

#[test]
fn queues_are_sorted_and_a_port_is_looked_into() {
    let datapath = seen();
    let order = |sort| {
        let selection = Selection { sort, ..Selection::default() };
        selection.queues(&datapath).iter().map(|q| q.port.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        (order(Sort::Load), order(Sort::Name)),
        (vec!["p1".into(), "p0".into()], vec!["p0".into(), "p1".into()])
    );
    let text = lines(&datapath, &Selection { marked: 1, ..Selection::default() }, true).join("\n");
    assert!(
        text.contains("\n> p0 ")
            && text.contains("(predictive), 4 queues moved, 2 since the previous sample"),
        "{text}"
    );
    let inside = lines(&datapath, &Selection { port: Some("p1".to_owned()), ..Selection::default() }, false)
        .join("\n");
    assert!(!inside.contains("p0") && inside.contains("tx_full: 200"), "{inside}");
}

#[test]
fn programs_get_numbers() {
    let object = object(&seen());
    assert_eq!(object["threads"][0]["busy"], 0.4);
    assert_eq!(object["queues"].as_array().map(Vec::len), Some(2));
}
