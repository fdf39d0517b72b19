//! Features of the switch and its ports.

use crate::bridge::Bridge;
use crate::port::BridgePort;
use crate::request_context::{RequestContext, RequestResult};
use bridge::spanning_tree::PortState as TreeState;
use ofproto::TABLE_INTERNAL;
use openflow::port::{Port, PortConfig, PortReason, PortState, StpState, features};
use openflow::session::{Capabilities, SwitchFeatures};
use openflow::stats::Desc;
use openflow::{Body, Version};
use settings::Setting;
use settings::bridge::{DP_DESC, DP_SN};
use units::OfPort;

/// Bits of all actions of OpenFlow 1.0, from output to enqueue (OpenFlow 1.0.2 §5.2.4).
pub(crate) const ACTIONS_10: u32 = 0xfff;

impl RequestContext<'_> {
    pub(crate) fn features(&mut self, version: Version) -> RequestResult {
        let capabilities = Capabilities {
            flow_stats: true,
            table_stats: true,
            port_stats: true,
            group_stats: true,
            queue_stats: true,
            arp_match_ip: true,
            bundles: true,
            ..Capabilities::default()
        };
        // From 1.3 on, a controller requests the ports separately.
        let ports = if version < Version::V13 { self.port_descriptions() } else { Vec::new() };
        Ok(Some(Body::FeaturesReply(SwitchFeatures {
            datapath_id: self.bridge.datapath_id,
            n_buffers: 0,
            // The internal table, which is the last one, is not included.
            n_tables: TABLE_INTERNAL,
            auxiliary_id: 0,
            capabilities,
            actions: ACTIONS_10,
            ports,
        })))
    }

    pub(crate) fn port_descriptions(&self) -> Vec<Port> {
        self.bridge.ports.values().map(port_description).collect()
    }

    pub(crate) fn desc(&self) -> Desc {
        let setting = |s: Setting| s.get(&self.bridge.config.other_config).unwrap_or("None");
        Desc {
            manufacturer: "Nicira, Inc.".to_owned(),
            hardware: "Open vSwitch".to_owned(),
            software: runtime::COMPAT_VERSION.to_owned(),
            serial: setting(DP_SN).to_owned(),
            datapath: setting(DP_DESC).to_owned(),
        }
    }
}

/// The OpenFlow description of a port. A patch port always has a link, and has no speed.
pub fn port_description(port: &BridgePort) -> Port {
    let facts = port.facts.as_ref();
    let down = facts.map_or(port.config.port_down, |f| !f.admin_up);
    // A device that is administratively down has no link.
    let link_down = facts.is_some_and(|f| !f.link_up || !f.admin_up);
    let live = !down && port.may_enable();
    let modes = facts.map(|f| f.modes).unwrap_or_default();
    Port {
        number: port.ofport,
        hw_addr: port.hw_addr(),
        name: port.name.clone(),
        config: PortConfig { port_down: down, ..port.config },
        state: PortState { link_down, blocked: false, live, stp: stp_state(port) },
        current: modes.current,
        advertised: modes.advertised,
        supported: modes.supported,
        peer: 0,
        current_speed: current_mbps(port).saturating_mul(1000),
        max_speed: fastest_mbps(modes.supported).saturating_mul(1000),
    }
}

/// The speed of a port in Mbit/s; 0: unknown.
pub fn current_mbps(port: &BridgePort) -> u32 {
    let modes = port.facts.as_ref().map(|f| f.modes).unwrap_or_default();
    modes.speed_mbps.unwrap_or_else(|| fastest_mbps(modes.current))
}

fn stp_state(port: &BridgePort) -> StpState {
    match port.tree.map(|tree| tree.state) {
        Some(TreeState::Learning) => StpState::Learn,
        Some(TreeState::Forwarding) => StpState::Forward,
        Some(TreeState::Blocking) => StpState::Block,
        Some(TreeState::Disabled | TreeState::Listening | TreeState::Discarding) | None => StpState::Listen,
    }
}

impl Bridge {
    /// Changes a port, and sends controllers a port status message if the change is visible in OpenFlow. If a report about the port is
    /// outstanding ([`BridgePort::reported_state`]), that report will include this change.
    pub fn change_port(&mut self, number: OfPort, change: impl FnOnce(&mut BridgePort)) {
        let Some(port) = self.ports.get_mut(&number) else { return };
        let old = port_description(port);
        change(port);
        if port.reported_state.is_none() {
            let new = port_description(port);
            self.conns.send_port_status(PortReason::Modify, &new, Some(&old), None);
        }
    }
}

/// The highest speed of a set of OpenFlow port features, in Mbit/s; 0 if the set contains no speed.
fn fastest_mbps(bits: u32) -> u32 {
    let speeds = [
        (features::FD_1TB, 1_000_000),
        (features::FD_100GB, 100_000),
        (features::FD_40GB, 40_000),
        (features::FD_10GB, 10_000),
        (features::FD_1GB | features::HD_1GB, 1000),
        (features::FD_100MB | features::HD_100MB, 100),
        (features::FD_10MB | features::HD_10MB, 10),
    ];
    speeds.iter().find(|(mask, _)| bits & mask != 0).map_or(0, |(_, mbps)| *mbps)
}
