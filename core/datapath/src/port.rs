//! The interface between devices and the datapath: `shell/netdev` implements it and workers call it.
//!
//! The types live in `packet`, so that a device driver does not depend on the datapath.

pub use packet::frame::{FRAME_MAX, Frame, FrameBatch, FramePool, HEADROOM, USUAL_FRAME_MAX};
pub use packet::queue::{QosResult, RX_BURST, Repeat, RxQueue, RxResult, Sink, TxQueue, TxResult};
