//! Ports whose megaflows match only the kind of packets.

use crate::tests::{Setup, out, tcp};
use flow::Flow;
use flow::compose::compose;
use units::Millis;

#[test]
fn packets_of_one_kind_are_looked_up_together_and_others_are_not() {
    let kind = Flow { in_port: u32::MAX, dl_type: 0xffff, nw_frag: 3, ..Flow::ZERO };
    let ip =
        |nw_frag, port| (Flow { in_port: 1, dl_type: 0x0800, nw_frag, ..Flow::ZERO }, kind, vec![out(port)]);
    let arp = (Flow { in_port: 1, dl_type: 0x0806, ..Flow::ZERO }, kind, vec![out(4)]);
    let llc = (Flow { in_port: 1, dl_type: 0x05ff, ..Flow::ZERO }, kind, vec![out(2)]);
    let mut setup = Setup::new(vec![ip(0, 2), ip(1, 3), arp, llc]);
    let whole = |src, nw_proto| compose(&Flow { nw_proto, ..tcp(src, 80) }, b"whole");
    let plain = [whole(1, 6), whole(2, 17), whole(3, 6), whole(4, 1)];
    let mut fragment = plain[1].clone();
    fragment[20] |= 0x20;
    let arp = compose(&Flow { dl_type: 0x0806, nw_proto: 1, ..Flow::ZERO }, b"");
    let tagged = [&arp[..12], &[0x81, 0, 0, 5], &arp[12..]].concat();
    let llc = [0; 60];
    for batch in [
        vec![0, 1, 2, 3],
        vec![0, 4, 1, 5, 2],
        vec![5, 0, 4],
        vec![3, 2],
        vec![5, 5],
        vec![5, 6, 5],
        vec![6, 5],
        vec![5, 7, 0],
        vec![7, 7],
    ] {
        let mut expected = [0; 3];
        for which in batch {
            let (bytes, port) = match which {
                4 => (&fragment[..], 3),
                5 => (&arp[..], 4),
                6 => (&tagged[..], 4),
                7 => (&llc[..], 2),
                _ => (&plain[which][..], 2),
            };
            setup.rx[0].put(bytes);
            expected[port - 2] += 1;
        }
        setup.run();
        assert_eq!([2, 3, 4].map(|port| setup.tx[port - 1].take().len()), expected);
    }
    setup.datapath.maintain(Millis(setup.now));
    let flags: Vec<u16> =
        setup.datapath.flow_dump(Millis(setup.now)).iter().map(|f| f.stats.tcp_flags).collect();
    assert_eq!((flags.len(), flags.contains(&0x10)), (4, true));
}

#[test]
fn where_types_alone_count_packets_are_not_read_further() {
    let mask = Flow { in_port: u32::MAX, dl_type: 0xffff, ..Flow::ZERO };
    let of = |dl_type, port| (Flow { in_port: 1, dl_type, ..Flow::ZERO }, mask, vec![out(port)]);
    let mut setup = Setup::new(vec![of(0x0800, 2), of(0x0806, 3), of(0x05ff, 4)]);
    let whole = compose(&tcp(1, 80), b"whole");
    let mut broken = compose(&tcp(2, 80), b"broken");
    broken[14] = 0x41;
    let arp = compose(&Flow { dl_type: 0x0806, nw_proto: 1, ..Flow::ZERO }, b"");
    let tagged = [&whole[..12], &[0x81, 0, 0, 5], &whole[12..]].concat();
    let (llc, short) = ([0; 60], [0; 15]);
    let frames: [(&[u8], usize); 6] =
        [(&whole, 2), (&broken, 2), (&arp, 3), (&tagged, 2), (&llc, 4), (&short, 4)];
    for batch in [
        vec![0, 1, 0],
        vec![4, 4],
        vec![0, 2],
        vec![2, 2, 0],
        vec![3, 0],
        vec![0, 3],
        vec![4, 5],
        vec![5, 4, 0],
    ] {
        let mut expected = [0; 3];
        for which in batch {
            let (bytes, port) = frames[which];
            setup.rx[0].put(bytes);
            expected[port - 2] += 1;
        }
        setup.run();
        assert_eq!([2, 3, 4].map(|port| setup.tx[port - 1].take().len()), expected);
    }
}
