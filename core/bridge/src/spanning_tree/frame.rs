//! Encapsulation of BPDUs: IEEE 802.3 frames with a length field and an LLC header.

use super::bpdu::Bpdu;
use flow::Mac;
use packet::ethertype;

/// Destination address of BPDUs (IEEE 802.1D-2004 table 7-10).
pub const DESTINATION: Mac = Mac([0x01, 0x80, 0xc2, 0x00, 0x00, 0x00]);

/// LLC header of BPDUs (§9.1.3): both service access points, and unnumbered information.
const LLC: [u8; 3] = [0x42, 0x42, 0x03];
/// Length of both MAC addresses.
const ADDRESSES: usize = 12;

/// Encapsulates a BPDU in a frame from a port with address `mac`.
pub(super) fn frame(bpdu: &Bpdu, mac: Mac) -> Vec<u8> {
    let bytes = bpdu.encode();
    let len = (LLC.len() + bytes.len()) as u16;
    [&DESTINATION.0[..], &mac.0, &len.to_be_bytes(), &LLC, &bytes].concat()
}

/// The BPDU in a frame, without the padding of the frame. VLAN tags are skipped.
pub fn payload(frame: &[u8]) -> Option<&[u8]> {
    let mut rest = frame.get(ADDRESSES..)?;
    loop {
        let (kind, after) = rest.split_first_chunk()?;
        let kind = u16::from_be_bytes(*kind);
        if kind != ethertype::VLAN && kind != ethertype::QINQ {
            let payload = after.get(..usize::from(kind)).unwrap_or(after);
            return payload.strip_prefix(&LLC);
        }
        rest = after.get(2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::extract::extract_from;

    #[test]
    fn a_bpdu_round_trips_through_its_frame() {
        let mut frame = frame(&Bpdu::Tcn, Mac([2, 0, 0, 0, 0, 1]));
        let flow = extract_from(&frame, 1);
        assert_eq!((flow.dl_dst, flow.dl_src, flow.dl_type), (DESTINATION, Mac([2, 0, 0, 0, 0, 1]), 0x05ff));
        frame.extend([0; 40]);
        assert_eq!(payload(&frame), Some(&Bpdu::Tcn.encode()[..]));
        let mut tagged = frame.clone();
        tagged.splice(12..12, [0x81, 0, 0, 7]);
        assert_eq!(payload(&tagged), Some(&Bpdu::Tcn.encode()[..]));
        assert!((0..17).all(|len| payload(&frame[..len]).is_none()));
        frame[15] = 0xaa;
        assert_eq!(payload(&frame), None);
    }
}
