//! A port of a bridge at run time.

use crate::port_lacp::{LacpFacts, PortLacp};
use crate::port_qos::PortQos;
use crate::port_session::{PortBfd, PortCfm};
use bridge::TunnelConfig;
use bridge::spanning_tree::PortTree;
use flow::Mac;
use netdev::device::{Facts, Netdev};
use openflow::port::{Port, PortConfig};
use ovsdb::Uuid;
use std::sync::Arc;
use units::{Millis, OfPort, PortNo};

/// The kind of a port.
pub enum Backing {
    /// A device that is a port of the datapath.
    Device {
        /// The device.
        netdev: Box<dyn Netdev>,
        /// Its number in the datapath.
        number: PortNo,
    },
    /// A tunnel, which uses the datapath's port for its kind.
    Tunnel {
        /// The tunnel's configuration.
        config: Arc<TunnelConfig>,
        /// The number of that port in the datapath.
        number: PortNo,
    },
    /// A patch port, with the name of its peer.
    Patch {
        /// `options:peer`
        peer: String,
    },
}

/// A port of a bridge.
pub struct BridgePort {
    /// Its row in table Interface.
    pub uuid: Uuid,
    /// The name of its device.
    pub name: String,
    /// Its type in the row.
    pub kind: String,
    /// Its row of table Port, by name.
    pub port_row: String,
    /// Its OpenFlow number.
    pub ofport: OfPort,
    /// The kind of the port.
    pub backing: Backing,
    /// Configuration by controllers (`OFPT_PORT_MOD`).
    pub config: PortConfig,
    /// Facts of the device when last read; `None` for patch ports.
    pub facts: Option<Facts>,
    /// `Netdev::change_seq` when the facts were read.
    pub change_seq: u64,
    /// The state that was last reported to controllers, if the report was incomplete: a change of the configuration and
    /// the resulting change of the link are reported one after the other.
    pub told: Option<Port>,
    /// When it was added.
    pub created: Millis,
    /// Whether its statistics were shown before.
    pub counted: bool,
    /// Identifies the statistics that its row has (`Netdev::activity`, or a hash); `None`: the row may have others.
    pub shown: Option<u64>,
    /// Its BFD session.
    pub bfd: Option<PortBfd>,
    /// Its CFM session.
    pub cfm: Option<PortCfm>,
    /// LACP, if its row enables it.
    pub lacp: Option<PortLacp>,
    /// Spanning tree, if the port takes part.
    pub tree: Option<PortTree>,
    /// QoS of the port.
    pub qos: PortQos,
    /// Refused settings, for the `error` column; the device works nevertheless.
    pub warning: Option<String>,
}

impl BridgePort {
    /// Its number in the datapath.
    pub fn number(&self) -> Option<PortNo> {
        match self.backing {
            Backing::Device { number, .. } | Backing::Tunnel { number, .. } => Some(number),
            Backing::Patch { .. } => None,
        }
    }

    /// Whether its device is the kernel device with this index.
    pub fn has_ifindex(&self, ifindex: u32) -> bool {
        self.facts.as_ref().is_some_and(|f| f.ifindex == Some(ifindex))
    }

    /// The device.
    pub fn netdev(&mut self) -> Option<&mut Box<dyn Netdev>> {
        match &mut self.backing {
            Backing::Device { netdev, .. } => Some(netdev),
            Backing::Patch { .. } | Backing::Tunnel { .. } => None,
        }
    }

    /// Its peer's name if it is a patch port.
    pub fn peer(&self) -> Option<&str> {
        match &self.backing {
            Backing::Patch { peer } => Some(peer),
            Backing::Device { .. } | Backing::Tunnel { .. } => None,
        }
    }

    /// Its configuration if it is a tunnel.
    pub fn tunnel(&self) -> Option<&Arc<TunnelConfig>> {
        match &self.backing {
            Backing::Tunnel { config, .. } => Some(config),
            Backing::Device { .. } | Backing::Patch { .. } => None,
        }
    }

    /// Its Ethernet address.
    pub fn mac(&self) -> Mac {
        self.facts.as_ref().map(|f| Mac(f.mac)).unwrap_or_default()
    }

    /// Whether it is administratively up with a link; always true for patch ports.
    pub fn is_up(&self) -> bool {
        self.facts.as_ref().is_none_or(|f| f.admin_up && f.link_up)
    }

    /// Whether one of the sessions of BFD and CFM allows it, if there is any.
    pub fn sessions_allow(&self) -> bool {
        let (bfd, cfm) = (self.bfd.as_ref().map(|s| s.forwarding), self.cfm.as_ref().map(|s| s.forwarding));
        bfd.is_none() && cfm.is_none() || bfd == Some(true) || cfm == Some(true)
    }

    /// Whether packets may be sent through it: it is up, and BFD or CFM, and LACP, if enabled, allow it.
    pub fn may_enable(&self) -> bool {
        self.is_up() && self.sessions_allow() && self.lacp.as_ref().is_none_or(|lacp| lacp.may_enable)
    }

    /// Facts of the port for LACP.
    pub fn lacp_facts(&self) -> LacpFacts {
        LacpFacts { mac: self.hw_addr(), up: self.is_up() }
    }

    /// The MAC address that is shown.
    pub fn hw_addr(&self) -> Mac {
        if self.facts.is_some() { self.mac() } else { self.patch_mac() }
    }

    /// The MAC address shown for a patch port, which has no device: local, unicast, and derived from the name.
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
