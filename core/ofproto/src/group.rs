//! Groups: buckets of actions, and the method that selects a bucket.
//!
//! A group is immutable except for its counters: a modification creates a new group with new counters, as in Open vSwitch. If buckets are
//! inserted or removed, the buckets that stay keep their counters.

use crate::duration::duration;
use dpif::Counter;
use openflow::group::{Bucket, GroupDesc, GroupStats, GroupType, Selection};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::Millis;

/// One group.
#[derive(Debug)]
pub struct Group {
    /// Group number.
    pub id: u32,
    /// Group type.
    pub kind: GroupType,
    /// The buckets; each has a bucket id.
    pub buckets: Arc<[Bucket]>,
    /// Selection method of a select group.
    pub selection: Selection,
    /// When the group was added.
    pub created: Millis,
    total: Counter,
    by_bucket: Box<[Arc<Counter>]>,
}

impl Group {
    pub(crate) fn new(
        id: u32,
        kind: GroupType,
        buckets: Vec<Bucket>,
        selection: Selection,
        created: Millis,
    ) -> Group {
        let by_bucket = buckets.iter().map(|_| Arc::default()).collect();
        Group { id, kind, buckets: buckets.into(), selection, created, total: Counter::default(), by_bucket }
    }

    /// The group with other buckets. Buckets with the same id keep their counters, the total begins again.
    pub(crate) fn with_buckets(&self, buckets: Vec<Bucket>) -> Group {
        let old: BTreeMap<u32, &Arc<Counter>> =
            self.buckets.iter().map(|b| b.id).zip(&self.by_bucket).collect();
        let counter = |new: &Bucket| old.get(&new.id).map(|c| Arc::clone(c)).unwrap_or_default();
        let by_bucket = buckets.iter().map(counter).collect();
        let new = Group::new(self.id, self.kind, buckets, self.selection.clone(), self.created);
        Group { by_bucket, ..new }
    }

    /// Counts packets of the group and of the bucket with index `bucket`; `None`: of all buckets. Any thread may call this.
    pub fn credit(&self, bucket: Option<usize>, packets: u64, bytes: u64) {
        self.total.add(packets, bytes);
        match bucket {
            Some(b) => self.by_bucket.get(b).into_iter().for_each(|c| c.add(packets, bytes)),
            None => self.by_bucket.iter().for_each(|c| c.add(packets, bytes)),
        }
    }

    /// The description of the group for a reply.
    pub fn desc(&self) -> GroupDesc {
        GroupDesc {
            group: self.id,
            kind: self.kind,
            buckets: self.buckets.to_vec(),
            selection: self.selection.clone(),
        }
    }

    /// The counters of the group for a reply; `ref_count`: the number of flows that use the group.
    pub fn stats(&self, ref_count: u32, now: Millis) -> GroupStats {
        let (packets, bytes) = self.total.get();
        GroupStats {
            group: self.id,
            ref_count,
            packets,
            bytes,
            duration: duration(self.created, now),
            buckets: self.by_bucket.iter().map(|counter| counter.get()).collect(),
        }
    }
}
