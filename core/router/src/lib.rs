//! Routes, policy rules, interface addresses and neighbours, for the outer packets of tunnels.
//!
//! The switch fills a [`Router`] from the kernel's tables and from `ovs/route/*`. A translation looks up the route of a remote tunnel
//! endpoint and the Ethernet address of the next hop. Nothing here reads a clock or the kernel. Clones of a [`Router`] share memory, so
//! publishing a clone costs the same for ten routes as for a million.
//!
//! Names, texts and the order of routes are the same as in Open vSwitch 3.7 (`ovs/route/show`, `tnl/neigh/show`).

mod addresses;
mod neighbour_request;
mod neighbours;
mod prefix;
mod route;
mod router;
mod rules;
mod table;
mod text;

pub use addresses::Addresses;
pub use neighbour_request::neighbour_request;
pub use neighbours::{BadAging, Neighbour, NeighbourTable, NeighbourUpdate};
pub use prefix::Prefix;
pub use route::{NewRoute, Route, RouteError};
pub use router::{ResolvedRoute, Router};
pub use rules::{Rule, Rules};
pub use table::{TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN, Table, is_standard};
pub use text::{table_name, with_table_header};

#[cfg(test)]
mod tests;
