//! Frames, batches, header views and builders, checksums.
