//! The underlay: the routes, addresses and neighbours that tunnels use to send packets. There is one underlay for all
//! datapaths.
//!
//! The main loop owns the routes and publishes them with each snapshot. All threads that translate learn neighbours
//! from packets; a lock protects the table of neighbours.

mod changed;
mod egress_device;
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
    /// The Ethernet addresses of next hops.
    pub neighbours: Arc<SharedNeighbours>,
    /// The first and the last source port of outer UDP headers.
    pub source_ports: (u16, u16),
    /// Follows the kernel's tables. `None`: the kernel's tables are not used.
    pub(crate) kernel: Option<KernelTables>,
    /// By interface row: the reason why a tunnel does not work, as it was logged last.
    pub(crate) logged_errors: BTreeMap<Uuid, String>,
}

impl Default for Underlay {
    fn default() -> Underlay {
        Underlay {
            router: Router::default(),
            neighbours: Arc::default(),
            source_ports: datapath::TUNNEL_SOURCE_PORTS,
            kernel: None,
            logged_errors: BTreeMap::new(),
        }
    }
}

impl Underlay {
    /// An empty underlay. `follows`: whether to follow the kernel's routes, rules and addresses.
    pub(crate) fn new(follows: bool) -> Underlay {
        Underlay { kernel: follows.then(KernelTables::open).flatten(), ..Underlay::default() }
    }

    /// Adds an address of a dummy device, and the local route and the network route that the kernel would add for it.
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
    /// Records that a kernel device was added, changed, or removed (`None`).
    pub(crate) fn device_changed(&mut self, ifindex: u32, device: Option<(&str, bool)>) {
        if let Some(kernel) = &mut self.kernel {
            kernel.device_changed(ifindex, device);
        }
    }
}
