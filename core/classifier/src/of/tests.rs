//! Compares the classifier with a list of rules, and checks that its masks are sound.

use super::*;
use flow::Flow;
use proptest::prelude::*;
use std::sync::Arc;

#[derive(Debug, PartialEq)]
struct TestRule {
    m: SparseMatch,
    priority: u32,
    conj: Vec<Conjunction>,
    tag: usize,
}

impl ClassifierRule for TestRule {
    fn matching(&self) -> &SparseMatch {
        &self.m
    }
    fn priority(&self) -> u32 {
        self.priority
    }
    fn conjunctions(&self) -> &[Conjunction] {
        &self.conj
    }
}

fn rule(flow: Flow, mask: Flow, priority: u32, tag: usize) -> Arc<TestRule> {
    Arc::new(TestRule { m: SparseMatch::new(&flow, &mask), priority, conj: vec![], tag })
}

const TYPE: Flow = Flow { dl_type: 0xffff, ..Flow::ZERO };

fn ip(nw_dst: u32, plen: u32) -> (Flow, Flow) {
    let mask = Flow { nw_dst: u32::MAX.checked_shl(32 - plen).unwrap_or(0), ..TYPE };
    (Flow { dl_type: 0x800, nw_dst: nw_dst & mask.nw_dst, ..Flow::ZERO }, mask)
}

#[test]
fn an_early_stage_that_fails_leaves_later_fields_wildcarded() {
    let mut c = Classifier::default();
    let flow = Flow { in_port: 1, dl_type: 0x800, nw_proto: 6, tp_dst: 80, ..Flow::ZERO };
    let mask = Flow { in_port: u32::MAX, dl_type: 0xffff, nw_proto: 0xff, tp_dst: 0xffff, ..Flow::ZERO };
    c.insert(rule(flow, mask, 10, 0));

    let mut wc = Flow::ZERO;
    assert!(c.lookup(&Flow { in_port: 2, ..flow }, Some(&mut wc)).is_none());
    assert_eq!(wc, Flow { in_port: u32::MAX, ..Flow::ZERO });

    let mut wc = Flow::ZERO;
    assert!(c.lookup(&Flow { nw_proto: 17, ..flow }, Some(&mut wc)).is_none());
    assert_eq!(wc, Flow { tp_dst: 0, ..mask });

    let mut wc = Flow::ZERO;
    assert!(c.lookup(&flow, Some(&mut wc)).is_some());
    assert_eq!(wc, mask);
}

/// Rules learned from packets: values of two words that would have the same hash if it had no secret.
#[test]
fn learned_rules_make_no_long_buckets() {
    let addresses = Flow { ipv6_src: [255; 16], ipv6_dst: [255; 16], ..Flow::ZERO };
    let full = (0..flow::FLOW_WORDS).filter(|&i| addresses.words()[i] == u64::MAX);
    let places: Vec<usize> = full.take(2).collect();
    let with = |first: u64, second: u64| {
        let mut flow = Flow::ZERO;
        (flow.words_mut()[places[0]], flow.words_mut()[places[1]]) = (first, second);
        flow
    };
    let mask = with(u64::MAX, u64::MAX);
    // The second word cancels the difference of the first one.
    let flow = |i: u64| with(1 + i, 7 ^ sparse::mix(0, 1) ^ sparse::mix(0, 1 + i));
    let without_secret = |flow: &Flow| places.iter().fold(0, |hash, &i| sparse::mix(hash, flow.words()[i]));
    let mut c = Classifier::new(&[], cpu::KeyedHash64::new(9));
    for i in 0..1000 {
        assert_eq!(without_secret(&flow(i)), without_secret(&flow(0)));
        c.insert(rule(flow(i), mask, 1, i as usize));
    }
    let hashes: std::collections::HashSet<u64> =
        (0..1000).map(|i| c.slots[0].table.mask_info.hash(&flow(i))).collect();
    assert_eq!(hashes.len(), 1000);
    assert_eq!(c.lookup(&flow(77), None).map(|r| r.tag), Some(77));
}

#[test]
fn ports_are_unwildcarded_by_prefix() {
    let mut c = Classifier::default();
    let flow = Flow { dl_type: 0x800, nw_proto: 6, tp_src: 79, ..Flow::ZERO };
    let mask = Flow { nw_proto: 0xff, tp_src: 0xffff, ..TYPE };
    c.insert(rule(flow, mask, 10, 0));
    let mut wc = Flow::ZERO;
    assert!(c.lookup(&Flow { tp_src: 8, ..flow }, Some(&mut wc)).is_none());
    // 79 is 0000000001001111, 8 is 0000000000001000: the tenth bit differs.
    assert_eq!(wc, Flow { tp_src: 0xffc0, ..mask });
}

#[test]
fn prefixes_exclude_subtables() {
    let mut c = Classifier::default();
    let (f, m) = ip(0x0a00_0000, 8);
    c.insert(rule(f, m, 10, 0));
    let (f, m) = ip(0x1400_0000, 24);
    c.insert(rule(f, m, 20, 1));
    let (f, _) = ip(0x0a01_0203, 32);
    let mut wc = Flow::ZERO;
    assert_eq!(c.lookup(&f, Some(&mut wc)).map(|r| r.tag), Some(0));
    assert_eq!(wc.nw_dst, 0xff00_0000);

    c.set_prefix_fields(&[]);
    let mut wc = Flow::ZERO;
    assert_eq!(c.lookup(&f, Some(&mut wc)).map(|r| r.tag), Some(0));
    assert_eq!(wc.nw_dst, 0xffff_ff00);
}

#[test]
fn a_higher_priority_ends_the_search() {
    let mut c = Classifier::default();
    c.insert(rule(Flow::ZERO, Flow::ZERO, 5, 0));
    let (f, m) = ip(0x0a00_0000, 8);
    c.insert(rule(f, m, 4, 1));
    let mut wc = Flow::ZERO;
    assert_eq!(c.lookup(&f, Some(&mut wc)).map(|r| r.tag), Some(0));
    assert_eq!(wc, Flow::ZERO);
}

#[test]
fn a_snapshot_does_not_change() {
    let mut c = Classifier::default();
    for i in 0..1000 {
        let (f, m) = ip(i, 32);
        c.insert(rule(f, m, 1, i as usize));
    }
    let snapshot = c.clone();
    let (f, m) = ip(7, 32);
    let m = SparseMatch::new(&f, &m);
    assert!(c.remove(&m, 1).is_some());
    assert!(c.lookup(&f, None).is_none());
    assert_eq!(snapshot.lookup(&f, None).map(|r| r.tag), Some(7));
    assert_eq!((c.len(), snapshot.len()), (999, 1000));
}

#[test]
fn conjunctive_match() {
    let mut c = Classifier::default();
    let part = |flow, mask, clause, tag| {
        let conj = vec![Conjunction { id: 1234, clause, n_clauses: 2 }];
        Arc::new(TestRule { m: SparseMatch::new(&flow, &mask), priority: 100, conj, tag })
    };
    let src = Flow { nw_src: u32::MAX, ..TYPE };
    let dst = Flow { nw_dst: u32::MAX, ..TYPE };
    for i in 1..3u32 {
        c.insert(part(Flow { dl_type: 0x800, nw_src: i, ..Flow::ZERO }, src, 0, i as usize));
        c.insert(part(Flow { dl_type: 0x800, nw_dst: i, ..Flow::ZERO }, dst, 1, 10 + i as usize));
    }
    let id = Flow { conj_id: 1234, ..Flow::ZERO };
    c.insert(rule(id, Flow { conj_id: u32::MAX, ..Flow::ZERO }, 50, 99));
    c.insert(rule(Flow::ZERO, Flow::ZERO, 0, 100));
    let packet = |nw_src, nw_dst| Flow { dl_type: 0x800, nw_src, nw_dst, ..Flow::ZERO };
    let mut conjunctive_rules = Vec::new();
    assert_eq!(
        c.lookup_with_conjunctive_rules(&packet(1, 2), &mut Flow::default(), &mut conjunctive_rules, &mut 0)
            .map(|r| r.tag),
        Some(99)
    );
    assert_eq!(conjunctive_rules.iter().map(|r| r.tag).sum::<usize>(), 1 + 12);
    assert_eq!(c.lookup(&packet(1, 3), None).map(|r| r.tag), Some(100));
    assert_eq!(c.lookup(&packet(3, 3), None).map(|r| r.tag), Some(100));
}

#[test]
fn subtables_and_conjunctions_count_as_work() {
    const RULES: u32 = 20;
    const EACH: u32 = 1000;
    let mut c = Classifier::default();
    // All rules match the packet; each has its own mask, and each of their conjunctions is complete.
    for rule in 0..RULES {
        let conj =
            (0..EACH).map(|id| Conjunction { id: rule * EACH + id, clause: 0, n_clauses: 1 }).collect();
        let mask = Flow { nw_src: 1 << rule, dl_type: u16::MAX, ..Flow::ZERO };
        let m = SparseMatch::new(&Flow { dl_type: 0x800, ..Flow::ZERO }, &mask);
        c.insert(Arc::new(TestRule { m, priority: 100, conj, tag: 1 }));
    }
    let (mut work, mut mask) = (0, Flow::default());
    let packet = Flow { dl_type: 0x800, ..Flow::ZERO };
    assert!(c.lookup_with_work(&packet, &mut mask, &mut work).is_none());
    assert_eq!(work, (RULES + RULES * EACH * (1 + RULES)) as usize);
    let before = work;
    c.lookup_with_work(&packet, &mut mask, &mut work);
    assert_eq!(work, before, "the second result is in the memo");
}

#[test]
fn loose_and_overlapping() {
    let mut c = Classifier::default();
    let (f8, m8) = ip(0x0a00_0000, 8);
    let (f16, m16) = ip(0x0a01_0000, 16);
    c.insert(rule(f8, m8, 1, 8));
    c.insert(rule(f16, m16, 1, 16));
    let within = |f: &Flow, m: &Flow| c.iter_within(&SparseMatch::new(f, m)).count();
    assert_eq!(within(&Flow::ZERO, &Flow::ZERO), 2);
    assert_eq!(within(&f8, &m8), 2);
    assert_eq!(within(&f16, &m16), 1);
    let port =
        SparseMatch::new(&Flow { in_port: 3, ..Flow::ZERO }, &Flow { in_port: u32::MAX, ..Flow::ZERO });
    assert_eq!(c.iter_overlapping(&port, 1).count(), 2);
    assert_eq!(c.iter_overlapping(&port, 2).count(), 0);
}

/// Looks a packet up in a table with these rules (priority, values, mask). Returns the index of the rule and the examined bits.
fn megaflow(rules: &[(u32, Flow, Flow)], packet: Flow) -> (Option<usize>, Flow) {
    let mut c = Classifier::default();
    for (tag, (priority, flow, mask)) in rules.iter().enumerate() {
        c.insert(rule(*flow, *mask, *priority, tag));
    }
    let mut wc = Flow::ZERO;
    let found = c.lookup(&packet, Some(&mut wc)).map(|r| r.tag);
    (found, wc)
}

const PORT: Flow = Flow { in_port: u32::MAX, ..TYPE };
const TCP: Flow = Flow { nw_proto: 0xff, ..PORT };

fn packet(in_port: u32, nw_dst: [u8; 4], tp_dst: u16) -> Flow {
    let nw_dst = u32::from_be_bytes(nw_dst);
    Flow {
        in_port,
        dl_type: 0x800,
        nw_proto: 6,
        nw_src: 0xc0a8_0001,
        nw_dst,
        tp_src: 8,
        tp_dst,
        ..Flow::ZERO
    }
}

/// The masks of megaflows are those of Open vSwitch.
#[test]
fn megaflows_of_a_table_with_prefixes_and_ports() {
    let dst = |bits: u32| Flow { nw_dst: u32::MAX << (32 - bits), ..TCP };
    let r =
        |priority, in_port, a, tp_dst, mask: Flow| (priority, packet(in_port, a, tp_dst).masked(&mask), mask);
    let src16 = Flow { nw_src: 0xffff_0000, ..TCP };
    let rules = [
        r(16, 1, [10, 1, 0, 0], 0, dst(16)),
        r(32, 1, [10, 1, 2, 15], 0, dst(32)),
        r(33, 1, [10, 1, 2, 15], 80, Flow { tp_dst: 0xffff, ..dst(32) }),
        r(0, 1, [0; 4], 0, PORT),
        r(16, 2, [192, 168, 0, 0], 0, dst(16)),
        r(0, 2, [0; 4], 0, PORT),
        (16, Flow { nw_src: 0x0a01_0000, ..packet(3, [0; 4], 0) }.masked(&src16), src16),
        r(0, 3, [0; 4], 0, PORT),
    ];
    assert_eq!(megaflow(&rules, packet(2, [192, 168, 0, 2], 80)), (Some(4), dst(16)));
    let miss = Flow { nw_proto: 0, nw_dst: 0xff00_0000, ..TCP };
    assert_eq!(megaflow(&rules, packet(1, [11, 1, 2, 15], 80)), (Some(3), miss));
    let all = Flow { tp_dst: 0xffff, ..dst(32) };
    assert_eq!(megaflow(&rules, packet(1, [10, 1, 2, 15], 80)), (Some(2), all));
    let some = Flow { tp_dst: 0xfff0, ..dst(32) };
    assert_eq!(megaflow(&rules, packet(1, [10, 1, 2, 15], 79)), (Some(1), some));
}

/// The trie of ports narrows only the ports: other fields of the last stage are examined completely.
#[test]
fn megaflows_of_the_last_stage() {
    const PSH: u16 = 8;
    let mask = Flow { tp_dst: 0xffff, tcp_flags: PSH, ..TCP };
    let rules = [
        (33, Flow { tcp_flags: PSH, ..packet(1, [0; 4], 80) }.masked(&mask), mask),
        (0, packet(1, [0; 4], 0).masked(&PORT), PORT),
    ];
    let with = |tp_dst, tcp_flags| Flow { tcp_flags, ..packet(1, [192, 168, 0, 2], tp_dst) };
    assert_eq!(megaflow(&rules, with(80, 2)), (Some(1), mask));
    assert_eq!(megaflow(&rules, with(80, 0x18)), (Some(0), mask));
    assert_eq!(megaflow(&rules, with(79, 0)), (Some(1), Flow { tp_dst: 0xfff0, ..mask }));
    assert_eq!(megaflow(&rules, with(81, 0)), (Some(1), mask));
}

prop_compose! {
    fn small_flow()(
        in_port in 0u32..3, dl_type in prop::sample::select(vec![0x800u16, 0x86dd]), dst in 0u32..16, src in 0u32..16,
        v6 in 0u8..4, tp_src in 0u16..8, tp_dst in 0u16..8, vlan in 0u16..2,
    ) -> Flow {
        let mut f = Flow { in_port, dl_type, nw_dst: dst << 28, nw_src: src << 28, tp_src: tp_src << 13, tp_dst, ..Flow::ZERO };
        f.ipv6_dst[0] = v6 << 6;
        f.vlans[0].tci = vlan * 0x1001;
        f
    }
}

prop_compose! {
    fn small_mask()(
        in_port in prop::sample::select(vec![0u32, u32::MAX]), typed: bool, dst in 0u32..5, src in 0u32..5, v6 in 0u32..3,
        tp_src in 0u32..4, tp_dst in prop::sample::select(vec![0u16, 3, 0xffff]), vlan in prop::sample::select(vec![0u16, 0x1000, 0x1fff]),
        odd in 0u32..8,
    ) -> Flow {
        let hi = |n: u32| if n == 0 { 0 } else { u32::MAX << (32 - n) };
        let nw_dst = if odd == 0 { 0x5000_0000 } else { hi(dst) };
        let mut m = Flow { in_port, dl_type: if typed { 0xffff } else { 0 }, nw_dst, nw_src: hi(src), ..Flow::ZERO };
        m.ipv6_dst[0] = (hi(v6) >> 24) as u8;
        m.tp_src = (hi(tp_src) >> 16) as u16;
        m.tp_dst = tp_dst;
        m.vlans[0].tci = vlan;
        m
    }
}

fn naive<'a>(rules: &'a [Arc<TestRule>], flow: &Flow) -> Option<&'a Arc<TestRule>> {
    rules.iter().filter(|r| r.m.matches(flow)).max_by_key(|r| r.priority)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Priorities are unique here except among identical rules, so the result is unique too.
    #[test]
    fn same_rule_as_a_list_and_sound_masks(
        specs in prop::collection::vec((small_flow(), small_mask(), 0u32..40, prop::bool::weighted(0.2)), 1..40),
        probes in prop::collection::vec(small_flow(), 30),
    ) {
        let mut c: Classifier<TestRule> = Classifier::default();
        let mut list: Vec<Arc<TestRule>> = Vec::new();
        for (tag, (f, m, priority, remove)) in specs.iter().enumerate() {
            if *remove && !list.is_empty() {
                let gone = list.remove(tag % list.len());
                prop_assert_eq!(c.remove(&gone.m, gone.priority).map(|r| r.tag), Some(gone.tag));
                continue;
            }
            let r = rule(f.masked(m), *m, *priority, tag);
            if list.iter().any(|o| o.priority == r.priority && o.m != r.m) {
                continue;
            }
            let old = list.iter().position(|o| o.priority == r.priority && o.m == r.m);
            prop_assert_eq!(c.insert(Arc::clone(&r)).map(|r| r.tag), old.map(|i| list[i].tag));
            match old {
                Some(i) => list[i] = r,
                None => list.push(r),
            }
            prop_assert_eq!(c.len(), list.len());
        }
        for f in &probes {
            let want = naive(&list, f).map(|r| r.tag);
            prop_assert_eq!(c.lookup(f, None).map(|r| r.tag), want);
            let mut wc = Flow::ZERO;
            prop_assert_eq!(c.lookup(f, Some(&mut wc)).map(|r| r.tag), want);
            for other in &probes {
                // A flow that is equal under the mask and different in all other bits.
                let mut alike = *other;
                for ((t, o), m) in alike.words_mut().iter_mut().zip(f.words()).zip(wc.words()) {
                    *t = *t & !m | o & m;
                }
                prop_assert_eq!(naive(&list, &alike).map(|r| r.tag), want, "{:?} under {:?}", alike, wc);
            }
        }
        // Results in the memo equal those of a search, whatever was examined before.
        for (f, (_, before, ..)) in probes.iter().zip(specs.iter().cycle()) {
            let (mut noted, mut searched) = (*before, *before);
            let rules = [
                c.lookup(f, Some(&mut noted)).map(|r| r.tag),
                c.lookup_with_conjunctive_rules(f, &mut searched, &mut Vec::new(), &mut 0).map(|r| r.tag),
            ];
            prop_assert_eq!(rules[0], rules[1]);
            prop_assert_eq!(noted, searched, "{:?} before {:?}", f, before);
        }
        for (f, m, priority, _) in &specs {
            let m = SparseMatch::new(f, m);
            let want = list.iter().filter(|r| r.m.within(&m)).count();
            prop_assert_eq!(c.iter_within(&m).count(), want);
            let want = list.iter().filter(|r| r.m.overlaps(&m) && r.priority == *priority).count();
            prop_assert_eq!(c.iter_overlapping(&m, *priority).count(), want);
            prop_assert_eq!(c.find_exact(&m, *priority).is_some(), list.iter().any(|r| r.m == m && r.priority == *priority));
        }
    }
}

/// The result of a look-up by the definition of conjunctive matches.
fn naive_conjunctive<'a>(rules: &'a [Arc<TestRule>], flow: &Flow) -> Option<&'a Arc<TestRule>> {
    let matching = |f: &Flow, soft: bool| {
        let f = *f;
        rules.iter().filter(move |r| r.conj.is_empty() != soft && r.m.matches(&f))
    };
    let hard = matching(flow, false).max_by_key(|r| r.priority);
    let mut soft: Vec<_> = matching(flow, true).collect();
    soft.sort_by_key(|r| std::cmp::Reverse(r.priority));
    for group in soft.chunk_by(|a, b| a.priority == b.priority) {
        if hard.is_some_and(|h| h.priority >= group[0].priority) {
            break;
        }
        let met = |clause: u8| group.iter().any(|r| r.conj.iter().any(|c| c.clause == clause));
        if met(0) && met(1) {
            let with_id = Flow { conj_id: group[0].conj[0].id, ..*flow };
            let found = matching(&with_id, false).max_by_key(|r| r.priority);
            if found.is_some() {
                return found;
            }
        }
    }
    hard
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Rules with odd priorities are hard; rules with even priorities are clauses of the conjunction `priority / 2`.
    #[test]
    fn conjunctions_as_defined_and_sound_masks(
        specs in prop::collection::vec((small_flow(), small_mask(), 0u32..10, 0u8..2, 0u32..6), 1..30),
        probes in prop::collection::vec(small_flow(), 20),
    ) {
        let mut c = Classifier::default();
        let mut list: Vec<Arc<TestRule>> = Vec::new();
        for (tag, (f, mask, priority, clause, id)) in specs.iter().enumerate() {
            let soft = priority % 2 == 0;
            let (mut f, mut mask, mut conj) = (*f, *mask, Vec::new());
            if soft {
                conj.push(Conjunction { id: priority / 2, clause: *clause, n_clauses: 2 });
            } else if *id < 5 {
                mask.conj_id = u32::MAX;
                f.conj_id = *id;
            }
            let r = Arc::new(TestRule { m: SparseMatch::new(&f, &mask), priority: *priority, conj, tag });
            let taken = |o: &Arc<TestRule>| o.priority == r.priority && (!soft || o.m == r.m);
            if !list.iter().any(taken) {
                c.insert(Arc::clone(&r));
                list.push(r);
            }
        }
        for f in &probes {
            let want = naive_conjunctive(&list, f).map(|r| r.tag);
            let mut wc = Flow::ZERO;
            prop_assert_eq!(c.lookup(f, Some(&mut wc)).map(|r| r.tag), want);
            for other in &probes {
                let mut alike = *other;
                for ((t, o), m) in alike.words_mut().iter_mut().zip(f.words()).zip(wc.words()) {
                    *t = *t & !m | o & m;
                }
                prop_assert_eq!(naive_conjunctive(&list, &alike).map(|r| r.tag), want);
            }
        }
    }
}
