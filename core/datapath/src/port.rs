//! The contract with devices, in one place: what `shell/netdev` implements and the worker calls.
//!
//! The types live in `packet`, so that a device driver need not know the datapath.

pub use packet::frame::{DATA_ROOM, FRAME_MAX, Frame, FrameBatch, FramePool, HEADROOM};
pub use packet::queue::{QosResult, RX_BURST, RxQueue, RxResult, Sink, TxQueue, TxResult};
