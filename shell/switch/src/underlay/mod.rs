//! The network under tunnels: routes, addresses and neighbours, one set for all datapaths.
//!
//! The main loop owns the routes and publishes them with each snapshot. Neighbours are learned from packets by every
//! thread that translates, and stand behind a lock.

mod changed;
mod egress;
mod kernel;
mod solicit;
pub(crate) mod view;

pub(crate) use kernel::KernelTables;

use ovsdb::Uuid;
use router::{NewRoute, Prefix, RouteError, Router, TABLE_LOCAL, TABLE_MAIN};
use std::collections::BTreeMap;
use std::sync::Arc;
use translation::SharedNeighbours;

/// See the module.
pub struct Underlay {
    /// Routes, rules and addresses.
    pub router: Router,
    /// Next hops.
    pub neighbours: Arc<SharedNeighbours>,
    /// The first source port of outer UDP headers, and the last.
    pub source_ports: (u16, u16),
    /// What follows the kernel's tables; `None`: nothing does.
    pub(crate) kernel: Option<KernelTables>,
    /// What keeps tunnels from working, as it was logged.
    pub(crate) troubles: BTreeMap<Uuid, String>,
}

impl Default for Underlay {
    fn default() -> Underlay {
        Underlay {
            router: Router::default(),
            neighbours: Arc::default(),
            source_ports: datapath::TUNNEL_SOURCE_PORTS,
            kernel: None,
            troubles: BTreeMap::new(),
        }
    }
}

impl Underlay {
    /// An empty one. `follows`: the kernel's routes, rules and addresses come to it.
    pub(crate) fn new(follows: bool) -> Underlay {
        Underlay { kernel: follows.then(KernelTables::open).flatten(), ..Underlay::default() }
    }

    /// A dummy device got an address: with it come a local route and one to its network, as the kernel would make them.
    pub fn add_dummy_address(&mut self, dev: &str, address: Prefix) -> Result<(), RouteError> {
        let mut addresses = self.router.addresses.of(dev).to_vec();
        addresses.push(address);
        self.router.addresses.set(dev, addresses);
        let network = Prefix::new(address.addr(), address.len());
        let to = |prefix| NewRoute {
            prefix,
            mark: 0,
            dev,
            gateway: None,
            source: Some(address.addr()),
            user: false,
            metric: 0,
        };
        self.router.add(TABLE_LOCAL, &to(Prefix::host(address.addr())))?;
        self.router.add(TABLE_MAIN, &to(network))
    }
}

impl Underlay {
    /// A device of the kernel came or changed, or (`None`) went.
    pub(crate) fn device_changed(&mut self, ifindex: u32, device: Option<(&str, bool)>) {
        if let Some(kernel) = &mut self.kernel {
            kernel.device_changed(ifindex, device);
        }
    }
}
