//! Plans the steps from the current to the desired state, in an order in which each step is valid.
//!
//! Removals come first, so that a name or a port number is free before another port requests it. A port whose type
//! changes is removed and added. Steps are small: a step can fail without an effect on the other steps.

use crate::bridge::BridgeConfig;
use crate::desired::Desired;
use crate::follow::TouchedByDatabase;
use crate::interface::InterfaceConfig;
use crate::port::PortConfig;
use std::collections::{BTreeSet, HashMap};

/// One change of the running switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Remove a device from a bridge.
    RemoveInterface {
        /// The bridge.
        bridge: String,
        /// The device.
        name: String,
    },
    /// Remove a bridge; other steps have removed its devices.
    RemoveBridge {
        /// The bridge.
        bridge: String,
    },
    /// Create an empty bridge.
    AddBridge {
        /// The bridge.
        bridge: String,
    },
    /// Add a device to a bridge.
    AddInterface {
        /// The bridge.
        bridge: String,
        /// The device.
        name: String,
    },
    /// Apply changed settings of a device.
    ChangeInterface {
        /// The bridge.
        bridge: String,
        /// The device.
        name: String,
    },
    /// Apply the configuration of a bridge, without its devices: VLANs, controllers, ids, tables.
    ConfigureBridge {
        /// The bridge.
        bridge: String,
        /// Names of ports whose rows were changed, added or removed.
        ports: Vec<String>,
    },
}

/// Interfaces of a bridge, each with the name of its port.
type Interfaces<'a> = Vec<(&'a str, &'a InterfaceConfig)>;

/// The interfaces of a bridge. `only_ports`: only the interfaces of these ports; `None`: of all ports.
fn interfaces<'a>(bridge: Option<&'a BridgeConfig>, only_ports: Option<&BTreeSet<String>>) -> Interfaces<'a> {
    let of = |port: &'a PortConfig| port.interfaces.iter().map(|i| (port.name.as_str(), i));
    let ports = bridge.into_iter().map(|bridge| &bridge.ports);
    match only_ports {
        Some(names) => ports.flat_map(|p| names.iter().filter_map(|name| p.get(name))).flat_map(of).collect(),
        None => ports.flat_map(|p| p.values()).flat_map(of).collect(),
    }
}

/// Interfaces by name. Of several interfaces with the same name, the first.
fn by_name<'a>(interfaces: &Interfaces<'a>) -> HashMap<&'a str, (&'a str, &'a InterfaceConfig)> {
    let mut found = HashMap::new();
    for (port, interface) in interfaces {
        found.entry(interface.name.as_str()).or_insert((*port, *interface));
    }
    found
}

/// Whether the device must be recreated. A new row with the same name and type (`del-port` and `add-port` in one
/// transaction) keeps the port, its number and its device, as in Open vSwitch.
fn is_other_device(old: &InterfaceConfig, new: &InterfaceConfig) -> bool {
    old.kind != new.kind
}

/// Whether the bridge must be recreated. A new row with the same name and type keeps the bridge and its flows, as in
/// Open vSwitch.
fn is_other_bridge(old: &BridgeConfig, new: &BridgeConfig) -> bool {
    old.datapath_type != new.datapath_type
}

/// Returns the steps from `current` to `desired`. The two states may differ only in the ports and bridges that
/// `touched` names.
pub fn plan(current: &Desired, desired: &Desired, touched: &TouchedByDatabase) -> Vec<Step> {
    let mut removals = Vec::new();
    let mut rest = Vec::new();
    for (name, ports) in &touched.bridges {
        let old = current.bridges.get(name);
        let new = desired.bridges.get(name);
        // A recreated bridge is removed and added with all its ports.
        let is_kept = matches!((old, new), (Some(old), Some(new)) if !is_other_bridge(old, new));
        let only_ports = is_kept.then_some(ports);
        let (before, after) = (interfaces(old, only_ports), interfaces(new, only_ports));
        let (known, kept) = match is_kept {
            true => (by_name(&before), by_name(&after)),
            false => Default::default(),
        };
        for (_, interface) in &before {
            let keep = kept.get(interface.name.as_str()).is_some_and(|(_, n)| !is_other_device(interface, n));
            if !keep {
                removals.push(Step::RemoveInterface { bridge: name.clone(), name: interface.name.clone() });
            }
        }
        if old.is_some() && !is_kept {
            removals.push(Step::RemoveBridge { bridge: name.clone() });
        }
        let Some(new) = new else { continue };
        if !is_kept {
            rest.push(Step::AddBridge { bridge: name.clone() });
        }
        rest.extend(devices(desired, name, after, &known));
        let old = old.filter(|_| is_kept);
        let ports = changed_ports(old, new, only_ports);
        if !ports.is_empty() || old.is_none_or(|old| !old.is_same_but_for_ports(new)) {
            rest.push(Step::ConfigureBridge { bridge: name.clone(), ports });
        }
    }
    removals.extend(rest);
    removals
}

/// The steps for the interfaces of a bridge. `known`: the interfaces that exist, by name.
fn devices<'a>(
    desired: &Desired,
    bridge: &str,
    mut wanted: Interfaces<'a>,
    known: &HashMap<&'a str, (&'a str, &'a InterfaceConfig)>,
) -> Vec<Step> {
    // The bridge's own device comes first, because other devices may use its address or limits. Then come devices that
    // request a port number, then those that had one before a restart, and last those that accept any free number.
    let had_number = |i: &InterfaceConfig| desired.ofports.contains_key(&i.uuid);
    wanted.sort_by_key(|(_, i)| (i.name != bridge, i.ofport_request.is_none(), !had_number(i)));
    let step = |(port, interface): (&str, &InterfaceConfig)| {
        let (bridge, name) = (bridge.to_owned(), interface.name.clone());
        match known.get(interface.name.as_str()).copied() {
            Some(same) if same == (port, interface) => None,
            Some((_, o)) if !is_other_device(o, interface) => Some(Step::ChangeInterface { bridge, name }),
            _ => Some(Step::AddInterface { bridge, name }),
        }
    };
    wanted.into_iter().filter_map(step).collect()
}

/// The names of the ports that differ. `only_ports`: only these ports are compared; `None`: all ports count as changed.
fn changed_ports(
    old: Option<&BridgeConfig>,
    new: &BridgeConfig,
    only_ports: Option<&BTreeSet<String>>,
) -> Vec<String> {
    let differs = |name: &&String| old.and_then(|old| old.ports.get(*name)) != new.ports.get(*name);
    match only_ports {
        Some(names) => names.iter().filter(differs).cloned().collect(),
        None => new.ports.keys().cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FailMode, PortConfig};
    use bridge::VlanConfig;
    use ovsdb::Uuid;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn interface(name: &str, kind: &str, options: u8) -> InterfaceConfig {
        InterfaceConfig {
            uuid: Uuid::from_u128(name.bytes().map(u128::from).sum()),
            name: name.to_owned(),
            kind: kind.to_owned(),
            options: BTreeMap::from([("n".to_owned(), options.to_string())]),
            other_config: BTreeMap::new(),
            bfd: BTreeMap::new(),
            cfm_mpid: None,
            lldp: false,
            ofport_request: None,
            mtu_request: None,
            mac: None,
            lacp: crate::LacpLink { number: None, priority: 1, key: 0 },
            policing: crate::qos::Policing::default(),
        }
    }

    fn bridge_config(name: &str, datapath_type: &str, devices: Vec<InterfaceConfig>) -> BridgeConfig {
        let port = |i: InterfaceConfig| PortConfig {
            uuid: i.uuid,
            name: i.name.clone(),
            interfaces: vec![i],
            fake_bridge: false,
            tag: None,
            vlan: VlanConfig::trunk(),
            mac: None,
            protected: false,
            bond: bond::Settings::default(),
            lacp: None,
            spanning_tree: Default::default(),
            snooping: crate::port::PortSnooping::default(),
            qos: None,
        };
        BridgeConfig {
            uuid: Uuid::from_u128(name.len() as u128),
            name: name.to_owned(),
            datapath_type: datapath_type.to_owned(),
            auto_attach: None,
            datapath_id: None,
            hwaddr: None,
            fail_mode: FailMode::Standalone,
            protocols: Vec::new(),
            controllers: Vec::new(),
            ports: devices.into_iter().map(port).map(|p| (p.name.clone(), p)).collect(),
            flood_vlans: Vec::new(),
            mac_aging_secs: 300,
            mac_table_size: 8192,
            forward_bpdu: false,
            spanning_tree: Default::default(),
            snooping: None,
            mirrors: Vec::new(),
            sampling: crate::SamplingConfig::default(),
            flow_tables: BTreeMap::new(),
            other_config: BTreeMap::new(),
        }
    }

    fn desired(bridges: Vec<BridgeConfig>) -> Desired {
        let bridges = bridges.into_iter().map(|b| (b.name.clone(), b)).collect();
        Desired { bridges, ..Desired::default() }
    }

    fn states() -> impl Strategy<Value = Desired> {
        let device = (0..5u8, prop_oneof![Just("system"), Just("internal")], 0..2u8)
            .prop_map(|(n, kind, options)| interface(&format!("p{n}"), kind, options));
        let devices = prop::collection::vec(device, 0..5);
        let bridge = (0..3u8, prop_oneof![Just("netdev"), Just("system")], devices).prop_map(
            |(n, kind, mut devices)| {
                let name = format!("br{n}");
                devices.push(interface(&name, "internal", 0));
                bridge_config(&name, kind, devices)
            },
        );
        prop::collection::vec(bridge, 0..4).prop_map(desired)
    }

    /// Running devices with their configuration, by bridge and name.
    type Running = BTreeMap<String, BTreeMap<String, InterfaceConfig>>;

    /// The plan for two complete states, without information about where they differ.
    fn plan(current: &Desired, desired: &Desired) -> Vec<Step> {
        super::plan(current, desired, &TouchedByDatabase::all(current, desired))
    }

    fn running(state: &Desired) -> Running {
        let of = |b: &BridgeConfig| {
            interfaces(Some(b), None).into_iter().map(|(_, i)| (i.name.clone(), i.clone())).collect()
        };
        state.bridges.iter().map(|(name, b)| (name.clone(), of(b))).collect()
    }

    fn device(state: &Desired, bridge: &str, name: &str) -> InterfaceConfig {
        state.bridges[bridge].interface(name).unwrap().1.clone()
    }

    proptest! {
        /// Every step is valid in the state in which it is executed, and together the steps lead to the desired
        /// state.
        #[test]
        fn the_steps_lead_to_the_desired_state(current in states(), wanted in states()) {
            let mut now = running(&current);
            let mut configured = BTreeSet::new();
            for step in plan(&current, &wanted) {
                match step {
                    Step::RemoveInterface { bridge, name } => {
                        prop_assert!(now.get_mut(&bridge).and_then(|b| b.remove(&name)).is_some());
                    }
                    Step::RemoveBridge { bridge } => {
                        prop_assert!(now.remove(&bridge).is_some_and(|b| b.is_empty()));
                    }
                    Step::AddBridge { bridge } => {
                        prop_assert!(now.insert(bridge, BTreeMap::new()).is_none());
                    }
                    Step::AddInterface { bridge, name } => {
                        let device = device(&wanted, &bridge, &name);
                        let there = now.get_mut(&bridge);
                        prop_assert!(there.is_some_and(|b| b.insert(name, device).is_none()));
                    }
                    Step::ChangeInterface { bridge, name } => {
                        let device = device(&wanted, &bridge, &name);
                        let there = now.get_mut(&bridge);
                        prop_assert!(there.is_some_and(|b| b.insert(name, device).is_some()));
                    }
                    Step::ConfigureBridge { bridge, .. } => {
                        configured.insert(bridge);
                    }
                }
            }
            prop_assert_eq!(&now, &running(&wanted));
            for (name, b) in &wanted.bridges {
                prop_assert!(configured.contains(name) || current.bridges.get(name) == Some(b));
            }
        }

        #[test]
        fn equal_states_need_no_step(state in states()) {
            prop_assert!(plan(&state, &state).is_empty());
        }
    }

    #[test]
    fn requested_and_previous_port_numbers_are_assigned_first() {
        let mut asks = interface("p3", "system", 0);
        asks.ofport_request = Some(7);
        let (any, held) = (interface("p1", "system", 0), interface("p2", "system", 0));
        let mut wanted = desired(vec![bridge_config("br0", "netdev", vec![any, held.clone(), asks])]);
        wanted.ofports.insert_mut(held.uuid, units::OfPort(1));
        let added: Vec<String> = plan(&Desired::default(), &wanted)
            .into_iter()
            .filter_map(|step| match step {
                Step::AddInterface { name, .. } => Some(name),
                _ => None,
            })
            .collect();
        assert_eq!(added, ["p3", "p2", "p1"]);
    }

    #[test]
    fn another_row_of_the_same_name_and_type_keeps_the_device() {
        let before = desired(vec![bridge_config("br0", "netdev", vec![interface("p0", "system", 0)])]);
        let mut other = interface("p0", "system", 0);
        other.uuid = Uuid::from_u128(100);
        let config =
            BridgeConfig { uuid: Uuid::from_u128(99), ..bridge_config("br0", "netdev", vec![other]) };
        let after = desired(vec![config]);
        let (bridge, name) = ("br0".to_owned(), "p0".to_owned());
        let ports = vec![name.clone()];
        let steps =
            [Step::ChangeInterface { bridge: bridge.clone(), name }, Step::ConfigureBridge { bridge, ports }];
        assert_eq!(plan(&before, &after), steps);
    }

    #[test]
    fn a_device_moves_from_one_bridge_to_another_in_the_right_order() {
        let before = desired(vec![
            bridge_config("br0", "netdev", vec![interface("p0", "system", 0)]),
            bridge_config("br1", "netdev", vec![]),
        ]);
        let after = desired(vec![
            bridge_config("br0", "netdev", vec![]),
            bridge_config("br1", "netdev", vec![interface("p0", "system", 0)]),
        ]);
        let steps = plan(&before, &after);
        let at = |s: &Step| steps.iter().position(|t| t == s).unwrap();
        let (bridge, name) = ("br0".to_owned(), "p0".to_owned());
        let removed = at(&Step::RemoveInterface { bridge, name: name.clone() });
        assert!(removed < at(&Step::AddInterface { bridge: "br1".to_owned(), name }));
    }
}
