//! Groups: selects the buckets of a packet and executes them.
//!
//! A select group selects by a hash. By default the datapath computes the hash (`dp_hash`) and the packet is recirculated
//! with it, so the megaflows match the hash and serve all connections. With `selection_method=hash`, or if the weights need
//! more than 256 slots, the translation hashes the fields, and the megaflow matches them exactly.

use crate::messages::report;
use crate::outcome::StatsTarget;
use crate::trace::LineKind;
use crate::walk::Walk;
use crate::{fields, hash};
use dpif::HashAlg;
use flow::FieldId;
use ofproto::Group;
use openflow::action::HashFields;
use openflow::flow_mod::GROUP_ANY;
use openflow::group::{Bucket, GroupType};
use packet::murmur::{of_bytes, of_long};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;
use units::OfPort;

/// Maximum length of a chain of groups that watch each other.
const MAX_LIVENESS_DEPTH: u32 = 128;
/// Maximum number of slots of the table that maps a hash to a bucket.
const MAX_SLOTS: usize = 256;
/// Minimum number of slots.
const MIN_SLOTS: usize = 16;

impl Walk<'_> {
    /// Translates `group`. Returns false if there is no such group, which ends the list of actions.
    pub(crate) fn group(&mut self, id: u32, last: bool) -> bool {
        if !self.check_limits() {
            return true;
        }
        self.depends_on_group(id);
        let Some(group) = self.bridge.tables.group(id).map(Arc::clone) else {
            report!(self, Warn, "output to nonexistent group {id}");
            return false;
        };
        match group.kind {
            GroupType::All | GroupType::Indirect => {
                for (i, bucket) in group.buckets.iter().enumerate() {
                    self.bucket(bucket, last && i + 1 == group.buckets.len());
                }
                self.out.stats_targets.push(StatsTarget::Group { group: Arc::clone(&group), bucket: None });
            }
            GroupType::Select => self.one_bucket(&group, Walk::select, last),
            GroupType::FastFailover => self.one_bucket(&group, Walk::first_live, last),
        }
        true
    }

    fn one_bucket(&mut self, group: &Arc<Group>, choose: fn(&mut Self, &Group) -> Option<usize>, last: bool) {
        let chosen = choose(self, group).and_then(|i| group.buckets.get(i).map(|b| (i, b)));
        match chosen {
            Some((index, bucket)) => {
                report!(self, Detail, "using bucket {}", bucket.id);
                self.bucket(bucket, last);
                self.out
                    .stats_targets
                    .push(StatsTarget::Group { group: Arc::clone(group), bucket: Some(index as u32) });
            }
            None if !self.freezing.active => report!(self, Detail, "no live bucket"),
            None => {}
        }
    }

    /// Executes a bucket's actions in the order of an action set. Their changes do not affect other buckets or later actions.
    fn bucket(&mut self, bucket: &Bucket, last: bool) {
        // Reported before the check for failure, because a trace names every bucket even after the translation has failed.
        let back = self.nest(LineKind::Bucket, || format!("bucket {}", bucket.id));
        if !self.add_work(1) {
            return self.unnest(back);
        }
        let flow = Box::new(self.out.flow);
        let was_mpls = self.packet_state.was_mpls;
        let list = crate::action_set::in_order(&bucket.actions);
        self.effort.depth += 1;
        self.with_flow_restored(last, |walk| {
            walk.actions(&list, last, true);
            if walk.freezing.active {
                walk.finish_freezing();
            }
        });
        self.effort.depth -= 1;
        self.out.flow = *flow;
        self.mark_all_words_changed();
        self.packet_state.was_mpls = was_mpls;
        self.progress.exit = false;
        // An error that affects only this bucket is cleared, so that the other buckets are executed. If a limit of the walk is reached, the
        // error stays.
        if self.out.error.is_some_and(|e| e.affects_only_bucket()) {
            self.out.error = None;
        }
        self.unnest(back);
    }

    fn is_live(&mut self, group: &Group, bucket: &Bucket, depth: u32) -> bool {
        if depth >= MAX_LIVENESS_DEPTH {
            self.error(format_args!("bucket chaining exceeded {MAX_LIVENESS_DEPTH} links"));
            return false;
        }
        // Each watched group may in turn watch several groups.
        if !self.add_work(1) {
            return false;
        }
        if group.kind == GroupType::Select && bucket.weight == 0 {
            return false;
        }
        let watches = bucket.watch_port != OfPort::NONE || bucket.watch_group != GROUP_ANY;
        if !watches {
            return true;
        }
        let port = match bucket.watch_port {
            OfPort::NONE => false,
            OfPort::CONTROLLER => self.bridge.controller_port_live,
            number => self.bridge.port(number).is_some_and(|p| p.is_live),
        };
        port || bucket.watch_group != GROUP_ANY && self.is_group_live(bucket.watch_group, depth + 1)
    }

    fn is_group_live(&mut self, id: u32, depth: u32) -> bool {
        self.depends_on_group(id);
        let Some(group) = self.bridge.tables.group(id).map(Arc::clone) else { return false };
        group.buckets.iter().any(|b| self.is_live(&group, b, depth))
    }

    fn report_dead(&mut self, bucket: &Bucket) {
        let mut why = Vec::new();
        if bucket.watch_port != OfPort::NONE {
            why.push(format!("port {}", bucket.watch_port));
        }
        if bucket.watch_group != GROUP_ANY {
            // Open vSwitch prints "port" for the group, too, and traces are compared with it.
            why.push(format!("port {}", bucket.watch_group));
        }
        report!(self, Detail, "bucket {}: not live due to {}", bucket.id, why.join(" and "));
    }

    fn first_live(&mut self, group: &Group) -> Option<usize> {
        for (i, bucket) in group.buckets.iter().enumerate() {
            if self.is_live(group, bucket, 0) {
                return Some(i);
            }
            self.report_dead(bucket);
        }
        None
    }

    fn select(&mut self, group: &Group) -> Option<usize> {
        if self.packet_state.was_mpls {
            self.freeze();
            return None;
        }
        let s = &group.selection;
        let default = s.method.is_empty();
        match s.method.as_str() {
            "hash" if !s.fields.is_empty() => {
                let basis = self.hash_chosen_fields(group);
                self.best_live(group, basis)
            }
            "" | "dp_hash" if !self.add_work(group.buckets.len() + MAX_SLOTS) => None,
            "" | "dp_hash" => match select_slots(&group.buckets) {
                Ok(slots) => {
                    let symmetric = default || s.param >> 32 == 1;
                    let alg = if symmetric { HashAlg::SymL4 } else { HashAlg::L4 };
                    self.by_datapath_hash(group, &slots, alg, if default { 0 } else { s.param as u32 })
                }
                Err(_) => self.by_l4_hash(group),
            },
            _ => self.by_l4_hash(group),
        }
    }

    fn by_l4_hash(&mut self, group: &Group) -> Option<usize> {
        hash::unwildcard(&self.out.flow, &mut self.out.mask, HashFields::SymmetricL4);
        let basis = hash::of_fields(&self.out.flow, HashFields::SymmetricL4, 0);
        self.best_live(group, basis)
    }

    fn hash_chosen_fields(&mut self, group: &Group) -> u32 {
        let param = group.selection.param;
        let mut basis = of_long(param, 0);
        for &(field, bits) in &group.selection.fields {
            if !fields::prereqs_ok(field, &self.out.flow, &mut self.out.mask) {
                continue;
            }
            let value = field.get(&self.out.flow) & bits;
            let bytes = value.to_be_bytes();
            basis =
                of_bytes(&bytes[bytes.len() - usize::from(field.info().n_bytes).min(bytes.len())..], basis);
            if field == FieldId::Ipv6Label {
                // Sets only the 20 bits that the header has. `set_mask` would set all 32 bits that `Flow` has for this field,
                // and traces print the two masks differently.
                self.out.mask.ipv6_label |= (bits & field.ones()) as u32;
                continue;
            }
            let all = field.mask_of(&self.out.mask) | bits;
            field.set_mask(&mut self.out.mask, all);
        }
        basis
    }

    fn best_live(&mut self, group: &Group, basis: u32) -> Option<usize> {
        let mut best = None;
        for (i, bucket) in group.buckets.iter().enumerate() {
            if !self.is_live(group, bucket, 0) {
                self.report_dead(bucket);
                continue;
            }
            let score = (hash::of_two(bucket.id, basis) & 0xffff) * u32::from(bucket.weight);
            if best.is_none_or(|(s, _)| score >= s) {
                best = Some((score, i));
            }
            report!(self, Detail, "bucket {}: score {score}", bucket.id);
        }
        best.map(|(_, i)| i)
    }

    fn by_datapath_hash(
        &mut self,
        group: &Group,
        slots: &[usize],
        alg: HashAlg,
        basis: u32,
    ) -> Option<usize> {
        // The datapath never computes hash 0, so 0 means that the packet has no hash yet.
        if self.out.flow.dp_hash == 0 {
            self.freeze();
            self.freezing.hash = Some((alg, basis));
            report!(self, Detail, "selection method in use: dp_hash, recirculating");
            return None;
        }
        let bits = slots.len() - 1;
        self.out.mask.dp_hash |= bits as u32;
        let first = self.out.flow.dp_hash as usize & bits;
        let around = (0..slots.len()).map(|i| slots[(first + i) & bits]);
        for index in around {
            if let Some(bucket) = group.buckets.get(index)
                && self.is_live(group, bucket, 0)
            {
                return Some(index);
            }
        }
        None
    }
}

/// The bucket of each slot. The number of slots is a power of two, and the slots are divided in proportion to the weights
/// (Sainte-Laguë method). If the weights need more than 256 slots, the error is the number that they need; it is 0
/// if no bucket has a weight.
pub fn select_slots(buckets: &[Bucket]) -> Result<Vec<usize>, usize> {
    let weights = || buckets.iter().map(|b| usize::from(b.weight));
    let least = weights().filter(|w| *w > 0).min().ok_or(0usize)?;
    let exact = weights().sum::<usize>().div_ceil(least);
    // More slots than the weights need improve the distribution.
    let wanted = exact.max((buckets.len() * 4).min(MAX_SLOTS)).next_power_of_two().max(MIN_SLOTS);
    if wanted > MAX_SLOTS {
        return Err(wanted);
    }
    // A heap, because a group may have thousands of buckets, and the slots are computed again in each translation.
    let mut heap: BinaryHeap<Share> =
        weights().enumerate().map(|(bucket, weight)| Share { weight, divisor: 1, bucket }).collect();
    let mut out = Vec::with_capacity(wanted);
    while out.len() < wanted
        && let Some(mut best) = heap.peek_mut()
    {
        best.divisor += 2;
        out.push(best.bucket);
    }
    Ok(out)
}

/// The claim of a bucket to the next slot: the bucket with the greatest quotient weight / divisor gets it; of equal quotients, the first
/// bucket.
struct Share {
    weight: usize,
    divisor: usize,
    bucket: usize,
}

impl Ord for Share {
    fn cmp(&self, other: &Share) -> Ordering {
        // Compares the quotients without fractions.
        let quotient = (self.weight * other.divisor).cmp(&(other.weight * self.divisor));
        quotient.then_with(|| other.bucket.cmp(&self.bucket))
    }
}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Share) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Share) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Share {}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(weights: &[u16]) -> Option<Vec<usize>> {
        let buckets: Vec<Bucket> =
            weights.iter().map(|&weight| Bucket { weight, ..Bucket::default() }).collect();
        let slots = select_slots(&buckets).ok()?;
        Some((0..weights.len()).map(|i| slots.iter().filter(|s| **s == i).count()).collect())
    }

    /// Gives each slot to the bucket with the greatest weight / divisor by comparing all buckets.
    fn slots_by_comparison(weights: &[u16], slots: usize) -> Vec<usize> {
        let mut divisors = vec![1usize; weights.len()];
        let mut next = || {
            let mut best = 0;
            for (i, w) in weights.iter().enumerate() {
                if usize::from(*w) * divisors[best] > usize::from(weights[best]) * divisors[i] {
                    best = i;
                }
            }
            divisors[best] += 2;
            best
        };
        (0..slots).map(|_| next()).collect()
    }

    #[test]
    fn the_slots_are_those_of_a_comparison_of_all_buckets() {
        for n in [1, 2, 3, 5, 17, 64, 200] {
            for seed in 1..20 {
                let weights: Vec<u16> = (0..n).map(|i| (i * 7919 + seed * 104_729) as u16 % 5).collect();
                let buckets: Vec<Bucket> =
                    weights.iter().map(|&weight| Bucket { weight, ..Bucket::default() }).collect();
                if let Ok(slots) = select_slots(&buckets) {
                    assert_eq!(slots, slots_by_comparison(&weights, slots.len()), "{weights:?}");
                }
            }
        }
    }

    #[test]
    fn slots_follow_the_weights() {
        assert_eq!(share(&[1, 1]), Some(vec![8, 8]));
        assert_eq!(share(&[1, 3]), Some(vec![4, 12]));
        assert_eq!(share(&[0, 5]), Some(vec![0, 16]));
        assert_eq!(share(&[0]), None);
        assert_eq!(share(&[1, 1000]), None);
    }
}
