//! The ports of a bridge by name, and which of them are bonds or speak LACP: few of many, and each turn asks for them.

use crate::port::PortConfig;
use crate::shared_map::SharedMap;
use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

/// See the module. It is read as the map from names to ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortConfigs {
    all: SharedMap<String, PortConfig>,
    /// Names of those that are bonds or speak LACP.
    uplinks: Arc<BTreeSet<String>>,
}

impl PortConfigs {
    /// A port, in the place of the one that has its name.
    pub fn insert_mut(&mut self, name: String, port: PortConfig) {
        if port.is_uplink() {
            Arc::make_mut(&mut self.uplinks).insert(name.clone());
        } else {
            self.forget_uplink(&name);
        }
        self.all.insert_mut(name, port);
    }

    /// Without the port of a name.
    pub fn remove_mut(&mut self, name: &str) {
        self.forget_uplink(name);
        self.all.remove_mut(name);
    }

    fn forget_uplink(&mut self, name: &str) {
        if self.uplinks.contains(name) {
            Arc::make_mut(&mut self.uplinks).remove(name);
        }
    }

    /// Those that are bonds or speak LACP.
    pub fn uplinks(&self) -> impl Iterator<Item = &PortConfig> {
        self.uplinks.iter().filter_map(|name| self.all.get(name))
    }
}

impl Deref for PortConfigs {
    type Target = SharedMap<String, PortConfig>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl FromIterator<(String, PortConfig)> for PortConfigs {
    fn from_iter<I: IntoIterator<Item = (String, PortConfig)>>(ports: I) -> Self {
        let mut all = PortConfigs::default();
        ports.into_iter().for_each(|(name, port)| all.insert_mut(name, port));
        all
    }
}
