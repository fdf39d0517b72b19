//! The underlay: routes, addresses and neighbours through which tunnels send, one set for all datapaths.
//!
//! The main loop owns the routes and publishes them with each snapshot. Neighbours are learned from packets by all
//! threads that translate, and are protected by a lock.

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

/// The underlay of the switch.
pub struct Underlay {
    /// Routes, rules and addresses.
    pub router: Router,
    /// Next hops.
    pub neighbours: Arc<SharedNeighbours>,
    /// The first source port of outer UDP headers, and the last.
    pub source_ports: (u16, u16),
    /// Follows the kernel's tables; `None`: they are not followed.
    pub(crate) kernel: Option<KernelTables>,
    /// The reasons why tunnels do not work, as logged last.
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
    /// An empty underlay. `follows`: the kernel's routes, rules and addresses are followed.
    pub(crate) fn new(follows: bool) -> Underlay {
        Underlay { kernel: follows.then(KernelTables::open).flatten(), ..Underlay::default() }
    }

    /// Adds an address of a dummy device, with the local route and the route to its network that the kernel would add.
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
    /// A kernel device was added, changed, or removed (`None`).
    pub(crate) fn device_changed(&mut self, ifindex: u32, device: Option<(&str, bool)>) {
        if let Some(kernel) = &mut self.kernel {
            kernel.device_changed(ifindex, device);
        }
    }
}
