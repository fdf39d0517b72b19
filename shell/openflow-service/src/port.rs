//! A port of a bridge at run time.

use crate::port_bfd::PortBfd;
use crate::port_lacp::{LacpFacts, PortLacp};
use crate::port_qos::PortQos;
use bridge::TunnelConfig;
use flow::Mac;
use netdev::device::{Facts, Netdev};
use openflow::port::{Port, PortConfig};
use ovsdb::Uuid;
use std::sync::Arc;
use units::{Millis, OfPort, PortNo};

/// What is behind a port.
pub enum Backing {
    /// A device that is a port of the datapath.
    Device {
        /// The device.
        netdev: Box<dyn Netdev>,
        /// Its number in the datapath.
        number: PortNo,
    },
    /// A tunnel: a share in the datapath's port of its kind.
    Tunnel {
        /// What its options say.
        config: Arc<TunnelConfig>,
        /// The number of that port in the datapath.
        number: PortNo,
    },
    /// A patch port: the name of its peer.
    Patch {
        /// `options:peer`
        peer: String,
    },
}

/// See the module.
pub struct BridgePort {
    /// Its row in table Interface.
    pub uuid: Uuid,
    /// The name of its device.
    pub name: String,
    /// Its type, as the row says it.
    pub kind: String,
    /// The row of table Port that it belongs to, by name.
    pub port_row: String,
    /// Its OpenFlow number.
    pub ofport: OfPort,
    /// What is behind it.
    pub backing: Backing,
    /// What controllers set (`OFPT_PORT_MOD`).
    pub config: PortConfig,
    /// The device as it was last read; `None` for patch ports.
    pub facts: Option<Facts>,
    /// `Netdev::change_seq` when it was read.
    pub change_seq: u64,
    /// What controllers were told of it, where that is not all yet: they hear of a change and of what the link makes of it
    /// one after the other.
    pub told: Option<Port>,
    /// When it was added.
    pub created: Millis,
    /// Its statistics were shown once.
    pub counted: bool,
    /// Stands for those that were shown last (`Netdev::activity`, or a hash), if the row still has them.
    pub shown: Option<u64>,
    /// Its BFD session.
    pub bfd: Option<PortBfd>,
    /// LACP, if its row asks for it.
    pub lacp: Option<PortLacp>,
    /// How its packets are queued.
    pub qos: PortQos,
    /// Refused settings: the text of the `error` column, while the device works.
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

    /// It stands on the kernel's device of this number.
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

    /// Its peer's name, if it is a patch port.
    pub fn peer(&self) -> Option<&str> {
        match &self.backing {
            Backing::Patch { peer } => Some(peer),
            Backing::Device { .. } | Backing::Tunnel { .. } => None,
        }
    }

    /// What its options say, if it is a tunnel.
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

    /// Set up, and with a link. Patch ports always are.
    pub fn is_up(&self) -> bool {
        self.facts.as_ref().is_none_or(|f| f.admin_up && f.link_up)
    }

    /// Packets may be sent by it: it is up, and neither BFD nor LACP, if it has that, says otherwise.
    pub fn may_enable(&self) -> bool {
        self.is_up()
            && self.bfd.as_ref().is_none_or(|bfd| bfd.forwarding)
            && self.lacp.as_ref().is_none_or(|lacp| lacp.may_enable)
    }

    /// The port as LACP sees it.
    pub fn lacp_facts(&self) -> LacpFacts {
        LacpFacts { mac: self.hw_addr(), up: self.is_up() }
    }

    /// The address that it shows.
    pub fn hw_addr(&self) -> Mac {
        if self.facts.is_some() { self.mac() } else { self.patch_mac() }
    }

    /// The address that a patch port, which has no device, shows: local, unicast, and the same for the same name.
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
