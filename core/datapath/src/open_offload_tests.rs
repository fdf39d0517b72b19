//! Packets with unfinished offloads: upcalls, and branches by packet length.

use crate::port::*;
use crate::tests::{Setup, all, out, tcp};
use dpif::*;
use flow::compose::compose;
use packet::offload::{Gso, GsoKind, Offload, PartialChecksum};
use packet::segment;
use units::{PortNo, QueueId};

const SIZE: u16 = 1000;

/// Delivers one TCP packet with `payload` bytes, an unfinished checksum, and segmentation if it is long.
struct Source(Option<usize>);

fn left_undone(payload: usize) -> (Vec<u8>, Offload) {
    let mut bytes = compose(&tcp(7, 80), &vec![3; payload]);
    let (start, offset) = segment::make_partial(&mut bytes).unwrap();
    let gso = (payload > usize::from(SIZE)).then_some(Gso { kind: GsoKind::Tcp4, size: SIZE, ecn: false });
    (bytes, Offload { csum: Some(PartialChecksum { start, offset }), gso })
}

impl RxQueue for Source {
    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, _: usize) -> RxResult {
        if let Some(payload) = self.0.take() {
            let (bytes, note) = left_undone(payload);
            let mut frame = pool.frame_of(&bytes).unwrap();
            frame.set_offload(note);
            out.push(frame);
        }
        RxResult::default()
    }
}

fn setup(payload: usize, actions: Vec<DpAction>) -> Setup {
    let mut setup = Setup::new(vec![all(actions)]);
    setup.worker.add_rxq(PortNo(1), QueueId(1), Box::new(Source(Some(payload))));
    setup.run();
    setup
}

#[test]
fn the_control_half_sees_whole_packets() {
    for payload in [100, 2500] {
        let to_control = Userspace::slow_path(SlowReason::BFD);
        let setup = setup(payload, vec![DpAction::Userspace(Box::new(to_control))]);
        let seen: Vec<Vec<u8>> =
            setup.control.delivered.lock().unwrap().iter().map(|d| d.0.clone()).collect();
        let (mut bytes, note) = left_undone(payload);
        let mut whole = Vec::new();
        note.finish(&mut bytes, |packet| whole.push(packet.to_vec())).unwrap();
        assert_eq!(seen, whole);
        assert_eq!(setup.balance(), 0);
        // All offloads are finished.
        assert!(seen.iter().all(|packet| segment::find_partial(packet).is_none()));
    }
}

#[test]
fn the_length_of_a_packet_to_be_cut_is_that_of_its_segments() {
    let look = |pkt_len| {
        let check = CheckPktLen { pkt_len, greater: [out(2)].into(), less_equal: [out(3)].into() };
        let setup = setup(2500, vec![DpAction::CheckPktLen(Box::new(check))]);
        // The ports here refuse packets longer than 1500 bytes, so their drop counters show which packets they were
        // given.
        [2, 3].map(|no| setup.datapath.port_stats(PortNo(no)).unwrap().tx_dropped)
    };
    let segment = 14 + 20 + 20 + SIZE;
    assert_eq!([look(segment - 1), look(segment)], [[1, 0], [0, 1]]);
}
