//! From the state that is to the state that is wanted, in steps that are safe in their order.
//!
//! Removals come first, so that a name or a port number is free before somebody else asks for it; a port whose type
//! changes is removed and added. Steps are small: each can fail alone, and what fails touches nothing else.

use crate::bridge::BridgeConfig;
use crate::desired::Desired;
use crate::interface::InterfaceConfig;

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
    /// Remove a bridge that has no device left but its own.
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
    /// A device's options or requests changed.
    ChangeInterface {
        /// The bridge.
        bridge: String,
        /// The device.
        name: String,
    },
    /// Everything of a bridge but its devices: VLANs, controllers, ids, tables.
    ConfigureBridge {
        /// The bridge.
        bridge: String,
    },
}

fn interfaces(bridge: &BridgeConfig) -> impl Iterator<Item = &InterfaceConfig> {
    bridge.ports.values().flat_map(|p| &p.interfaces)
}

fn find<'a>(bridge: Option<&'a BridgeConfig>, name: &str) -> Option<&'a InterfaceConfig> {
    interfaces(bridge?).find(|i| i.name == name)
}

/// The device has to be made anew: another type, or another row of the same name.
fn is_other_device(old: &InterfaceConfig, new: &InterfaceConfig) -> bool {
    old.kind != new.kind || old.uuid != new.uuid
}

/// The two bridges of one name cannot be turned into each other.
fn is_other_bridge(old: &BridgeConfig, new: &BridgeConfig) -> bool {
    old.datapath_type != new.datapath_type || old.uuid != new.uuid
}

/// The steps from `current` to `desired`.
pub fn plan(current: &Desired, desired: &Desired) -> Vec<Step> {
    let mut removals = Vec::new();
    let mut rest = Vec::new();
    for (name, old) in &current.bridges {
        let new = desired.bridges.get(name).filter(|new| !is_other_bridge(old, new));
        for interface in interfaces(old) {
            let keep = find(new, &interface.name).is_some_and(|n| !is_other_device(interface, n));
            if !keep {
                removals.push(Step::RemoveInterface { bridge: name.clone(), name: interface.name.clone() });
            }
        }
        if new.is_none() {
            removals.push(Step::RemoveBridge { bridge: name.clone() });
        }
    }
    for (name, new) in &desired.bridges {
        let old = current.bridges.get(name).filter(|old| !is_other_bridge(old, new));
        if old.is_none() {
            rest.push(Step::AddBridge { bridge: name.clone() });
        }
        // The bridge's own device comes first: others may take their address or limits from it.
        let mut devices: Vec<&InterfaceConfig> = interfaces(new).collect();
        devices.sort_by_key(|i| (i.name != *name, i.ofport_request.is_none()));
        for interface in devices {
            let (bridge, device) = (name.clone(), interface.name.clone());
            match find(old, &interface.name) {
                Some(o) if o == interface => {}
                Some(o) if !is_other_device(o, interface) => {
                    rest.push(Step::ChangeInterface { bridge, name: device });
                }
                _ => rest.push(Step::AddInterface { bridge, name: device }),
            }
        }
        if old != Some(new) {
            rest.push(Step::ConfigureBridge { bridge: name.clone() });
        }
    }
    removals.extend(rest);
    removals
}
