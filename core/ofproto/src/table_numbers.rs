//! Numbers of tables.

/// Number of tables of a bridge.
pub const N_TABLES: usize = 255;
/// The internal table: flows for table misses, and the end of recirculation.
pub const TABLE_INTERNAL: u8 = 254;
/// "Any table" in requests (`OFPTT_ALL`).
pub const TABLE_ALL: u8 = 255;
