//! State of a port's BFD, CFM and LLDP sessions.

use bridge::{bfd, cfm};
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
    /// The VLANs of services that the port requests by auto-attach.
    pub vlans: BTreeSet<u16>,
    /// Changes of these VLANs that the port's row in the database does not have yet.
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
    /// Sets the VLANs of requested services, and records the changes.
    pub fn set_vlans(&mut self, vlans: BTreeSet<u16>) {
        let (old, new) = (&self.vlans, &vlans);
        self.trunk_changes.extend(old.difference(new).map(|vlan| (*vlan, TrunkChange::Remove)));
        self.trunk_changes.extend(new.difference(old).map(|vlan| (*vlan, TrunkChange::Add)));
        self.vlans = vlans;
    }
}
