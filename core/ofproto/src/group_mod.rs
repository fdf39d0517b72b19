//! Executes a group mod on the state.
//!
//! Sources: OpenFlow 1.3.5 §6.7, OpenFlow 1.5.1 §7.3.4.3 for single buckets.

use crate::flow_mod::StateEditor;
use crate::group::Group;
use crate::references::Reference;
use crate::rule::for_each_action;
use openflow::error::OfError;
use openflow::flow_mod::{GROUP_ANY, RemovedReason};
use openflow::group::{
    BUCKET_ALL, BUCKET_FIRST, BUCKET_LAST, BUCKET_MAX, Bucket, GROUP_ALL, GROUP_MAX, GroupCommand, GroupMod,
    GroupType,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use units::OfPort;

impl StateEditor<'_> {
    /// Executes one group mod.
    pub(crate) fn group_mod(&mut self, gm: &GroupMod) -> Result<(), OfError> {
        check(gm)?;
        let old = self.state.groups.get(&gm.group).cloned();
        match (gm.command, old) {
            (GroupCommand::Delete, _) => self.delete_groups(gm.group),
            (GroupCommand::Add, Some(_)) => return Err(OfError::GmfcGroupExists),
            (GroupCommand::Add | GroupCommand::AddOrModify, None) => {
                let new = Group::new(gm.group, gm.kind, gm.buckets.clone(), gm.selection.clone(), self.now);
                self.put_group(new);
            }
            (GroupCommand::Modify | GroupCommand::AddOrModify, Some(old)) => {
                self.put_group(Group::new(
                    gm.group,
                    gm.kind,
                    gm.buckets.clone(),
                    gm.selection.clone(),
                    old.created,
                ));
            }
            (GroupCommand::InsertBucket, Some(old)) => {
                let buckets = with_inserted(&old.buckets, &gm.buckets, gm.command_bucket)?;
                self.put_group(old.with_buckets(buckets));
            }
            (GroupCommand::RemoveBucket, Some(old)) => {
                let buckets = with_removed(&old.buckets, gm.command_bucket)?;
                self.put_group(old.with_buckets(buckets));
            }
            (_, None) => return Err(OfError::GmfcUnknownGroup),
        }
        Ok(())
    }

    fn put_group(&mut self, group: Group) {
        self.changes.groups.push(group.id);
        self.state.groups.insert_mut(group.id, Arc::new(group));
    }

    /// Deletes a group, or all groups, and the flows that use them. A group that does not exist is not an error.
    fn delete_groups(&mut self, id: u32) {
        let gone: Vec<u32> = match id {
            GROUP_ALL => self.state.groups.keys().copied().collect(),
            one => self.state.groups.keys().copied().filter(|g| *g == one).collect(),
        };
        for id in &gone {
            self.state.groups.remove_mut(id);
            self.changes.groups.push(*id);
        }
        self.remove_users(gone.into_iter().map(Reference::Group), RemovedReason::GroupDelete);
    }

    /// Removes the flows that refer to any of the deleted objects `gone`.
    pub(crate) fn remove_users(&mut self, gone: impl Iterator<Item = Reference>, reason: RemovedReason) {
        let gone: BTreeSet<Reference> = gone.filter(|what| self.state.user_count(*what) != 0).collect();
        if gone.is_empty() {
            return;
        }
        let mut users = Vec::new();
        for rule in self.state.tables.iter().flat_map(|t| t.classifier.iter()) {
            let mut uses = false;
            for_each_action(&rule.actions, &mut |a| {
                uses |= Reference::by(a).is_some_and(|n| gone.contains(&n))
            });
            if uses {
                users.push(Arc::clone(rule));
            }
        }
        self.remove_all(users, reason);
    }
}

/// Checks that a group mod is valid for the type of the group.
fn check(gm: &GroupMod) -> Result<(), OfError> {
    if gm.command == GroupCommand::Delete {
        return Ok(());
    }
    if gm.group > GROUP_MAX || gm.kind == GroupType::Indirect && gm.buckets.len() != 1 {
        return Err(OfError::GmfcInvalidGroup);
    }
    if gm.command == GroupCommand::RemoveBucket && !gm.buckets.is_empty() {
        return Err(OfError::GmfcBadBucket);
    }
    for b in &gm.buckets {
        let watches = b.watch_port != OfPort::NONE || b.watch_group != GROUP_ANY;
        let weighed =
            b.weight != 0 && gm.kind != GroupType::Select && gm.command != GroupCommand::InsertBucket;
        match gm.kind {
            _ if weighed => return Err(OfError::GmfcInvalidGroup),
            GroupType::All | GroupType::Indirect if watches => return Err(OfError::GmfcWatchUnsupported),
            GroupType::FastFailover if !watches => return Err(OfError::GmfcInvalidGroup),
            _ => {}
        }
    }
    Ok(())
}

fn bucket_index(buckets: &[Bucket], id: u32) -> Result<usize, OfError> {
    buckets.iter().position(|b| b.id == id).ok_or(OfError::GmfcUnknownBucket)
}

/// Inserts new buckets after the bucket with id `after`, or at the beginning or the end (`BUCKET_FIRST`, `BUCKET_LAST`).
fn with_inserted(old: &[Bucket], new: &[Bucket], after: u32) -> Result<Vec<Bucket>, OfError> {
    let at = match after {
        BUCKET_FIRST => 0,
        id if id <= BUCKET_MAX => bucket_index(old, id)? + 1,
        _ => old.len(),
    };
    if new.iter().any(|n| old.iter().any(|o| o.id == n.id)) {
        return Err(OfError::GmfcBucketExists);
    }
    Ok([&old[..at], new, &old[at..]].concat())
}

/// Removes the bucket with id `which`, or the first, the last, or all buckets.
fn with_removed(old: &[Bucket], which: u32) -> Result<Vec<Bucket>, OfError> {
    let mut out = old.to_vec();
    match which {
        BUCKET_ALL => out.clear(),
        BUCKET_FIRST => drop(out.drain(..1.min(old.len()))),
        BUCKET_LAST => drop(out.pop()),
        id => drop(out.remove(bucket_index(old, id)?)),
    }
    Ok(out)
}
