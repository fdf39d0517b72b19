//! Finds the tunnels of a datapath whose configuration conflicts with that of a new tunnel. A search through
//! all tunnels for each new one would take seconds when a transaction adds thousands of them.

use bridge::TunnelConfig;
use bridge::tunnel::TunnelIdentity;
use std::collections::{BTreeSet, HashMap};

/// The names of a datapath's tunnels, by the parts of their configuration in which tunnels can conflict.
#[derive(Debug, Default)]
pub(crate) struct TunnelIndex {
    by_identity: HashMap<TunnelIdentity, BTreeSet<String>>,
    /// Names of the VXLAN tunnels by UDP port, and whether they have the group policy extension.
    vxlan: HashMap<(u16, bool), BTreeSet<String>>,
}

impl TunnelIndex {
    /// Adds a tunnel.
    pub(crate) fn add(&mut self, name: &str, config: &TunnelConfig) {
        self.by_identity.entry(config.identity()).or_default().insert(name.to_owned());
        if config.kind == "vxlan" {
            self.vxlan.entry((config.dst_port, config.gbp)).or_default().insert(name.to_owned());
        }
    }

    /// Removes a tunnel.
    pub(crate) fn remove(&mut self, name: &str, config: &TunnelConfig) {
        remove(&mut self.by_identity, &config.identity(), name);
        remove(&mut self.vxlan, &(config.dst_port, config.gbp), name);
    }

    /// The name of another tunnel that the received packets of this tunnel would match, too.
    pub(crate) fn colliding(&self, name: &str, config: &TunnelConfig) -> Option<&str> {
        other(self.by_identity.get(&config.identity()), name)
    }

    /// Whether another VXLAN tunnel on the same UDP port differs in the group policy extension.
    pub(crate) fn mixes_group_policy(&self, name: &str, config: &TunnelConfig) -> bool {
        config.kind == "vxlan" && other(self.vxlan.get(&(config.dst_port, !config.gbp)), name).is_some()
    }
}

fn other<'a>(names: Option<&'a BTreeSet<String>>, name: &str) -> Option<&'a str> {
    names?.iter().find(|other| *other != name).map(String::as_str)
}

fn remove<K: std::hash::Hash + Eq>(map: &mut HashMap<K, BTreeSet<String>>, key: &K, name: &str) {
    let Some(names) = map.get_mut(key) else { return };
    names.remove(name);
    if names.is_empty() {
        map.remove(key);
    }
}
