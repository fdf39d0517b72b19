//! Commands about bonds and LACP.

use super::{PortBond, in_datapath};
use crate::switch::Switch;
use bond::{Bond, BucketRule};
use openflow_service::Bridge;
use units::Millis;
use xlate::BridgeId;

impl Switch {
    fn bonds(&self) -> Vec<&PortBond> {
        let mut all: Vec<&PortBond> =
            self.datapaths.with_bridges().flat_map(|b| b.link_aggregation.bonds.values()).collect();
        all.sort_by(|a, b| a.bond.settings().name.cmp(&b.bond.settings().name));
        all
    }

    /// For each bond: bridge, name, number of links, number of enabled links.
    pub fn bond_links(&self) -> Vec<(BridgeId, String, usize, usize)> {
        let bonds = self.datapaths.with_bridges().flat_map(|b| &b.link_aggregation.bonds);
        bonds
            .map(|((bridge, _), bond)| {
                let enabled = bond.bond.links().filter(|(_, link)| link.enabled).count();
                (*bridge, bond.bond.settings().name.clone(), bond.bond.links().count(), enabled)
            })
            .collect()
    }

    /// `bond/list`
    pub fn list_bonds(&self) -> String {
        let lines: String = self.bonds().iter().map(|b| b.bond.list(b.recirc)).collect();
        format!("bond\ttype\trecircID\tmembers\n{lines}")
    }

    /// `bond/show` of one or all bonds; `None`: there is no such bond.
    pub fn show_bonds(&mut self, name: Option<&str>) -> Option<String> {
        self.fold_bond_counters();
        let now: Millis = self.clock.now();
        let meant: Vec<&PortBond> =
            self.bonds().into_iter().filter(|b| name.is_none_or(|n| b.bond.settings().name == n)).collect();
        let found = name.is_none() || !meant.is_empty();
        found.then(|| meant.iter().map(|b| b.bond.show(b.recirc, now)).collect())
    }

    /// The rules of a bridge's bonds that select the link of a recirculated packet by its hash, each with the recirculation id of its bond.
    pub fn bucket_rules(&self, bridge: &Bridge) -> Vec<(u32, BucketRule)> {
        let all = self.datapaths.of_bridge(bridge).into_iter().flat_map(|b| &b.link_aggregation.bonds);
        let own = all.filter(|(key, bond)| key.0 == bridge.id && bond.recirc != 0);
        own.flat_map(|(_, bond)| bond.bond.rules().into_iter().map(|rule| (bond.recirc, rule))).collect()
    }

    /// Executes a command that changes a bond; its consequences are published before this function returns.
    pub fn change_bond(
        &mut self,
        name: &str,
        change: impl FnOnce(&mut Bond) -> Result<&'static str, &'static str>,
    ) -> Result<&'static str, &'static str> {
        let result = {
            let mut all =
                self.datapaths.with_bridges_mut().flat_map(|b| b.link_aggregation.bonds.values_mut());
            let bond = all.find(|b| b.bond.settings().name == name).ok_or("no such bond")?;
            change(&mut bond.bond)
        };
        self.run_link_aggregation();
        self.publish_changes();
        result
    }

    /// `lacp/show` (or `lacp/show-stats`) of one port or all; `None`: there is no such port.
    pub fn show_lacp(&self, name: Option<&str>, stats: bool) -> Option<String> {
        let texts: Vec<String> = self
            .datapaths
            .with_bridges()
            .filter_map(|b| b.upcall_translator.lacp.show(name, stats))
            .collect();
        (name.is_none() || !texts.is_empty()).then(|| texts.concat())
    }

    /// Adds the bytes that megaflows have sent since the last call to the bonds' counters.
    fn fold_bond_counters(&mut self) {
        let now = self.clock.now();
        for backer in self.datapaths.with_bridges_mut().filter(|b| !b.link_aggregation.bonds.is_empty()) {
            backer.datapath.maintain(now);
            for bond in backer.link_aggregation.bonds.values_mut() {
                in_datapath::collect_bytes(&backer.datapath, bond);
                bond.bond.account();
            }
        }
    }
}
