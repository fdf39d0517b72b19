//! The types of ports, and opening a port.

use crate::afxdp::Afxdp;
use crate::deletions::{DeletionGuard, Deletions};
use crate::device::Netdev;
use crate::dpdk::Dpdk;
use crate::dummy::{ChangedDummies, Dummy, DummyHandle};
use crate::error::NetdevError;
use crate::rx_buffers::RxPoolSettings;
use crate::system::System;
use crate::tap::Tap;
use crate::vhost::Vhost;
use dpdk::settings::GuestSettings;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use units::Millis;
use vhost::Notify;

/// The port types that are opened as dummies (`--enable-dummy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DummyLevel {
    /// No type.
    #[default]
    Off,
    /// Only `dummy`, `dummy-internal` and `dummy-pmd` (`--enable-dummy`).
    On,
    /// Also `system` (`--enable-dummy=system`).
    OverrideSystem,
    /// All types of devices (`--enable-dummy=override`).
    OverrideAll,
}

/// The implementation that a port type uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    System,
    Afxdp,
    Tap,
    Dummy,
    Dpdk,
    Vhost,
}

const REAL_TYPES: [(&str, Class); 8] = [
    ("system", Class::System),
    ("afxdp", Class::Afxdp),
    ("afxdp-nonpmd", Class::Afxdp),
    ("tap", Class::Tap),
    ("internal", Class::Tap),
    ("dpdk", Class::Dpdk),
    ("dpdkvhostuser", Class::Vhost),
    ("dpdkvhostuserclient", Class::Vhost),
];
const DUMMY_TYPES: [&str; 3] = ["dummy", "dummy-internal", "dummy-pmd"];

/// Opens the devices of ports, and knows the open dummies. The switch has one `Netdevs`, because device names are unique in the switch, and
/// because dummies are numbered.
#[derive(Default)]
pub struct Netdevs {
    dummy: DummyLevel,
    /// The number of the next dummy.
    next_dummy: u32,
    dummies: Vec<DummyHandle>,
    /// Number of entries of `dummies` at which closed ones are removed from the list.
    cleanup_at: usize,
    dummy_changes: Arc<ChangedDummies>,
    notify: Notify,
    /// Settings of guests' ports while DPDK is not used.
    guests: GuestSettings,
    deletions: Deletions,
}

impl Netdevs {
    /// `dummy`: the types that are opened as dummies.
    pub fn new(dummy: DummyLevel) -> Netdevs {
        // Dummies are numbered from 1: number 0 is the datapath's own port.
        Netdevs { dummy, next_dummy: 1, ..Netdevs::default() }
    }

    /// Sets a callback. Devices opened from now on call it from their own threads when [`Netdev::change_seq`] or
    /// [`Netdev::needs_restart`] may have changed, for example because a guest connected. The callback must be fast and must
    /// not block.
    pub fn set_notify(&mut self, call: impl Fn() + Send + Sync + 'static) {
        self.notify = Notify::new(call);
    }

    /// Sets the settings of guests' ports that apply while DPDK is not used.
    pub fn set_guests(&mut self, guests: GuestSettings) {
        self.guests = guests;
    }

    /// Defers the deletion of the kernel devices of closed ports. When the returned value is dropped, all are deleted at once.
    pub fn delete_together(&self) -> DeletionGuard {
        self.deletions.defer()
    }

    /// The implementation of port type `kind`; `None`: this type is not supported now.
    fn class(&self, kind: &str) -> Option<Class> {
        if self.dummy != DummyLevel::Off && DUMMY_TYPES.contains(&kind) {
            return Some(Class::Dummy);
        }
        let (_, class) = *REAL_TYPES.iter().find(|(name, _)| *name == kind)?;
        match self.dummy {
            // Type `dpdk` exists only if DPDK is initialized.
            _ if class == Class::Dpdk && !dpdk::eal::initialized() => None,
            DummyLevel::OverrideAll => Some(Class::Dummy),
            DummyLevel::OverrideSystem if class == Class::System => Some(Class::Dummy),
            _ => Some(class),
        }
    }

    /// Whether devices of this type are dummies.
    pub fn is_dummy(&self, kind: &str) -> bool {
        self.class(kind) == Some(Class::Dummy)
    }

    /// The port types that `open` supports, sorted. Patch ports and tunnels are not devices.
    pub fn types(&self) -> Vec<&'static str> {
        let all = REAL_TYPES.iter().map(|(name, _)| *name).chain(DUMMY_TYPES);
        let mut known: Vec<_> = all.filter(|name| self.class(name).is_some()).collect();
        known.sort_unstable();
        known
    }

    /// Opens device `name` of type `kind` (empty: `system`) and applies its options. If only the options are invalid, the
    /// error is returned with the device, which uses the valid options; a device of type `afxdp` or `dpdk` is not opened then.
    pub fn open(
        &mut self,
        name: &str,
        kind: &str,
        options: &BTreeMap<String, String>,
    ) -> Result<(Box<dyn Netdev>, Option<NetdevError>), NetdevError> {
        self.open_with(name, kind, options, &RxPoolSettings::default())
    }

    /// As `open`, with these receive buffers. If the device does not support them, the error is returned with the device.
    pub fn open_with(
        &mut self,
        name: &str,
        kind: &str,
        options: &BTreeMap<String, String>,
        buffers: &RxPoolSettings,
    ) -> Result<(Box<dyn Netdev>, Option<NetdevError>), NetdevError> {
        let kind = if kind.is_empty() { "system" } else { kind };
        if name.is_empty() {
            return Err(NetdevError::open(name, NetdevError::INVALID));
        }
        let mut device: Box<dyn Netdev> = match self.class(kind) {
            None => return Err(NetdevError::open(name, NetdevError::UNKNOWN_TYPE)),
            Some(Class::System) => Box::new(System::open(name, kind)?),
            Some(Class::Afxdp) => Box::new(Afxdp::open(name, kind, options, buffers)?),
            Some(Class::Tap) => Box::new(Tap::open(name, kind, &self.deletions)?),
            Some(Class::Vhost) => {
                let with_dpdk = dpdk::eal::initialized().then(|| dpdk::settings().guests());
                Box::new(Vhost::open(name, kind, &self.notify, with_dpdk.as_ref().unwrap_or(&self.guests))?)
            }
            // Without valid options there is no device.
            Some(Class::Dpdk) => {
                let mut device = Dpdk::open(name, kind, options)?;
                let refused = device.set_rx_buffers(buffers).err();
                return Ok((Box::new(device), refused));
            }
            Some(Class::Dummy) => {
                let dummy = Dummy::new(name, kind, self.next_dummy, &self.dummy_changes)?;
                self.next_dummy += 1;
                if self.dummies.len() >= self.cleanup_at {
                    self.dummies.retain(DummyHandle::is_open);
                    self.cleanup_at = 2 * self.dummies.len() + 16;
                }
                self.dummies.extend(dummy.dummy().cloned());
                Box::new(dummy)
            }
        };
        let refused = device.set_options(options).err().or(device.set_rx_buffers(buffers).err());
        Ok((device, refused))
    }

    /// The names of dummies that may have changed since the last call. They are not [watched](Netdev::needs_periodic_check).
    pub fn take_changed(&self) -> BTreeSet<Arc<str>> {
        self.dummy_changes.take_changed()
    }

    /// Serves the connections of dummies. The main loop must call this in each turn.
    pub fn run(&self, now: Millis) {
        self.dummy_changes.run(now);
    }

    /// Creates a new file for each capture of a dummy whose file was deleted.
    pub fn renew_captures(&self) {
        self.dummy_changes.renew_captures();
    }

    /// The open dummies, oldest first.
    pub fn dummies(&self) -> impl Iterator<Item = &DummyHandle> {
        self.dummies.iter().filter(|d| d.is_open())
    }

    /// The open dummy `name`.
    pub fn dummy(&self, name: &str) -> Option<&DummyHandle> {
        self.dummies().find(|d| d.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(netdevs: &mut Netdevs, name: &str, kind: &str) -> String {
        netdevs.open(name, kind, &BTreeMap::new()).err().map(|e| e.to_string()).unwrap_or_default()
    }

    #[test]
    fn types_follow_the_command_line() {
        assert_eq!(
            Netdevs::default().types(),
            ["afxdp", "afxdp-nonpmd", "dpdkvhostuser", "dpdkvhostuserclient", "internal", "system", "tap"]
        );
        let on = Netdevs::new(DummyLevel::On);
        let dummies = ["dummy", "dummy-internal", "dummy-pmd"];
        assert_eq!(on.types().into_iter().filter(|t| dummies.contains(t)).count(), 3);
        assert_eq!(on.types().len(), Netdevs::default().types().len() + 3);
        let system = Netdevs::new(DummyLevel::OverrideSystem);
        assert_eq!((system.class("system"), system.class("tap")), (Some(Class::Dummy), Some(Class::Tap)));
        let all = Netdevs::new(DummyLevel::OverrideAll);
        assert_eq!((all.class("tap"), all.class("foo")), (Some(Class::Dummy), None));
    }

    #[test]
    fn refusals_are_worded_as_scripts_expect() {
        let mut netdevs = Netdevs::default();
        assert_eq!(
            error(&mut netdevs, "no-dev", ""),
            "could not open network device no-dev (No such device)"
        );
        assert_eq!(
            error(&mut netdevs, "p1", "dummy"),
            "could not open network device p1 (Address family not supported by protocol)"
        );
        assert_eq!(
            error(&mut netdevs, "a-name-of-16-byt", "system"),
            "could not open network device a-name-of-16-byt (No such device)"
        );
        assert_eq!(
            error(&mut netdevs, "a-name-of-16-byt", "tap"),
            "could not open network device a-name-of-16-byt (File name too long)"
        );
        assert!(error(&mut netdevs, "default", "tap").ends_with("(Invalid argument)"));
    }

    #[test]
    fn dummies_are_numbered_and_forgotten() {
        let mut netdevs = Netdevs::new(DummyLevel::On);
        let none = BTreeMap::new();
        let (mut a, _) = netdevs.open("a", "dummy", &none).unwrap();
        let (mut b, _) = netdevs.open("b", "dummy", &none).unwrap();
        assert_eq!(a.facts().unwrap().mac, [0xaa, 0x55, 0xaa, 0x55, 0, 1]);
        assert_eq!(b.facts().unwrap().mac, [0xaa, 0x55, 0xaa, 0x55, 0, 2]);
        drop(a);
        assert!(netdevs.dummy("a").is_none() && netdevs.dummy("b").is_some());
    }
}
