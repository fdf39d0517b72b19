//! State of a port's BFD, CFM and LLDP sessions.

use bridge::{bfd, cfm};
use ovsdb::Uuid;
use std::collections::{BTreeMap, BTreeSet};

/// The BFD session of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortBfd {
    /// Selects the packets of the session.
    pub filter: bfd::Filter,
    /// Whether the session allows that packets are sent through the port.
    pub forwarding: bool,
    /// Column `bfd_status`.
    pub status: BTreeMap<String, String>,
}

/// The CFM session of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortCfm {
    /// Selects the packets of the session.
    pub filter: cfm::Filter,
    /// Whether the session allows that packets are sent through the port.
    pub forwarding: bool,
    /// Values of the `cfm_…` columns of the database.
    pub status: cfm::Status,
}

/// The LLDP session of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortLldp {
    /// LLDP is enabled. If not, only `trunk_changes` are left to be written.
    pub enabled: bool,
    /// The VLANs of services that the port requests by auto-attach.
    vlans: BTreeSet<u16>,
    /// The port's row in the database.
    row: Uuid,
    /// Changes of `vlans` that the row does not have yet.
    pub trunk_changes: BTreeMap<u16, TrunkChange>,
}

/// A change of the trunk VLANs of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrunkChange {
    /// The VLAN carries a service now.
    Add,
    /// The VLAN carries no service any more.
    Remove,
}

impl PortLldp {
    /// Sets the VLANs of requested services, and records what changes in the port's row. A new row has none of them.
    pub fn set_vlans(&mut self, row: Uuid, vlans: BTreeSet<u16>) {
        if row != self.row {
            (self.row, self.vlans) = (row, BTreeSet::new());
            self.trunk_changes.clear();
        }
        let (old, new) = (&self.vlans, &vlans);
        self.trunk_changes.extend(old.difference(new).map(|vlan| (*vlan, TrunkChange::Remove)));
        self.trunk_changes.extend(new.difference(old).map(|vlan| (*vlan, TrunkChange::Add)));
        self.vlans = vlans;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_recorded_until_they_are_written() {
        let (first, second) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let mut lldp = PortLldp::default();
        lldp.set_vlans(first, [5, 6].into());
        assert_eq!(lldp.trunk_changes, [(5, TrunkChange::Add), (6, TrunkChange::Add)].into());
        lldp.trunk_changes.clear();
        lldp.set_vlans(first, [6, 7].into());
        assert_eq!(lldp.trunk_changes, [(5, TrunkChange::Remove), (7, TrunkChange::Add)].into());
        lldp.set_vlans(second, [6, 7].into());
        assert_eq!(lldp.trunk_changes, [(6, TrunkChange::Add), (7, TrunkChange::Add)].into());
    }
}
