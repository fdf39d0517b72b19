//! Table statistics and table features (OpenFlow 1.0 to 1.2, and 1.3 and later).

use crate::ofproto::Ofproto;
use crate::table::Table;
use crate::table_numbers::N_TABLES;
use flow::FieldId;
use flow::field::Maskable;
use openflow::table::{InstructionFeatures, TableCommand, TableFeatures, TableMiss, TableStats};

/// `max_entries` that is reported for a table without a limit.
const MAX_ENTRIES: u32 = 1_000_000;
/// Supported instructions as bits, by their numbers on the wire: goto-table (1) to meter (6).
const INSTRUCTIONS: u32 = 0x7e;
/// The bit of the instruction goto-table.
const GOTO_TABLE: u32 = 1 << 1;
/// Supported actions as bits, by their numbers in OpenFlow 1.3: output, set-queue, group, set-field, and the VLAN, MPLS and TTL actions
/// except those that copy the TTL.
const ACTIONS: u32 = 1 | 0x7ff << 15;

impl Ofproto {
    /// Counters of every table that is visible to OpenFlow, with the table features that old versions report in the
    /// same message.
    pub fn table_stats(&self) -> Vec<TableStats> {
        let features = self.table_features();
        features.into_iter().filter_map(|f| Some(stats(self.table(f.table)?, f))).collect()
    }

    /// Features of every table that is visible to OpenFlow.
    pub fn table_features(&self) -> Vec<TableFeatures> {
        let visible: Vec<u8> = (0..N_TABLES as u8).filter(|t| self.is_visible(*t)).collect();
        let all: Vec<FieldId> = FieldId::all().filter(|f| !f.info().headers.is_empty()).collect();
        let masked =
            all.iter().copied().filter(|f| f.info().maskable == Maskable::Bitwise).collect::<Vec<_>>();
        let writable = all.iter().copied().filter(|f| f.info().writable).collect::<Vec<_>>();
        let features = |&id: &u8| {
            let config = self.table(id)?.config();
            let instructions = instructions(visible.iter().copied().filter(|t| *t > id).collect(), &writable);
            Some(TableFeatures {
                table: id,
                command: TableCommand::Replace,
                keeps_properties: false,
                name: config.name.clone(),
                metadata_match: u64::MAX,
                metadata_write: u64::MAX,
                miss_config: miss_bits(config.miss),
                supports_eviction: false,
                supports_vacancy_events: false,
                max_entries: config.max_flows.map_or(MAX_ENTRIES, |m| m.min(MAX_ENTRIES)),
                miss: instructions.clone(),
                nonmiss: instructions,
                matching: all.clone(),
                mask: masked.clone(),
                wildcard: all.clone(),
            })
        };
        visible.iter().filter_map(features).collect()
    }

    fn is_visible(&self, table: u8) -> bool {
        self.table(table).is_some_and(|t| !t.config().internal)
    }
}

fn instructions(next_tables: Vec<u8>, writable: &[FieldId]) -> InstructionFeatures {
    InstructionFeatures {
        instructions: if next_tables.is_empty() { INSTRUCTIONS & !GOTO_TABLE } else { INSTRUCTIONS },
        next_tables,
        write_actions: ACTIONS,
        apply_actions: ACTIONS,
        write_set_fields: writable.to_vec(),
        apply_set_fields: writable.to_vec(),
    }
}

/// `OFPTC11_TABLE_MISS_*`
fn miss_bits(miss: TableMiss) -> u32 {
    match miss {
        TableMiss::Default | TableMiss::Controller => 0,
        TableMiss::Continue => 1,
        TableMiss::Drop => 2,
    }
}

fn stats(table: &Table, features: TableFeatures) -> TableStats {
    let matched = table.matched();
    TableStats { features, active: table.visible() as u32, lookups: matched + table.missed(), matched }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::Match;
    use openflow::FlowMod;
    use units::Millis;

    /// Hidden flows do not count, however they are added and removed.
    #[test]
    fn hidden_flows_are_not_counted() {
        let mut o = Ofproto::new(Millis(0), 0);
        let active = |o: &Ofproto| o.table_stats()[0].active;
        let fm = FlowMod { matching: Match::CATCHALL, ..FlowMod::default() };
        for priority in [70_000, 70_001, 70_000] {
            o.handle_own_flow(&fm, priority, true, Millis(0)).unwrap();
        }
        o.handle_flow_mod(&fm, Millis(0)).unwrap();
        assert_eq!((active(&o), o.flow_count()), (1, 3 + o.table(254).map_or(0, |t| t.visible())));
        o.handle_own_flow(&fm, 70_001, false, Millis(0)).unwrap();
        assert_eq!(active(&o), 1);
        o.flush(Millis(0));
        assert_eq!(active(&o), 0);
    }

    #[test]
    fn the_last_visible_table_goes_nowhere() {
        let o = Ofproto::new(Millis(0), 0);
        let features = o.table_features();
        assert_eq!(features.len(), N_TABLES - 1);
        assert_eq!(features[0].nonmiss.next_tables.len(), 253);
        assert_eq!(features[253].nonmiss.instructions & GOTO_TABLE, 0);
        assert!(features[253].mask.len() < features[253].matching.len());
    }
}
