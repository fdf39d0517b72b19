//! The fast path for packets of existing connections: TCP and UDP over IPv4 without options, or over IPv6 without extension headers.
//!
//! A packet takes the [general path](crate::tracker) in each of these cases: the first index entry with its hash is another connection (a
//! collision); the connection has expired or has a helper; the TCP segment begins or ends a connection; the action forces a direction
//! (`ct(force)`); an earlier `ct(nat)` of the same zone has translated the packet. The fast path writes nothing before every check has passed,
//! so a packet can always continue on the general path.

use crate::key::Tuple;
use crate::nat::{FixedNat, Nat};
use crate::packet_fields::Content;
use crate::packet_words::{Endpoints4, PacketEdit, PacketWords, PendingTranslation};
use crate::protocol::UdpState;
use crate::record::{ConnectionMatch, Ipv6AddressPair, Record};
use crate::table::{Handle, Table};
use crate::tcp::{self, Segment};
use crate::timeout::Timeout;
use crate::tracker::{Action, Connection, Conntrack, EarlierLookUp, Metadata, TRANSLATED, translated_bit};
use crate::update::Update;
use flow::flow::ct_state::{ESTABLISHED, REPLY_DIR, TRACKED};
use std::sync::atomic::Ordering;
use units::Millis;

/// Values that are computed once for all packets of a batch with the same action.
#[derive(Clone, Copy, Debug)]
pub struct PreparedAction<'t> {
    pub(crate) action: &'t Action,
    pub(crate) now: Millis,
    pub(crate) table: &'t Table,
    /// The action writes the mark or the label of the connection.
    writes_mark_or_label: bool,
    /// The action writes neither mark nor label, does not translate addresses and does not force a direction.
    is_tracking_only: bool,
    /// New expiry time of a UDP connection that has had packets in both directions and has no timeout policy.
    udp_expires: Millis,
    /// New expiry time of an established TCP connection without a timeout policy.
    tcp_expires: Millis,
    /// The translation that is tried first for new IPv4 connections. `None`: the action does not commit, or does not translate, or the first
    /// choice depends on the packet.
    pub(crate) fixed_nat: Option<FixedNat>,
}

impl PreparedAction<'_> {
    /// Returns whether these values were computed for `action`; compares the address of the action, not its contents.
    #[inline(always)]
    pub fn is_for_action(&self, action: &Action) -> bool {
        std::ptr::eq(self.action, action)
    }

    /// Returns whether the action writes neither mark nor label, does not translate addresses and does not force a direction.
    #[inline(always)]
    pub fn is_tracking_only(&self) -> bool {
        self.is_tracking_only
    }
}

impl Conntrack {
    /// Computes the values of an action that all packets of a batch share.
    #[inline(always)]
    pub fn prepare<'t>(&'t self, action: &'t Action, now: Millis) -> PreparedAction<'t> {
        let writes_mark_or_label = action.mark.is_some() | action.label.is_some();
        PreparedAction {
            action,
            now,
            table: self.table(),
            writes_mark_or_label,
            is_tracking_only: !writes_mark_or_label && !action.force && action.nat.is_none(),
            udp_expires: Timeout::OtherMultiple.after(now),
            tcp_expires: Timeout::TcpEstablished.after(now),
            fixed_nat: action.nat.as_ref().filter(|_| action.commit).and_then(Nat::fixed),
        }
    }

    /// Tracks an IPv6 packet whose connection is probably in this record. `None`: nothing was changed; use the general path. Not inlined,
    /// because its code would take registers from the IPv4 code.
    #[inline(never)]
    pub(crate) fn track_ipv6(
        &self,
        packet: &PacketWords,
        (number, record): (u32, &Record),
        (state, meta): (u8, &mut Metadata),
        prepared: &PreparedAction<'_>,
    ) -> Option<PacketEdit> {
        let found =
            prepared.table.match_ipv6(record, packet.meta_bits, packet.ipv6_addresses, packet.ports)?;
        self.track_matched(packet, &found, (number, record), (state, meta), prepared)
    }

    /// Tracks a packet of the matched connection. `state`: the packet's `ct_state` in this zone. `meta` is output only. `None`: nothing was
    /// changed; use the general path.
    #[inline(always)]
    pub(crate) fn track_matched<A: AddressPair>(
        &self,
        packet: &PacketWords,
        found: &ConnectionMatch<A>,
        (number, record): (u32, &Record),
        (state, meta): (u8, &mut Metadata),
        prepared: &PreparedAction<'_>,
    ) -> Option<PacketEdit> {
        let &PreparedAction { action, now, .. } = prepared;
        let is_supported = record.helper_word() == 0 && !action.force && state & TRANSLATED == 0;
        if !is_supported || record.expires() <= now {
            return None;
        }
        let reply = found.reply;
        let handle = Handle { record: number, generation: found.meta.generation() };
        let c = Connection { handle, record };
        let proto = (packet.meta_bits >> 8) as u8;
        let new_state = match &packet.content {
            Content::UdpOrOther => {
                let update = update_udp(&c, reply);
                self.ct_state_of(record, update, reply, now, state)
            }
            Content::Tcp(segment) if self.update_established_tcp(&c, segment, reply) => {
                self.ct_state_of(record, Update::Valid(Some(Timeout::TcpEstablished)), reply, now, state)
            }
            content => self.update_connection(&c, (proto, content), reply, now, state),
        };
        // Never `None`: only a SYN begins another connection, and the fast path gets no SYN.
        let mut state = new_state.unwrap_or(state);
        let (mut mark, mut label) = (record.mark(), record.label());
        if prepared.writes_mark_or_label {
            (mark, label) = c.write_mark_and_label(action);
        }
        let earlier = if action.nat.is_none() {
            EarlierLookUp::of(handle, reply, false)
        } else {
            EarlierLookUp::default()
        };
        let side = found.meta.side().filter(|_| action.nat.is_some());
        if let Some(side) = side {
            state |= translated_bit(side, reply);
        }
        let (state, zone, tuple) = (state | TRACKED, action.zone, tuple(found, proto));
        *meta = Metadata { state, zone, mark, label, tuple, earlier, control: None };
        let Some(side) = side else { return Some(PacketEdit::Nothing) };
        let pending = PendingTranslation { handle, side, reply, related: false };
        Some(match A::endpoints(found) {
            // Often the translation does not change the packet: for example, the client addressed the server itself and not the load
            // balancer.
            Some(ends) if packet.has_endpoints(&ends) => PacketEdit::Nothing,
            Some(ends) => PacketEdit::Endpoints(ends),
            None => PacketEdit::Translation(pending),
        })
    }

    /// Tracks a packet that has not passed `ct` yet, if it changes nothing but expiry time and TCP windows of its connection. `prepared` must be
    /// [tracking only](PreparedAction::is_tracking_only). `false`: nothing was changed; use [`track_matched`](Self::track_matched) or the general
    /// path.
    #[inline(always)]
    pub(crate) fn track_only(
        &self,
        packet: &PacketWords,
        found: &ConnectionMatch<u64>,
        (number, record): (u32, &Record),
        meta: &mut Metadata,
        prepared: &PreparedAction<'_>,
    ) -> bool {
        if record.helper_word() != 0 || record.expires() <= prepared.now {
            return false;
        }
        let (reply, proto) = (found.reply, (packet.meta_bits >> 8) as u8);
        let handle = Handle { record: number, generation: found.meta.generation() };
        let c = Connection { handle, record };
        let (applies, mut expires, timeout) = match &packet.content {
            Content::UdpOrOther => (has_both_directions(&c), prepared.udp_expires, Timeout::OtherMultiple),
            Content::Tcp(segment) => (
                self.update_established_tcp(&c, segment, reply),
                prepared.tcp_expires,
                Timeout::TcpEstablished,
            ),
            Content::Icmp { .. } => return false,
        };
        if !applies {
            return false;
        }
        if record.policy() != 0 {
            expires = self.policies.after(record.policy(), timeout, prepared.now);
        }
        record.set_expires(expires);
        *meta = Metadata {
            state: TRACKED | ESTABLISHED | if reply { REPLY_DIR } else { 0 },
            zone: prepared.action.zone,
            mark: record.mark(),
            label: record.label(),
            tuple: tuple(found, proto),
            earlier: EarlierLookUp::of(handle, reply, false),
            control: None,
        };
        true
    }
}

/// Updates the state of a connection of UDP or of another protocol without states for one of its packets. If another thread changes the state
/// meanwhile, the update is repeated.
#[inline(always)]
pub(crate) fn update_udp(c: &Connection<'_>, reply: bool) -> Update {
    let (record, generation) = (c.record, c.handle.generation);
    loop {
        // `None`: the record is used for another connection now.
        let Some(word) = record.state(generation) else { return Update::Valid(None) };
        let mut udp = UdpState::of(word);
        let update = udp.update(reply);
        if record.exchange_state(generation, word, udp as u64) {
            return update;
        }
    }
}

/// Returns whether a UDP connection has had packets in both directions.
#[inline(always)]
fn has_both_directions(c: &Connection<'_>) -> bool {
    c.record.state(c.handle.generation) == Some(UdpState::BothDirections as u64)
}

impl Conntrack {
    /// If the connection is established and the segment is inside its window, updates the TCP windows. `false`: nothing was changed, because the
    /// connection is not established, the segment is outside the window, or another thread has changed the connection meanwhile.
    #[inline(always)]
    fn update_established_tcp(&self, c: &Connection<'_>, segment: &Segment, reply: bool) -> bool {
        let (record, generation) = (c.record, c.handle.generation);
        let Some(words) = record.state_words(generation) else { return false };
        let strict = self.strict.load(Ordering::Relaxed);
        let after = tcp::update_established(words, segment, reply, strict);
        after.is_some_and(|after| record.exchange_state_words(generation, words, after))
    }
}

/// Source and destination address of a connection, IPv4 (`u64`) or IPv6 ([`Ipv6AddressPair`]).
pub(crate) trait AddressPair: Copy {
    /// Source and destination address, each as two 64-bit halves.
    fn pair(self) -> Ipv6AddressPair;
    fn is_ipv6() -> bool;
    /// The addresses and ports that a translated packet gets. `None` for IPv6: [`Endpoints4`] cannot hold IPv6 addresses.
    fn endpoints(found: &ConnectionMatch<Self>) -> Option<Endpoints4>;
}

impl AddressPair for u64 {
    #[inline(always)]
    fn pair(self) -> Ipv6AddressPair {
        [[0, self >> 32], [0, self & 0xffff_ffff]]
    }

    #[inline(always)]
    fn is_ipv6() -> bool {
        false
    }

    /// After translation, a packet has the addresses and ports of the other direction's key, with source and destination swapped.
    #[inline(always)]
    fn endpoints(found: &ConnectionMatch<u64>) -> Option<Endpoints4> {
        let (addresses, ports) = if found.reply { found.original } else { found.replies };
        Some(Endpoints4::of_replies(addresses, ports))
    }
}

impl AddressPair for Ipv6AddressPair {
    #[inline(always)]
    fn pair(self) -> Ipv6AddressPair {
        self
    }

    #[inline(always)]
    fn is_ipv6() -> bool {
        true
    }

    #[inline(always)]
    fn endpoints(_: &ConnectionMatch<Ipv6AddressPair>) -> Option<Endpoints4> {
        None
    }
}

/// The tuple of the first packet of a connection.
#[inline(always)]
fn tuple<A: AddressPair>(found: &ConnectionMatch<A>, proto: u8) -> Tuple {
    let ([src, dst], ports) = (found.original.0.pair(), found.original.1);
    Tuple { proto, v6: A::is_ipv6(), src, dst, tp_src: (ports >> 32) as u16, tp_dst: ports as u16 }
}
