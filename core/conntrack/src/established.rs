//! The fast path for packets of known connections: TCP and UDP over IPv4 without options, or over IPv6 without extension headers.
//!
//! All other packets take the [general path](crate::tracker): the index's first entry is not the packet's connection, the connection
//! has expired or has a helper, the segment begins or ends a connection, or the packet was translated before. The fast path changes
//! nothing before every check has passed, so the general path can always follow it.

use crate::key::Tuple;
use crate::nat::{Nat, UsualNat};
use crate::packet_fields::Content;
use crate::packet_words::{Ends, PacketWords, Translated, Written};
use crate::protocol::UdpState;
use crate::record::{Matched, Pair, Record};
use crate::table::{Handle, Table};
use crate::tcp::{self, Segment};
use crate::timeout::Timeout;
use crate::tracker::{Action, Connection, Conntrack, Known, Metadata, TRANSLATED, translated_bit};
use crate::update::Update;
use flow::flow::ct_state::{ESTABLISHED, REPLY_DIR, TRACKED};
use std::sync::atomic::Ordering;
use units::Millis;

/// Values that are computed once for all packets of a batch with the same action.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'t> {
    pub(crate) action: &'t Action,
    pub(crate) now: Millis,
    pub(crate) table: &'t Table,
    /// The action writes the mark or the label of connections.
    writes: bool,
    is_plain: bool,
    /// New expiry time of a UDP connection with packets in both directions, without a timeout policy.
    udp_expires: Millis,
    /// The same of an established TCP connection.
    tcp_expires: Millis,
    /// What most new connections are translated to, if the action commits and translates.
    pub(crate) usual_nat: Option<UsualNat>,
}

impl Plan<'_> {
    /// Returns whether this is the plan of `action`.
    #[inline(always)]
    pub fn is_of(&self, action: &Action) -> bool {
        std::ptr::eq(self.action, action)
    }

    /// Returns whether the action writes neither mark nor label, does not translate addresses and does not force a direction.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }
}

impl Conntrack {
    /// Makes the plan of an action.
    #[inline(always)]
    pub fn plan<'t>(&'t self, action: &'t Action, now: Millis) -> Plan<'t> {
        let writes = action.mark.is_some() | action.label.is_some();
        Plan {
            action,
            now,
            table: self.table(),
            writes,
            is_plain: !writes && !action.force && action.nat.is_none(),
            udp_expires: Timeout::OtherMultiple.after(now),
            tcp_expires: Timeout::TcpEstablished.after(now),
            usual_nat: action.nat.as_ref().filter(|_| action.commit).and_then(Nat::usual),
        }
    }

    /// Tracks an IPv6 packet whose connection is expected in this record. `None`: nothing was changed; take the general path. Not
    /// inlined: it would take registers from the IPv4 code.
    #[inline(never)]
    pub(crate) fn track_ipv6(
        &self,
        packet: &PacketWords,
        (number, record): (u32, &Record),
        (state, meta): (u8, &mut Metadata),
        plan: &Plan<'_>,
    ) -> Option<Written> {
        let found = plan.table.match_ipv6(record, packet.meta_bits, packet.ipv6_addresses, packet.ports)?;
        self.track_matched(packet, &found, (number, record), (state, meta), plan)
    }

    /// Tracks a packet of the matched connection. `state`: the packet's `ct_state` in this zone; of `meta`, nothing else is read.
    /// `None`: nothing was changed; take the general path.
    #[inline(always)]
    pub(crate) fn track_matched<A: Addresses>(
        &self,
        packet: &PacketWords,
        found: &Matched<A>,
        (number, record): (u32, &Record),
        (state, meta): (u8, &mut Metadata),
        plan: &Plan<'_>,
    ) -> Option<Written> {
        let &Plan { action, now, .. } = plan;
        let usual = record.helper_word() == 0 && !action.force && state & TRANSLATED == 0;
        if !usual || record.expires() <= now {
            return None;
        }
        let reply = found.reply;
        let handle = Handle { record: number, generation: found.meta.generation() };
        let c = Connection { handle, record };
        let proto = (packet.meta_bits >> 8) as u8;
        let after = match &packet.content {
            Content::Other => {
                let update = update_udp(&c, reply);
                self.ct_state_of(record, update, reply, now, state)
            }
            Content::Tcp(segment) if self.update_established_tcp(&c, segment, reply) => {
                self.ct_state_of(record, Update::Valid(Some(Timeout::TcpEstablished)), reply, now, state)
            }
            content => self.update_connection(&c, (proto, content), reply, now, state),
        };
        let mut state = after.unwrap_or(state);
        let (mut mark, mut label) = (record.mark(), record.label());
        if plan.writes {
            (mark, label) = c.written(action);
        }
        let known = if action.nat.is_none() { Known::of(handle, reply, false) } else { Known::default() };
        let side = found.meta.side().filter(|_| action.nat.is_some());
        if let Some(side) = side {
            state |= translated_bit(side, reply);
        }
        let (state, zone, tuple) = (state | TRACKED, action.zone, tuple(found, proto));
        *meta = Metadata { state, zone, mark, label, tuple, known, control: None };
        let Some(side) = side else { return Some(Written::Nothing) };
        let any = Translated { handle, side, reply, related: false };
        Some(match A::ends(found) {
            // Often nothing is translated: the address of a load balancer is not used, or a gateway's own address is kept.
            Some(ends) if packet.has_ends(&ends) => Written::Nothing,
            Some(ends) => Written::Ends(ends),
            None => Written::Translation(any),
        })
    }

    /// Tracks a packet that was not tracked before and that changes no protocol state, under a [plain](Plan::is_plain) plan.
    /// `false`: nothing was changed; take the longer fast path or the general path.
    #[inline(always)]
    pub(crate) fn track_plain(
        &self,
        packet: &PacketWords,
        found: &Matched<u64>,
        (number, record): (u32, &Record),
        meta: &mut Metadata,
        plan: &Plan<'_>,
    ) -> bool {
        if record.helper_word() != 0 || record.expires() <= plan.now {
            return false;
        }
        let (reply, proto) = (found.reply, (packet.meta_bits >> 8) as u8);
        let handle = Handle { record: number, generation: found.meta.generation() };
        let c = Connection { handle, record };
        let (applies, mut expires, timeout) = match &packet.content {
            Content::Other => (is_two_way(&c), plan.udp_expires, Timeout::OtherMultiple),
            Content::Tcp(segment) => {
                (self.update_established_tcp(&c, segment, reply), plan.tcp_expires, Timeout::TcpEstablished)
            }
            Content::Icmp { .. } => return false,
        };
        if !applies {
            return false;
        }
        if record.policy() != 0 {
            expires = self.policies.after(record.policy(), timeout, plan.now);
        }
        record.set_expires(expires);
        *meta = Metadata {
            state: TRACKED | ESTABLISHED | if reply { REPLY_DIR } else { 0 },
            zone: plan.action.zone,
            mark: record.mark(),
            label: record.label(),
            tuple: tuple(found, proto),
            known: Known::of(handle, reply, false),
            control: None,
        };
        true
    }
}

/// Updates the state of a UDP connection for one of its packets.
#[inline(always)]
pub(crate) fn update_udp(c: &Connection<'_>, reply: bool) -> Update {
    let (record, generation) = (c.record, c.handle.generation);
    loop {
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
fn is_two_way(c: &Connection<'_>) -> bool {
    c.record.state(c.handle.generation) == Some(UdpState::BothSided as u64)
}

impl Conntrack {
    /// Updates an established TCP connection for a segment in its window. `false`: nothing was changed, because the connection is not
    /// established, or the segment is outside the window.
    #[inline(always)]
    fn update_established_tcp(&self, c: &Connection<'_>, segment: &Segment, reply: bool) -> bool {
        let (record, generation) = (c.record, c.handle.generation);
        let Some(words) = record.words(generation) else { return false };
        let strict = self.strict.load(Ordering::Relaxed);
        let after = tcp::established(words, segment, reply, strict);
        after.is_some_and(|after| record.exchange(generation, words, after))
    }
}

/// Both addresses of a connection, of either family.
pub(crate) trait Addresses: Copy {
    /// Source and destination.
    fn pair(self) -> Pair;
    fn is_ipv6() -> bool;
    /// The addresses and ports of a translated packet, if [`Ends`] can hold them: IPv4 only.
    fn ends(found: &Matched<Self>) -> Option<Ends>;
}

impl Addresses for u64 {
    #[inline(always)]
    fn pair(self) -> Pair {
        [[0, self >> 32], [0, self & 0xffff_ffff]]
    }

    #[inline(always)]
    fn is_ipv6() -> bool {
        false
    }

    /// A translated packet has the reversed key of the other direction.
    #[inline(always)]
    fn ends(found: &Matched<u64>) -> Option<Ends> {
        let (addresses, ports) = if found.reply { found.original } else { found.replies };
        Some(Ends::of_replies(addresses, ports))
    }
}

impl Addresses for Pair {
    #[inline(always)]
    fn pair(self) -> Pair {
        self
    }

    #[inline(always)]
    fn is_ipv6() -> bool {
        true
    }

    #[inline(always)]
    fn ends(_: &Matched<Pair>) -> Option<Ends> {
        None
    }
}

/// The tuple of the first packet of a connection.
#[inline(always)]
fn tuple<A: Addresses>(found: &Matched<A>, proto: u8) -> Tuple {
    let ([src, dst], ports) = (found.original.0.pair(), found.original.1);
    Tuple { proto, v6: A::is_ipv6(), src, dst, tp_src: (ports >> 32) as u16, tp_dst: ports as u16 }
}
