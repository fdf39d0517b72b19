//! Derives the datapath's policers and shapers from QoS rows, for ports without a kernel device.

use super::rates::{Device, Htb, Map, bits, port_rate};
use config::qos::{QosConfig, unsigned};
use datapath::EgressSpec;
use openflow_service::Details;
use qos::{ClassSpec, ShaperSpec, SingleRateSpec, TwoRateSpec, TwoRateTree};
use std::collections::BTreeMap;

/// The QoS types of ports without a kernel device.
pub(super) const TYPES: [&str; 3] = ["egress-policer", "trtcm-policer", "linux-htb"];

/// The description of each queue for `qos/show`, by queue number.
pub(super) type Queues = BTreeMap<u32, Details>;

/// The datapath's settings for a QoS row, and the descriptions for `qos/show`. `None`: the type does not exist.
pub(super) fn wanted(config: &QosConfig, device: Device) -> Option<(EgressSpec, Details, Queues)> {
    match config.kind.as_str() {
        "egress-policer" => Some(single_rate(config)),
        "trtcm-policer" => Some(two_rate(config)),
        "linux-htb" => Some(shaper(config, device)),
        _ => None,
    }
}

fn single_rate(config: &QosConfig) -> (EgressSpec, Details, Queues) {
    let spec = SingleRateSpec {
        cir: unsigned(&config.other_config, "cir"),
        cbs: unsigned(&config.other_config, "cbs"),
    };
    let details = vec![("cir", spec.cir.to_string()), ("cbs", spec.cbs.to_string())];
    (EgressSpec::SingleRate(spec), details, Queues::new())
}

fn two_rate(config: &QosConfig) -> (EgressSpec, Details, Queues) {
    let read = |map: &Map| TwoRateSpec {
        cir: unsigned(map, "cir"),
        cbs: unsigned(map, "cbs"),
        eir: unsigned(map, "eir"),
        ebs: unsigned(map, "ebs"),
    };
    let port = read(&config.other_config);
    let mut queues: BTreeMap<u32, TwoRateSpec> =
        config.queues.iter().map(|(number, queue)| (*number, read(&queue.other_config))).collect();
    // Queue 0 has the rates of the port, unless its row has rates.
    if config.queues.get(&0).is_none_or(|queue| queue.other_config.is_empty()) {
        queues.insert(0, port);
    }
    let details = |s: &TwoRateSpec| {
        [("cir", s.cir), ("eir", s.eir), ("cbs", s.cbs), ("ebs", s.ebs)]
            .map(|(k, v)| (k, v.to_string()))
            .into()
    };
    let shown = queues.iter().map(|(number, spec)| (*number, details(spec))).collect();
    (EgressSpec::TwoRate(TwoRateTree { port, queues }), details(&port), shown)
}

fn shaper(config: &QosConfig, device: Device) -> (EgressSpec, Details, Queues) {
    let rate = port_rate(&config.other_config, device);
    let mut queues: BTreeMap<u32, Htb> = config
        .queues
        .iter()
        .map(|(number, queue)| (*number, Htb::read(&queue.other_config, rate, device)))
        .collect();
    queues.entry(0).or_insert_with(|| Htb::read(&Map::new(), rate, device));
    let class = |htb: &Htb| ClassSpec {
        min: htb.min,
        max: htb.max,
        burst: htb.burst,
        priority: htb.priority.try_into().unwrap_or(u8::MAX),
    };
    let classes = queues.iter().map(|(number, htb)| (*number, class(htb))).collect();
    let shown = queues.iter().map(|(number, htb)| (*number, htb.details())).collect();
    let spec = ShaperSpec { rate, mtu: device.mtu, classes };
    (EgressSpec::Shaper(spec), vec![("max-rate", bits(rate))], shown)
}
