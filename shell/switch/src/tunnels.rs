//! Creates and changes tunnel ports. Two tunnels of a datapath must differ in their configuration.
//!
//! **Threads**: the main loop.

use crate::log::{NETDEV, NETDEV_VPORT, TUNNEL};
use crate::refusal::Refusal;
use crate::switch::Switch;
use bridge::TunnelConfig;
use config::InterfaceConfig;
use openflow_service::Backing;
use std::sync::Arc;
use units::OfPort;

/// Whether an interface type is a tunnel type.
pub(crate) fn is_kind(kind: &str) -> bool {
    bridge::tunnel::KINDS.contains(&kind)
}

/// Reads the configuration of a tunnel; the text of an error is for the interface's row. When a tunnel that could not be created is tried again, the
/// reason is logged only if it changed.
fn read(switch: &Switch, kind: &str, interface: &InterfaceConfig) -> Result<TunnelConfig, Refusal> {
    let name = &interface.name;
    let failed = switch.bridges.values().find_map(|b| b.failed.get(name));
    let is_known = |why: &str| failed.is_some_and(|f| f.why == why);
    let refused = |why: String, errno: &str| {
        if !is_known(&why) {
            runtime::warn!(NETDEV_VPORT, "{why}");
            runtime::warn!(NETDEV, "{name}: could not set configuration ({errno})");
        }
        Refusal { why, logged: true }
    };
    let parsed = TunnelConfig::parse(&interface.kind, name, &interface.options);
    let (config, complaints) = parsed.map_err(|e| refused(e.0, "Invalid argument"))?;
    let index = switch.datapaths.of(kind).map(|backer| &backer.tunnel_index);
    if index.is_some_and(|index| index.mixes_group_policy(name, &config)) {
        let why =
            format!("{name}: VXLAN-GBP, and non-VXLAN-GBP tunnels can't be configured on the same dst_port");
        return Err(refused(why, "File exists"));
    }
    if let Some(other) = index.and_then(|index| index.colliding(name, &config)) {
        let why = format!("could not add network device {name} to ofproto (File exists)");
        if !is_known(&why) {
            runtime::warn!(
                TUNNEL,
                "{name}: attempting to add tunnel port with same config as port '{other}'"
            );
        }
        return Err(why.into());
    }
    complaints.iter().for_each(|text| runtime::warn!(NETDEV_VPORT, "{text}"));
    Ok(config)
}

/// Creates a tunnel in the datapath of type `kind`.
pub(crate) fn open(switch: &mut Switch, kind: &str, interface: &InterfaceConfig) -> Result<Backing, Refusal> {
    let config = read(switch, kind, interface)?;
    let backer = switch.datapaths.of_mut(kind).ok_or("no datapath")?;
    let number = backer.add_tunnel(&interface.name, &config);
    Ok(Backing::Tunnel { config: Arc::new(config), number })
}

/// Applies a changed row to a tunnel that exists.
pub(crate) fn change(switch: &mut Switch, bridge: &str, interface: &InterfaceConfig) -> Result<(), Refusal> {
    let Some(running) = switch.bridges.get(bridge) else { return Ok(()) };
    let kind = running.config.datapath_type.clone();
    let Some(ofport) = running.port_named(&interface.name).map(|p| p.ofport) else { return Ok(()) };
    let new = read(switch, &kind, interface)?;
    replace(switch, (bridge, ofport), &kind, new);
    Ok(())
}

/// Applies a configuration to a tunnel that exists. If its kind, UDP port or group policy extension changed, the tunnel needs another port of the
/// datapath, which it may share with other tunnels.
fn replace(switch: &mut Switch, (bridge, ofport): (&str, OfPort), kind: &str, new: TunnelConfig) {
    let Some(backer) = switch.datapaths.of_mut(kind) else { return };
    let Some(port) = switch.bridges.get_mut(bridge).and_then(|b| b.ports.get_mut(&ofport)) else { return };
    let Backing::Tunnel { config, number } = &mut port.backing else { return };
    if config.datapath_name() != new.datapath_name() || config.gbp != new.gbp {
        let old = *number;
        *number = backer.add_tunnel(&port.name, &new);
        backer.remove_tunnel(old, &port.name, config);
    } else {
        backer.tunnel_index.remove(&port.name, config);
        backer.tunnel_index.add(&port.name, &new);
    }
    *config = Arc::new(new);
    backer.mark_all_changed();
}
