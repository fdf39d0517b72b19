//! The table against a list of datagrams that is searched linearly.

use super::{PacketBytes, TestDatagram};
use crate::*;
use proptest::prelude::*;
use units::Millis;

#[derive(Clone, Debug)]
struct ReferenceDatagram {
    port: u32,
    src: u8,
    id: u32,
    since: u64,
    /// Start, end and "more fragments", in order of arrival.
    parts: Vec<(u32, u32, bool)>,
}

impl ReferenceDatagram {
    fn overlaps(&self, start: u32, end: u32, more: bool) -> bool {
        let meets = |&(s, e, _): &(u32, u32, bool)| {
            if start == end { s <= start && start < e } else { s < end && start < e }
        };
        let last = self.parts.iter().find(|p| !p.2).map(|p| p.1);
        let beyond = last.is_some_and(|last| end > last || !more && end != last);
        let before = !more && self.parts.iter().any(|p| p.1 > end);
        self.parts.iter().any(meets) || beyond || before
    }

    /// Returns whether every byte up to the end has arrived.
    fn is_complete(&self) -> bool {
        let Some(end) = self.parts.iter().find(|p| !p.2).map(|p| p.1) else { return false };
        (0..end).step_by(8).all(|byte| self.parts.iter().any(|p| p.0 <= byte && byte < p.1))
    }
}

/// The result for a fragment, and the removed fragments.
#[derive(Debug, PartialEq)]
struct FragmentResult {
    result: &'static str,
    evicted: usize,
    expired: usize,
}

#[derive(Default)]
struct Reference {
    max: usize,
    /// All datagrams, the oldest first.
    all: Vec<ReferenceDatagram>,
}

impl Reference {
    fn held(&self, which: impl Fn(&ReferenceDatagram) -> bool) -> usize {
        self.all.iter().filter(|d| which(d)).map(|d| d.parts.len()).sum()
    }

    /// Index of the datagram to remove next.
    fn victim(&self) -> Option<usize> {
        let of_port = |port: u32| (self.held(|d| d.port == port) / 16, port);
        let (_, port) = self.all.iter().map(|d| of_port(d.port)).max()?;
        let of_source =
            |d: &ReferenceDatagram| self.held(|other| other.port == port && other.src == d.src) / 64;
        let heaviest = self.all.iter().filter(|d| d.port == port).map(of_source).max()?;
        self.all.iter().position(|d| d.port == port && (heaviest == 0 || of_source(d) == heaviest))
    }

    fn put(
        &mut self,
        port: u32,
        src: u8,
        id: u32,
        (start, end, more): (u32, u32, bool),
        now: u64,
    ) -> FragmentResult {
        let (mut evicted, mut expired) = (0, 0);
        for _ in 0..2 {
            if self.all.first().is_some_and(|d| now - d.since > 15_000) {
                expired += self.all.remove(0).parts.len();
            }
        }
        let is_it = |d: &ReferenceDatagram| d.src == src && d.id == id;
        let found = self.all.iter().position(is_it);
        let mut with = found.map(|at| self.all[at].clone()).unwrap_or_else(|| ReferenceDatagram {
            port,
            src,
            id,
            since: now,
            parts: Vec::new(),
        });
        if with.overlaps(start, end, more) {
            return FragmentResult { result: "refused", evicted, expired };
        }
        with.parts.push((start, end, more));
        if found.is_some() && with.is_complete() {
            self.all.retain(|d| !is_it(d));
            return FragmentResult { result: "complete", evicted, expired };
        }
        while self.held(|_| true) >= self.max {
            match self.victim() {
                Some(at) if !is_it(&self.all[at]) => evicted += self.all.remove(at).parts.len(),
                _ => return FragmentResult { result: "refused", evicted, expired },
            }
        }
        match self.all.iter().position(is_it) {
            Some(at) => self.all[at] = with,
            None => self.all.push(with),
        }
        FragmentResult { result: "waits", evicted, expired }
    }
}

/// One fragment: port, source, identification, first unit, units, more, pause.
type Step = (u32, u8, u32, u32, u32, bool, u64);

/// Most fragments belong to few datagrams; some sources send many datagrams.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pause = prop_oneof![8 => 0..50u64, 1 => 0..16_000u64];
    let busy = (1..3u32, 0..3u8, 0..4u32, 0..6u32, 0..4u32, any::<bool>(), pause);
    let many = (1..3u32, 0..2u8, 10..400u32, 0..2u32, 1..3u32, Just(true), Just(0));
    prop::collection::vec(prop_oneof![1 => busy, 1 => many], 1..400)
}

proptest! {
    #[test]
    fn verdicts_are_those_of_the_reference(max in 0u32..200, steps in steps()) {
        let all = Reassembly::<PacketBytes>::new(7);
        all.set_max_fragments(max);
        let mut reference = Reference { max: max as usize, all: Vec::new() };
        let mut now = 0;
        for (port, src, id, unit, units, more, pause) in steps {
            now += pause;
            let (start, end, more) = (unit * 8, (unit + units) * 8, more && units != 0);
            if start == 0 && !more {
                continue;
            }
            let whole = TestDatagram { v6: false, id, src, dst: 0, payload: vec![0; end as usize] };
            let l3 = whole.part(start as usize, end as usize, more);
            let PacketKind::Fragment(fragment) = read(0x0800, &l3) else { panic!("{l3:?}") };
            let mut removed = Vec::new();
            let origin = Origin { port, ..Origin::default() };
            let result = match all.add(&fragment, &origin, l3, Millis(now), &mut removed) {
                AddResult::Stored => "waits",
                AddResult::Refused(_) => "refused",
                AddResult::Complete(_) => "complete",
                AddResult::TooLong(_) => "too long",
            };
            let count = |why| removed.iter().filter(|g| g.why == why).count();
            let seen = FragmentResult { result, evicted: count(Removal::Evicted), expired: count(Removal::Expired) };
            prop_assert_eq!(seen, reference.put(port, src, id, (start, end, more), now));
            prop_assert_eq!(all.fragments() as usize, reference.held(|_| true));
            all.audit();
        }
    }
}
