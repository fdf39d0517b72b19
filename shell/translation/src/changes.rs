//! Lists of changes for which megaflows have to be revalidated.

use ofproto::TableChanges;
use xlate::{BridgeId, DependencyChange};

/// Maximum number of changes. With more, all megaflows are revalidated: searching the megaflows for each change would take
/// longer.
const CHANGES_MAX: usize = 64;

/// A list of changes, or "everything changed".
#[derive(Clone, Debug, Default)]
pub struct Changes {
    all: bool,
    list: Vec<DependencyChange>,
    /// Something other than flows and groups changed.
    beyond_flows_and_groups: bool,
    /// The snapshot may have changed in more than the tables of bridges.
    beyond_tables: bool,
}

impl Changes {
    /// A change of everything: every translation may have another result.
    pub fn everything() -> Changes {
        Changes { all: true, list: Vec::new(), beyond_flows_and_groups: true, beyond_tables: true }
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        !self.all && self.list.is_empty()
    }

    /// Whether every translation may have another result.
    pub fn is_all(&self) -> bool {
        self.all
    }

    /// Whether only flows and groups changed, but too many for the list: then the changes count as a change of
    /// everything.
    pub fn is_bulk(&self) -> bool {
        self.all && !self.beyond_flows_and_groups
    }

    /// Whether only the tables of bridges, and tables that translations read directly, have changed: then a new snapshot
    /// differs from the last one in the tables of bridges only.
    pub fn only_tables_changed(&self) -> bool {
        !self.is_empty() && !self.beyond_tables
    }

    /// The changes; empty if everything changed.
    pub fn list(&self) -> &[DependencyChange] {
        &self.list
    }

    /// Records that everything changed.
    pub fn mark_all(&mut self) {
        *self = Changes::everything();
    }

    /// Adds a change that is not one of flows or groups.
    pub fn push(&mut self, change: DependencyChange) {
        self.beyond_flows_and_groups = true;
        self.beyond_tables |= matches!(
            change,
            DependencyChange::PortState { .. } | DependencyChange::Routes | DependencyChange::Addresses
        );
        self.add(change);
    }

    fn add(&mut self, change: DependencyChange) {
        if self.all {
            return;
        }
        self.list.push(change);
        if self.list.len() > CHANGES_MAX {
            self.replace_by_everything();
        }
    }

    /// Replaces the listed changes by "everything changed", because there are too many of them to list.
    fn replace_by_everything(&mut self) {
        self.all = true;
        self.list.clear();
    }

    /// Adds the changes of another list.
    pub fn append(&mut self, other: Changes) {
        self.beyond_flows_and_groups |= other.beyond_flows_and_groups;
        self.beyond_tables |= other.beyond_tables;
        if other.all {
            self.replace_by_everything();
        }
        other.list.into_iter().for_each(|change| self.add(change));
    }

    /// Adds the changes of a bridge's tables.
    pub fn push_table_changes(&mut self, bridge: BridgeId, table_changes: &TableChanges) {
        if !table_changes.meters.is_empty() {
            return self.mark_all();
        }
        if table_changes.flows.len() + table_changes.groups.len() > CHANGES_MAX {
            return self.replace_by_everything();
        }
        for change in &table_changes.flows {
            let rule = change.rule();
            let matching = classifier::of::ClassifierRule::matching(&**rule).clone();
            self.add(DependencyChange::Rule { bridge, table: rule.table, matching });
        }
        table_changes.groups.iter().for_each(|&group| self.add(DependencyChange::Group { bridge, group }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_are_everything() {
        let mut changes = Changes::default();
        assert!(changes.is_empty());
        let group = |group| DependencyChange::Group { bridge: BridgeId(1), group };
        (0..CHANGES_MAX as u32).for_each(|i| changes.push(group(i)));
        assert!(!changes.is_all() && changes.list().len() == CHANGES_MAX);
        let mut other = Changes::default();
        other.push(group(0));
        changes.append(other);
        assert!(changes.is_all() && changes.list().is_empty() && !changes.is_empty());
        changes.push(group(1));
        assert!(changes.list().is_empty());
    }

    #[test]
    fn only_flows_and_groups_are_bulk() {
        let groups = |n: u32| {
            let mut table_changes = TableChanges::default();
            table_changes.groups = (0..n).collect();
            table_changes
        };
        let mut changes = Changes::default();
        changes.push_table_changes(BridgeId(1), &groups(CHANGES_MAX as u32));
        assert!(!changes.is_bulk() && !changes.is_all());
        changes.push_table_changes(BridgeId(1), &groups(1));
        assert!(changes.is_bulk());
        let mut both = Changes::default();
        both.push(DependencyChange::Routes);
        both.append(changes.clone());
        assert!(both.is_all() && !both.is_bulk());
        changes.mark_all();
        assert!(!changes.is_bulk());
    }

    #[test]
    fn changes_of_tables_keep_the_views_of_ports() {
        let mut changes = Changes::default();
        assert!(!changes.only_tables_changed());
        let mut table_changes = TableChanges::default();
        table_changes.groups = (0..=CHANGES_MAX as u32).collect();
        changes.push_table_changes(BridgeId(1), &table_changes);
        changes.push(DependencyChange::Stations { bridge: BridgeId(1) });
        assert!(changes.is_all() && changes.only_tables_changed());
        let mut other = Changes::default();
        other.push(DependencyChange::Routes);
        changes.append(other);
        assert!(!changes.only_tables_changed() && !Changes::everything().only_tables_changed());
    }
}
