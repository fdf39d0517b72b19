//! Records the dependencies of a walk.

use super::Dependency;
use crate::changed_words::differences;
use crate::snapshot::PortView;
use crate::walk::Walk;
use flow::Flow;
use std::net::IpAddr;

impl Walk<'_> {
    /// Records a look-up in a table. `swapped`: the flow has the addresses and ports of the connection's original direction,
    /// so these words tell nothing about the received packet.
    pub(crate) fn depends_on_table(&mut self, table: u8, swapped: bool) {
        let mut changed = self.changed_words();
        if swapped {
            changed |= tuple_words();
        }
        let (bridge, in_port, metadata) = (self.bridge.id, self.out.flow.in_port, self.out.flow.metadata);
        let changed = changed.into();
        self.out
            .dependencies
            .push(&self.snapshot.chain, Dependency::Table { bridge, table, in_port, metadata, changed });
    }

    /// Records the learned flows of a table, for the limit of a `learn` action.
    pub(crate) fn depends_on_limit(&mut self, table: u8) {
        let bridge = self.bridge.id;
        self.out.dependencies.push(&self.snapshot.chain, Dependency::LearnLimit { bridge, table });
    }

    /// Records a group, for its buckets or its liveness.
    pub(crate) fn depends_on_group(&mut self, group: u32) {
        let bridge = self.bridge.id;
        self.out.dependencies.push(&self.snapshot.chain, Dependency::Group { bridge, group });
    }

    /// Records the spanning tree state of a port, if the port takes part in a spanning tree.
    pub(crate) fn depends_on_state(&mut self, port: &PortView) {
        if port.tree.is_some() {
            let (bridge, port) = (self.bridge.id, Some(port.ofport));
            self.out.dependencies.push(&self.snapshot.chain, Dependency::PortState { bridge, port });
        }
    }

    /// Records the spanning tree states of all ports, if the bridge has a spanning tree.
    pub(crate) fn depends_on_states(&mut self) {
        if self.bridge.tree.is_some() {
            let (bridge, port) = (self.bridge.id, None);
            self.out.dependencies.push(&self.snapshot.chain, Dependency::PortState { bridge, port });
        }
    }

    /// Records the routes of the host.
    pub(crate) fn depends_on_routes(&mut self) {
        self.out.dependencies.push(&self.snapshot.chain, Dependency::Routes);
    }

    /// Records the addresses of the host, which tell whether a port has tunnel endpoints.
    pub(crate) fn depends_on_addresses(&mut self) {
        self.out.dependencies.push(&self.snapshot.chain, Dependency::Addresses);
    }

    /// Records the Ethernet address of a next hop.
    pub(crate) fn depends_on_neighbour(&mut self, ip: IpAddr) {
        self.out.dependencies.push(&self.snapshot.chain, Dependency::Neighbour { ip });
    }

    /// Records the members of the packet's multicast group, and the router ports.
    pub(crate) fn depends_on_multicast(&mut self) {
        let (bridge, changed) = (self.bridge.id, self.changed_words().into());
        self.out.dependencies.push(&self.snapshot.chain, Dependency::Multicast { bridge, changed });
    }

    /// Records the learning table's entries for the packet's addresses.
    pub(crate) fn depends_on_stations(&mut self) {
        let (bridge, changed) = (self.bridge.id, self.changed_words().into());
        self.out.dependencies.push(&self.snapshot.chain, Dependency::Stations { bridge, changed });
    }
}

/// The words of addresses, ports and protocol, of the packet and of its connection's original direction.
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
