//! Bonds: selects the output link, and decides whether a received packet is accepted.

use crate::frozen::Frozen;
use crate::messages::report;
use crate::normal::{Ingress, is_gratuitous_arp};
use crate::outcome::StatsTarget;
use crate::ports::OutputOptions;
use crate::snapshot::Bundle;
use crate::walk::{BondHash, Walk};
use bond::{Admission, Choice, View};
use bridge::BundleId;
use dpif::{DpAction, HashAlg, LbOutput};
use std::sync::Arc;
use units::OfPort;

impl<'a> Walk<'a> {
    /// The output link of a packet. If a hash of the connection selects the link, the returned link is an arbitrary link of the
    /// bond, and the second value describes the hash. `None`: no link is usable. The source address and the VLAN are in the mask already,
    /// because NORMAL consulted them.
    pub(crate) fn link_of(
        &mut self,
        bundle: &'a Bundle,
        view: &Arc<View>,
        vlan: u16,
    ) -> Option<(OfPort, Option<BondHash>)> {
        match view.choice() {
            Choice::Nowhere => None,
            Choice::Link(port) => Some((port, None)),
            Choice::ByStation => {
                let bucket = view.bucket_of(self.out.flow.dl_src, vlan);
                let port = view.owner(bucket)?;
                self.out.stats_targets.push(StatsTarget::Bond { tally: Arc::clone(view.tally()), bucket });
                Some((port, None))
            }
            Choice::ByConnection => {
                let in_datapath = view.is_in_datapath();
                let hash_params = BondHash { bundle: bundle.id, basis: view.basis(), in_datapath };
                // Any link of the bond can be returned: the checks before the output have the same result for all links.
                Some((view.owner(0)?, Some(hash_params)))
            }
        }
    }

    /// Outputs to a bond whose link a hash of the connection selects: by `lb_output` if the datapath has the bond's buckets,
    /// otherwise by hashing and recirculation. Both actions contain the id of the bond's frozen state, to which the megaflow
    /// has a reference.
    pub(crate) fn push_bond_hash_output(&mut self, hash_params: BondHash) {
        let Some(id) = self.store_frozen(Frozen::of_bond(self.bridge.id, hash_params.bundle)) else { return };
        if hash_params.in_datapath {
            return self.out.actions.push(DpAction::LbOutput(LbOutput { bond_id: id }));
        }
        self.out.actions.push(DpAction::Hash { alg: HashAlg::L4, basis: hash_params.basis });
        self.out.actions.push(DpAction::Recirc(id));
    }

    /// Outputs a packet that was recirculated with its hash to the link that owns the hash's bucket.
    pub(crate) fn output_bucket(&mut self, bundle: BundleId) {
        self.out.mask.dp_hash |= 0xff;
        let bucket = self.out.flow.dp_hash as u8;
        let view = self.bridge.bundle(bundle).and_then(|b| b.bond.as_ref());
        let Some((view, port)) = view.and_then(|view| Some((view, view.owner(bucket)?))) else { return };
        self.out.stats_targets.push(StatsTarget::Bond { tally: Arc::clone(view.tally()), bucket });
        let options = OutputOptions { check_stp: true, last: true, truncated: false };
        self.output_port(port, options);
    }

    /// Returns whether the ingress bond accepts the packet.
    pub(crate) fn bond_admits(&mut self, ingress: &Ingress<'_>, vlan: u16) -> bool {
        let Some((bundle, view)) = ingress.bundle.and_then(|b| Some((b, b.bond.as_ref()?))) else {
            return true;
        };
        let link = OfPort(self.out.flow.in_port as u16);
        match view.admission(link, self.out.flow.dl_dst.is_multicast()) {
            Admission::Accept => true,
            Admission::Refuse => {
                report!(self, Detail, "bonding refused admissibility, dropping");
                false
            }
            Admission::RefuseIfMoved => {
                let moved = self.has_moved(bundle.id, vlan);
                if moved {
                    report!(self, Detail, "SLB bond thinks this packet looped back, dropping");
                }
                !moved
            }
        }
    }

    /// Returns whether the packet's source address is learned at another port, so that the packet may be a copy of a packet
    /// that this switch sent. A gratuitous ARP packet means instead that the station has moved here, unless the station has
    /// just announced itself at the other port: then the packet is that announcement, received again on another link.
    fn has_moved(&mut self, here: BundleId, vlan: u16) -> bool {
        let source = self.out.flow.dl_src;
        if self.station(vlan, source).is_none_or(|at| at == here) {
            return false;
        }
        if !is_gratuitous_arp(&self.out.flow, &mut self.out.mask) {
            return true;
        }
        self.out.avoid_caching = true;
        self.bridge.macs.is_grat_arp_locked(vlan, source)
    }
}
