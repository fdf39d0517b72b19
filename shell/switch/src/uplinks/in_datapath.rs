//! Bonds whose traffic the datapath shares among the links without a second look-up: it gets the port of each hash bucket,
//! and reports how much each bucket has sent.

use super::{PortBond, Retired, Uplinks};
use crate::backer::Backer;
use datapath::Datapath;
use openflow_service::Bridge;
use translation::lacp::groups::Key;
use units::{OfPort, PortNo};
use xlate::Recirc;

/// Tells the datapath of a bond what has changed. `moved`: buckets have.
pub(super) fn follow(backer: &mut Backer, bridge: &Bridge, key: &Key, bond: &mut PortBond, moved: bool) {
    if bond.recirc == 0 || !bond.bond.shares_in_datapath() {
        return retire(backer, bond);
    }
    let links = backer.uplinks.links.get(key).into_iter().flatten();
    let number = |link: &OfPort| Some((*link, bridge.ports.get(link)?.number()?));
    let links: Vec<(OfPort, PortNo)> = links.filter_map(number).collect();
    if !moved && bond.links.as_ref() == Some(&links) {
        return;
    }
    backer.uplinks.revive(&backer.shared, bond.recirc);
    let port = |owner| links.iter().find(|(link, _)| *link == owner).map(|(_, number)| *number);
    backer.datapath.bonds().put(bond.recirc, bond.bond.settings().basis, &bond.bond.owners().map(port));
    bond.links = Some(links);
}

/// The datapath forgets a bond as soon as no megaflow can name it any more.
pub(super) fn retire(backer: &mut Backer, bond: &mut PortBond) {
    if bond.links.take().is_some() && backer.shared.hold(bond.recirc).is_some() {
        // What makes megaflows name it no more is published next.
        let version = backer.shared.version() + 1;
        backer.uplinks.retired.push(Retired { id: bond.recirc, version });
        backer.changed();
    }
}

/// Takes in what the datapath has counted.
pub(super) fn account(datapath: &Datapath, bond: &mut PortBond) {
    if bond.links.is_some() {
        bond.bond.credit(&datapath.bonds().take_bytes(bond.recirc));
    }
}

/// Removes what no megaflow names any more.
pub(super) fn sweep(backer: &mut Backer) {
    let done = |r: &mut Retired| backer.revalidator.is_done(r.version);
    let gone: Vec<u32> = backer.uplinks.retired.extract_if(.., done).map(|r| r.id).collect();
    gone.iter().for_each(|id| backer.datapath.bonds().remove(*id));
    backer.shared.release(&gone);
}

impl Uplinks {
    /// A bond is to be in the datapath that was to be forgotten.
    fn revive(&mut self, shared: &translation::SharedState, id: u32) {
        if let Some(at) = self.retired.iter().position(|r| r.id == id) {
            self.retired.swap_remove(at);
            shared.release(&[id]);
        }
    }
}
