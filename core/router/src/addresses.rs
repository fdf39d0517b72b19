//! The addresses of the host's interfaces, by device name.

use crate::Prefix;
use rpds::RedBlackTreeMapSync;
use std::net::IpAddr;
use std::sync::Arc;

/// The addresses of all interfaces. Clones share memory.
#[derive(Clone, Debug, Default)]
pub struct Addresses(RedBlackTreeMapSync<Arc<str>, Arc<[Prefix]>>);

impl Addresses {
    /// Replaces the addresses of a device. Returns false if nothing changes.
    pub fn set(&mut self, dev: &str, addresses: Vec<Prefix>) -> bool {
        if self.of(dev) == addresses {
            return false;
        }
        if addresses.is_empty() {
            self.0.remove_mut(dev);
        } else {
            self.0.insert_mut(dev.into(), addresses.into());
        }
        true
    }

    /// The addresses of a device, each with the length of its network.
    pub fn of(&self, dev: &str) -> &[Prefix] {
        self.0.get(dev).map_or(&[], |list| &**list)
    }

    /// The devices with addresses.
    pub fn devices(&self) -> impl Iterator<Item = (&str, &[Prefix])> {
        self.0.iter().map(|(dev, list)| (&**dev, &**list))
    }

    /// The source address of a device for packets to `dst`: its address in the smallest network that contains `dst`.
    pub fn source_for(&self, dev: &str, dst: IpAddr) -> Option<IpAddr> {
        let mut best: Option<Prefix> = None;
        for address in self.of(dev).iter().filter(|a| a.contains(dst)) {
            if best.is_none_or(|b| address.len() > b.len()) {
                best = Some(*address);
            }
        }
        best.map(|b| b.addr())
    }

    /// Returns whether the device has the address `source`, in the network that contains `dst`.
    pub fn has_source(&self, dev: &str, dst: IpAddr, source: IpAddr) -> bool {
        self.of(dev).iter().any(|a| a.addr() == source && a.contains(dst))
    }
}
