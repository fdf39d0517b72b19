//! Packets: the optimised extraction of the datapath gives the same fields as the reference implementation, at every depth.

use classifier::megaflow::convert::line_of;
use classifier::megaflow::{ALL_WORDS, Depth, Key};
use datapath::batch::Batch;
use datapath::packet::Meta;
use datapath::path::extract::{line, read};
use datapath::port::FramePool;
use flow::Flow;
use flow::extract::extract;

/// The first byte selects the maximum number of parsed VLAN tags and the packet type; a frame follows.
pub fn run(data: &[u8]) {
    let Some((&mode, data)) = data.split_first() else { return };
    let packet_type = match mode & 0xc {
        0x4 => 0x1_0800,
        0x8 => 0x1_86dd,
        0xc => 0x1_8847,
        _ => 0,
    };
    let meta = Meta {
        recirc_id: 7,
        pkt_mark: 8,
        ct_state: 1,
        ct_zone: 2,
        ct_mark: 3,
        vlan_limit: mode & 3,
        packet_type,
        ..Meta::received(1)
    };
    let mut flow = meta.to_flow();
    let layers = extract(data, meta.tags(), &mut flow);
    let starts = [layers.l2_5, layers.l3, layers.l4];
    assert!(
        starts.into_iter().flatten().is_sorted() && starts.into_iter().flatten().all(|at| at <= data.len())
    );
    assert!(layers.l2_pad <= data.len());
    assert_eq!(Key::from_flow(&Key::from_flow(&flow).to_flow()).line, line_of(&flow));

    assert_eq!(line(data, &meta, Depth::L4).0, line_of(&flow));
    let to_l3 = Flow { tp_src: 0, tp_dst: 0, tcp_flags: 0, ..flow };
    assert_eq!(line(data, &meta, Depth::L3).0, line_of(&to_l3));
    let to_l2 = Flow { nw_src: 0, nw_dst: 0, nw_proto: 0, nw_tos: 0, nw_ttl: 0, nw_frag: 0, ..to_l3 };
    assert_eq!(line(data, &meta, Depth::L2).0, line_of(&to_l2));
    assert_eq!(line(data, &meta, Depth::Port).0, line_of(&meta.to_flow()));
    check_batch_keys(data, &meta, &flow);
    flow::text::flow_text(&flow, &flow::text::NoNames);
    openflow::text::packet_text(data, packet_type);
}

/// Checks that the keys of a batch are those of its packets, whether they have common or separate metadata.
fn check_batch_keys(data: &[u8], meta: &Meta, flow: &Flow) {
    let mut pool = FramePool::new(2);
    for own in [false, true] {
        let mut batch = Batch::default();
        batch.common = meta.clone();
        batch.frames.extend([data, data].into_iter().filter_map(|data| pool.frame_of(data)));
        batch.own.extend(batch.frames.iter().filter(|_| own).map(|_| meta.clone()));
        for depth in [Depth::L2, Depth::L3, Depth::L4] {
            read(&mut batch, depth, 0);
            for i in 0..batch.len() {
                assert_eq!((batch.lines[i], batch.tcp_flags[i]), line(data, meta, depth));
            }
        }
        read(&mut batch, Depth::Wide, ALL_WORDS);
        let key = Key::from_flow(flow);
        for i in 0..batch.len() {
            assert_eq!(batch.lines[i], key.line);
            assert!(batch.exts.iter().zip(key.ext).all(|(column, word)| column[i] == word));
        }
    }
}
