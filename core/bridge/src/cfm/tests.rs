//! Sessions on a link that loses frames, in virtual time.

use super::event::Event;
use super::fault::Faults;
use super::frame::ETHERTYPE;
use super::message::{Message, Refusal};
use super::session::Session;
use super::settings::{Settings, Vlan};
use crate::payload::payload;
use flow::Mac;
use proptest::prelude::*;
use units::Millis;

const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const STEP: u64 = 100;

fn settings(id: u64) -> Settings {
    Settings { id, interval: Millis(300), extended: true, ..Settings::default() }
}

fn session(settings: Settings) -> Session {
    Session::new(settings, MAC, 0, 7, Millis(0)).unwrap()
}

/// Runs two sessions from `from` for `time`. A frame arrives if `arrives` returns true.
fn run(ends: &mut [Session; 2], from: u64, time: u64, mut arrives: impl FnMut(usize) -> bool) {
    for now in (from..from + time).step_by(STEP as usize).map(Millis) {
        for sender in 0..2 {
            if let Some(frame) = ends[sender].transmit(now)
                && arrives(sender)
            {
                ends[1 - sender].receive(&frame, now);
            }
        }
        ends.iter_mut().for_each(|end| end.run(now));
    }
}

#[test]
fn two_points_hear_each_other_and_notice_when_one_is_gone() {
    let mut ends = [session(settings(1)), session(settings(2))];
    run(&mut ends, 0, 10_100, |_| true);
    for (end, other) in ends.iter().zip([2, 1]) {
        let status = end.status();
        assert_eq!((status.faults.len(), status.health, status.flaps), (0, Some(100), 0));
        assert_eq!((status.remote_ids, status.remote_is_up), (vec![other], Some(true)));
        assert!(end.is_forwarding());
    }
    run(&mut ends, 10_100, 3_000, |sender| sender == 0);
    assert_eq!(ends[0].faults(), Faults::RECV);
    assert!(!ends[0].is_forwarding());
    // The second session receives messages, in which the first session reports that it receives none.
    assert_eq!(ends[1].faults(), Faults::RDI);
    run(&mut ends, 13_100, 3_000, |_| true);
    assert_eq!(ends[0].status().flaps, 2);
    assert!(ends.iter().all(Session::is_forwarding));
}

#[test]
fn traffic_stands_for_messages_in_demand_mode_for_a_time() {
    let demand = |id| Settings { demand: true, ..settings(id) };
    let mut ends = [session(demand(1)), session(demand(2))];
    run(&mut ends, 0, 5_000, |_| true);
    let mut packets = 0;
    let last_message = 5_000;
    for start in (last_message..60_000).step_by(1000) {
        packets += 1;
        ends[0].count_traffic(packets);
        run(&mut ends, start, 1000, |_| false);
        // 100 message intervals, and up to one check interval more.
        match start {
            ..34_000 => assert!(ends[0].is_forwarding(), "{start}"),
            38_000.. => assert!(!ends[0].is_forwarding(), "{start}"),
            _ => {}
        }
    }
}

#[test]
fn an_operational_state_and_a_forced_fault_stop_forwarding() {
    let mut ends = [session(settings(1)), session(settings(2))];
    ends[1].configure(Settings { is_up: false, ..settings(2) }, Millis(0)).unwrap();
    run(&mut ends, 0, 5_000, |_| true);
    assert_eq!(
        (ends[0].faults(), ends[0].remote_is_up(), ends[0].is_forwarding()),
        (Faults::empty(), Some(false), false)
    );
    assert!(ends[1].is_forwarding());
    ends[1].take_changed();
    ends[1].force_fault(Some(true));
    assert!(ends[1].take_changed());
    assert_eq!(ends[1].status().faults, ["override"]);
    assert!(ends[1].show(Millis(5_000)).starts_with("MPID 2: extended fault_override\n  fault: override\n"));
    ends[1].force_fault(None);
    assert!(ends[1].is_forwarding());
}

#[test]
fn intervals_outside_extended_mode_are_those_of_the_standard() {
    for (asked, code, sent) in [(1, 1, 3), (99, 2, 10), (300, 3, 100), (1000, 4, 1000), (900_000, 7, 600_000)]
    {
        let interval = Settings { extended: false, interval: Millis(asked), ..settings(1) }.sent_interval();
        assert_eq!((interval.code, interval.time), (code, Millis(sent)), "{asked}");
    }
    let extended = |asked| settings_with(asked).sent_interval();
    assert_eq!((extended(300).code, extended(300).time), (0, Millis(300)));
    assert_eq!((extended(100).code, extended(100_000).time), (3, Millis(65_535)));
}

fn settings_with(interval: u64) -> Settings {
    Settings { interval: Millis(interval), ..settings(1) }
}

#[test]
fn identifiers_are_bounded_outside_extended_mode() {
    let standard = |id| Session::new(Settings { extended: false, ..settings(id) }, MAC, 0, 7, Millis(0));
    assert!(standard(8191).is_ok() && standard(8192).is_err() && standard(0).is_err());
    let mut extended = session(settings(u64::MAX));
    assert!(extended.configure(settings(0), Millis(0)).is_err());
    assert_eq!(extended.settings.id, u64::MAX);
}

#[test]
fn a_frame_has_a_tag_if_it_needs_one() {
    let frame =
        |vlan, priority| session(Settings { vlan, priority, ..settings(1) }).transmit(Millis(0)).unwrap();
    assert_eq!(frame(Vlan::Id(0), 0)[12..14], ETHERTYPE.to_be_bytes());
    assert_eq!(frame(Vlan::Id(5), 3)[12..16], [0x81, 0, 0x60, 5]);
    let random = frame(Vlan::Random, 0);
    assert!(
        payload(&random, ETHERTYPE).is_some_and(|(from, rest)| from == MAC && Message::decode(rest).is_ok())
    );
}

#[test]
fn what_is_wrong_with_a_message_is_a_fault_or_an_event() {
    let mut end = session(settings(1));
    let good = session(settings(2)).transmit(Millis(0)).unwrap();
    end.receive(&good[..80], Millis(1));
    let mut other = good.clone();
    other[14 + 1] = 5;
    end.receive(&other, Millis(1));
    let mut foreign = good.clone();
    foreign[14 + 12] ^= 1;
    end.receive(&foreign, Millis(1));
    assert_eq!(
        end.take_events(),
        [Event::Refused(Refusal::TooShort), Event::Refused(Refusal::Opcode(5)), Event::OtherAssociation(MAC)]
    );
    assert!(end.points.is_empty());
    end.receive(&session(settings(1)).transmit(Millis(0)).unwrap(), Millis(1));
    (2..1000).for_each(|id| end.receive(&session(settings(id)).transmit(Millis(0)).unwrap(), Millis(1)));
    end.run(Millis(2000));
    assert_eq!(end.faults(), Faults::MAID | Faults::LOOPBACK | Faults::OVERFLOW);
    assert_eq!(end.points.len(), 256);
}

proptest! {
    #[test]
    fn a_message_round_trips(sequence: u32, id: u16, extended_id: u64, rdi: bool, is_down: bool, code in 0_u8..8, interval: u16) {
        let message = Message {
            sequence, id, extended_id, rdi, is_down, is_of_our_association: true, interval_code: code,
            extended_interval: Millis(u64::from(interval)),
        };
        prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
        prop_assert_eq!(Message::decode(&message.encode()[..74]), Ok(message));
        prop_assert_eq!(Message::decode(&message.encode()[..73]), Err(Refusal::TooShort));
    }

    #[test]
    fn no_frame_causes_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..120), place in 0_usize..90, byte: u8) {
        let mut end = session(settings(1));
        end.receive(&bytes, Millis(1));
        let mut frame = session(settings(2)).transmit(Millis(0)).unwrap();
        let place = place % frame.len();
        frame[place] = byte;
        end.receive(&frame, Millis(1));
        end.run(Millis(5000));
        prop_assert!(end.points.len() <= 1);
    }

    /// With losses: a session reports `recv` exactly if it has received no message since the last check.
    #[test]
    fn silence_is_a_fault(losses in prop::collection::vec(any::<bool>(), 400)) {
        let mut ends = [session(settings(1)), session(settings(2))];
        let mut losses = losses.into_iter();
        let mut heard = false;
        for now in (0..20_000).step_by(STEP as usize).map(Millis) {
            if let Some(frame) = ends[1].transmit(now) && losses.next() != Some(true) {
                ends[0].receive(&frame, now);
                heard = true;
            }
            let check = now >= ends[0].next_check;
            ends[0].run(now);
            if check {
                prop_assert_eq!(ends[0].faults().contains(Faults::RECV), !std::mem::take(&mut heard));
            }
        }
    }
}
