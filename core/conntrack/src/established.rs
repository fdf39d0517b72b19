//! The short way of packets of known connections: TCP and UDP over IPv4 without options, or over IPv6 without extension headers.
//! Nothing is changed before every check has passed.
//!
//! Whatever is not as usual goes the [general way](crate::tracker): no record where the index names one, a connection that is over or
//! that has a helper, segments that begin or end a connection, a second translation.

use crate::key::Tuple;
use crate::protocol::Talk;
use crate::quick::{Ends, Quick, Translated, Written};
use crate::record::{Matched, Pair, Record};
use crate::subject::Content;
use crate::table::{Handle, Table};
use crate::tcp::{self, Segment};
use crate::timeout::Timeout;
use crate::tracker::{Action, Connection, Conntrack, Known, Metadata, TRANSLATED, translated_bit};
use crate::update::Update;
use flow::flow::ct_state::{ESTABLISHED, REPLY_DIR, TRACKED};
use std::sync::atomic::Ordering;
use units::Millis;

/// What the packets of a batch that have the same action have in common.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'t> {
    pub(crate) action: &'t Action,
    pub(crate) now: Millis,
    pub(crate) table: &'t Table,
    /// Mark or label are written into connections.
    writes: bool,
    is_plain: bool,
    /// When connections expire without another packet, if they have no timeout policy: of UDP in both directions, and of TCP that are
    /// established.
    talk_expires: Millis,
    tcp_expires: Millis,
}

impl Plan<'_> {
    /// It is the plan of this action.
    #[inline(always)]
    pub fn is_of(&self, action: &Action) -> bool {
        std::ptr::eq(self.action, action)
    }

    /// Nothing is written into connections and packets.
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
            talk_expires: Timeout::OtherMultiple.after(now),
            tcp_expires: Timeout::TcpEstablished.after(now),
        }
    }

    /// Tracks a packet of IPv6 whose connection is in this record. `None`, and nothing done: it is to go the general way. It is not
    /// inlined, so that it takes no registers from IPv4.
    #[inline(never)]
    pub(crate) fn pass_six(
        &self,
        packet: &Quick,
        (number, record): (u32, &Record),
        (state, meta): (u8, &mut Metadata),
        plan: &Plan<'_>,
    ) -> Option<Written> {
        let found = plan.table.six(record, packet.what, packet.six, packet.ports)?;
        self.go_on(packet, &found, (number, record), (state, meta), plan)
    }

    /// Tracks a packet of this connection. `state`: what is known of the packet in this zone. Nothing else that `meta` says counts.
    #[inline(always)]
    pub(crate) fn go_on<A: Addresses>(
        &self,
        packet: &Quick,
        found: &Matched<A>,
        (number, record): (u32, &Record),
        (state, meta): (u8, &mut Metadata),
        plan: &Plan<'_>,
    ) -> Option<Written> {
        let &Plan { action, now, .. } = plan;
        let usual = record.special() == 0 && !action.force && state & TRANSLATED == 0;
        if !usual || record.expires() <= now {
            return None;
        }
        let reply = found.reply;
        let handle = Handle { record: number, generation: found.meta.generation() };
        let c = Connection { handle, record };
        let proto = (packet.what >> 8) as u8;
        let after = match &packet.content {
            Content::Other => {
                let update = talk_on(&c, reply);
                self.learn(record, update, reply, now, state)
            }
            Content::Tcp(segment) if self.carry_on(&c, segment, reply) => {
                self.learn(record, Update::Valid(Some(Timeout::TcpEstablished)), reply, now, state)
            }
            content => self.move_on(&c, (proto, content), reply, now, state),
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
        let ends = if packet.finished { A::ends(found) } else { None };
        Some(ends.map_or(Written::Translation(any), Written::Ends))
    }

    /// Tracks a packet of this connection, of which nothing is known yet, in a [plain](Plan::is_plain) way, if it changes no state.
    /// `false`, and nothing done: it does, or the connection is not as most are.
    #[inline(always)]
    pub(crate) fn keep_on(
        &self,
        packet: &Quick,
        found: &Matched<u64>,
        (number, record): (u32, &Record),
        meta: &mut Metadata,
        plan: &Plan<'_>,
    ) -> bool {
        if record.special() != 0 || record.expires() <= plan.now {
            return false;
        }
        let (reply, proto) = (found.reply, (packet.what >> 8) as u8);
        let handle = Handle { record: number, generation: found.meta.generation() };
        let c = Connection { handle, record };
        let (goes_on, mut expires, timeout) = match &packet.content {
            Content::Other => (talks(&c), plan.talk_expires, Timeout::OtherMultiple),
            Content::Tcp(segment) => {
                (self.carry_on(&c, segment, reply), plan.tcp_expires, Timeout::TcpEstablished)
            }
            Content::Icmp { .. } => return false,
        };
        if !goes_on {
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

/// A packet of a connection of UDP.
#[inline(always)]
pub(crate) fn talk_on(c: &Connection<'_>, reply: bool) -> Update {
    let (record, generation) = (c.record, c.handle.generation);
    loop {
        let Some(word) = record.state(generation) else { return Update::Valid(None) };
        let mut talk = Talk::of(word);
        let update = talk.update(reply);
        if record.exchange_state(generation, word, talk as u64) {
            return update;
        }
    }
}

/// A connection of UDP has packets in both directions.
#[inline(always)]
fn talks(c: &Connection<'_>) -> bool {
    c.record.state(c.handle.generation) == Some(Talk::BothSided as u64)
}

impl Conntrack {
    /// A segment of an established connection of TCP. `false`, and nothing done: it is another.
    #[inline(always)]
    fn carry_on(&self, c: &Connection<'_>, segment: &Segment, reply: bool) -> bool {
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
    fn is_six() -> bool;
    /// What a packet of a translated connection becomes, if it can be written as [`Ends`].
    fn ends(found: &Matched<Self>) -> Option<Ends>;
}

impl Addresses for u64 {
    #[inline(always)]
    fn pair(self) -> Pair {
        [[0, self >> 32], [0, self & 0xffff_ffff]]
    }

    #[inline(always)]
    fn is_six() -> bool {
        false
    }

    /// The reverse of the packets of the other direction.
    #[inline(always)]
    fn ends(found: &Matched<u64>) -> Option<Ends> {
        let (addresses, ports) = if found.reply { found.original } else { found.replies };
        let ports = ports.rotate_left(32);
        let ports = ((ports >> 32) as u32) << 16 | ports as u32 & 0xffff;
        Some(Ends { addresses: addresses.rotate_left(32), ports })
    }
}

impl Addresses for Pair {
    #[inline(always)]
    fn pair(self) -> Pair {
        self
    }

    #[inline(always)]
    fn is_six() -> bool {
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
    Tuple { proto, v6: A::is_six(), src, dst, tp_src: (ports >> 32) as u16, tp_dst: ports as u16 }
}
