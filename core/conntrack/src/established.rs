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
use crate::table::Handle;
use crate::tcp::{self, Segment};
use crate::timeout::Timeout;
use crate::tracker::{Action, Connection, Conntrack, Known, Metadata, TRANSLATED, translated_bit};
use crate::update::Update;
use flow::flow::ct_state::TRACKED;
use std::sync::atomic::Ordering;
use units::Millis;

impl Conntrack {
    /// Tracks a packet of IPv4 whose connection is in this record. `None`, and nothing done: it is to go the general way.
    #[inline(always)]
    pub(crate) fn pass_four(
        &self,
        packet: &Quick,
        (number, record): (u32, &Record),
        meta: &mut Metadata,
        (action, now): (&Action, Millis),
    ) -> Option<Written> {
        let found = record.four(packet.what, packet.addresses, packet.ports)?;
        self.go_on(packet, &found, (number, record), meta, (action, now))
    }

    /// The same of IPv6. It is not inlined, so that it takes no registers from IPv4.
    #[inline(never)]
    pub(crate) fn pass_six(
        &self,
        packet: &Quick,
        (number, record): (u32, &Record),
        meta: &mut Metadata,
        (action, now): (&Action, Millis),
    ) -> Option<Written> {
        let found = self.table().six(record, packet.what, packet.six, packet.ports)?;
        self.go_on(packet, &found, (number, record), meta, (action, now))
    }

    /// Tracks a packet of this connection.
    #[inline(always)]
    fn go_on<A: Addresses>(
        &self,
        packet: &Quick,
        found: &Matched<A>,
        (number, record): (u32, &Record),
        meta: &mut Metadata,
        (action, now): (&Action, Millis),
    ) -> Option<Written> {
        let usual = record.special() == 0 && !action.force && meta.state & TRANSLATED == 0;
        if !usual || record.expires() <= now {
            return None;
        }
        let reply = found.reply;
        let handle = Handle { record: number, generation: found.generation };
        let c = Connection { handle, record };
        let proto = (packet.what >> 8) as u8;
        match &packet.content {
            Content::Other => {
                let update = talk_on(&c, reply);
                self.learn(record, update, reply, now, meta);
            }
            Content::Tcp(segment) if self.carry_on(&c, segment, reply) => {
                self.learn(record, Update::Valid(Some(Timeout::TcpEstablished)), reply, now, meta);
            }
            content => _ = self.move_on(&c, (proto, content), reply, now, meta),
        }
        meta.state |= TRACKED;
        meta.control = None;
        c.write(meta, action);
        meta.tuple = tuple(found, proto);
        if action.nat.is_none() {
            meta.known = Known::of(handle, reply, false);
            return Some(Written::Nothing);
        }
        let Some(side) = found.side else { return Some(Written::Nothing) };
        meta.state |= translated_bit(side, reply);
        let any = Translated { handle, side, reply, related: false };
        let ends = if packet.finished { A::ends(found) } else { None };
        Some(ends.map_or(Written::Translation(any), Written::Ends))
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
trait Addresses: Copy {
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
