//! `ct`: passes the packet to connection tracking, and optionally recirculates a copy that has the state of the connection.
//!
//! The recirculated copy continues in another table. The actions after `ct` in the list apply to the original packet,
//! which has no connection state. If the datapath does not support a parameter, it drops the packet and counts the
//! drop; a warning was logged when the flow was added.

use crate::fields::unwildcard_subfield;
use crate::messages::report;
use crate::outcome::Fork;
use crate::walk::Walk;
use dpif::{CtNat, CtTimeout, DpAction};
use openflow::action::{Action, Ct, Nat, NatRange, NumberOrField};
use std::net::IpAddr;

impl Walk<'_> {
    /// Translates `ct`.
    pub(crate) fn conntrack(&mut self, ct: &Ct, last: bool) {
        if !self.snapshot.capabilities.ct && self.out.trace.is_none() {
            self.error(format_args!("ct is not supported by this switch, dropping"));
        }
        let zone = match ct.zone {
            NumberOrField::Number(n) => n as u16,
            NumberOrField::Field(src) => {
                unwildcard_subfield(src, &mut self.out.mask);
                src.get(&self.out.flow) as u16
            }
        };
        self.commit();
        // The masks of mark and label start empty, so after the nested actions they have exactly the bits that these actions wrote.
        let seen = (self.out.mask.ct_mark, self.out.mask.ct_label);
        (self.out.mask.ct_mark, self.out.mask.ct_label) = (0, [0; 2]);
        self.actions(&ct.actions, last, false);
        let (mark, label) = (self.out.mask.ct_mark, self.out.mask.ct_label);
        (self.out.mask.ct_mark, self.out.mask.ct_label) = seen;
        let nat = ct.actions.iter().rev().find_map(|a| match a {
            Action::Nat(nat) => Some(**nat),
            _ => None,
        });
        let [high, low] = self.out.flow.ct_label;
        let helper = self.helper(ct.alg);
        let timeout = if ct.commit { self.timeout(zone) } else { None };
        self.out.actions.push(DpAction::Ct(Box::new(dpif::Ct {
            commit: ct.commit,
            force: ct.force,
            zone,
            mark: (mark != 0).then_some((self.out.flow.ct_mark & mark, mark)),
            label: (label != [0; 2]).then_some(([high & label[0], low & label[1]], label)),
            helper,
            timeout,
            nat: nat.as_ref().map(datapath_nat),
        })));
        if let Some(table) = ct.recirc_table {
            self.packet_state.conntracked = true;
            self.fork(table, zone, nat);
        }
        self.clear_conntrack();
        report!(self, Detail, "Sets the packet to an untracked state, and clears all the conntrack fields.");
    }

    /// The timeout policy of a zone; `None` if the zone has none, or if policies do not cover the packet's protocol.
    fn timeout(&mut self, zone: u16) -> Option<CtTimeout> {
        let number = *self.snapshot.timeouts.get(&zone)?;
        self.out.mask.nw_proto = u8::MAX;
        // TCP, UDP, ICMP and ICMPv6.
        let covered = matches!(self.out.flow.nw_proto, 6 | 17 | 1 | 58);
        covered.then(|| CtTimeout { name: number.to_string(), id: number.into() })
    }

    /// The name of a helper. `alg`: the port number by which OpenFlow identifies the helper.
    fn helper(&mut self, alg: u16) -> Option<String> {
        match alg {
            0 => None,
            21 => Some("ftp".to_owned()),
            69 => Some("tftp".to_owned()),
            _ => {
                self.error(format_args!("cannot serialize ct_helper {alg}"));
                None
            }
        }
    }

    /// Recirculates a copy of the packet, which continues in `table`. This walk continues with the original packet.
    fn fork(&mut self, table: u8, zone: u16, nat: Option<Nat>) {
        let state = self.frozen_state(Vec::new(), self.pipeline.action_set.clone(), Vec::new());
        let state = crate::Frozen { table_id: table, ..state };
        let Some(id) = self.store_frozen(state) else { return };
        self.out.actions.push(DpAction::Recirc(id));
        let flow = flow::Flow { recirc_id: id, ct_zone: zone, ..self.out.flow };
        self.out.forks.push(Fork { flow, nat });
        report!(
            self,
            Detail,
            "A clone of the packet is forked to recirculate. The forked pipeline will be resumed at table {table}."
        );
    }
}

fn datapath_nat(nat: &Nat) -> CtNat {
    if !nat.src && !nat.dst {
        return CtNat::default();
    }
    let addresses = match nat.range {
        NatRange::None => None,
        NatRange::V4(min, max) => Some((IpAddr::V4(min), IpAddr::V4(max.max(min)))),
        NatRange::V6(min, max) => Some((IpAddr::V6(min), IpAddr::V6(max.max(min)))),
    };
    let (low, high) = nat.ports;
    CtNat {
        snat: Some(nat.src),
        addresses,
        ports: (addresses.is_some() && low != 0).then_some((low, high.max(low))),
        persistent: nat.persistent,
        hash: nat.hash,
        random: nat.random && !nat.hash,
    }
}
