//! The options that a connection agreed on besides its version.

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dialect {
    /// `NXT_FLOW_MOD_TABLE_ID`: flow mods of OpenFlow 1.0 say their table.
    pub flow_mod_table_id: bool,
    /// Actions for tests are accepted (`--enable-dummy`).
    pub debug_actions: bool,
}
