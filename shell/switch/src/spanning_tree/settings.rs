//! Derives the settings of spanning trees and their ports from database rows.

use bridge::spanning_tree::{BridgeIdentifier, Link, PortSetup, Protocol, Settings, rstp, stp};
use config::{PortConfig, TreePortConfig};
use flow::Mac;
use flow::text::address::parse_mac;
use openflow_service::{Bridge, BridgePort, current_mbps};
use runtime::{Module, RateLimit};
use settings::Setting;
use settings::bridge::{
    RSTP_ADDRESS, RSTP_FORCE_PROTOCOL_VERSION, RSTP_FORWARD_DELAY, RSTP_MAX_AGE, RSTP_PRIORITY,
    RSTP_TRANSMIT_HOLD_COUNT, STP_FORWARD_DELAY, STP_HELLO_TIME, STP_MAX_AGE, STP_PRIORITY, STP_SYSTEM_ID,
};
use std::collections::BTreeSet;
use units::{Millis, OfPort};

static LOG: Module = Module::new("bridge");
/// Limits error messages, which are repeated at each change of the configuration.
static LIMIT: RateLimit = RateLimit::new(5, 20);

/// Speed of a port whose device reports no speed, in Mbit/s.
const DEFAULT_MBPS: u32 = 10_000;
/// RSTP bridge priorities are multiples of this number (IEEE 802.1D-2004, 17.14).
const RSTP_STEP: u16 = 4096;

/// The settings of a bridge; `None` if it has no spanning tree.
pub(crate) fn of_bridge(bridge: &Bridge) -> Option<Settings> {
    let tree = bridge.config.spanning_tree;
    if tree.stp && tree.rstp {
        let name = &bridge.name;
        runtime::warn_rl!(
            LOG,
            LIMIT,
            "{name}: RSTP and STP are mutually exclusive but both are configured; enabling RSTP"
        );
    }
    let row = &bridge.config.other_config;
    let number = |setting: Setting| u16::try_from(setting.number(row)).unwrap_or_default();
    let seconds = |setting: Setting| Millis::from_secs(setting.number(row).unsigned_abs());
    Some(match tree.protocol()? {
        Protocol::Stp => Settings::Stp(stp::Settings {
            identifier: BridgeIdentifier::new(number(STP_PRIORITY), address(bridge, STP_SYSTEM_ID)),
            hello_time: seconds(STP_HELLO_TIME),
            max_age: seconds(STP_MAX_AGE),
            forward_delay: seconds(STP_FORWARD_DELAY),
        }),
        Protocol::Rstp => {
            let priority = number(RSTP_PRIORITY) / RSTP_STEP * RSTP_STEP;
            Settings::Rstp(rstp::Settings {
                identifier: BridgeIdentifier::new(priority, address(bridge, RSTP_ADDRESS)),
                stp_compatible: number(RSTP_FORCE_PROTOCOL_VERSION) == 0,
                max_age: number(RSTP_MAX_AGE),
                forward_delay: number(RSTP_FORWARD_DELAY),
                transmit_hold_count: number(RSTP_TRANSMIT_HOLD_COUNT),
            })
        }
    })
}

/// The address in a bridge's identifier; the bridge's own address if the setting is absent or invalid.
fn address(bridge: &Bridge, setting: Setting) -> Mac {
    let Some(text) = setting.get(&bridge.config.other_config) else { return bridge.mac };
    parse_mac(text).unwrap_or_else(|| {
        let (name, key, mac) = (&bridge.name, setting.key, bridge.mac);
        runtime::log_rl!(
            LOG,
            LIMIT,
            runtime::log::Level::Err,
            "bridge {name}: invalid {key}, defaulting to {mac}"
        );
        mac
    })
}

/// The ports of a bridge that take part in its spanning tree.
pub(crate) fn of_ports(bridge: &Bridge, protocol: Protocol) -> Vec<PortSetup> {
    let mut numbers = BTreeSet::new();
    let mut ports: Vec<(&PortConfig, &BridgePort)> = bridge
        .config
        .ports
        .values()
        .filter_map(|row| Some((row, candidate(bridge, row, protocol)?)))
        .collect();
    ports.sort_by_key(|(_, port)| port.ofport);
    let max = match protocol {
        Protocol::Stp => stp::PORTS_MAX,
        Protocol::Rstp => rstp::PORTS_MAX,
    };
    for (row, _) in ports.iter().skip(max) {
        error(format_args!("port {}: too many {} ports, disabling", row.name, protocol.name()));
    }
    ports.truncate(max);
    let setup = |(row, port): (&PortConfig, &BridgePort)| {
        let config = of_protocol(row, protocol);
        if config.number.is_some_and(|n| !numbers.insert(n)) {
            error(format_args!(
                "port {}: duplicate {}-port-num, another one is used",
                row.name,
                key(protocol)
            ));
        }
        PortSetup {
            port: port.ofport,
            name: port.name.clone(),
            number: config.number,
            priority: config.priority,
            path_cost: config.path_cost.unwrap_or_else(|| cost(port, protocol)),
            rapid: row.spanning_tree.rapid.clone(),
            link: link(port, protocol),
        }
    };
    ports.into_iter().map(setup).collect()
}

/// The state of a port's device.
pub(super) fn link(port: &BridgePort, protocol: Protocol) -> Link {
    let up = match protocol {
        Protocol::Stp => port.is_up(),
        Protocol::Rstp => port.may_enable(),
    };
    Link { mac: port.hw_addr(), up }
}

fn of_protocol(row: &PortConfig, protocol: Protocol) -> &TreePortConfig {
    match protocol {
        Protocol::Stp => &row.spanning_tree.stp,
        Protocol::Rstp => &row.spanning_tree.rstp,
    }
}

fn key(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Stp => "stp",
        Protocol::Rstp => "rstp",
    }
}

fn cost(port: &BridgePort, protocol: Protocol) -> u32 {
    let mbps = match current_mbps(port) {
        0 => DEFAULT_MBPS,
        mbps => mbps,
    };
    match protocol {
        Protocol::Stp => stp::path_cost(mbps),
        Protocol::Rstp => rstp::path_cost(mbps),
    }
}

/// The port of a Port row, if it takes part in the spanning tree. Internal ports, outputs of mirrors and bonds do not take part.
fn candidate<'a>(bridge: &'a Bridge, row: &PortConfig, protocol: Protocol) -> Option<&'a BridgePort> {
    if !of_protocol(row, protocol).enable {
        return None;
    }
    let [interface] = row.interfaces.as_slice() else {
        if row.interfaces.len() > 1 {
            error(format_args!("port {}: cannot enable {} on bonds, disabling", row.name, protocol.name()));
        }
        return None;
    };
    let is_mirror = bridge.config.mirrors.iter().any(|m| m.output_port.as_ref() == Some(&row.name));
    let port = bridge.ports.named(&interface.name).filter(|port| port.ofport != OfPort::LOCAL)?;
    (interface.kind != "internal" && !is_mirror).then_some(port)
}

fn error(text: std::fmt::Arguments<'_>) {
    runtime::log_rl!(LOG, LIMIT, runtime::log::Level::Err, "{text}");
}
