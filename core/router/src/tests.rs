use super::*;
use flow::Mac;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr};
use units::Millis;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn net(text: &str) -> Prefix {
    Prefix::parse(text).unwrap()
}

fn of(dev: &str) -> NewRoute<'_> {
    let prefix = net("0.0.0.0/0");
    NewRoute { prefix, mark: 0, dev, gateway: None, source: None, user: true, metric: 0 }
}

/// A host with 192.0.2.1/24 and 192.0.2.2/24 on br0, both local.
fn host() -> Router {
    let mut router = Router::default();
    let addresses = ["192.0.2.1", "192.0.2.2"].map(|a| Prefix::of_interface(ip(a), 24));
    assert!(router.addresses.set("br0", addresses.to_vec()));
    for address in addresses {
        let local = NewRoute { prefix: Prefix::host(address.addr()), user: false, ..of("br0") };
        let main = NewRoute { prefix: net("192.0.2.0/24"), ..local.clone() };
        router.add(TABLE_LOCAL, &local).unwrap();
        router.add(TABLE_MAIN, &main).unwrap();
    }
    router
}

#[test]
fn prefixes_as_text() {
    assert_eq!(net("10.1.2.3/255.255.0.0").to_string(), "10.1.0.0/16");
    assert_eq!(net("2001:db8::1").to_string(), "2001:db8::1/128");
    assert_eq!(net("::/0").len(), 0);
    for wrong in ["", "1.2.3/8", "1.2.3.4/33", "1.2.3.4/255.0.255.0", "::/129", "::/255.0.0.0", "1.2.3.4/"] {
        assert_eq!(Prefix::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn sources_follow_from_the_device_or_are_checked() {
    let mut router = host();
    let via = |gateway, source| NewRoute {
        prefix: net("198.51.100.0/24"),
        gateway: Some(ip(gateway)),
        source,
        ..of("br0")
    };
    router.add(TABLE_MAIN, &via("192.0.2.9", None)).unwrap();
    assert_eq!(router.lookup(0, ip("198.51.100.7"), None).unwrap().source, ip("192.0.2.1"));
    router.add(TABLE_MAIN, &via("192.0.2.9", Some(ip("192.0.2.2")))).unwrap();
    assert_eq!(router.lookup(0, ip("198.51.100.7"), None).unwrap().source, ip("192.0.2.2"));
    let foreign = [via("192.0.3.9", None), via("192.0.2.9", Some(ip("192.0.2.77")))];
    for route in foreign {
        assert_eq!(router.add(TABLE_MAIN, &route), Err(RouteError));
    }
    let direct = NewRoute { prefix: net("203.0.113.0/24"), ..of("br0") };
    assert_eq!(router.add(TABLE_MAIN, &direct), Err(RouteError));
}

#[test]
fn marks_and_owners_have_routes_of_their_own() {
    let mut router = host();
    let marked =
        NewRoute { prefix: net("192.0.2.0/24"), mark: 7, gateway: Some(ip("192.0.2.250")), ..of("br0") };
    router.add(TABLE_MAIN, &marked).unwrap();
    let gateway = |mark| router.lookup(mark, ip("192.0.2.50"), None).unwrap().gateway;
    assert_eq!((gateway(0), gateway(7)), (None, Some(ip("192.0.2.250"))));
    assert_eq!(router.lookup(8, ip("192.0.2.50"), None), None);
    let text = with_table_header(TABLE_MAIN, router.table(TABLE_MAIN));
    assert_eq!(
        text,
        "Route Table:\nCached: 192.0.2.0/24 dev br0 SRC 192.0.2.1\n\
         User: 192.0.2.0/24 MARK 7 dev br0 GW 192.0.2.250 SRC 192.0.2.1\n"
    );
    assert!(router.remove(TABLE_MAIN, &net("192.0.2.0/24"), 7, true));
    assert!(!router.remove(TABLE_MAIN, &net("192.0.2.0/24"), 7, true));
    router.clear_kernel();
    assert_eq!(router.tables().count(), 0);
}

#[test]
fn of_the_kernels_routes_the_best_is_kept() {
    let mut router = host();
    let to = |dev, metric| NewRoute { user: false, metric, source: Some(ip("192.0.2.1")), ..of(dev) };
    let dev = |router: &Router| router.lookup(0, ip("8.8.8.8"), None).map(|hop| hop.dev.to_string());
    assert_eq!(router.add_kernel_route(TABLE_MAIN, &to("br0", 100)), Ok(true));
    assert_eq!(router.add_kernel_route(TABLE_MAIN, &to("eth0", 200)), Ok(false));
    assert_eq!(dev(&router), Some("br0".to_owned()));
    assert_eq!(router.add_kernel_route(TABLE_MAIN, &to("eth1", 50)), Ok(false));
    assert_eq!(dev(&router), Some("eth1".to_owned()));
    assert!(!router.remove_kernel_route(TABLE_MAIN, &to("br0", 100)));
    assert!(router.remove_kernel_route(TABLE_MAIN, &to("eth1", 50)));
    assert_eq!(dev(&router), None);
}

#[test]
fn a_source_must_be_local() {
    let router = host();
    assert!(router.lookup(0, ip("192.0.2.50"), Some(ip("192.0.2.2"))).is_some());
    assert_eq!(router.lookup(0, ip("192.0.2.50"), Some(ip("192.0.2.3"))), None);
}

#[test]
fn rules_pick_tables_by_source() {
    let mut router = host();
    let other = NewRoute { gateway: Some(ip("192.0.2.66")), ..of("br0") };
    router.add(11, &other).unwrap();
    assert_eq!(router.lookup(0, ip("8.8.8.8"), Some(ip("192.0.2.2"))), None);
    let rule =
        Rule { priority: router.rules.free_priority(), table: 11, user: true, ..Rule::for_all(true, 0, 0) };
    let rule = Rule { from: net("192.0.2.2/32"), ..rule };
    assert_eq!(rule.priority, 32765);
    router.rules.add(rule);
    assert_eq!(router.rules.free_priority(), 32764);
    assert_eq!(rule.line(), "User: 32765: from 192.0.2.2 lookup 11\n");
    let found = router.lookup(0, ip("8.8.8.8"), Some(ip("192.0.2.2"))).unwrap();
    assert_eq!(found.gateway, Some(ip("192.0.2.66")));
    assert_eq!(router.lookup(0, ip("8.8.8.8"), Some(ip("192.0.2.1"))), None);
    assert!(router.rules.remove(&Rule { priority: 0, ..rule }) && !router.rules.remove(&rule));
    assert!(router.rules.names_table(TABLE_DEFAULT) && !router.rules.names_table(11));
}

#[test]
fn neighbours_age_and_are_renewed_by_use() {
    let mut table = NeighbourTable::default();
    let (a, mac) = (ip("1.1.2.92"), Mac([0xf8, 0xbc, 0x12, 0x44, 0x34, 0xb6]));
    assert_eq!(table.set_aging_s(0, Millis(0)), Err(BadAging));
    assert_eq!(table.set_aging_s(3601, Millis(0)), Err(BadAging));
    table.set_aging_s(5, Millis(0)).unwrap();
    assert_eq!(table.store("br0", a, mac, Millis(0)), NeighbourUpdate::Changed);
    assert_eq!(table.store("br0", a, mac, Millis(1000)), NeighbourUpdate::Renewed);
    assert_eq!(table.get("br0", a), Some(mac));
    assert_eq!(table.get("br1", a), None);
    let text = table.text(Millis(1000));
    let line = "1.1.2.92                                      f8:bc:12:44:34:b6   br0\n";
    assert_eq!(text.lines().count(), 3);
    assert!(text.ends_with(line), "{text}");
    assert!(table.text(Millis(6000)).ends_with(" STALE\n"));
    table.renew("br0", a, Millis(4000));
    assert!(table.expire(Millis(8999)).is_empty());
    assert_eq!(table.expire(Millis(9000)).len(), 1);
    assert!(table.is_empty());
    table.store("br0", a, mac, Millis(0));
    assert!(!table.flush(Some("br1")) && table.flush(Some("br0")) && !table.flush(None));
}

#[test]
fn forged_neighbours_do_not_displace_those_in_use() {
    let mut table = NeighbourTable::default();
    let used = ip("10.0.0.1");
    table.store("br0", used, Mac([2; 6]), Millis(0));
    table.renew("br0", used, Millis(0));
    for i in 0..40_000u32 {
        table.store("br0", Ipv4Addr::from_bits(0x0b00_0000 + i).into(), Mac([4; 6]), Millis(1));
    }
    assert!(table.len() <= 16 * 1024);
    assert_eq!(table.get("br0", used), Some(Mac([2; 6])));
}

#[test]
fn a_table_without_rules_loses_the_routes_of_the_kernel_only() {
    let mut router = host();
    let of_kernel = NewRoute { prefix: net("192.0.2.0/25"), user: false, ..of("br0") };
    router.add(42, &of_kernel).unwrap();
    router.clear_kernel_table(42);
    assert!(router.table(42).is_none());
    router.add(42, &of_kernel).unwrap();
    router.add(42, &NewRoute { prefix: net("192.0.2.0/26"), ..of("br0") }).unwrap();
    router.clear_kernel_table(42);
    assert_eq!(router.table(42).map(|t| t.len()), Some(1));
}

proptest! {
    /// The best route equals that found by a linear search.
    #[test]
    fn lookups_agree_with_a_search(
        routes in proptest::collection::vec((any::<u16>(), 0u8..=32, 0u32..2, any::<bool>()), 0..40),
        asked in proptest::collection::vec((any::<u16>(), 0u32..2), 1..20),
    ) {
        let spread = |bits: u16| IpAddr::from(Ipv4Addr::from_bits(u32::from(bits) << 16 | u32::from(bits >> 12)));
        let mut router = Router::default();
        router.addresses.set("br0", vec![Prefix::of_interface(ip("10.0.0.1"), 0)]);
        let mut all: Vec<(Prefix, u32, bool)> = Vec::new();
        for (bits, len, mark, user) in routes {
            let prefix = Prefix::new(spread(bits), len);
            router.add(TABLE_MAIN, &NewRoute { prefix, mark, user, ..of("br0") }).unwrap();
            all.push((prefix, mark, user));
        }
        let table = router.table(TABLE_MAIN).cloned().unwrap_or_default();
        for (bits, mark) in asked {
            let dst = spread(bits);
            let rank = |(p, _, user): &(Prefix, u32, bool)| p.len() + if *user { 32 } else { 0 };
            let best = all.iter().filter(|(p, m, _)| *m == mark && p.contains(dst)).map(rank).max();
            let found = table.lookup(mark, dst).map(|r| rank(&(r.prefix, r.mark, r.user)));
            prop_assert_eq!(found, best);
        }
        for (prefix, mark, user) in all {
            router.remove(TABLE_MAIN, &prefix, mark, user);
        }
        prop_assert!(router.table(TABLE_MAIN).is_none_or(Table::is_empty));
    }
}
