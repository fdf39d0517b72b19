//! Common part of ports on kernel devices (`system`, `tap`, `afxdp`): facts and settings that the kernel stores.
//!
//! A device is identified by its index. Before a request by name, the name is looked up by the index. So if the device was replaced
//! by another one of the same name, the port's device is reported as gone.

use crate::device::{Facts, LinkModes, TxOffloads};
use crate::error::{NetdevError, errno_of};
use crate::ethtool;
use crate::linux::ifreq;
use crate::rtnl::{self, Link};
use std::collections::BTreeMap;
use std::io;

/// The methods of `Netdev` that are the same for all ports with a kernel device. They use the fields `device` and `kind`.
macro_rules! kernel_device_methods {
    () => {
        fn name(&self) -> &str {
            self.device.name()
        }
        fn kind(&self) -> &str {
            &self.kind
        }
        fn qos_place(&self) -> $crate::device::QosPlace {
            $crate::device::QosPlace::Kernel
        }
        fn set_mtu(&mut self, mtu: u32) -> Result<(), $crate::error::NetdevError> {
            self.device.set_mtu(mtu)
        }
        fn set_mac(&mut self, mac: [u8; 6]) -> Result<(), $crate::error::NetdevError> {
            self.device.set_mac(mac)
        }
        fn set_admin(&mut self, up: bool) -> Result<(), $crate::error::NetdevError> {
            self.device.set_admin(up)
        }
        fn set_options(
            &mut self,
            options: &std::collections::BTreeMap<String, String>,
        ) -> Result<bool, $crate::error::NetdevError> {
            $crate::kernel::refuse_options(self.device.name(), options)
        }
    };
}
pub(crate) use kernel_device_methods;

/// The kernel device of a port.
pub struct KernelDevice {
    name: String,
    ifindex: u32,
    carrier_changes_at_open: u32,
    loopback: bool,
}

impl KernelDevice {
    /// Finds the device `name`.
    pub fn find(name: &str) -> io::Result<KernelDevice> {
        const RESERVED: [&str; 2] = ["default", "all"];
        if RESERVED.contains(&name) {
            return Err(io::Error::from_raw_os_error(NetdevError::INVALID));
        }
        if name.len() > ifreq::NAME_MAX {
            // No device name is so long.
            return Err(io::Error::from_raw_os_error(NetdevError::NO_DEVICE));
        }
        let link = rtnl::link_by_name(name)?;
        Ok(KernelDevice {
            loopback: link.loopback,
            name: link.name,
            ifindex: link.ifindex,
            carrier_changes_at_open: link.carrier_changes,
        })
    }

    /// Its name when it was opened.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Refuses a loopback device, with Open vSwitch's text: packets sent to it would return to the switch, and the
    /// host's traffic to itself would be switched.
    pub fn refuse_loopback(&self) -> Result<(), NetdevError> {
        if !self.loopback {
            return Ok(());
        }
        let what = format!("could not add network device {} to ofproto", self.name);
        Err(NetdevError::other(&what, NetdevError::INVALID))
    }

    /// Its interface index.
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Its current state.
    pub fn link(&self) -> Result<Link, NetdevError> {
        rtnl::link_by_index(self.ifindex).map_err(|e| NetdevError::from_io(&self.name, &e))
    }

    /// Its facts, whatever its current name.
    pub fn facts(&self) -> Result<Facts, NetdevError> {
        Ok(self.facts_of(&self.link()?))
    }

    /// Its facts, if it still has the name by which it was opened. A `system` port is bound to this name: a renamed device counts as gone.
    pub fn named_facts(&self) -> Result<Facts, NetdevError> {
        match self.link()? {
            link if link.name == self.name => Ok(self.facts_of(&link)),
            _ => Err(NetdevError::gone(&self.name)),
        }
    }

    fn facts_of(&self, link: &Link) -> Facts {
        Facts {
            ifindex: Some(link.ifindex),
            mac: link.mac.unwrap_or_default(),
            mtu: link.mtu,
            admin_up: link.up,
            link_up: link.carrier,
            link_resets: u64::from(link.carrier_changes.wrapping_sub(self.carrier_changes_at_open)),
            modes: ifreq::ethtool_settings(&link.name)
                .map_or_else(|_| LinkModes::default(), |s| ethtool::modes(&s)),
            tx_offloads: TxOffloads::KERNEL,
            out_of_service_reason: None,
            status: ifreq::ethtool_driver(&link.name)
                .map_or_else(|_| BTreeMap::new(), |d| ethtool::driver(&d)),
        }
    }

    /// Performs a request that identifies the device by its current name.
    fn by_name(&self, what: &str, request: impl FnOnce(&str) -> io::Result<()>) -> Result<(), NetdevError> {
        let name = self.link()?.name;
        request(&name).map_err(|e| NetdevError::other(&format!("{name}: {what} failed"), errno_of(&e)))
    }

    /// Sets the MTU.
    pub fn set_mtu(&self, mtu: u32) -> Result<(), NetdevError> {
        self.by_name("setting the MTU", |name| ifreq::set_mtu(name, mtu))
    }

    /// Sets the Ethernet address. Some drivers refuse that while the device is up; then it is set down briefly.
    pub fn set_mac(&self, mac: [u8; 6]) -> Result<(), NetdevError> {
        const EBUSY: i32 = 16;
        let link = self.link()?;
        if link.mac == Some(mac) {
            return Ok(());
        }
        self.by_name("setting the Ethernet address", |name| match ifreq::set_mac(name, mac) {
            Err(e) if e.raw_os_error() == Some(EBUSY) && link.up => {
                ifreq::set_up(name, false)?;
                let result = ifreq::set_mac(name, mac);
                ifreq::set_up(name, true)?;
                result
            }
            other => other,
        })
    }

    /// Sets it up or down.
    pub fn set_admin(&self, up: bool) -> Result<(), NetdevError> {
        self.by_name("setting the flags", |name| ifreq::set_up(name, up))
    }
}

/// Refuses any options, because kernel devices have none. The error is only logged, as in Open vSwitch.
pub fn refuse_options(name: &str, options: &BTreeMap<String, String>) -> Result<bool, NetdevError> {
    if options.is_empty() {
        return Ok(false);
    }
    Err(NetdevError::plain(&format!("{name}: arguments provided to device that is not configurable")))
}
