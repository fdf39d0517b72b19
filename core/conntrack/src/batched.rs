//! The steps of [`Conntrack::track`] for the packets of a batch: each step is done for all packets before the next one, so their
//! memory accesses overlap.

use crate::established::Plan;
use crate::nat::Translation;
use crate::quick::{Quick, Written};
use crate::recent::Recent;
use crate::subject::{self, Packet, Subject};
use crate::tracker::{Action, Conntrack, Known, Metadata, Place, Visit};
use flow::flow::ct_state::{INVALID, TRACKED};
use packet::ether::ethertype;
use units::Millis;

/// Result of reading a packet, before its connection is looked up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Read<'t> {
    what: What,
    place: Place<'t>,
    quick: Quick,
    subject: Option<Subject>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum What {
    /// Invalid: it belongs to no connection.
    #[default]
    Invalid,
    /// Its connection is known from an earlier `ct`.
    Known,
    /// One of IPv4 to be looked up, as most are: `quick` is filled.
    Four,
    /// The same of IPv6.
    Six,
    /// One to be looked up: `subject` is filled.
    Subject,
}

impl Conntrack {
    /// Finds and updates the connection of a packet, or begins one, and updates `meta`. The caller applies
    /// the returned translation to the packet.
    pub fn track(
        &self,
        packet: &Packet<'_>,
        meta: &mut Metadata,
        action: &Action,
        now: Millis,
    ) -> Option<Translation> {
        let (mut read, mut recent, plan) = (Read::default(), Recent::default(), self.plan(action, now));
        self.read(packet, (meta, false), &plan, &mut read);
        _ = self.prefetch(&mut read);
        match self.track_read(&read, (meta, false), &plan, &mut recent) {
            Written::Nothing => None,
            Written::Ends(ends) => Some(ends.into()),
            Written::Translation(translated) => self.translation(&translated),
        }
    }

    /// The first step: reads a packet, and has what its hash means fetched. `fresh`: nothing is known of it, whatever `meta` says.
    #[inline(always)]
    pub fn read<'t>(
        &'t self,
        packet: &Packet<'_>,
        (meta, fresh): (&Metadata, bool),
        plan: &Plan<'t>,
        read: &mut Read<'t>,
    ) {
        if !fresh && self.known(meta, plan.action).is_some() {
            read.what = What::Known;
        } else if packet.ethertype == ethertype::IPV4
            && read.quick.fill_four(packet, plan.action.zone).is_some()
        {
            read.what = What::Four;
            find(read.quick.hash_four(&self.chain), plan, read);
        } else {
            self.read_other(packet, plan, read);
        }
    }

    /// Not inlined, so that it takes no registers from IPv4.
    #[inline(never)]
    fn read_other<'t>(&'t self, packet: &Packet<'_>, plan: &Plan<'t>, read: &mut Read<'t>) {
        let zone = plan.action.zone;
        if packet.ethertype == ethertype::IPV6 && read.quick.fill_six(packet, zone).is_some() {
            read.what = What::Six;
            return find(read.quick.hash_six(&self.chain), plan, read);
        }
        read.subject = subject::read(packet.ethertype, packet.l3, zone, packet.verify);
        read.what = What::Invalid;
        if let Some(subject) = &read.subject {
            read.what = What::Subject;
            find(subject.key.hash(&self.chain), plan, read);
        }
    }

    /// The second step: has the record fetched of the connection that the packet most likely is of. `true`:
    /// [`prefetch_addresses`](Self::prefetch_addresses) helps.
    #[inline(always)]
    pub fn prefetch<'t>(&'t self, read: &mut Read<'t>) -> bool {
        if let Some(bucket) = read.place.bucket
            && let Some(number) = bucket.guess(read.place.hash)
        {
            read.place.guess = self.table().prefetch_record(number);
        }
        read.what == What::Six
    }

    /// Has the addresses of IPv6 fetched, which are not in the record of a connection.
    #[inline(always)]
    pub fn prefetch_addresses(&self, read: &Read<'_>) {
        if let (What::Six, Some((_, record))) = (read.what, read.place.guess) {
            self.table().prefetch_addresses(record);
        }
    }

    /// The third step: the rest. The other arguments are those that the packet was read with.
    #[inline(always)]
    pub fn track_read(
        &self,
        read: &Read<'_>,
        (meta, fresh): (&mut Metadata, bool),
        plan: &Plan<'_>,
        recent: &mut Recent,
    ) -> Written {
        // What another zone says of a packet is nothing to this one.
        let state = if fresh || meta.zone != plan.action.zone { 0 } else { meta.state };
        // No closure: one that is not inlined is compiled without the vector instructions.
        if let Some((number, record)) = read.place.guess {
            let written = match read.what {
                What::Four => {
                    let packet = &read.quick;
                    match record.four(packet.what, packet.addresses, packet.ports) {
                        Some(found) => {
                            recent.remember(packet, &found.remembered(number));
                            if fresh
                                && plan.is_plain()
                                && self.keep_on(packet, &found, (number, record), meta, plan)
                            {
                                return Written::Nothing;
                            }
                            self.go_on(packet, &found, (number, record), (state, meta), plan)
                        }
                        None => None,
                    }
                }
                What::Six => self.pass_six(&read.quick, (number, record), (state, meta), plan),
                _ => None,
            };
            if let Some(written) = written {
                return written;
            }
        }
        if fresh {
            *meta = Metadata::default();
        }
        self.track_any(read, meta, plan)
    }

    /// The third step in the general way.
    #[inline(never)]
    fn track_any(&self, read: &Read<'_>, meta: &mut Metadata, plan: &Plan<'_>) -> Written {
        let &Plan { action, now, .. } = plan;
        let known = if read.what == What::Known { self.known(meta, action) } else { None };
        if let Some((found, seen)) = known {
            return self.write_known(&found, seen, meta, action).into();
        }
        if meta.zone != action.zone {
            meta.state = 0;
        }
        (meta.known, meta.control) = (Known::default(), None);
        meta.zone = action.zone;
        let subject = match read.what {
            What::Four | What::Six => Some(read.quick.subject()),
            What::Subject => read.subject,
            What::Known | What::Invalid => None,
        };
        match &subject {
            Some(subject) => self.pass(&Visit { subject, place: read.place, action, now }, meta).into(),
            // Another thread has removed it since the packet was read.
            None if read.what == What::Known => {
                (meta.mark, meta.label) = (0, [0; 2]);
                Written::Nothing
            }
            None => {
                *meta = Metadata { state: INVALID | TRACKED, zone: action.zone, ..Metadata::default() };
                Written::Nothing
            }
        }
    }
}

#[inline(always)]
fn find<'t>(hash: u64, plan: &Plan<'t>, read: &mut Read<'t>) {
    read.place = Place { hash, bucket: plan.table.prefetch(hash), guess: None };
}
