//! The variants of the wire format that a connection has negotiated besides its version.

/// Variants of the wire format besides the version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dialect {
    /// `NXT_FLOW_MOD_TABLE_ID`: whether flow mods of OpenFlow 1.0 contain a table number.
    pub flow_mod_table_id: bool,
    /// Whether actions for tests are accepted (`--enable-dummy`).
    pub debug_actions: bool,
}
