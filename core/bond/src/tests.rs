//! A bond of two links, while its row, its links and commands change it.

use crate::lacp::Negotiation::{Configured, Negotiated, Off};
use crate::*;
use flow::Mac;
use units::{Millis, OfPort};

const P1: OfPort = OfPort(1);
const P2: OfPort = OfPort(2);
const MAC: Mac = Mac([2, 0, 0, 0, 0, 9]);

fn facts(n: u8, up: bool) -> LinkFacts {
    LinkFacts { name: format!("p{n}"), mac: Mac([0xaa, 0, 0, 0, 0, n]), carrier: up, may_enable: up }
}

fn settings(mode: Mode) -> Settings {
    Settings { name: "bond0".to_owned(), mode, rebalance_interval: Millis(10_000), ..Settings::default() }
}

fn bond(settings: Settings) -> Bond {
    let mut bond = Bond::new(settings, Mac::default(), Millis(0));
    bond.set_link(P1, facts(1, true));
    bond.set_link(P2, facts(2, true));
    bond.run(Off, Millis(0));
    bond
}

#[test]
fn the_backup_takes_over_and_the_active_link_stays() {
    let mut b = bond(settings(Mode::ActiveBackup));
    assert_eq!(b.view().choice(), Choice::Link(P1));
    assert!(b.take_announcement());
    b.set_link(P1, facts(1, false));
    assert!(b.run(Off, Millis(1)));
    assert_eq!(b.view().choice(), Choice::Link(P2));
    assert_eq!(b.active_mac(), facts(2, true).mac);
    assert!(b.take_announcement() && !b.take_announcement());
    b.set_link(P1, facts(1, true));
    assert!(b.run(Off, Millis(2)));
    assert_eq!(b.view().choice(), Choice::Link(P2));
    b.remove_link(P2, Millis(3));
    assert_eq!(b.view().choice(), Choice::Link(P1));
    b.set_link(P1, facts(1, false));
    b.run(Off, Millis(4));
    assert_eq!(b.view().choice(), Choice::Nowhere);
}

#[test]
fn the_primary_link_comes_back() {
    let mut b = bond(Settings { primary: Some("p2".to_owned()), ..settings(Mode::ActiveBackup) });
    assert_eq!(b.view().choice(), Choice::Link(P2));
    for (up, active) in [(false, P1), (true, P2)] {
        b.set_link(P2, facts(2, up));
        b.run(Off, Millis(1));
        assert_eq!(b.view().choice(), Choice::Link(active));
    }
}

#[test]
fn the_link_that_was_active_before_a_restart_is_active_again() {
    let mut b = Bond::new(settings(Mode::ActiveBackup), facts(2, true).mac, Millis(0));
    b.set_link(P1, facts(1, true));
    b.set_link(P2, facts(2, true));
    b.run(Off, Millis(0));
    assert_eq!(b.view().choice(), Choice::Link(P2));
}

#[test]
fn delays_hold_changes_back() {
    let delays = Settings { up_delay: Millis(100), down_delay: Millis(50), ..settings(Mode::ActiveBackup) };
    let mut b = bond(delays);
    b.set_link(P1, facts(1, false));
    b.run(Off, Millis(10));
    assert_eq!((b.deadline(), b.view().choice()), (Some(Millis(60)), Choice::Link(P1)));
    b.set_link(P1, facts(1, true));
    b.run(Off, Millis(20));
    assert_eq!(b.deadline(), None, "it came back in time");
    b.set_link(P1, facts(1, false));
    b.run(Off, Millis(30));
    b.run(Off, Millis(80));
    assert_eq!(b.view().choice(), Choice::Link(P2));
    // If no link is enabled, the first link that comes up is enabled at once.
    for port in [P1, P2] {
        b.set_link(port, facts(port.0 as u8, false));
    }
    b.run(Off, Millis(90));
    b.run(Off, Millis(200));
    assert_eq!(b.view().choice(), Choice::Nowhere);
    b.set_link(P1, facts(1, true));
    b.run(Off, Millis(210));
    assert_eq!(b.view().choice(), Choice::Link(P1));
}

fn shares(b: &Bond) -> [usize; 2] {
    let view = b.view();
    [P1, P2].map(|p| view.owners().unwrap().iter().filter(|o| **o == p).count())
}

/// With rebalance interval 0, a link that comes back gets only buckets without traffic.
#[test]
fn without_rebalancing_traffic_stays() {
    let mut b = bond(Settings { rebalance_interval: Millis(0), ..settings(Mode::BalanceSlb) });
    b.set_link(P1, facts(1, false));
    b.run(Off, Millis(1));
    assert_eq!(shares(&b), [0, 256]);
    let mut bytes = [0; BUCKETS];
    bytes[..100].fill(1);
    b.credit(&bytes);
    b.set_link(P1, facts(1, true));
    b.run(Off, Millis(2));
    assert_eq!(shares(&b), [156, 100]);
    assert!(b.owners()[..100].iter().all(|owner| *owner == P2));
}

#[test]
fn buckets_follow_links_at_once() {
    let mut b = bond(settings(Mode::BalanceSlb));
    assert_eq!((b.view().choice(), shares(&b)), (Choice::ByStation, [128, 128]));
    b.set_link(P1, facts(1, false));
    assert!(b.run(Off, Millis(1)));
    assert_eq!(shares(&b), [0, 256]);
    b.set_link(P1, facts(1, true));
    assert!(b.run(Off, Millis(2)));
    let [first, second] = shares(&b);
    assert!((125..=131).contains(&first) && first + second == 256, "{first}");
    b.set_link(P1, facts(1, false));
    b.set_link(P2, facts(2, false));
    b.run(Off, Millis(3));
    assert_eq!(b.view().owner(7), None);
}

#[test]
fn loads_are_shared_when_it_is_time() {
    let mut b = bond(settings(Mode::BalanceSlb));
    let busy: Vec<u8> = (0..=255).filter(|i| b.view().owner(*i) == Some(P1)).take(10).collect();
    busy.iter().for_each(|i| b.view().tally().credit(*i, 1, 1 << 20));
    assert!(!b.rebalance(Millis(9_999)));
    assert!(b.rebalance(Millis(10_000)));
    let moved = busy.iter().filter(|i| b.view().owner(**i) == Some(P2)).count();
    assert_eq!(moved, 5);
    assert!(
        b.take_lines().contains(&"bond bond0: rebalanced (now carrying: p1:5120kB and p2:5120kB)".to_owned())
    );
    assert!(!b.rebalance(Millis(20_000)), "it is even");
    assert!(b.show(0, Millis(20_000)).contains("next rebalance: 10000 ms\n"));
}

#[test]
fn an_elephant_is_reported_once_even_where_nothing_can_move() {
    let mut b = bond(settings(Mode::BalanceSlb));
    let mut logged = |bucket: usize, now| {
        b.view().tally().credit(bucket as u8, 1, 100 << 20);
        b.rebalance(Millis(now));
        b.take_lines().iter().filter(|line| line.contains(&format!("hash {bucket} carries"))).count()
    };
    assert_eq!([logged(7, 10_000), logged(7, 20_000), logged(8, 30_000), logged(8, 40_000)], [1, 0, 1, 0]);
}

#[test]
fn connections_are_shared_only_with_an_end_that_agrees() {
    let mut b = bond(settings(Mode::BalanceTcp));
    assert_eq!(b.view().choice(), Choice::Nowhere);
    b.run(Configured, Millis(1));
    assert_eq!(b.view().choice(), Choice::Nowhere);
    b.run(Negotiated, Millis(2));
    assert_eq!(b.view().choice(), Choice::ByConnection);
    b.configure(Settings { fallback: true, ..settings(Mode::BalanceTcp) }, Millis(3));
    b.run(Configured, Millis(4));
    assert_eq!((b.view().choice(), b.view().owners()), (Choice::Link(P1), None));
    b.run(Negotiated, Millis(5));
    assert_eq!(shares(&b), [128, 128]);
}

#[test]
fn what_comes_in_is_taken_as_the_mode_wants() {
    use Admission::{Accept, Refuse, RefuseIfMoved};
    let both = |b: &Bond, link| [b.view().admission(link, false), b.view().admission(link, true)];
    let mut b = bond(settings(Mode::ActiveBackup));
    assert_eq!((both(&b, P1), both(&b, P2)), ([Accept; 2], [Refuse; 2]));
    b.configure(settings(Mode::BalanceSlb), Millis(1));
    assert_eq!((both(&b, P1), both(&b, P2)), ([RefuseIfMoved; 2], [RefuseIfMoved, Refuse]));
    b.configure(Settings { all_active: true, ..settings(Mode::BalanceSlb) }, Millis(1));
    assert_eq!(both(&b, P2), [RefuseIfMoved; 2]);
    b.configure(settings(Mode::BalanceTcp), Millis(1));
    assert_eq!(both(&b, P1), [Refuse; 2]);
    b.run(Negotiated, Millis(2));
    assert_eq!((both(&b, P1), both(&b, P2)), ([Accept; 2], [Accept; 2]));
    b.set_link(P2, facts(2, false));
    b.run(Negotiated, Millis(3));
    assert_eq!((both(&b, P1), both(&b, P2)), ([Accept; 2], [Refuse; 2]));
    b.run(Configured, Millis(4));
    assert_eq!(both(&b, P1), [Refuse; 2]);
}

#[test]
fn an_operator_orders() {
    let mut b = bond(settings(Mode::BalanceSlb));
    assert_eq!(b.migrate("263", "p2"), Ok("migrated"));
    assert_eq!(b.view().owner(7), Some(P2));
    assert_eq!((b.migrate("x", "p2"), b.migrate("1", "p3")), (Err("bad hash"), Err("no such member")));
    assert_eq!((b.set_active("p2"), b.set_active("p2")), (Ok("done"), Ok("no change")));
    assert_eq!(b.set_enabled("p2", false), Ok("disabled"));
    assert_eq!(b.set_active("p2"), Err("cannot make disabled member active"));
    assert_eq!(b.migrate("1", "p2"), Err("cannot migrate to disabled member"));
    let mut ab = bond(settings(Mode::ActiveBackup));
    assert_eq!(ab.migrate("1", "p2"), Err("not an SLB bond"));
}

#[test]
fn the_texts_are_those_of_open_vswitch() {
    let b = bond(Settings { primary: Some("p9".to_owned()), ..settings(Mode::ActiveBackup) });
    assert_eq!(b.list(0), "bond0\tactive-backup\t0\tp1, p2\n");
    let text = "---- bond0 ----\nbond_mode: active-backup\nbond may use recirculation: no, Recirc-ID : -1\n\
        bond-hash-basis: 0\nlb_output action: disabled, bond-id: -1\nupdelay: 0 ms\ndowndelay: 0 ms\n\
        lacp_status: off\nlacp_fallback_ab: false\nactive-backup primary: p9 (no such member)\n\
        active member mac: aa:00:00:00:00:01(p1)\n\nmember p1: enabled\n  active member\n  may_enable: true\n\n\
        member p2: enabled\n  may_enable: true\n\n";
    assert_eq!(b.show(0, Millis(0)), text);
}

/// The datapath selects links only with `lb_output` in mode balance-tcp, and not while the bond falls back to active-backup.
#[test]
fn the_datapath_shares_connections_where_it_is_told_to() {
    let direct = Settings { lb_output: true, ..settings(Mode::BalanceTcp) };
    let mut b = bond(direct.clone());
    b.run(Negotiated, Millis(1));
    assert!(b.shares_in_datapath() && b.view().is_in_datapath() && b.rules().is_empty());
    assert!(
        b.show(9, Millis(1))
            .contains("Recirc-ID : 9\nbond-hash-basis: 0\nlb_output action: enabled, bond-id: 9\n")
    );
    assert_eq!(b.owners(), *b.view().owners().unwrap());
    // Bytes that the datapath has counted are rebalanced like others.
    let busy: Vec<usize> = (0..BUCKETS).filter(|i| b.owners()[*i] == P1).take(4).collect();
    let mut bytes = [0; BUCKETS];
    busy.iter().for_each(|i| bytes[*i] = 1 << 20);
    b.credit(&bytes);
    assert!(b.is_rebalance_due(Millis(10_000)) && b.rebalance(Millis(10_000)));
    assert_eq!(busy.iter().filter(|i| b.owners()[**i] == P2).count(), 2);
    assert!(!b.is_rebalance_due(Millis(10_000)));
    let before = b.owners();
    b.configure(settings(Mode::BalanceTcp), Millis(10_001));
    assert!(b.run(Negotiated, Millis(10_001)) && !b.shares_in_datapath());
    assert_eq!((b.owners(), b.rules().len()), (before, BUCKETS), "connections keep their link");
    b.configure(Settings { fallback: true, ..direct.clone() }, Millis(10_002));
    b.run(Configured, Millis(10_003));
    assert!(!b.shares_in_datapath() && b.rules().is_empty());
    b.configure(Settings { mode: Mode::BalanceSlb, ..direct }, Millis(10_004));
    assert!(!b.shares_in_datapath() && b.rules().is_empty());
}

#[test]
fn stations_are_spread() {
    assert_eq!(station_hash(MAC, 5, 0), station_hash(MAC, 5, 0));
    let differs = [(MAC, 6, 0), (MAC, 5, 1), (Mac([2, 0, 0, 0, 0, 8]), 5, 0)];
    assert!(differs.iter().all(|(m, v, b)| station_hash(*m, *v, *b) != station_hash(MAC, 5, 0)));
}
