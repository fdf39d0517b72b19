//! The short way of packets of known connections: TCP and UDP over IPv4 without options. Nothing is changed before every check
//! has passed.
//!
//! Whatever is not as usual goes the [general way](crate::tracker): no record where the index names one, a connection that is over or
//! that has a helper, segments that begin or end a connection, a second translation.

use crate::key::Tuple;
use crate::protocol::Talk;
use crate::quick::{Ends, Quick, Translated, Written};
use crate::record::{Four, Record};
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
    /// Tracks a packet whose connection is in this record. `None`, and nothing done: it is to go the general way.
    #[inline(always)]
    pub(crate) fn pass_quick(
        &self,
        packet: &Quick,
        (number, record): (u32, &Record),
        meta: &mut Metadata,
        (action, now): (&Action, Millis),
    ) -> Option<Written> {
        let found = record.four(packet.what, packet.addresses, packet.ports)?;
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
        meta.tuple = tuple(&found, proto);
        if action.nat.is_none() {
            meta.known = Known::of(handle, reply, false);
            return Some(Written::Nothing);
        }
        let Some(side) = found.side else { return Some(Written::Nothing) };
        meta.state |= translated_bit(side, reply);
        let any = Translated { handle, side, reply, related: false };
        Some(if packet.finished { Written::Ends(ends(&found)) } else { Written::Translation(any) })
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

/// The tuple of the first packet of a connection.
#[inline(always)]
fn tuple(found: &Four, proto: u8) -> Tuple {
    let (addresses, ports) = (found.original.0, found.original.1);
    Tuple {
        proto,
        v6: false,
        src: [0, addresses >> 32],
        dst: [0, addresses & 0xffff_ffff],
        tp_src: (ports >> 32) as u16,
        tp_dst: ports as u16,
    }
}

/// What a packet of a translated connection becomes: the reverse of the packets of the other direction.
#[inline(always)]
fn ends(found: &Four) -> Ends {
    let (addresses, ports) = if found.reply { found.original } else { found.replies };
    let ports = ports.rotate_left(32);
    Ends { addresses: addresses.rotate_left(32), ports: ((ports >> 32) as u32) << 16 | ports as u32 & 0xffff }
}
