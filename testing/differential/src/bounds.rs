//! Bounds of a case.

/// How many tables a case uses.
pub const TABLES: u64 = 4;
