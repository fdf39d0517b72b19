//! The table of all database settings that this switch knows.
//!
//! A setting is a column, or a key of a column that is a map. Its entry gives the valid values, the default, the
//! effect in this version and when a change takes effect. Code reads a setting through its entry, so a range or a
//! default is written only once. The log, `sluice settings`, `sluice doctor` and docs/settings.md use the same
//! entries. Names, ranges and defaults are those of ovs-vswitchd.conf.db(5) unless stated otherwise.
//!
//! The crate has no dependencies: ports and DPDK read their settings through it, and need not be recompiled when
//! protocols or the reading of rows change.
//!
//! Invariants, checked by tests: each column of the schema is in this table or in `state`; no setting has two
//! entries; every setting with an effect is read somewhere, and every setting that is read has an entry.

pub mod bridge;
pub mod connection;
pub mod interface;
pub mod not_built;
pub mod options;
pub mod port;
pub mod root;
pub mod sampling;
mod setting;
pub mod state;
pub mod tables;
pub mod text;
mod value;

pub use setting::{Effect, I32_MAX, OutOfRange, Setting, U32_MAX, Value, When};
pub use value::Fault;

#[cfg(test)]
mod tests;

/// All settings, table by table.
pub fn all() -> impl Iterator<Item = &'static Setting> {
    let lists: [&'static [Setting]; 16] = [
        root::NAMED,
        root::OTHERS,
        bridge::NAMED,
        bridge::OTHERS,
        port::NAMED,
        port::OTHERS,
        interface::NAMED,
        interface::OTHERS,
        options::NAMED,
        options::OTHERS,
        connection::NAMED,
        connection::OTHERS,
        tables::NAMED,
        tables::OTHERS,
        sampling::NAMED,
        sampling::OTHERS,
    ];
    lists.into_iter().flatten()
}

/// Finds the entry of a key, for interfaces of type `kind`.
pub fn find(table: &str, column: &str, key: &str, kind: &str) -> Option<&'static Setting> {
    all().find(|s| s.table == table && s.column == column && s.key == key && s.applies_to(kind))
}
