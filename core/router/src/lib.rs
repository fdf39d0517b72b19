//! Routes, policy rules, interface addresses and neighbours, for the outer packets of tunnels.
//!
//! The switch fills a [`Router`] from the kernel's tables and from `ovs/route/*`; a translation looks up the route of a
//! remote endpoint and the Ethernet address of the next hop. Nothing here reads a clock or the kernel. Copies of a
//! [`Router`] share memory, so a published copy costs the same for ten routes as for a million.
//!
//! Names, texts and the order of routes are those of Open vSwitch 3.7 (`ovs/route/show`, `tnl/neigh/show`).

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
pub use neighbours::{BadAging, Neighbour, NeighbourTable, Noted};
pub use prefix::Prefix;
pub use route::{NewRoute, Route, RouteError};
pub use router::{Hop, Router};
pub use rules::{Rule, Rules};
pub use table::{TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN, Table, is_standard};
pub use text::{table_name, with_table_header};

#[cfg(test)]
mod tests;
