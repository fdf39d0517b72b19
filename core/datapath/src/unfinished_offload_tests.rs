//! Packets with unfinished offloads, of TCP and of UDP: upcalls, branches by packet length, tunnels.

use crate::port::*;
use crate::tests::{Setup, all, out, tcp};
use crate::tunnel_tests;
use dpif::*;
use flow::Flow;
use flow::compose::compose;
use packet::offload::{Gso, GsoKind, Offload, PartialChecksum};
use packet::segment;
use units::{PortNo, QueueId};

const SIZE: u16 = 1000;

const KINDS: [GsoKind; 2] = [GsoKind::Tcp4, GsoKind::Udp4];

/// Delivers one packet with `payload` bytes, an unfinished checksum, and segmentation if it is long.
struct Source(GsoKind, Option<usize>);

fn left_undone(kind: GsoKind, payload: usize) -> (Vec<u8>, Offload) {
    let protocol = if kind.is_tcp() { 6 } else { 17 };
    let mut bytes = compose(&Flow { nw_proto: protocol, ..tcp(7, 80) }, &vec![3; payload]);
    let (start, offset) = segment::make_partial_checksum(&mut bytes).unwrap();
    let gso = (payload > usize::from(SIZE)).then_some(Gso { kind, size: SIZE, ecn: false });
    (bytes, Offload { csum: Some(PartialChecksum { start, offset }), gso })
}

/// The packets that a sender without offloads sends.
fn cut(kind: GsoKind, payload: usize) -> Vec<Vec<u8>> {
    let (mut bytes, note) = left_undone(kind, payload);
    let mut packets = Vec::new();
    note.finish(&mut bytes, |packet| packets.push(packet.to_vec())).unwrap();
    packets
}

impl RxQueue for Source {
    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, _: usize) -> RxResult {
        if let Some(payload) = self.1.take() {
            let (bytes, note) = left_undone(self.0, payload);
            let mut frame = pool.frame_of(&bytes).unwrap();
            frame.set_offload(note);
            out.push(frame);
        }
        RxResult::default()
    }
}

fn deliver(setup: &mut Setup, kind: GsoKind, payload: usize) {
    setup.worker.add_rxq(PortNo(1), QueueId(1), Box::new(Source(kind, Some(payload))));
    setup.run();
}

fn setup(kind: GsoKind, payload: usize, actions: Vec<DpAction>) -> Setup {
    let mut setup = Setup::new(vec![all(actions)]);
    deliver(&mut setup, kind, payload);
    setup
}

#[test]
fn the_control_half_sees_whole_packets() {
    for (kind, payload) in KINDS.into_iter().flat_map(|kind| [(kind, 100), (kind, 2500)]) {
        let to_control = Userspace::slow_path(SlowReason::BFD);
        let setup = setup(kind, payload, vec![DpAction::Userspace(Box::new(to_control))]);
        let seen: Vec<Vec<u8>> =
            setup.control.delivered.lock().unwrap().iter().map(|d| d.0.clone()).collect();
        assert_eq!(seen, cut(kind, payload));
        assert_eq!(setup.balance(), 0);
        // All offloads are finished.
        assert!(seen.iter().all(|packet| segment::find_partial_checksum(packet).is_none()));
    }
}

#[test]
fn the_length_of_a_packet_to_be_cut_is_that_of_its_segments() {
    let look = |kind, pkt_len| {
        let check = CheckPktLen { pkt_len, greater: [out(2)].into(), less_equal: [out(3)].into() };
        let setup = setup(kind, 2500, vec![DpAction::CheckPktLen(Box::new(check))]);
        // The ports here refuse packets longer than 1500 bytes, so their drop counters show which packets they were
        // given.
        [2, 3].map(|no| setup.datapath.port_stats(PortNo(no)).unwrap().tx_dropped)
    };
    for (kind, header) in KINDS.into_iter().zip([20, 8]) {
        let segment = 14 + 20 + header + SIZE;
        assert_eq!([look(kind, segment - 1), look(kind, segment)], [[1, 0], [0, 1]]);
    }
}

/// A packet to be cut enters a tunnel as the packets of a sender without offloads do, except that the identifications of the outer headers
/// count the segments.
#[test]
fn a_packet_is_cut_when_it_enters_a_tunnel() {
    for kind in KINDS {
        let mut setup = tunnel_tests::setup();
        deliver(&mut setup, kind, 2500);
        let outers = setup.tx[1].take();
        assert_eq!(
            outers.iter().map(|outer| u16::from_be_bytes([outer[18], outer[19]])).collect::<Vec<_>>(),
            [0, 1, 2]
        );
        let inners: Vec<_> = outers.iter().map(|outer| outer[50..].to_vec()).collect();
        assert_eq!(inners, cut(kind, 2500));
        outers.iter().for_each(|outer| setup.send(3, outer));
        // The first packet is the copy without a header, which the port refuses because it is too long.
        assert_eq!(setup.tx[3].take(), inners);
        assert_eq!(setup.balance(), 0);
    }
}
