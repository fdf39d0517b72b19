//! The removal of a control connection while another thread inspects a packet of it.

use crate::tests::{bytes_of, flow_of};
use crate::*;
use units::Millis;

/// Sends a TFTP request, which begins a control connection. Returns the request, and its control connection.
fn request(ct: &Conntrack, port: u16) -> (Vec<u8>, ControlPacket) {
    let l3 = bytes_of(&flow_of(false, packet::ipproto::UDP, (1, port), (2, 69)), b"\0\x01file\0octet\0");
    let action = Action { commit: true, helper: Some(Helper::Tftp), ..Action::TRACK };
    let mut meta = Metadata::default();
    ct.track(&packet(&l3), &mut meta, &action, Millis(0));
    (l3, meta.control.expect("a control connection"))
}

fn packet(l3: &[u8]) -> Packet<'_> {
    Packet { ethertype: 0x0800, l3, sums: UNVERIFIED }
}

#[test]
fn an_expectation_that_is_added_after_the_removal_does_not_stay() {
    let ct = Conntrack::new(1);
    let (l3, control) = request(&ct, 1000);
    ct.inspect(&control, &packet(&l3));
    assert_eq!(ct.dump_expected(None).len(), 1);
    let table = ct.table();
    let (record, keys) = (table.get(control.handle), table.keys(control.handle));
    assert!(ct.remove(control.handle));
    assert!(ct.dump_expected(None).is_empty());
    // Another thread has found the record before the removal, and adds its expectation now.
    let (record, keys) = (record.expect("a record"), keys.expect("its keys"));
    ct.inspect_found(&control, &packet(&l3), record, keys);
    assert!(ct.dump_expected(None).is_empty());
}
