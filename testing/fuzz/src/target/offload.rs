//! Offload headers of guests and kernels: the parsed values fit the frame, or the header is refused.

use packet::segment;
use packet::vnet::{LEN, decode, encode};

/// Maximum number of bytes of all segments, apart from headers: those of a few of the largest frames.
const EMITTED_MAX: usize = 1 << 18;

/// The input is a header followed by a frame.
pub fn run(data: &[u8]) {
    let Some((header, frame)) = data.split_first_chunk::<LEN>() else { return };
    let mut frame = frame.to_vec();
    segment::layout(&frame);
    segment::find_partial_checksum(&frame);
    let Some(mut offload) = decode(header, &mut frame) else { return };
    let again = decode(&encode(&offload, &frame), &mut frame);
    assert_eq!(again, Some(offload));
    offload.shift(4);
    offload.shift(-4);
    let (len, mut packets, mut bytes) = (frame.len(), 0, 0);
    let done = offload.finish(&mut frame, |packet| {
        packets += 1;
        bytes += packet.len();
        assert!(packet.len() <= len, "a segment is no longer than the whole");
    });
    assert_eq!(done.unwrap_or(0), packets);
    assert!(bytes <= EMITTED_MAX + 120 * len, "{packets} packets of {bytes} bytes from {len}");
}
