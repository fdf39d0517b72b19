//! NORMAL in a bridge with multicast snooping: multicast IP packets are sent to the ports that joined their group
//! (RFC 4541).
//!
//! IGMP and MLD messages take the slow path, so that each message renews the entries of the group table. A port gets at
//! most one copy of a packet, and only if the port carries the packet's VLAN.

use crate::messages::report;
use crate::normal::Ingress;
use crate::outcome::PacketEffect;
use crate::snapshot::{Bundle, Snooping};
use crate::walk::Walk;
use bridge::snooping::message::{self, Message, MessageError, Protocol, Record, igmp, mld};
use bridge::{BundleId, VlanTags};
use dpif::SlowReason;
use flow::Mac;
use packet::{ethertype, ipproto};
use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr};

/// All nodes of a link (RFC 4291 §2.7.1).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The kind of a group membership message (IGMP, MLD).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Query,
    Report,
    /// An IGMP message of another type.
    Other,
}

/// The ports that get a packet; each port is contained once.
#[derive(Default)]
struct Targets<'a> {
    bundles: Vec<&'a Bundle>,
    added: HashSet<BundleId>,
}

impl<'a> Targets<'a> {
    fn add(&mut self, bundle: &'a Bundle) {
        if self.added.insert(bundle.id) {
            self.bundles.push(bundle);
        }
    }
}

/// The trace texts for a port, which depend on why the packet is sent to this port.
struct TraceTexts {
    forwarded: &'static str,
    unknown: &'static str,
    ingress: &'static str,
    other_vlan: &'static str,
}

const TO_MEMBER: TraceTexts = TraceTexts {
    forwarded: "forwarding to mcast group port",
    unknown: "mcast group port is unknown, dropping",
    ingress: "mcast group port is input port, dropping",
    other_vlan: "mcast group port is on another vlan, dropping",
};
const TO_ROUTER: TraceTexts = TraceTexts {
    forwarded: "forwarding to mcast router port",
    unknown: "mcast router port is unknown, dropping",
    ingress: "mcast router port is input port, dropping",
    other_vlan: "mcast router is on another vlan, dropping",
};
const TO_FLOOD_PORT: TraceTexts = TraceTexts {
    forwarded: "forwarding to mcast flood port",
    unknown: "mcast flood port is unknown, dropping",
    ingress: "mcast flood port is input port, dropping",
    other_vlan: "mcast flood port is on another vlan, dropping",
};
const REPORT: TraceTexts = TraceTexts {
    forwarded: "forwarding report to mcast flagged port",
    unknown: "mcast port is unknown, dropping the report",
    ingress: "mcast port is input port, dropping the Report",
    other_vlan: "mcast port is on another vlan, dropping the report",
};

impl<'a> Walk<'a> {
    /// Forwards a multicast IP packet if the bridge has multicast snooping. Returns whether it forwarded the packet.
    pub(crate) fn forward_multicast(&mut self, ingress: &Ingress<'_>, tags: &VlanTags) -> bool {
        let bridge = self.bridge;
        let Some(snooping) = &bridge.snooping else { return false };
        let to = self.out.flow.dl_dst;
        if !to.is_multicast() || to == Mac::BROADCAST {
            return false;
        }
        if !matches!(self.out.flow.dl_type, ethertype::IPV4 | ethertype::IPV6) {
            return false;
        }
        if let Some(kind) = self.membership_message() {
            self.out.slow |= SlowReason::ACTION;
            self.learn_membership(snooping, ingress, tags, kind);
            self.forward_membership(snooping, ingress, tags, kind);
            return true;
        }
        let (group, is_link_local) = self.multicast_group();
        if is_link_local {
            report!(self, Detail, "RFC4541: section 2.1.2, item 2, flooding");
            self.normal_flood(ingress, tags);
            return true;
        }
        self.depends_on_multicast();
        let mut targets = Targets::default();
        match group.and_then(|group| snooping.groups.members(tags.vid(), group)) {
            Some(members) => {
                self.add_targets(&mut targets, &members, (ingress, tags), &TO_MEMBER);
                self.add_targets(&mut targets, &snooping.flood_ports, (ingress, tags), &TO_FLOOD_PORT);
                self.add_routers(&mut targets, snooping, (ingress, tags));
            }
            None if snooping.flood_unregistered => {
                report!(self, Detail, "unregistered multicast, flooding");
                self.normal_flood(ingress, tags);
            }
            None => {
                self.add_routers(&mut targets, snooping, (ingress, tags));
                self.add_targets(&mut targets, &snooping.flood_ports, (ingress, tags), &TO_FLOOD_PORT);
            }
        }
        self.send_to(targets, tags);
        true
    }

    /// The destination group, and whether the group's packets are flooded. `None`: the IP destination is a single host,
    /// although the Ethernet destination is a multicast address.
    fn multicast_group(&mut self) -> (Option<Ipv6Addr>, bool) {
        if self.out.flow.dl_type == ethertype::IPV4 {
            self.out.mask.nw_dst = u32::MAX;
            let group = Ipv4Addr::from_bits(self.out.flow.nw_dst);
            let mapped = Some(group.to_ipv6_mapped()).filter(|_| group.is_multicast());
            return (mapped, matches!(group.octets(), [224, 0, 0, _]));
        }
        self.out.mask.ipv6_dst = [0xff; 16];
        let group = Ipv6Addr::from(self.out.flow.ipv6_dst);
        (Some(group).filter(Ipv6Addr::is_multicast), group == ALL_NODES)
    }

    /// The kind of the group membership message; `None` if the packet is no such message.
    fn membership_message(&mut self) -> Option<Kind> {
        self.out.mask.nw_proto = u8::MAX;
        // Type and code of a message have 8 bits, so the high byte of the flow's field is 0.
        let kind = self.out.flow.tp_src as u8;
        match (self.out.flow.dl_type, self.out.flow.nw_proto) {
            (ethertype::IPV4, ipproto::IGMP) => Some(match kind {
                igmp::QUERY => Kind::Query,
                igmp::V1_REPORT | igmp::V2_REPORT | igmp::V3_REPORT | igmp::LEAVE => Kind::Report,
                _ => Kind::Other,
            }),
            (ethertype::IPV6, ipproto::ICMPV6) => {
                self.out.mask.tp_src = u16::MAX;
                let query = kind == mld::QUERY;
                message::is_mld(kind).then_some(if query { Kind::Query } else { Kind::Report })
            }
            _ => None,
        }
    }

    /// Learns from a message. Nothing is learned from a port to which all multicast is flooded: it need not join groups.
    fn learn_membership(&mut self, snooping: &Snooping, ingress: &Ingress<'_>, tags: &VlanTags, kind: Kind) {
        let (Some(bundle), Some(packet)) =
            (ingress.bundle, self.received.packet.filter(|_| self.received.returns_side_effects))
        else {
            return;
        };
        if kind == Kind::Other || snooping.flood_ports.contains(&bundle.id) {
            return;
        }
        let (vlan, port) = (tags.vid(), bundle.id);
        let message = match Message::parse(packet) {
            Ok(message) => message,
            Err(MessageError::Other) => return,
            Err(MessageError::Truncated | MessageError::Checksum) => {
                let what = if self.out.flow.dl_type == ethertype::IPV4 { "IGMP" } else { "MLD" };
                let name = &bundle.name;
                return self.debug(format_args!(
                    "multicast snooping received bad {what} checksum on port {name} in VLAN {vlan}"
                ));
            }
        };
        let n_changes = snooping.groups.count_changes(vlan, port, &message);
        if n_changes != 0 {
            self.log_changes(&message, n_changes, &bundle.name, vlan);
        }
        self.out.effects.push(PacketEffect::Snoop {
            bridge: self.bridge.id,
            vlan,
            port,
            message: Box::new(message),
        });
    }

    /// Logs the changes that a message makes to the group table. `n_changes`: number of changes.
    fn log_changes(&mut self, message: &Message, n_changes: usize, port: &str, vlan: u16) {
        let place = format!("port {port} in VLAN {vlan}");
        match message {
            Message::AnonymousQuery => {}
            Message::Query if self.out.flow.dl_type == ethertype::IPV4 => {
                let from = Ipv4Addr::from_bits(self.out.flow.nw_src);
                self.debug(format_args!("multicast snooping query from {from} is on {place}"));
            }
            Message::Query => self.debug(format_args!("multicast snooping query on {place}")),
            Message::Report { protocol: Protocol::IgmpV1 | Protocol::IgmpV2, records } => {
                for Record { group, joins } in records {
                    let how = if *joins { "learned that" } else { "leaving" };
                    let group = group.to_canonical();
                    self.debug(format_args!("multicast snooping {how} {group} is on {place}"));
                }
            }
            Message::Report { .. } => {
                self.debug(format_args!("multicast snooping processed {n_changes} addresses on {place}"));
            }
        }
    }

    /// Sends a report to the router ports and to the ports that get all reports (RFC 4541 §2.1.1 item 1); floods other messages.
    fn forward_membership(
        &mut self,
        snooping: &Snooping,
        ingress: &Ingress<'_>,
        tags: &VlanTags,
        kind: Kind,
    ) {
        if kind == Kind::Report {
            let mut targets = Targets::default();
            self.add_routers(&mut targets, snooping, (ingress, tags));
            self.add_targets(&mut targets, &snooping.report_ports, (ingress, tags), &REPORT);
            return self.send_to(targets, tags);
        }
        match self.out.flow.dl_type {
            ethertype::IPV4 => report!(self, Detail, "multicast traffic, flooding"),
            _ => report!(self, Detail, "MLD query, flooding"),
        }
        self.normal_flood(ingress, tags);
    }

    fn add_routers(&mut self, targets: &mut Targets<'a>, snooping: &Snooping, at: (&Ingress<'_>, &VlanTags)) {
        let vlan = at.1.vid();
        if self.out.trace.is_none() {
            return self.add_targets(targets, &snooping.groups.routers_of(vlan), at, &TO_ROUTER);
        }
        // A trace also names the router ports of other VLANs, as skipped.
        for (of, port) in snooping.groups.routers() {
            if of == vlan || self.bridge.bundle(port).is_none() {
                self.add_targets(targets, &[port], at, &TO_ROUTER);
            } else {
                report!(self, Detail, "{}", TO_ROUTER.other_vlan);
            }
        }
    }

    /// Adds to `targets` those of the `ports` that may send the packet, and reports each port in the trace.
    fn add_targets(
        &mut self,
        targets: &mut Targets<'a>,
        ports: &[BundleId],
        (ingress, tags): (&Ingress<'_>, &VlanTags),
        texts: &TraceTexts,
    ) {
        for &port in ports {
            let Some(bundle) = self.bridge.bundle(port) else {
                report!(self, Warn, "{}", texts.unknown);
                continue;
            };
            if bundle.vlan.reads_cvlan() {
                self.out.mask.vlans[1].tci = u16::MAX;
            }
            if ingress.id() == Some(port) {
                report!(self, Detail, "{}", texts.ingress);
            } else if self.is_mirror_port(port) {
                report!(self, Warn, "mcast port is a mirror port, dropping");
            } else if !bundle.vlan.includes(tags) {
                report!(self, Detail, "{}", texts.other_vlan);
            } else {
                report!(self, Detail, "{}", texts.forwarded);
                targets.add(bundle);
            }
        }
    }

    fn send_to(&mut self, targets: Targets<'a>, tags: &VlanTags) {
        for bundle in targets.bundles {
            self.normal_output(bundle, tags);
        }
    }
}
