//! A port of a bridge at run time.

use crate::port_lacp::{LacpFacts, PortLacp};
use crate::port_qos::PortQos;
use crate::port_session::{PortBfd, PortCfm, PortLldp};
use bridge::TunnelConfig;
use bridge::spanning_tree::PortTreeState;
use flow::Mac;
use netdev::device::{Facts, Netdev};
use openflow::port::{Port, PortConfig};
use ovsdb::Uuid;
use std::sync::Arc;
use units::{Millis, OfPort, PortNo};

/// The kind of a port, with the object that sends and receives its packets.
pub enum Backing {
    /// A device that is a port of the datapath.
    Device {
        /// The device.
        netdev: Box<dyn Netdev>,
        /// The device's port number in the datapath.
        number: PortNo,
    },
    /// A tunnel. All tunnels of the same kind share a port of the datapath.
    Tunnel {
        /// The tunnel's configuration.
        config: Arc<TunnelConfig>,
        /// The number of the shared port in the datapath.
        number: PortNo,
    },
    /// A patch port.
    Patch {
        /// `options:peer`
        peer: String,
    },
}

/// A port of a bridge.
pub struct BridgePort {
    /// The UUID of the port's row in table Interface.
    pub uuid: Uuid,
    /// The name of the interface.
    pub name: String,
    /// Column `type` of the row.
    pub kind: String,
    /// The name of the row of table Port that contains the interface.
    pub port_row: String,
    /// The OpenFlow port number.
    pub ofport: OfPort,
    /// The kind of the port.
    pub backing: Backing,
    /// Configuration by controllers (`OFPT_PORT_MOD`).
    pub config: PortConfig,
    /// Facts of the device, as they were read last; `None` for patch ports and tunnels.
    pub facts: Option<Facts>,
    /// `Netdev::change_seq` at the time when the facts were read.
    pub change_seq: u64,
    /// The state that was last reported to controllers, if a second report has to follow: a change of the configuration and the
    /// resulting change of the link are reported separately. `None`: controllers know the current state.
    pub reported_state: Option<Port>,
    /// When the port was added.
    pub created: Millis,
    /// Whether the statistics were read for the current row in the database at least once.
    pub stats_read: bool,
    /// Identifies the statistics that the row in the database has (`Netdev::activity`, or a hash); `None`: they have to be written.
    pub database_stats: Option<u64>,
    /// The BFD session, if the row enables BFD.
    pub bfd: Option<PortBfd>,
    /// The CFM session, if the row enables CFM.
    pub cfm: Option<PortCfm>,
    /// LLDP, if the row enables it.
    pub lldp: Option<PortLldp>,
    /// LACP, if the row enables it.
    pub lacp: Option<PortLacp>,
    /// State in the spanning tree; `None` if the port does not take part in a spanning tree.
    pub tree: Option<PortTreeState>,
    /// QoS of the port.
    pub qos: PortQos,
    /// Why some settings were refused, for the `error` column; the device works without these settings.
    pub warning: Option<String>,
}

impl BridgePort {
    /// The port number in the datapath; patch ports have none.
    pub fn number(&self) -> Option<PortNo> {
        match self.backing {
            Backing::Device { number, .. } | Backing::Tunnel { number, .. } => Some(number),
            Backing::Patch { .. } => None,
        }
    }

    /// Whether the port's device is the kernel device with this index.
    pub fn has_ifindex(&self, ifindex: u32) -> bool {
        self.facts.as_ref().is_some_and(|f| f.ifindex == Some(ifindex))
    }

    /// The device; tunnels and patch ports have none.
    pub fn netdev(&mut self) -> Option<&mut Box<dyn Netdev>> {
        match &mut self.backing {
            Backing::Device { netdev, .. } => Some(netdev),
            Backing::Patch { .. } | Backing::Tunnel { .. } => None,
        }
    }

    /// The name of the peer if the port is a patch port.
    pub fn peer(&self) -> Option<&str> {
        match &self.backing {
            Backing::Patch { peer } => Some(peer),
            Backing::Device { .. } | Backing::Tunnel { .. } => None,
        }
    }

    /// The tunnel configuration if the port is a tunnel.
    pub fn tunnel(&self) -> Option<&Arc<TunnelConfig>> {
        match &self.backing {
            Backing::Tunnel { config, .. } => Some(config),
            Backing::Device { .. } | Backing::Patch { .. } => None,
        }
    }

    /// The Ethernet address of the device; zero if there is no device.
    pub fn mac(&self) -> Mac {
        self.facts.as_ref().map(|f| Mac(f.mac)).unwrap_or_default()
    }

    /// Whether the port is administratively up and has a link; always true for patch ports and tunnels.
    pub fn is_up(&self) -> bool {
        self.facts.as_ref().is_none_or(|f| f.admin_up && f.link_up)
    }

    /// Whether BFD and CFM allow forwarding: the port has no session, or at least one session allows it.
    pub fn sessions_allow(&self) -> bool {
        let (bfd, cfm) = (self.bfd.as_ref().map(|s| s.forwarding), self.cfm.as_ref().map(|s| s.forwarding));
        bfd.is_none() && cfm.is_none() || bfd == Some(true) || cfm == Some(true)
    }

    /// Whether packets may be sent through the port: it is up, and its BFD or CFM session and its LACP, as far as enabled, allow it.
    pub fn may_enable(&self) -> bool {
        self.is_up() && self.sessions_allow() && self.lacp.as_ref().is_none_or(|lacp| lacp.may_enable)
    }

    /// Facts of the port for LACP.
    pub fn lacp_facts(&self) -> LacpFacts {
        LacpFacts { mac: self.hw_addr(), up: self.is_up() }
    }

    /// The MAC address that is reported to controllers and the database.
    pub fn hw_addr(&self) -> Mac {
        if self.facts.is_some() { self.mac() } else { self.patch_mac() }
    }

    /// The MAC address that is reported for a patch port or tunnel, which has no device: locally administered, unicast, an FNV-1a hash of the name.
    pub fn patch_mac(&self) -> Mac {
        let hash = self
            .name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        let mut mac = Mac::from_u64(hash).0;
        mac[0] = mac[0] & 0xfc | 0x02;
        Mac(mac)
    }
}
