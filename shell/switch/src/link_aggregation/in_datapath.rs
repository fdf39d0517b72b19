//! Bonds with `lb_output`: the datapath selects the link by the packet's hash, without a second look-up. The datapath stores the port of each
//! hash bucket, and counts the bytes that each bucket has sent.

use super::{LinkAggregation, PortBond, Retired};
use crate::backer::Backer;
use datapath::Datapath;
use openflow_service::Bridge;
use translation::lacp::port_rows::PortRowKey;
use units::{OfPort, PortNo};
use xlate::Recirc;

/// Passes the bond to the datapath if the bond changed, or removes it from the datapath if `lb_output` is off. `moved`: whether buckets have moved to
/// other links.
pub(super) fn update(
    backer: &mut Backer,
    bridge: &Bridge,
    key: &PortRowKey,
    bond: &mut PortBond,
    moved: bool,
) {
    if bond.recirc == 0 || !bond.bond.shares_in_datapath() {
        return retire(backer, bond);
    }
    let links = backer.link_aggregation.links.get(key).into_iter().flatten();
    let number = |link: &OfPort| Some((*link, bridge.ports.get(link)?.number()?));
    let links: Vec<(OfPort, PortNo)> = links.filter_map(number).collect();
    if !moved && bond.links.as_ref() == Some(&links) {
        return;
    }
    backer.link_aggregation.cancel_removal(&backer.shared, bond.recirc);
    let port = |owner| links.iter().find(|(link, _)| *link == owner).map(|(_, number)| *number);
    backer.datapath.bonds().put(bond.recirc, bond.bond.settings().basis, &bond.bond.owners().map(port));
    bond.links = Some(links);
}

/// Removes a bond from the datapath as soon as no megaflow refers to the bond any more.
pub(super) fn retire(backer: &mut Backer, bond: &mut PortBond) {
    if bond.links.take().is_some() && backer.shared.state_ref(bond.recirc).is_some() {
        // The next publication removes the bond from translations.
        let version = backer.shared.version() + 1;
        backer.link_aggregation.retired.push(Retired { id: bond.recirc, version });
        backer.mark_all_changed();
    }
}

/// Adds the bytes that the datapath has counted to the bond.
pub(super) fn collect_bytes(datapath: &Datapath, bond: &mut PortBond) {
    if bond.links.is_some() {
        bond.bond.credit(&datapath.bonds().take_bytes(bond.recirc));
    }
}

/// Removes the retired bonds to which no megaflow refers any more.
pub(super) fn remove_retired(backer: &mut Backer) {
    let done = |r: &mut Retired| backer.revalidator.is_done(r.version);
    let gone: Vec<u32> = backer.link_aggregation.retired.extract_if(.., done).map(|r| r.id).collect();
    gone.iter().for_each(|id| backer.datapath.bonds().remove(*id));
    backer.shared.release(&gone);
}

impl LinkAggregation {
    /// Cancels the removal of a retired bond, because the datapath uses the bond again.
    fn cancel_removal(&mut self, shared: &translation::SharedState, id: u32) {
        if let Some(at) = self.retired.iter().position(|r| r.id == id) {
            self.retired.swap_remove(at);
            shared.release(&[id]);
        }
    }
}
