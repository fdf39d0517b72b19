//! Tables: what they can do, how they are set.

use flow::FieldId;

/// What happens to a packet that no flow of the table matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableMiss {
    /// As the version's standard says.
    #[default]
    Default,
    /// To the controller.
    Controller,
    /// To the next table.
    Continue,
    /// Dropped.
    Drop,
}

/// Thresholds of vacancy events, in percent (1.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vacancy {
    /// Event when it falls below.
    pub down: u8,
    /// Event when it rises above.
    pub up: u8,
    /// How vacant it is now.
    pub now: u8,
}

/// How a table is set, asked or told (`OFPT_TABLE_MOD`, `OFPMP_TABLE_DESC`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableConfig {
    /// The table; all ones is all.
    pub table: u8,
    /// Miss (1.1, 1.2).
    pub miss: TableMiss,
    /// Flows may be evicted (1.4); `None`: not said.
    pub eviction: Option<bool>,
    /// `OFPTMPEF14_*`, where the message says it.
    pub eviction_flags: Option<u32>,
    /// Vacancy events are wanted (1.4); `None`: not said.
    pub vacancy_events: Option<bool>,
    /// Their thresholds, where the message says them.
    pub vacancy: Option<Vacancy>,
}

/// A table's vacancy has changed (`OFPT_TABLE_STATUS`, OpenFlow 1.4.1 §7.4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableStatus {
    /// [`VACANCY_DOWN`] or [`VACANCY_UP`].
    pub reason: u8,
    /// The table as it is now.
    pub desc: TableConfig,
}

/// A set of actions of OpenFlow 1.2 and later, by their numbers, as 1.1 has it: with an action for each field in place of set-field,
/// whose number 1.1 does not have (OpenFlow 1.1 §A.2.5).
pub fn actions_in_11(bits: u32) -> u32 {
    const SET_FIELD: u32 = 1 << 25;
    // From OFPAT_SET_VLAN_VID to OFPAT_SET_TP_DST, and label and traffic class of MPLS.
    const OF_FIELDS: u32 = 0x7fe | 3 << 13;
    if bits & SET_FIELD == 0 { bits } else { bits & !SET_FIELD | OF_FIELDS }
}

/// `OFPTR_VACANCY_DOWN`
pub const VACANCY_DOWN: u8 = 3;
/// `OFPTR_VACANCY_UP`
pub const VACANCY_UP: u8 = 4;

/// What a table can do on a match or on a miss.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstructionFeatures {
    /// Instructions: bit by number on the wire (1 goto-table … 6 meter).
    pub instructions: u32,
    /// Tables that goto-table may name.
    pub next_tables: Vec<u8>,
    /// In write-actions: bit by number of a 1.3 action.
    pub write_actions: u32,
    /// In apply-actions: bit by number of a 1.3 action.
    pub apply_actions: u32,
    /// Fields of set-field in write-actions.
    pub write_set_fields: Vec<FieldId>,
    /// Fields of set-field in apply-actions.
    pub apply_set_fields: Vec<FieldId>,
}

/// What a request does with the tables that it names; the discriminant is the number on the wire (OpenFlow 1.5.1
/// §7.3.5.18.1). Before 1.5 it always replaces.
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableCommand {
    /// These are all tables.
    #[default]
    Replace = 0,
    /// Others stay as they are.
    Modify = 1,
    /// These are in the pipeline.
    Enable = 2,
    /// These are not.
    Disable = 3,
}

impl TableCommand {
    /// By number.
    pub fn from_wire(n: u8) -> Option<TableCommand> {
        use TableCommand::*;
        [Replace, Modify, Enable, Disable].get(usize::from(n)).copied()
    }
}

/// What a table can do (`OFPMP_TABLE_FEATURES`, and the table statistics of OpenFlow 1.0 to 1.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFeatures {
    /// The table.
    pub table: u8,
    /// What a request does.
    pub command: TableCommand,
    /// A request leaves alone what the table can do.
    pub keeps_properties: bool,
    /// Its name.
    pub name: String,
    /// Bits of metadata that can be matched.
    pub metadata_match: u64,
    /// Bits of metadata that can be written.
    pub metadata_write: u64,
    /// Miss configurations it has, as bits of `OFPTC11_*`.
    pub miss_config: u32,
    /// Eviction is there (1.4).
    pub supports_eviction: bool,
    /// Vacancy events are there (1.4).
    pub supports_vacancy_events: bool,
    /// How many flows.
    pub max_entries: u32,
    /// For flows.
    pub nonmiss: InstructionFeatures,
    /// For the table-miss flow.
    pub miss: InstructionFeatures,
    /// Fields that can be matched; those in `mask` with masks, those in `wildcard` left out.
    pub matching: Vec<FieldId>,
    /// See `matching`.
    pub mask: Vec<FieldId>,
    /// See `matching`.
    pub wildcard: Vec<FieldId>,
}

/// Counters of a table; what only 1.0 to 1.2 say is in `features`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// What 1.0 to 1.2 say along with the counters.
    pub features: TableFeatures,
    /// Flows.
    pub active: u32,
    /// Packets looked up.
    pub lookups: u64,
    /// Packets that hit.
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
