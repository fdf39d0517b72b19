//! Flows that change MPLS labels, and packets that match them. Few of the other packets have labels.

use crate::packet::Packet;
use crate::pools::port;
use crate::rng::Rng;
use crate::table::Table;

/// Priority of the first flow. It is higher than those of [`Table::random`] and [`crate::version10`].
const PRIORITY: u64 = 2500;

/// Adds flows for labelled packets.
pub fn add(rng: &mut Rng, table: &mut Table) {
    for n in 0..rng.between(1, 3) {
        let matching = rng.pick(&["", ",mpls_bos=1", ",mpls_label=17", ",mpls_tc=3", ",in_port=2"]);
        let changes: Vec<String> = (0..rng.between(1, 3)).map(|_| change(rng)).collect();
        table.flows.push(format!(
            "flow add table=0,priority={},mpls{matching},actions={},output:{}",
            PRIORITY - n,
            changes.join(","),
            port(rng)
        ));
    }
}

fn change(rng: &mut Rng) -> String {
    match rng.below(7) {
        0..2 => format!("set_mpls_ttl({})", rng.pick(&[1, 9, 255])),
        2 => "dec_mpls_ttl".to_owned(),
        3 => format!("set_field:{}->mpls_label", rng.pick(&[3, 17, 0xf_ffff])),
        4 => format!("set_field:{}->mpls_tc", rng.below(8)),
        5 => format!("set_field:{}->mpls_ttl", rng.pick(&[2, 64])),
        _ => format!("output:{}", port(rng)),
    }
}

/// A random packet with a label and without a VLAN tag.
pub fn packet(rng: &mut Rng, ports: &[u16]) -> Packet {
    loop {
        let packet = Packet::random(rng, ports);
        if matches!(packet.bytes.get(12..14), Some([0x88, 0x47 | 0x48])) && !packet.lacks_label() {
            return packet;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_have_labels_and_flows_change_them() {
        let (mut rng, mut table) = (Rng::new(1), Table::default());
        (0..50).for_each(|_| add(&mut rng, &mut table));
        assert!(table.flows.iter().all(|line| line.contains(",mpls")));
        assert!(
            ["set_mpls_ttl(", "dec_mpls_ttl", "->mpls_tc"].iter().all(|a| table.flows.concat().contains(a))
        );
        assert_eq!(packet(&mut rng, &[1]).bytes[12], 0x88);
    }
}
