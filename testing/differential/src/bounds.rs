//! Limits of a case.

/// Number of tables with random flows.
pub const TABLES: u64 = 4;
