//! What captures get, at each side, and that nothing stays behind when they end.

use super::*;
use crate::by_source_tests::{BySource, packet, source};
use crate::packet::Meta;
use crate::tests::Wire;
use dpif::{DpAction, DropReason};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use units::{Millis, Nanos, PortNo};

fn spec() -> CaptureSpec {
    CaptureSpec::everything(1 << 16, 1 << 20)
}

/// Source 2 goes to port 2; source 9 to a port that does not exist; [`DROPPED`] is dropped by the tables.
fn two_ports() -> BySource {
    let setup = BySource::new();
    setup.datapath.add_port(PortNo(2), vec![Box::new(Wire::default())]).unwrap();
    setup
}

const DROPPED: u32 = 20;

impl BySource {
    fn start(&self, spec: CaptureSpec) -> Arc<Capture> {
        let ticks = AtomicU64::new(0);
        let capture =
            Arc::new(Capture::new(spec, Arc::new(move || Nanos(ticks.fetch_add(1, Ordering::Relaxed)))));
        self.datapath.start_capture(&capture).unwrap();
        capture
    }
}

/// Returns side and port of all packets that wait, and whether each has a megaflow.
fn taken(capture: &Capture) -> Vec<(Side, u32, bool)> {
    capture.take().iter().map(|(r, _)| (r.side, r.port, r.megaflow.is_some())).collect()
}

#[test]
fn both_sides_and_drops() {
    let mut setup = two_ports();
    let capture = setup.start(spec());
    let (rx, tx) = (|known| (Side::Rx, 1, known), (Side::Tx, 2, false));
    let (dropped, lost) = (
        (Side::DroppedIn(DropReason::ActionOfPipeline), 1, false),
        (Side::DroppedOut(DropReason::InvalidPort), 9, false),
    );
    // The first packet of a flow has an upcall, the second a megaflow.
    setup.send(&[2]);
    assert_eq!(taken(&capture), [rx(false), tx]);
    setup.send(&[2]);
    assert_eq!(taken(&capture), [rx(true), tx]);
    setup.send(&[DROPPED]);
    assert_eq!(taken(&capture), [rx(false), dropped]);
    // A burst of drops by one megaflow is captured completely.
    setup.send(&[DROPPED; 3]);
    assert_eq!(taken(&capture), [rx(true), rx(true), rx(true), dropped, dropped, dropped]);
    setup.send(&[9]);
    assert_eq!(taken(&capture), [rx(false), lost]);
    assert_eq!((capture.counts().wanted, capture.counts().lost), (14, 0));
    setup.datapath.stop_capture(&capture);
    setup.send(&[2, DROPPED, 9]);
    assert!(capture.take().is_empty() && setup.datapath.captures().is_empty());
    let sums: Vec<u64> = setup.datapath.port_drops().values().map(|counts| counts.iter().sum()).collect();
    assert_eq!(sums, [5, 2], "drops by port");
}

#[test]
fn drops_of_other_ports_stay_a_burst() {
    let mut setup = two_ports();
    let other = setup.start(CaptureSpec { ports: [2].into(), ..spec() });
    setup.send(&[DROPPED]);
    setup.send(&[DROPPED; 3]);
    assert!(taken(&other).is_empty() && other.counts().wanted == 0);
    let this = setup.start(CaptureSpec { ports: [1].into(), rx: false, tx: false, ..spec() });
    setup.send(&[DROPPED; 3]);
    assert_eq!(taken(&this).len(), 3);
}

#[test]
fn only_what_is_wanted() {
    let mut setup = two_ports();
    setup.send(&[2, DROPPED]);
    let ufid = setup
        .datapath
        .flow_dump(Millis(1))
        .into_iter()
        .find(|f| f.actions.contains(&DpAction::Output(PortNo(2))))
        .unwrap()
        .ufid;
    let by_flow = setup.start(CaptureSpec { filter: Some(source(DROPPED)), drops: false, ..spec() });
    let by_megaflow = setup.start(CaptureSpec { megaflow: Some(ufid), ..spec() });
    let by_port = setup.start(CaptureSpec { ports: [2].into(), ..spec() });
    let by_reason = setup.start(CaptureSpec {
        rx: false,
        tx: false,
        reasons: [DropReason::InvalidPort].into(),
        ..spec()
    });
    let sampled = setup.start(CaptureSpec { every: 3, drops: false, tx: false, ..spec() });
    let slow = setup.start(CaptureSpec { rate: 2, drops: false, tx: false, ..spec() });
    let short = setup.start(CaptureSpec { snaplen: 14, tx: false, drops: false, ..spec() });
    setup.send(&[2, DROPPED, 2, 9, 2, DROPPED]);
    assert_eq!(taken(&by_flow), [(Side::Rx, 1, true); 2]);
    assert_eq!(taken(&by_megaflow), [(Side::Rx, 1, true); 3]);
    assert_eq!(taken(&by_port), [(Side::Tx, 2, false); 3]);
    assert_eq!(taken(&by_reason), [(Side::DroppedOut(DropReason::InvalidPort), 9, false)]);
    assert_eq!((sampled.take().len(), sampled.counts().sampled_out), (2, 4));
    assert_eq!((slow.take().len(), slow.counts().over_rate), (2, 4));
    let batch = short.take();
    let lengths: Vec<_> = batch.iter().map(|(r, bytes)| (r.len as usize, bytes.len())).collect();
    assert_eq!(lengths, [(packet(1).len(), 14); 6]);
    assert!(setup.datapath.start_capture(&by_flow).is_ok());
    assert!(setup.datapath.start_capture(&by_flow).is_err(), "there is a limit");
}

#[test]
fn what_does_not_fit_is_lost_and_counted() {
    let mut setup = two_ports();
    setup.send(&[2]);
    let one = packet(2).len() + OVERHEAD;
    let capture = setup.start(CaptureSpec { memory: 3 * one, tx: false, ..spec() });
    setup.send(&[2; 10]);
    assert_eq!((capture.take().len(), capture.counts().lost), (3, 7));
    setup.send(&[2; 2]);
    assert_eq!(capture.take().len(), 2, "the memory is free again");
}

#[test]
fn packets_of_captured_ports_go_the_same_way() {
    let (mut plain, mut captured) = (two_ports(), two_ports());
    captured.start(spec());
    let is_same = |plain: &BySource, captured: &BySource| plain.worker.tally() == captured.worker.tally();
    for round in 0..40u32 {
        let sources: Vec<u32> =
            (0..round % 17).map(|i| [2, DROPPED, 9, 2, 100 + i][(round + i) as usize % 5]).collect();
        plain.send(&sources);
        captured.send(&sources);
        assert!(
            is_same(&plain, &captured),
            "round {round}: {:?} {:?}",
            plain.worker.tally(),
            captured.worker.tally()
        );
    }
    // A port that is added while a capture runs is captured too.
    captured.datapath.add_port(PortNo(9), vec![Box::new(Wire::default())]).unwrap();
    let capture = captured.start(CaptureSpec { rx: false, drops: false, ..spec() });
    captured.send(&[9]);
    assert_eq!(taken(&capture), [(Side::Tx, 9, false)]);
}

#[test]
fn readers_and_writers_meet() {
    let capture = Arc::new(Capture::new(CaptureSpec { filter: None, ..spec() }, Arc::new(|| Nanos(1))));
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..3)
        .map(|queue| {
            let capture = Arc::clone(&capture);
            std::thread::spawn(move || {
                let meta = Meta::received(1);
                for n in 0..5000u32 {
                    let bytes = n.to_be_bytes();
                    let offered = Offered {
                        side: Side::Rx,
                        port: 1,
                        bytes: &bytes,
                        meta: &meta,
                        megaflow: None,
                        upcall: false,
                    };
                    // Two of the threads share a queue.
                    capture.offer(queue / 2, &offered);
                }
            })
        })
        .collect();
    let reader = {
        let (capture, stop) = (Arc::clone(&capture), Arc::clone(&stop));
        std::thread::spawn(move || {
            let mut n = 0;
            while !stop.load(Ordering::Relaxed) {
                n += capture.take().len();
            }
            n + capture.take().len()
        })
    };
    writers.into_iter().for_each(|w| w.join().unwrap());
    stop.store(true, Ordering::Relaxed);
    let read = reader.join().unwrap() as u64;
    let n = capture.counts();
    assert_eq!((n.wanted, n.kept, n.kept + n.lost), (15000, read, 15000));
}
