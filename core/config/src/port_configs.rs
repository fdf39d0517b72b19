//! The ports of a bridge by name. Bonds and ports with LACP, which are few, have a separate list, because every
//! turn of the main loop needs them.

use crate::port::PortConfig;
use crate::shared_map::SharedMap;
use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

/// The ports of a bridge. It dereferences to the map from names to ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortConfigs {
    all: SharedMap<String, PortConfig>,
    /// Names of ports that are bonds or use LACP.
    aggregated: Arc<BTreeSet<String>>,
}

impl PortConfigs {
    /// Inserts a port; replaces one with the same name.
    pub fn insert_mut(&mut self, name: String, port: PortConfig) {
        if port.is_aggregated() {
            Arc::make_mut(&mut self.aggregated).insert(name.clone());
        } else {
            self.forget_aggregated(&name);
        }
        self.all.insert_mut(name, port);
    }

    /// Removes a port.
    pub fn remove_mut(&mut self, name: &str) {
        self.forget_aggregated(name);
        self.all.remove_mut(name);
    }

    fn forget_aggregated(&mut self, name: &str) {
        if self.aggregated.contains(name) {
            Arc::make_mut(&mut self.aggregated).remove(name);
        }
    }

    /// The ports that are bonds or use LACP.
    pub fn aggregated(&self) -> impl Iterator<Item = &PortConfig> {
        self.aggregated.iter().filter_map(|name| self.all.get(name))
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
