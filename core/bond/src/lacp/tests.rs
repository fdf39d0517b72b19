//! Two ends that exchange messages over links that may be cut.

use super::*;
use flow::Mac;
use std::collections::BTreeMap;
use units::{Millis, OfPort};

const P1: OfPort = OfPort(1);
const P2: OfPort = OfPort(2);

fn end(name: &str, system: u8, active: bool) -> Aggregation {
    let settings = Settings {
        name: name.to_owned(),
        system: Mac([0xaa, 0, 0, 0, 0, system]),
        priority: u16::from(system),
        active,
        fast: true,
        fallback: false,
    };
    let mut end = Aggregation::new(settings);
    for port in [P1, P2] {
        let settings =
            MemberSettings { name: format!("{name}p{}", port.0), port: port.0, priority: 10, key: 0 };
        end.register(port, settings, Millis(0));
        end.set_carrier(port, true, Millis(0));
    }
    end
}

/// Port `n` of one end is connected to port `n` of the other end. No message passes through a `cut` link.
struct Wires {
    ends: [Aggregation; 2],
    cut: BTreeMap<(usize, OfPort), bool>,
    now: Millis,
}

impl Wires {
    fn new(a: Aggregation, b: Aggregation) -> Wires {
        Wires { ends: [a, b], cut: BTreeMap::new(), now: Millis(0) }
    }

    /// Lets time pass in steps of 100 ms. Returns the number of messages sent.
    fn pass(&mut self, millis: u64) -> usize {
        let until = self.now + Millis(millis);
        let mut sent = 0;
        while self.now < until {
            self.now = self.now + Millis(100);
            for from in [0, 1] {
                for (port, pdu) in self.ends[from].run(self.now) {
                    sent += 1;
                    if !self.cut.get(&(from, port)).copied().unwrap_or_default() {
                        self.ends[1 - from].receive(port, &pdu, self.now);
                    }
                }
            }
        }
        sent
    }

    fn carry(&self) -> [bool; 4] {
        let [a, b] = &self.ends;
        [a.may_enable(P1), a.may_enable(P2), b.may_enable(P1), b.may_enable(P2)]
    }
}

#[test]
fn an_active_and_a_passive_end_agree() {
    let mut wires = Wires::new(end("a", 1, true), end("b", 2, false));
    assert_eq!(wires.carry(), [false; 4]);
    wires.pass(1000);
    assert_eq!(wires.carry(), [true; 4]);
    assert_eq!(wires.ends[1].negotiation(), Negotiation::Negotiated);
    // Each link of each end receives one message per second.
    let sent = wires.pass(10_000);
    assert!((36..=44).contains(&sent), "{sent}");
}

#[test]
fn two_passive_ends_stay_silent() {
    let mut wires = Wires::new(end("a", 1, false), end("b", 2, false));
    assert_eq!((wires.pass(100_000), wires.carry()), (0, [false; 4]));
    assert_eq!(wires.ends[0].deadline(), None);
}

#[test]
fn a_link_whose_other_end_falls_silent_carries_nothing() {
    let mut wires = Wires::new(end("a", 1, true), end("b", 2, true));
    wires.pass(1000);
    wires.cut.insert((1, P2), true);
    wires.pass(3200);
    // Expired: not synchronized, but the information is kept; later it is reset to defaults.
    assert_eq!(wires.carry()[..2], [true, false]);
    assert!(wires.ends[0].has_partner_info(P2));
    wires.pass(3200);
    assert!(!wires.ends[0].has_partner_info(P2));
    assert!(!wires.carry()[3], "the other end does not carry traffic on this link either");
    wires.cut.clear();
    wires.pass(1100);
    assert_eq!(wires.carry(), [true; 4]);
}

#[test]
fn a_passive_end_that_comes_back_is_found_at_the_rate_of_the_active_end() {
    let mut wires = Wires::new(end("a", 1, true), end("b", 2, false));
    wires.pass(1000);
    wires.cut.extend([0, 1].into_iter().flat_map(|from| [P1, P2].map(|port| ((from, port), true))));
    wires.pass(20_000);
    assert!(!wires.ends[0].has_partner_info(P1) && !wires.ends[1].has_partner_info(P1));
    wires.cut.clear();
    wires.pass(1100);
    assert_eq!(wires.carry(), [true; 4]);
}

#[test]
fn carrier_counts() {
    let mut wires = Wires::new(end("a", 1, true), end("b", 2, true));
    wires.pass(1000);
    let now = wires.now;
    wires.ends[0].set_carrier(P1, false, now);
    wires.pass(100);
    assert_eq!(wires.carry()[..2], [false, true]);
    // The first carrier state of a link is not counted as a change.
    assert!(wires.ends[0].show_stats().contains("Carrier Status Changed: 1"));
}

#[test]
fn a_second_system_takes_nothing_from_the_first() {
    let (mut a, mut b, mut c) = (end("a", 9, true), end("b", 5, true), end("c", 1, true));
    let mut now = Millis(0);
    for _ in 0..20 {
        now = now + Millis(100);
        for (port, pdu) in a.run(now) {
            if port == P1 { b.receive(port, &pdu, now) } else { c.receive(port, &pdu, now) }
        }
        b.run(now).iter().filter(|(port, _)| *port == P1).for_each(|(port, pdu)| a.receive(*port, pdu, now));
        if now.0 > 1000 {
            c.run(now).iter().filter(|(port, _)| *port == P2).for_each(|(port, pdu)| {
                a.receive(*port, pdu, now);
            });
        }
    }
    assert_eq!((a.may_enable(P1), a.may_enable(P2)), (true, false));
}

#[test]
fn a_link_that_becomes_another_system_leaves_the_others_alone() {
    let (a, mut c) = (end("a", 9, true), end("c", 1, true));
    let mut wires = Wires::new(a, end("b", 5, true));
    wires.pass(2000);
    wires.cut.insert((0, P2), true);
    wires.cut.insert((1, P2), true);
    for _ in 0..30 {
        wires.pass(100);
        let now = wires.now;
        for (port, pdu) in c.run(now) {
            if port == P2 {
                wires.ends[0].receive(P2, &pdu, now)
            }
        }
        assert!(wires.ends[0].may_enable(P1), "at {now:?}");
    }
    assert!(!wires.ends[0].may_enable(P2));
}

#[test]
fn an_end_that_changes_all_the_time_is_answered_three_times_a_second() {
    let mut a = end("a", 1, true);
    let mut answers = 0;
    for n in 0..2000u64 {
        let now = Millis(n * 5);
        let info = Info { key: n as u16, port: n as u16, ..Info::default() };
        a.receive(P1, &compose(&info, &info), now);
        answers += a.run(now).iter().filter(|(port, _)| *port == P1).count();
    }
    assert!((20..=45).contains(&answers), "{answers}");
}

#[test]
fn a_link_to_itself_is_not_attached() {
    let mut a = end("a", 1, true);
    let mut now = Millis(0);
    for _ in 0..20 {
        now = now + Millis(100);
        a.run(now).into_iter().for_each(|(port, pdu)| a.receive(OfPort(3 - port.0), &pdu, now));
    }
    assert!(!a.may_enable(P1) && !a.may_enable(P2));
    assert!(a.take_lines().iter().any(|line| line.contains("Loopback detected")));
}

#[test]
fn silent_links_are_used_where_the_settings_say_so() {
    let mut a = end("a", 1, true);
    a.configure(Settings { fallback: true, ..a.settings.clone() });
    a.run(Millis(100));
    assert!(!a.may_enable(P1), "it may still be heard");
    a.run(Millis(3100));
    assert!(a.may_enable(P1) && a.may_enable(P2));
    assert_eq!(a.negotiation(), Negotiation::Configured);
}

#[test]
fn what_is_no_message_is_counted() {
    let mut a = end("a", 1, true);
    a.run(Millis(100));
    for bytes in [&[][..], &[1; 20], &[9; PDU_LEN], &[1; PDU_LEN]] {
        a.receive(P1, bytes, Millis(200));
    }
    let mut marker = [0; PDU_LEN];
    marker[0] = 2;
    a.receive(P1, &marker, Millis(200));
    a.receive(OfPort(7), &marker, Millis(200));
    let stats = a.show_stats();
    assert!(stats.contains("RX Bad PDUs: 4\n  RX Marker Request PDUs: 1\n"), "{stats}");
}

#[test]
fn a_message_says_what_was_composed() {
    let info = |n: u8| Info {
        system_priority: 0x1200 + u16::from(n),
        system: Mac([n; 6]),
        key: 300,
        port_priority: 400,
        port: 500,
        state: State(n),
    };
    let pdu = compose(&info(0x8f), &info(0x35));
    assert_eq!(parse(&pdu), Received::Message { actor: info(0x8f), partner: info(0x35) });
    assert_eq!(parse(&pdu[..PDU_LEN - 1]), Received::Bad);
}
