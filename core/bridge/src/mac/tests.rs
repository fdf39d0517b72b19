use super::*;
use proptest::prelude::*;

fn mac(n: u64) -> Mac {
    Mac::from_u64(0x0200_0000_0000 | n)
}

fn learn(n: u64, port: u32) -> MacObservation {
    MacObservation { mac: mac(n), vlan: 0, port: BundleId(port), grat_arp: false, bond: false }
}

const fn at(s: u64) -> Millis {
    Millis::from_secs(s)
}

#[test]
fn learns_moves_and_ages_out() {
    let mut t = MacTable::new();
    assert!(t.update(&learn(1, 1), at(10)));
    assert!(!t.update(&learn(1, 1), at(20)));
    assert_eq!(t.age(t.get(0, mac(1)).unwrap(), at(25)), Some(5));
    assert!(t.update(&learn(1, 2), at(30)));
    assert_eq!(t.port_of(0, mac(1)), Some(BundleId(2)));
    t.run(at(329));
    assert_eq!(t.len(), 1);
    assert_eq!(t.next_run(), at(330));
    t.run(at(330));
    assert!(t.is_empty());
    assert_eq!(t.stats(), MacStats { learned: 1, expired: 1, evicted: 0, moved: 1 });
}

#[test]
fn a_refresh_keeps_the_generation() {
    let mut t = MacTable::new();
    t.update(&learn(1, 1), at(0));
    let g = t.generation();
    assert!(t.needs_update(&learn(1, 1), at(1)));
    t.update(&learn(1, 1), at(1));
    assert_eq!(t.generation(), g);
    assert!(!t.needs_update(&learn(1, 1), at(1)));
}

#[test]
fn static_entries_stay_where_they_are() {
    let mut t = MacTable::new();
    t.update(&learn(1, 1), at(0));
    t.add_static(0, mac(1), BundleId(3));
    assert!(!t.update(&learn(1, 2), at(1)));
    t.flush();
    t.run(at(100_000));
    assert_eq!((t.port_of(0, mac(1)), t.static_count()), (Some(BundleId(3)), 1));
    assert!(t.del_static(0, mac(1)) && !t.del_static(0, mac(1)));
    assert_eq!(t.static_count(), 0);
}

#[test]
fn stations_of_a_port_move_together() {
    let mut t = MacTable::new();
    for (n, port) in [(1, 1), (2, 1), (3, 2)] {
        t.update(&learn(n, port), at(10 * n));
    }
    t.add_static(0, mac(4), BundleId(1));
    let before = t.generation();
    t.move_port(BundleId(1), BundleId(3));
    assert_eq!([1, 2, 3, 4].map(|n| t.port_of(0, mac(n)).unwrap().0), [3, 3, 2, 1]);
    assert_eq!((t.generation() - before, t.stats().moved), (2, 2));
    t.run(at(330));
    assert_eq!(t.len(), 1);
}

#[test]
fn the_port_with_most_entries_loses_one() {
    let mut t = MacTable::new();
    t.set_size(10);
    for n in 0..3 {
        t.update(&learn(n, 1), at(0));
    }
    for n in 10..100 {
        t.update(&learn(n, 2), at(1));
    }
    let on = |p| t.iter().filter(|e| e.port == BundleId(p)).count();
    assert_eq!((on(1), on(2), t.stats().evicted), (3, 7, 83));
    assert!(t.get(0, mac(93)).is_some() && t.get(0, mac(92)).is_none());
}

#[test]
fn a_gratuitous_arp_locks_out_its_reflection_on_a_bond() {
    let mut t = MacTable::new();
    let arp = MacObservation { grat_arp: true, ..learn(1, 1) };
    t.update(&arp, at(0));
    let reflected = MacObservation { bond: true, port: BundleId(2), ..arp };
    assert!(!t.update(&reflected, at(3)));
    assert_eq!(t.port_of(0, mac(1)), Some(BundleId(1)));
    assert!(t.update(&reflected, at(6)));
}

#[test]
fn flooded_vlans_and_groups_are_not_learned() {
    let mut t = MacTable::new();
    assert!(t.set_flood_vlans(Some([7].into_iter().collect())));
    assert!(!t.update(&MacObservation { vlan: 7, ..learn(1, 1) }, at(0)));
    assert!(!t.update(&MacObservation { mac: Mac::BROADCAST, ..learn(1, 1) }, at(0)));
    assert!(t.is_empty() && !t.may_learn(7, mac(1)) && t.may_learn(8, mac(1)));
}

#[test]
fn a_new_ageing_time_keeps_the_age() {
    let mut t = MacTable::new();
    t.update(&learn(1, 1), at(100));
    t.set_aging(60);
    assert_eq!(t.age(t.get(0, mac(1)).unwrap(), at(110)), Some(10));
    t.set_aging(1);
    assert_eq!(t.aging(), 15);
}

#[derive(Clone, Debug)]
enum Op {
    Learn(u64, u32),
    Static(u64, u32),
    FlushPort(u32),
    Run(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0u64..40, 0u32..4).prop_map(|(m, p)| Op::Learn(m, p)),
        1 => (0u64..40, 0u32..4).prop_map(|(m, p)| Op::Static(m, p)),
        1 => (0u32..4).prop_map(Op::FlushPort),
        1 => (0u64..200).prop_map(Op::Run),
    ]
}

proptest! {
    #[test]
    fn the_indices_agree(ops in proptest::collection::vec(op(), 0..200)) {
        let mut t = MacTable::new();
        t.set_size(16);
        let mut now = 0;
        for o in ops {
            match o {
                Op::Learn(m, p) => { t.update(&learn(m, p), at(now)); }
                Op::Static(m, p) => t.add_static(0, mac(m), BundleId(p)),
                Op::FlushPort(p) => {
                    let gone = t.flush_port(BundleId(p));
                    prop_assert!(gone.iter().all(|(vlan, mac)| t.get(*vlan, *mac).is_none()));
                }
                Op::Run(d) => { now += d; t.run(at(now)); }
            }
            prop_assert!(t.len() <= 16);
            prop_assert_eq!(t.iter().count(), t.len());
            prop_assert_eq!(t.by_port.values().map(BTreeMap::len).sum::<usize>(), t.len());
            prop_assert_eq!(t.static_count(), t.iter().filter(|e| e.is_static()).count());
            let load: BTreeSet<_> = t.by_port.iter().map(|(p, q)| (q.len(), *p)).collect();
            prop_assert_eq!(&load, &t.by_load);
        }
    }
}
