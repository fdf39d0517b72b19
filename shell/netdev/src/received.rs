//! Makes a frame from the bytes and the metadata that a packet socket delivered.

use crate::linux::mmsg::FrameMetadata;
use packet::frame::Frame;
use packet::vnet;

const VLAN_BYTES: usize = 4;
const ADDRESSES: usize = 12;

/// Inserts the VLAN tag that the kernel removed, and sets the frame's offload request. `None`: the frame is invalid.
pub fn frame_with_metadata(mut frame: Frame, meta: &FrameMetadata) -> Option<Frame> {
    if meta.damaged {
        return None;
    }
    let mut offload = vnet::decode(&meta.vnet, frame.bytes_mut())?;
    if let Some((tpid, tci)) = meta.vlan {
        frame.push_front(VLAN_BYTES)?;
        let bytes = frame.bytes_mut();
        bytes.get(..ADDRESSES + VLAN_BYTES)?;
        bytes.copy_within(VLAN_BYTES..ADDRESSES + VLAN_BYTES, 0);
        bytes[ADDRESSES..ADDRESSES + 2].copy_from_slice(&tpid.to_be_bytes());
        bytes[ADDRESSES + 2..ADDRESSES + 4].copy_from_slice(&tci.to_be_bytes());
        offload.shift(VLAN_BYTES as i16);
    }
    frame.set_offload(offload);
    Some(frame)
}
