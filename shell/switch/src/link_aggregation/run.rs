//! Runs bonds and LACP in each turn of the main loop: passes link states to them, and applies the links that they choose.

use super::{PortBond, in_datapath};
use crate::backer::Backer;
use crate::switch::Switch;
use bond::LinkFacts;
use openflow_service::Bridge;
use runtime::{Module, RateLimit};
use std::collections::BTreeMap;
use std::sync::Arc;
use translation::lacp::port_rows::{PortRowKey, Report};
use units::Millis;

static LOG: Module = Module::new("bond");
/// Limits the messages about links whose state changes again and again.
static LIMIT: RateLimit = RateLimit::new(2, 30);

type Bridges = BTreeMap<String, Bridge>;

impl Switch {
    /// Passes link states to bonds and LACP, and applies their results. Returns whether anything changed.
    pub(crate) fn run_link_aggregation(&mut self) -> bool {
        let now = self.clock.now();
        let mut any = false;
        for backer in self.datapaths.with_bridges_mut().filter(|b| !b.link_aggregation.is_empty()) {
            update_lacp(backer, &mut self.bridges, now);
            for (key, report) in backer.upcall_translator.lacp.take_changed_reports() {
                any |= apply_lacp_report(backer, &mut self.bridges, key, report);
            }
            any |= run_bonds(backer, &mut self.bridges, now);
            in_datapath::remove_retired(backer);
        }
        self.status.due |= any;
        any
    }

    /// The times at which the main loop must run the bonds next, one for each bond that has a deadline.
    pub(crate) fn bond_deadlines(&self) -> impl Iterator<Item = Millis> + '_ {
        let bonds = self.datapaths.with_bridges().flat_map(|b| b.link_aggregation.bonds.values());
        bonds.filter_map(|b| b.bond.deadline())
    }
}

fn bridge_of<'a>(bridges: &'a mut Bridges, key: &PortRowKey) -> Option<&'a mut Bridge> {
    bridges.values_mut().find(|b| b.id == key.0)
}

/// Passes to LACP the links whose state or address changed.
fn update_lacp(backer: &Backer, bridges: &mut Bridges, now: Millis) {
    if backer.upcall_translator.lacp.is_empty() {
        return;
    }
    let links = backer
        .link_aggregation
        .links
        .iter()
        .flat_map(|(key, links)| links.iter().map(move |link| (key, link)));
    for (key, ofport) in links {
        let Some(bridge) = bridge_of(bridges, key) else { continue };
        let Some(port) = bridge.ports.get(ofport) else { continue };
        let facts = port.lacp_facts();
        if port.lacp.as_ref().is_none_or(|l| l.facts == facts) {
            continue;
        }
        backer.upcall_translator.lacp.set_link((key.0, *ofport), facts.mac, facts.up, now);
        if let Some(lacp) = bridge.ports.get_mut(ofport).and_then(|port| port.lacp.as_mut()) {
            lacp.facts = facts;
        }
    }
}

/// Applies LACP's report about a Port row. Returns whether the report differs from the previous one.
fn apply_lacp_report(backer: &mut Backer, bridges: &mut Bridges, key: PortRowKey, report: Report) -> bool {
    if backer.link_aggregation.lacp.get(&key) == Some(&report) {
        return false;
    }
    let Some(bridge) = bridge_of(bridges, &key) else { return false };
    for (ofport, (may_enable, has_partner_info)) in &report.links {
        bridge.change_port(*ofport, |port| {
            if let Some(lacp) = &mut port.lacp {
                (lacp.may_enable, lacp.has_partner_info) = (*may_enable, *has_partner_info);
            }
        });
    }
    backer.link_aggregation.lacp.insert(key, report);
    backer.mark_all_changed();
    true
}

/// Runs the bonds of a datapath, and applies the links that they choose. Returns whether anything changed.
fn run_bonds(backer: &mut Backer, bridges: &mut Bridges, now: Millis) -> bool {
    let mut all = std::mem::take(&mut backer.link_aggregation.bonds);
    let mut any = false;
    for (key, bond) in &mut all {
        let Some(bridge) = bridge_of(bridges, key) else { continue };
        update_bond(backer, bridge, key, bond);
        let negotiation = backer.link_aggregation.lacp.get(key).map(|r| r.negotiation).unwrap_or_default();
        let changed = bond.bond.run(negotiation, now);
        if bond.bond.is_rebalance_due(now) {
            in_datapath::collect_bytes(&backer.datapath, bond);
        }
        let moved = bond.bond.rebalance(now);
        in_datapath::update(backer, bridge, key, bond, changed || moved);
        // If the datapath selects the link of each bucket itself, a move of buckets does not change translations.
        if changed || moved && bond.links.is_none() {
            bond.view = Arc::new(bond.bond.view());
            bridge.ports.touch_row(&key.1);
            backer.mark_all_changed();
        }
        any |= changed || moved;
        for line in bond.bond.take_lines() {
            LOG.log_limited(&LIMIT, runtime::log::Level::Info, format_args!("{line}"));
        }
        if bond.bond.take_announcement() {
            super::announce::stations(backer, bridge, key, &bond.view, now);
        }
    }
    backer.link_aggregation.bonds = all;
    any
}

/// Passes the states of the links to the bond.
fn update_bond(backer: &Backer, bridge: &Bridge, key: &PortRowKey, bond: &mut PortBond) {
    for ofport in backer.link_aggregation.links.get(key).into_iter().flatten() {
        let Some(port) = bridge.ports.get(ofport) else { continue };
        let facts = LinkFacts {
            name: port.name.clone(),
            mac: port.hw_addr(),
            carrier: port.is_up(),
            may_enable: port.may_enable(),
        };
        bond.bond.set_link(*ofport, facts);
    }
}
