//! Checks the number of series of a view with many ports, and that counters of time do not decrease.

use super::kernel::{DeviceCounters, RxAndTx};
use super::*;
use crate::view::{Counters, DatapathView, PortView, RxqView};
use datapath::{Config, Datapath};
use metrics::Format;
use netdev::device::KernelCounters;
use poll_threads::WorkerInfo;
use std::collections::HashMap;
use std::sync::Arc;
use units::{CoreId, Millis, OfPort, PortNo, QueueId, WorkerId};

const PORTS: u32 = 10_000;

fn view() -> View {
    let datapath = DatapathView {
        name: "netdev@ovs-netdev".to_owned(),
        kind: "netdev".to_owned(),
        datapath: Datapath::new(&Config { max_flows: 64, ..Config::default() }),
        workers: vec![WorkerInfo {
            id: WorkerId(0),
            core: CoreId::UNPINNED,
            numa: 0,
            isolated: false,
            since: Millis(0),
        }],
        rxqs: (0..PORTS)
            .map(|i| RxqView {
                no: PortNo(i),
                port: format!("port{i}"),
                queue: QueueId(0),
                worker: 0,
                load: Arc::default(),
                forecast: 0.5,
                enabled: true,
            })
            .collect(),
        names: BTreeMap::new(),
        handlers: 1,
        revalidation_pending: false,
        round_ms: 2,
        moves: 0,
    };
    let bridge: Arc<str> = Arc::from("br-int");
    let port = |i: u32| PortView {
        bridge: Arc::clone(&bridge),
        datapath: 0,
        name: format!("port{i}"),
        kind: "system".to_owned(),
        logical: String::new(),
        ofport: OfPort(i as u16),
        number: Some(PortNo(i)),
        up: true,
        link_resets: 1,
        mtu: Some(1500),
        vlan: None,
        speed_mbps: Some(10_000),
        bfd: None,
        has_lacp_partner_info: None,
        counters: Counters::Kernel(KernelCounters::default()),
        disabled_rxqs: Vec::new(),
    };
    View { datapaths: vec![datapath], ports: (0..PORTS).map(port).collect(), ..View::default() }
}

/// The cardinality that docs/guide/observability.md states. The test prints what a scrape costs (`cargo test --release -p observe --
/// --nocapture`), and has no limit of time.
#[test]
fn cardinality_of_ten_thousand_ports() {
    let view = view();
    let side = DeviceCounters { packets: 123_456_789, bytes: 98_765_432_100, errors: 0, dropped: 12 };
    let kernel: HashMap<String, RxAndTx> = (0..PORTS).map(|i| (format!("port{i}"), (side, side))).collect();
    let start = cpu_time::thread_time();
    let mut samples = Samples::default();
    datapaths::add(&view.datapaths[0], 1e9, &mut samples);
    ports::add_with(&view, &kernel, &mut samples);
    samples.finish();
    let made = cpu_time::thread_time();
    let text = metrics::render(&samples, Format::OpenMetrics);
    let rendered = cpu_time::thread_time();
    println!(
        "{} series, {} bytes: {} µs to read, {} µs to render",
        samples.len(),
        text.len(),
        (made - start) / 1000,
        (rendered - made) / 1000
    );
    // Twelve for each port and its information, seven for each rx queue up to the limit; histograms only for queues of poll threads.
    let expected = PORTS as usize * 13 + Object::Rxq.limit() * 7;
    assert!((expected..expected + 200).contains(&samples.len()), "{} series", samples.len());
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("sluice_metrics_omitted_objects{object=\"rx queues\"} 7952\n"));
    assert!(
        text.contains("sluice_port_receive_dropped_packets_total{bridge=\"br-int\",port=\"port9999\"} 12\n")
    );
}

/// The frequency that converts cycles to time is measured only once, because with another value a counter of time could decrease.
#[test]
fn counters_of_time_do_not_go_back() {
    let (view, mut sampler) = (view(), Sampler::default());
    let hertz = |samples: &Samples| {
        let text = String::from_utf8(metrics::render(samples, Format::Prometheus)).unwrap();
        text.lines().find(|l| l.starts_with("sluice_cycles_frequency_hertz ")).unwrap().to_owned()
    };
    let first = hertz(&sampler.samples(&view, &ServerCounters::default()));
    assert_eq!(first, hertz(&sampler.samples(&view, &ServerCounters::default())));
}
