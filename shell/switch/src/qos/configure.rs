//! Applies QoS rows to ports.

use super::rates::Device;
use super::{egress, kernel};
use crate::backer::Backer;
use crate::switch::Switch;
use config::InterfaceConfig;
use config::qos::QosConfig;
use datapath::{EgressClock, EgressSpec, PolicerSpec};
use netdev::device::{Facts, QosPlace};
use openflow_service::{AppliedQos, Backing, Bridge, BridgePort, PortQos, PortQueue, TouchedPorts};
use runtime::Module;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Instant;
use units::{Millis, Nanos, OfPort, PortNo};

static NETDEV_DPDK: Module = Module::new("netdev_dpdk");
static NETDEV_LINUX: Module = Module::new("netdev_linux");

/// Applies the ingress policing columns of an interface.
pub(crate) fn police(backer: &Backer, number: PortNo, interface: &InterfaceConfig, now: Millis) {
    let policing = &interface.policing;
    let spec = PolicerSpec {
        kbits: policing.kbits.into(),
        kbits_burst: policing.kbits_burst.into(),
        packets: u64::from(policing.kpkts) * 1000,
        packets_burst: u64::from(policing.kpkts_burst) * 1000,
    };
    backer.datapath.set_policer(number, spec, now);
}

impl Switch {
    /// Applies QoS rows after rows, ports, or the speed or MTU of devices changed.
    pub(crate) fn configure_qos(&mut self) {
        let now = self.clock.now();
        let clock = self.egress_clock();
        for bridge in self.bridges.values_mut() {
            let Some(backer) = self.datapaths.of_bridge(bridge) else { continue };
            for ofport in touched(bridge) {
                let Some(port) = bridge.ports.get_mut_unmarked(&ofport) else { continue };
                let row = bridge.config.ports.get(&port.port_row).and_then(|row| row.qos.as_ref());
                let wanted = row.map(|config| to_apply(config, port.facts.as_ref()));
                if port.qos.applied != wanted {
                    let applied = apply(backer, port, row, &clock, now);
                    port.qos.applied = wanted.filter(|_| applied);
                }
            }
        }
    }

    /// The clock of shapers: virtual time in dummy mode, else the monotonic clock.
    fn egress_clock(&self) -> EgressClock {
        if self.options.dummy_mode() {
            let clock = self.clock.clone();
            return Arc::new(move || Nanos(clock.now().0.saturating_mul(1_000_000)));
        }
        let start = Instant::now();
        Arc::new(move || Nanos(start.elapsed().as_nanos() as u64))
    }
}

fn to_apply(config: &QosConfig, facts: Option<&Facts>) -> AppliedQos {
    AppliedQos {
        config: config.clone(),
        speed_mbps: facts.and_then(|facts| facts.modes.speed_mbps),
        mtu: facts.map(|facts| facts.mtu),
    }
}

/// The OpenFlow ports that may have changed, and the ports of Port rows that may have changed.
fn touched(bridge: &mut Bridge) -> BTreeSet<OfPort> {
    let TouchedPorts { mut ports, rows, .. } = bridge.ports.take_for_qos();
    let rows = rows.iter().filter_map(|row| bridge.config.ports.get(row));
    let named = rows.flat_map(|row| &row.interfaces).filter_map(|i| bridge.port_named(&i.name));
    ports.extend(named.map(|port| port.ofport));
    ports
}

/// Applies the QoS row of a port, in the kernel or in the datapath. `wanted`: `None` removes QoS. Returns false if the kernel has refused
/// and may accept it later.
fn apply(
    backer: &Backer,
    port: &mut BridgePort,
    wanted: Option<&QosConfig>,
    clock: &EgressClock,
    now: Millis,
) -> bool {
    let Backing::Device { netdev, number } = &port.backing else { return true };
    let (name, number) = (port.name.as_str(), *number);
    match netdev.qos_place() {
        QosPlace::None => {
            if let Some(config) = wanted.filter(|_| netdev.dummy().is_none()) {
                runtime::warn!(NETDEV_LINUX, "{name}: QoS type {} has no effect on this port", config.kind);
            }
        }
        QosPlace::Kernel => {
            let device = Device::in_kernel(port.facts.as_ref());
            let ifindex = port.facts.as_ref().and_then(|facts| facts.ifindex);
            let result = match (ifindex, wanted) {
                (Some(ifindex), Some(config)) => kernel::apply(ifindex, config, device, &mut port.qos, now),
                (Some(ifindex), None) => kernel::remove(ifindex, &mut port.qos),
                (None, _) => Ok(()),
            };
            backer.datapath.set_device_queues(number, !port.qos.queues.is_empty());
            if let Err(e) = result {
                log_failure(name, wanted, &e);
                return false;
            }
        }
        QosPlace::Datapath => {
            let device = Device::in_datapath(port.facts.as_ref());
            apply_in_datapath((backer, number, name), wanted, device, (clock, now), &mut port.qos);
        }
    }
    true
}

fn log_failure(name: &str, wanted: Option<&QosConfig>, error: &io::Error) {
    let text = runtime::error_text(error);
    match wanted {
        Some(config) => {
            runtime::warn!(NETDEV_LINUX, "{name}: Failed to set QoS type {}: {text}", config.kind)
        }
        None => runtime::warn!(NETDEV_LINUX, "{name}: Failed to delete existing qdisc: {text}"),
    }
}

/// Sets the policer or shaper of a port. If the row is invalid or unsupported, the port has no QoS.
fn apply_in_datapath(
    (backer, number, name): (&Backer, PortNo, &str),
    wanted: Option<&QosConfig>,
    device: Device,
    (clock, now): (&EgressClock, Millis),
    qos: &mut PortQos,
) {
    let old_queues = std::mem::take(&mut qos.queues);
    let egress_config = wanted.and_then(|config| egress::wanted(config, device));
    let is_unsupported = egress_config.is_none();
    let (spec, details, queues) = match egress_config {
        Some((spec, details, queues)) => (Some(spec), details, queues),
        None => Default::default(),
    };
    let invalid = backer.datapath.set_egress(number, spec.clone(), clock).is_err();
    if let Some(config) = wanted
        && (invalid || is_unsupported)
    {
        let why = if is_unsupported { "Operation not supported" } else { "Invalid argument" };
        if matches!(spec, Some(EgressSpec::SingleRate(_))) {
            runtime::err!(NETDEV_DPDK, "Could not create rte meter for egress policer");
        }
        let kind = &config.kind;
        runtime::err!(NETDEV_DPDK, "Failed to set QoS type {kind} on port {name}: {why}");
    }
    let in_force = wanted.filter(|_| !invalid && !is_unsupported);
    let Some(config) = in_force else {
        // Without a row, or with an invalid or unsupported one, no QoS is in force.
        let _ = backer.datapath.set_egress(number, None, clock);
        *qos = PortQos::default();
        return;
    };
    (qos.kind, qos.details) = (config.kind.clone(), details);
    // A two-rate policer leaves out queues whose rates are invalid, so `qos.queues` must not contain them.
    let egress = backer.datapath.egress(number);
    let exists = |queue: &u32| match &spec {
        Some(EgressSpec::TwoRate(_)) => egress.as_ref().is_some_and(|e| e.counts(*queue).is_some()),
        _ => true,
    };
    let port_queue = |(queue, details)| {
        let created = old_queues.get(&queue).map_or(now, |old: &PortQueue| old.created);
        (queue, PortQueue { details, created })
    };
    qos.queues = queues.into_iter().filter(|(queue, _)| exists(queue)).map(port_queue).collect();
}
