//! Features, configuration and statistics of tables.

use flow::FieldId;

/// Handling of a packet that matches no flow of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableMiss {
    /// The default of the protocol version.
    #[default]
    Default,
    /// Send the packet to the controller.
    Controller,
    /// Continue in the next table.
    Continue,
    /// Drop the packet.
    Drop,
}

/// Thresholds of vacancy events, in percent (1.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vacancy {
    /// Send an event when the vacancy falls below this percentage.
    pub down: u8,
    /// Send an event when the vacancy rises above this percentage.
    pub up: u8,
    /// Current vacancy.
    pub now: u8,
}

/// Configuration of a table (`OFPT_TABLE_MOD`, `OFPMP_TABLE_DESC`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableConfig {
    /// The table; all ones: all tables.
    pub table: u8,
    /// Handling of misses (1.1, 1.2).
    pub miss: TableMiss,
    /// Whether flows may be evicted (1.4); `None`: not in the message.
    pub eviction: Option<bool>,
    /// `OFPTMPEF14_*`, if in the message.
    pub eviction_flags: Option<u32>,
    /// Whether vacancy events are enabled (1.4); `None`: not in the message.
    pub vacancy_events: Option<bool>,
    /// Thresholds of vacancy events; `None`: not in the message.
    pub vacancy: Option<Vacancy>,
}

/// Reports that a table's vacancy has crossed a threshold (`OFPT_TABLE_STATUS`, OpenFlow 1.4.1 §7.4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableStatus {
    /// [`VACANCY_DOWN`] or [`VACANCY_UP`].
    pub reason: u8,
    /// The current configuration.
    pub desc: TableConfig,
}

/// Converts a set of action numbers of OpenFlow 1.2 and later to a set of 1.1. Version 1.1 has no set-field but
/// an action for each field (OpenFlow 1.1 §A.2.5).
pub fn actions_in_11(bits: u32) -> u32 {
    const SET_FIELD: u32 = 1 << 25;
    // OFPAT_SET_VLAN_VID to OFPAT_SET_TP_DST, and the actions that set label and traffic class of MPLS.
    const OF_FIELDS: u32 = 0x7fe | 3 << 13;
    if bits & SET_FIELD == 0 { bits } else { bits & !SET_FIELD | OF_FIELDS }
}

/// `OFPTR_VACANCY_DOWN`
pub const VACANCY_DOWN: u8 = 3;
/// `OFPTR_VACANCY_UP`
pub const VACANCY_UP: u8 = 4;

/// Supported instructions, on a match or on a miss.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstructionFeatures {
    /// Instructions: bits by number on the wire (1 goto-table … 6 meter).
    pub instructions: u32,
    /// Tables that goto-table may select.
    pub next_tables: Vec<u8>,
    /// Actions in write-actions: bits by number of a 1.3 action.
    pub write_actions: u32,
    /// Actions in apply-actions: bits by number of a 1.3 action.
    pub apply_actions: u32,
    /// Fields of set-field in write-actions.
    pub write_set_fields: Vec<FieldId>,
    /// Fields of set-field in apply-actions.
    pub apply_set_fields: Vec<FieldId>,
}

/// The effect of a request on tables; the discriminant is the number on the wire (OpenFlow 1.5.1 §7.3.5.18.1).
/// Before 1.5 a request always replaces all tables.
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableCommand {
    /// The pipeline consists of exactly these tables.
    #[default]
    Replace = 0,
    /// Changes these tables and no others.
    Modify = 1,
    /// Adds these tables to the pipeline.
    Enable = 2,
    /// Removes these tables from the pipeline.
    Disable = 3,
}

impl TableCommand {
    /// The command with this number.
    pub fn from_wire(n: u8) -> Option<TableCommand> {
        use TableCommand::*;
        [Replace, Modify, Enable, Disable].get(usize::from(n)).copied()
    }
}

/// Features of a table (`OFPMP_TABLE_FEATURES`, and in the table statistics of OpenFlow 1.0 to 1.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFeatures {
    /// The table.
    pub table: u8,
    /// Command of a request.
    pub command: TableCommand,
    /// Whether the request leaves the table's properties unchanged.
    pub keeps_properties: bool,
    /// Name of the table.
    pub name: String,
    /// Bits of metadata that can be matched.
    pub metadata_match: u64,
    /// Bits of metadata that can be written.
    pub metadata_write: u64,
    /// Supported handling of misses, as bits of `OFPTC11_*`.
    pub miss_config: u32,
    /// Whether the table supports eviction (1.4).
    pub supports_eviction: bool,
    /// Whether the table supports vacancy events (1.4).
    pub supports_vacancy_events: bool,
    /// Maximum number of flows.
    pub max_entries: u32,
    /// Instructions of flows other than the table-miss flow.
    pub nonmiss: InstructionFeatures,
    /// Instructions of the table-miss flow.
    pub miss: InstructionFeatures,
    /// Fields that can be matched.
    pub matching: Vec<FieldId>,
    /// Fields that can be matched with a mask.
    pub mask: Vec<FieldId>,
    /// Fields that a match may leave out.
    pub wildcard: Vec<FieldId>,
}

/// Counters of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Features that the statistics of OpenFlow 1.0 to 1.2 include.
    pub features: TableFeatures,
    /// Flows.
    pub active: u32,
    /// Packets looked up.
    pub lookups: u64,
    /// Packets that matched.
    pub matched: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_1_has_an_action_for_each_field() {
        let output_group_queue = 1 | 1 << 22 | 1 << 21;
        assert_eq!(actions_in_11(output_group_queue), output_group_queue);
        assert_eq!(actions_in_11(1 | 1 << 25), 0x67ff);
    }
}
