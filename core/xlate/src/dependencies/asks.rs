//! Records the dependencies of a walk.

use super::Asked;
use crate::changed::differences;
use crate::walk::Walk;
use flow::Flow;
use std::net::IpAddr;

impl Walk<'_> {
    /// Records the look-up of a table. `swapped`: addresses and ports are those of the connection's original
    /// direction, so their words tell nothing about the received packet.
    pub(crate) fn asks_table(&mut self, table: u8, swapped: bool) {
        let mut changed = self.changed_words();
        if swapped {
            changed |= tuple_words();
        }
        let (bridge, in_port, metadata) = (self.bridge.id, self.flow.in_port, self.flow.metadata);
        let changed = changed.into();
        self.out
            .dependencies
            .push(&self.snapshot.chain, Asked::Table { bridge, table, in_port, metadata, changed });
    }

    /// Records the number of learned flows of a table.
    pub(crate) fn asks_limit(&mut self, table: u8) {
        let bridge = self.bridge.id;
        self.out.dependencies.push(&self.snapshot.chain, Asked::Limit { bridge, table });
    }

    /// Records a group.
    pub(crate) fn asks_group(&mut self, group: u32) {
        let bridge = self.bridge.id;
        self.out.dependencies.push(&self.snapshot.chain, Asked::Group { bridge, group });
    }

    /// Records the route of a tunnel.
    pub(crate) fn asks_routes(&mut self) {
        self.out.dependencies.push(&self.snapshot.chain, Asked::Routes);
    }

    /// Records whether a tunnel ends at a port.
    pub(crate) fn asks_addresses(&mut self) {
        self.out.dependencies.push(&self.snapshot.chain, Asked::Addresses);
    }

    /// Records the address of a next hop.
    pub(crate) fn asks_neighbour(&mut self, ip: IpAddr) {
        self.out.dependencies.push(&self.snapshot.chain, Asked::Neighbour { ip });
    }

    /// Records the learning table's entries for the packet's addresses.
    pub(crate) fn asks_stations(&mut self) {
        let (bridge, changed) = (self.bridge.id, self.changed_words().into());
        self.out.dependencies.push(&self.snapshot.chain, Asked::Stations { bridge, changed });
    }
}

/// The words of addresses, ports and protocol.
fn tuple_words() -> u128 {
    let ones = Flow {
        nw_src: u32::MAX,
        nw_dst: u32::MAX,
        ipv6_src: [0xff; 16],
        ipv6_dst: [0xff; 16],
        nw_proto: u8::MAX,
        tp_src: u16::MAX,
        tp_dst: u16::MAX,
        ct_nw_src: u32::MAX,
        ct_nw_dst: u32::MAX,
        ct_ipv6_src: [0xff; 16],
        ct_ipv6_dst: [0xff; 16],
        ct_nw_proto: u8::MAX,
        ct_tp_src: u16::MAX,
        ct_tp_dst: u16::MAX,
        ..Flow::ZERO
    };
    differences(&ones, &Flow::ZERO)
}
