//! Frames, batches, header views and builders, checksums.

pub mod frame;
pub mod queue;
