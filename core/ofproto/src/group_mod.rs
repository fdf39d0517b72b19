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
use openflow::wire::group_fits;
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
                self.put_if_fits(new)?;
            }
            (GroupCommand::Modify | GroupCommand::AddOrModify, Some(old)) => {
                self.put_if_fits(Group::new(
                    gm.group,
                    gm.kind,
                    gm.buckets.clone(),
                    gm.selection.clone(),
                    old.created,
                ))?;
            }
            (GroupCommand::InsertBucket, Some(old)) => {
                let buckets = with_inserted(&old.buckets, &gm.buckets, gm.command_bucket)?;
                self.put_if_fits(old.with_buckets(buckets))?;
            }
            (GroupCommand::RemoveBucket, Some(old)) => {
                let buckets = with_removed(&old.buckets, gm.command_bucket)?;
                self.put_group(old.with_buckets(buckets));
            }
            (_, None) => return Err(OfError::GmfcUnknownGroup),
        }
        Ok(())
    }

    /// Adds or replaces a group. Refuses a group that is too long for a list of groups, because the list would fail for every reader.
    fn put_if_fits(&mut self, group: Group) -> Result<(), OfError> {
        if !group_fits(group.kind, &group.buckets, &group.selection) {
            return Err(OfError::GmfcOutOfBuckets);
        }
        self.put_group(group);
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
            one => Vec::from_iter(self.state.groups.contains_key(&one).then_some(one)),
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
    let ids: BTreeSet<u32> = old.iter().map(|b| b.id).collect();
    if new.iter().any(|b| ids.contains(&b.id)) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ofproto::Ofproto;
    use openflow::group::Selection;
    use openflow::{Action, Body, Dialect, Message, Version, Xid, encode};
    use units::Millis;

    const T0: Millis = Millis(1000);

    /// A group mod of `buckets` buckets with numbers from `first` and `actions` outputs each.
    fn mod_(command: GroupCommand, first: u32, buckets: u32, actions: usize) -> GroupMod {
        let actions = vec![Action::output(OfPort(1)); actions];
        let bucket = |id| Bucket { id, weight: 1, actions: actions.clone(), ..Bucket::default() };
        let buckets = (first..first + buckets).map(bucket).collect();
        GroupMod {
            command,
            kind: GroupType::Select,
            group: 1,
            command_bucket: BUCKET_LAST,
            buckets,
            selection: Selection::default(),
        }
    }

    fn lists_groups(o: &Ofproto) -> bool {
        let groups = o.groups(GROUP_ALL);
        let replies = [
            Body::GroupDescReply(groups.iter().map(|group| group.desc()).collect()),
            Body::GroupStatsReply(groups.iter().map(|group| group.stats(0, T0)).collect()),
        ];
        replies.into_iter().all(|body| {
            let in_version = |v| encode(&Message::new(v, Xid(1), body.clone()), Dialect::default()).is_ok();
            [Version::V13, Version::V14, Version::V15].into_iter().all(in_version)
        })
    }

    /// The steps are bounded by the number of buckets, and the list of groups never fails because of one group.
    #[test]
    fn a_group_grows_until_it_no_longer_fits_into_a_message() {
        let mut o = Ofproto::new(T0, 0);
        o.handle_group_mod(&mod_(GroupCommand::Add, 0, 0, 0), T0).unwrap();
        let mut buckets = 0;
        let refused = loop {
            match o.handle_group_mod(&mod_(GroupCommand::InsertBucket, buckets, 100, 1), T0) {
                Ok(_) => buckets += 100,
                Err(e) => break e,
            }
            assert!(lists_groups(&o), "{buckets} buckets");
        };
        assert_eq!((refused, buckets), (OfError::GmfcOutOfBuckets, 2000), "32 bytes each");
        assert_eq!(o.group(1).unwrap().buckets.len(), 2000, "nothing has changed");
        o.handle_group_mod(&GroupMod { buckets: vec![], ..mod_(GroupCommand::RemoveBucket, 0, 0, 0) }, T0)
            .unwrap();
        assert_eq!(o.group(1).unwrap().buckets.len(), 1999);
        assert!(lists_groups(&o));
    }

    #[test]
    fn the_statistics_must_fit_too() {
        let mut o = Ofproto::new(T0, 0);
        let all = |n| {
            let buckets = (0..n).map(|id| Bucket { id, ..Bucket::default() }).collect();
            GroupMod { kind: GroupType::All, buckets, ..mod_(GroupCommand::AddOrModify, 0, 0, 0) }
        };
        o.handle_group_mod(&all(4092), T0).unwrap();
        assert!(lists_groups(&o));
        assert_eq!(o.handle_group_mod(&all(4093), T0).unwrap_err(), OfError::GmfcOutOfBuckets);
    }

    #[test]
    fn too_many_buckets_are_refused_by_every_command_and_in_bundles() {
        let mut o = Ofproto::new(T0, 0);
        let long = |command| mod_(command, 0, 1000, 10);
        let refused = Err(OfError::GmfcOutOfBuckets);
        assert_eq!(o.handle_group_mod(&long(GroupCommand::Add), T0).map(drop), refused);
        assert_eq!(o.begin().group_mod(&long(GroupCommand::AddOrModify), T0), refused);
        o.handle_group_mod(&mod_(GroupCommand::Add, 5000, 1, 1), T0).unwrap();
        for command in [GroupCommand::Modify, GroupCommand::AddOrModify, GroupCommand::InsertBucket] {
            assert_eq!(o.handle_group_mod(&long(command), T0).map(drop), refused, "{command:?}");
            assert_eq!(o.begin().group_mod(&long(command), T0), refused, "{command:?}");
        }
        assert_eq!(o.group(1).unwrap().buckets.len(), 1);
    }
}
