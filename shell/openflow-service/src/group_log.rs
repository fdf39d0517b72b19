//! Debug log of the selection method of select groups.
//!
//! The texts are the same as in Open vSwitch, because operators search for them when a group does not distribute as expected.

use ofproto::Group;
use openflow::group::{Bucket, GroupCommand, GroupMod, GroupType, Selection};
use runtime::Module;
use runtime::log::Level;
use xlate::select_slots;

static LOG: Module = Module::new("ofproto_dpif");

/// Logs a group mod that was executed; `group` is the result.
pub fn changed(gm: &GroupMod, group: &Group) {
    if group.kind != GroupType::Select || !LOG.enabled(Level::Dbg) {
        return;
    }
    runtime::debug!(LOG, "Constructing select group {}", group.id);
    let own = matches!(gm.command, GroupCommand::Add | GroupCommand::Modify | GroupCommand::AddOrModify);
    selection(if own { &gm.selection } else { &group.selection }, &gm.buckets);
    if gm.command != GroupCommand::Add {
        runtime::debug!(LOG, "Modifying select group {}", group.id);
        selection(&group.selection, &group.buckets);
    }
}

/// Logs the selection method of a group, and the method that is used in its place if the buckets do not allow it.
fn selection(s: &Selection, buckets: &[Bucket]) {
    let symmetric = match s.method.as_str() {
        "" => {
            runtime::debug!(LOG, "No selection method specified. Trying dp_hash.");
            1
        }
        "dp_hash" => {
            runtime::debug!(LOG, "Selection method specified: dp_hash.");
            s.param >> 32
        }
        _ => {
            runtime::debug!(LOG, "Selection method specified: hash.");
            if s.fields.is_empty() {
                runtime::debug!(LOG, "No hash fields. Falling back to default hash method.");
            } else {
                let names: Vec<&str> = s.fields.iter().map(|(field, _)| field.info().name).collect();
                runtime::debug!(LOG, "Hash fields: {}", names.join(","));
            }
            return;
        }
    };
    match shares(buckets) {
        Some(n) => {
            let algorithm = if symmetric > 1 {
                runtime::debug!(LOG, "Invalid dp_hash algorithm {symmetric}. Defaulting to OVS_HASH_ALG_L4");
                0
            } else {
                symmetric
            };
            runtime::debug!(LOG, "Use dp_hash with {n} hash values using algorithm {algorithm}.");
        }
        None => runtime::debug!(LOG, "Falling back to default hash method."),
    }
}

/// Logs each bucket's share of the hash values. Returns the number of hash values; `None`: the buckets do not allow `dp_hash`.
fn shares(buckets: &[Bucket]) -> Option<usize> {
    let total: u64 = buckets.iter().map(|b| u64::from(b.weight)).sum();
    if buckets.is_empty() {
        runtime::debug!(LOG, "  Don't apply dp_hash method without buckets.");
        return None;
    }
    let Some(least) = buckets.iter().map(|b| b.weight).filter(|w| *w > 0).min() else {
        runtime::debug!(LOG, "  Total weight is zero. No active buckets.");
        return None;
    };
    runtime::debug!(LOG, "  Minimum weight: {least}, total weight: {total}");
    let slots = match select_slots(buckets) {
        Ok(slots) => slots,
        Err(wanted) => {
            runtime::debug!(LOG, "  Too many hash values required: {wanted}");
            return None;
        }
    };
    let n = slots.len();
    runtime::debug!(LOG, "  Using {n} hash values:");
    for (i, bucket) in buckets.iter().enumerate() {
        let (id, weight) = (bucket.id, bucket.weight);
        let target = (n as u64 * u64::from(weight)) as f64 / total as f64;
        let hits = slots.iter().filter(|s| **s == i).count();
        runtime::debug!(LOG, "  Bucket {id}: weight={weight}, target={target:.2} hits={hits}");
    }
    Some(n)
}
