//! Configures the queueing disciplines (qdiscs) of kernel devices from QoS rows.

use super::rates::{Device, Htb, Map, bits, hfsc, port_rate};
use config::qos::{QosConfig, unsigned};
use netdev::qdisc::{self, Class, HfscClass, HtbClass, Qdisc};
use openflow_service::{Details, PortQos, PortQueue};
use std::io;
use units::Millis;

/// The QoS types of ports with a kernel device.
pub(super) const TYPES: [&str; 7] =
    ["linux-codel", "linux-fq_codel", "linux-hfsc", "linux-htb", "linux-netem", "linux-noop", "linux-sfq"];

/// With this QoS type the device's discipline is not changed.
const NOOP: &str = "linux-noop";

/// Changes the device's discipline as the row requires. `qos`: the settings in force; updated.
pub(super) fn apply(
    ifindex: u32,
    config: &QosConfig,
    device: Device,
    qos: &mut PortQos,
    now: Millis,
) -> io::Result<()> {
    if config.kind == NOOP {
        (qos.details, qos.queues) = (Details::new(), Default::default());
        NOOP.clone_into(&mut qos.kind);
        return Ok(());
    }
    let settings = &config.other_config;
    let rate = port_rate(settings, device);
    let (wanted, details) = discipline(&config.kind, settings, rate, device)
        .ok_or_else(|| io::Error::from_raw_os_error(OPERATION_NOT_SUPPORTED))?;
    // The class between the root and the queues: its rate is the total rate of all queues.
    let inner_class = match &wanted {
        Qdisc::Htb(class) => Some(Class::Htb(*class)),
        Qdisc::Hfsc(class) => Some(Class::Hfsc(*class)),
        _ => None,
    };
    match &inner_class {
        // If only the rate of the port changes, the queues stay.
        Some(inner_class) if qos.kind == config.kind => qdisc::set_inner_class(ifindex, inner_class)?,
        _ if qos.kind == config.kind && qos.details == details => {}
        _ => {
            // `install` removes the old discipline first. If the kernel refuses the new one, the device has the
            // kernel's default.
            *qos = PortQos::default();
            qdisc::install(ifindex, &wanted)?;
        }
    }
    (qos.kind, qos.details) = (config.kind.clone(), details);
    if inner_class.is_some() {
        set_queues(ifindex, config, (rate, device), qos, now)?;
    }
    Ok(())
}

const OPERATION_NOT_SUPPORTED: i32 = 95;

/// Restores the kernel's default discipline.
pub(super) fn remove(ifindex: u32, qos: &mut PortQos) -> io::Result<()> {
    if !qos.kind.is_empty() && qos.kind != NOOP {
        qdisc::remove(ifindex)?;
    }
    *qos = PortQos::default();
    Ok(())
}

/// Changes the queues as the row requires. Queue 0 always exists: packets for which no action set a queue use queue 0.
fn set_queues(
    ifindex: u32,
    config: &QosConfig,
    (rate, device): (u64, Device),
    qos: &mut PortQos,
    now: Millis,
) -> io::Result<()> {
    let gone: Vec<u32> = qos.queues.keys().filter(|q| !config.queues.contains_key(q)).copied().collect();
    for queue in gone.into_iter().filter(|queue| *queue != 0) {
        qdisc::delete_queue(ifindex, queue)?;
        qos.queues.remove(&queue);
    }
    let none = Map::new();
    let first = (!config.queues.contains_key(&0)).then_some((0, &none));
    let rows = config.queues.iter().map(|(number, queue)| (*number, &queue.other_config));
    for (number, settings) in first.into_iter().chain(rows).filter(|(number, _)| *number < qdisc::QUEUES) {
        let (class, details) = queue(&config.kind, settings, rate, device);
        let known = qos.queues.get(&number);
        if known.is_some_and(|known| known.details == details) {
            continue;
        }
        let created = known.map_or(now, |known| known.created);
        qdisc::set_queue(ifindex, number, &class)?;
        qos.queues.insert(number, PortQueue { details, created });
    }
    Ok(())
}

fn queue(kind: &str, settings: &Map, rate: u64, device: Device) -> (Class, Details) {
    if kind == "linux-hfsc" {
        let (min, max) = hfsc(settings, rate);
        let mut details = vec![("min-rate", bits(min))];
        if min != max {
            details.push(("max-rate", bits(max)));
        }
        return (Class::Hfsc(HfscClass { min: limit_to_32_bits(min), max: limit_to_32_bits(max) }), details);
    }
    let htb = Htb::read(settings, rate, device);
    let Htb { min, max, burst, priority } = htb;
    (Class::Htb(HtbClass { min, max, burst, priority, mtu: device.mtu }), htb.details())
}

/// Limits a rate to 32 bits, the size of HFSC rates in the kernel.
fn limit_to_32_bits(rate: u64) -> u32 {
    rate.try_into().unwrap_or(u32::MAX)
}

/// The discipline of a QoS type and its description for commands. `None`: the type does not exist.
fn discipline(kind: &str, settings: &Map, rate: u64, device: Device) -> Option<(Qdisc, Details)> {
    let or = |key, default| match unsigned(settings, key) {
        0 => default,
        n => u32::try_from(n).unwrap_or(u32::MAX),
    };
    let shown = |pairs: &[(&'static str, u32)]| pairs.iter().map(|(k, v)| (*k, v.to_string())).collect();
    let rate_details = || vec![("max-rate", bits(rate))];
    Some(match kind {
        "linux-htb" => {
            let class = HtbClass { min: rate, max: rate, burst: 0, priority: 0, mtu: device.mtu };
            (Qdisc::Htb(class), rate_details())
        }
        "linux-hfsc" => (
            Qdisc::Hfsc(HfscClass { min: limit_to_32_bits(rate), max: limit_to_32_bits(rate) }),
            rate_details(),
        ),
        "linux-sfq" => {
            let (quantum, perturb) = (or("quantum", device.mtu), or("perturb", 10));
            (Qdisc::Sfq { quantum, perturb }, shown(&[("quantum", quantum), ("perturb", perturb)]))
        }
        "linux-codel" => {
            let (target, limit, interval) =
                (or("target", 5000), or("limit", 10_240), or("interval", 100_000));
            let details = shown(&[("target", target), ("limit", limit), ("interval", interval)]);
            (Qdisc::Codel { target, limit, interval }, details)
        }
        // The default of `interval` differs from that of `linux-codel`, as in Open vSwitch.
        "linux-fq_codel" => {
            let (target, limit, interval) =
                (or("target", 5000), or("limit", 10_240), or("interval", 1_000_000));
            let (flows, quantum) = (or("flows", 1024), or("quantum", 1514));
            let codel = [("target", target), ("limit", limit), ("interval", interval)];
            let details = shown(&[&codel[..], &[("flows", flows), ("quantum", quantum)]].concat());
            (Qdisc::FqCodel { target, limit, interval, flows, quantum }, details)
        }
        "linux-netem" => {
            let (latency, limit) = (or("latency", 0), or("limit", 1000));
            let (loss, jitter) = (or("loss", 0), or("jitter", 0));
            let details = [("latency", latency), ("limit", limit), ("loss", loss), ("jitter", jitter)];
            (Qdisc::Netem { latency, limit, loss, jitter }, shown(&details))
        }
        _ => return None,
    })
}
