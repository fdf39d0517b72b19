//! Builds samples from a view. The server's thread reads the counters to which the view refers; no thread waits for it.

mod datapaths;
pub mod kernel;
mod ports;
mod process;

pub use datapaths::{direction, name_of_worker, reason_name};

use crate::view::View;
use metrics::table as m;
use metrics::{Object, Samples};
use process::Process;
use runtime::cpu_time;
use std::collections::BTreeMap;

const SECOND: f64 = 1e9;

/// Counters of the metrics server itself.
#[derive(Default)]
pub struct ServerCounters {
    /// Answers by status code.
    pub answers: BTreeMap<u16, u64>,
    /// Open connections.
    pub connections: usize,
    /// Connections that were closed early.
    pub closed: u64,
}

/// Builds samples; stores values that must not change between them.
#[derive(Default)]
pub struct Sampler {
    process: Process,
    /// Cycles per second. Measured only once: with a new value the same number of cycles could be less time, so that a counter
    /// would decrease.
    hertz: Option<f64>,
}

impl Sampler {
    /// Builds samples of the present values.
    pub fn samples(&mut self, view: &View, server: &ServerCounters) -> Samples {
        let hertz = *self.hertz.get_or_insert_with(|| poll_threads::cycles::per_second().max(1) as f64);
        let mut samples = Samples::default();
        self.process.add(&mut samples);
        add_global(view, server, hertz, &mut samples);
        for datapath in &view.datapaths {
            datapaths::add(datapath, hertz, &mut samples);
        }
        for bridge in &view.bridges {
            add_bridge(bridge, &mut samples);
        }
        ports::add(view, &mut samples);
        for (bridge, name, links, enabled) in &view.bonds {
            if let Some(bond) = samples.object(Object::Bond, &[bridge, name]) {
                samples.set(&m::BOND_LINKS, bond, *links);
                samples.set(&m::BOND_ENABLED, bond, *enabled);
            }
        }
        for (name, size, used) in dpdk::mempool::usage() {
            if let Some(pool) = samples.object(Object::Pool, &[&name]) {
                samples.set(&m::POOL_BUFFERS, pool, u64::from(size));
                samples.set(&m::POOL_IN_USE, pool, u64::from(used));
            }
        }
        for (name, total) in runtime::coverage::totals() {
            let is_drop = dpif::DropReason::ALL.iter().any(|reason| reason.name() == name);
            if let Some(event) = (!is_drop).then(|| samples.object(Object::Event, &[name])).flatten() {
                samples.set(&m::EVENTS, event, total);
            }
        }
        samples.finish();
        samples
    }
}

fn add_global(view: &View, server: &ServerCounters, hertz: f64, samples: &mut Samples) {
    let of = Samples::NO_LABELS;
    samples.set(&m::CYCLES_HERTZ, of, hertz);
    samples.set(&m::CONFIGURED, of, view.configured);
    samples.set(&m::DATABASE_CONNECTED, of, view.database_connected);
    samples.set(&m::DATABASE_NEXT_CFG, of, u64::try_from(view.next_cfg).unwrap_or(0));
    samples.set(&m::FAILED_INTERFACES, of, view.failed);
    let age = cpu_time::monotonic().saturating_sub(view.taken);
    samples.set(&m::VIEW_AGE, of, age as f64 / SECOND);
    samples.set(&m::PUBLISH_SECONDS, of, view.cost as f64 / SECOND);
    samples.set(&m::SERVER_SECONDS, of, cpu_time::thread_time() as f64 / SECOND);
    samples.set(&m::SERVER_CONNECTIONS, of, server.connections);
    samples.set(&m::SERVER_CLOSED, of, server.closed);
    for (code, n) in &server.answers {
        if let Some(answer) = samples.object(Object::Answer, &[&code.to_string()]) {
            samples.set(&m::ANSWERS, answer, *n);
        }
    }
    if let Some(build) = samples.object(Object::Build, &[env!("CARGO_PKG_VERSION"), runtime::COMPAT_VERSION])
    {
        samples.set(&m::BUILD, build, 1u64);
    }
}

fn add_bridge(bridge: &crate::view::BridgeView, samples: &mut Samples) {
    if let Some(of) = samples.object(Object::Bridge, &[&bridge.name]) {
        samples.set(&m::BRIDGE_PORTS, of, bridge.ports);
        samples.set(&m::BRIDGE_GROUPS, of, bridge.groups);
        samples.set(&m::BRIDGE_MACS, of, bridge.macs.0);
        samples.set(&m::BRIDGE_MACS_MAX, of, bridge.macs.1);
        if let Some((groups, limit)) = bridge.multicast {
            samples.set(&m::BRIDGE_MULTICAST, of, groups);
            samples.set(&m::BRIDGE_MULTICAST_MAX, of, limit);
        }
        samples.set(&m::BRIDGE_CONNECTIONS, of, bridge.connections.0);
        samples.set(&m::BRIDGE_UNSENT, of, bridge.connections.1);
    }
    for (target, is_connected) in &bridge.controllers {
        if let Some(of) = samples.object(Object::Controller, &[&bridge.name, target]) {
            samples.set(&m::CONTROLLER_CONNECTED, of, *is_connected);
        }
    }
    for (number, flows, matched, missed) in &bridge.tables {
        if let Some(of) = samples.object(Object::Table, &[&bridge.name, &number.to_string()]) {
            samples.set(&m::TABLE_FLOWS, of, *flows);
            samples.set(&m::TABLE_MATCHED, of, *matched);
            samples.set(&m::TABLE_MISSED, of, *missed);
        }
    }
    for (number, packets, bytes, exceeding) in &bridge.meters {
        if let Some(of) = samples.object(Object::Meter, &[&bridge.name, &number.to_string()]) {
            samples.set(&m::METER_PACKETS, of, *packets);
            samples.set(&m::METER_BYTES, of, *bytes);
            samples.set(&m::METER_EXCEEDING, of, *exceeding);
        }
    }
}

#[cfg(test)]
mod tests;
