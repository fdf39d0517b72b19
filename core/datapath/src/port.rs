//! The interface between devices and the datapath: `shell/netdev` implements it and workers call it.
//!
//! The types live in `packet`, so that a device driver does not depend on the datapath.

pub use packet::frame::{DATA_ROOM, FRAME_MAX, Frame, FrameBatch, FramePool, HEADROOM};
pub use packet::queue::{QosResult, RX_BURST, Repeat, RxQueue, RxResult, Sink, TxQueue, TxResult};
