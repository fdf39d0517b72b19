//! Table mods, descriptions and features.

use crate::bridge::Bridge;
use crate::request_context::{RequestContext, RequestResult};
use ofproto::{TABLE_INTERNAL, TableChanges, VacancyEvent};
use openflow::table::{
    TableCommand, TableConfig, TableFeatures, TableStatus, VACANCY_DOWN, VACANCY_UP, Vacancy,
};
use openflow::{Body, OfError};

/// `OFPTMPEF14_OTHER | _IMPORTANCE | _LIFETIME`: the criteria by which flows are evicted.
const EVICTION_FLAGS: u32 = 0b111;

impl RequestContext<'_> {
    pub(crate) fn table_mod(&mut self, tm: &TableConfig) -> RequestResult {
        if tm.eviction_flags.is_some_and(|flags| flags != EVICTION_FLAGS) {
            return Err(OfError::TmfcBadConfig);
        }
        self.bridge.ofproto.table_mod(tm)?;
        self.outside.mark_all_changed();
        Ok(None)
    }

    pub(crate) fn table_desc(&self) -> Vec<TableConfig> {
        (0..TABLE_INTERNAL).filter_map(|id| desc(self.bridge, id)).collect()
    }

    /// Handles a query (`features` is empty), or one part of a request to set table features (`more`: further parts follow).
    pub(crate) fn table_features(&mut self, features: &[TableFeatures], more: bool) -> RequestResult {
        let parts = &mut self.session()?.table_features;
        for f in features {
            if parts.iter().any(|p| p.table == f.table) {
                parts.clear();
                return Err(OfError::NxtffcDupTable);
            }
            parts.push(f.clone());
        }
        if more {
            return Ok(None);
        }
        let wanted = std::mem::take(parts);
        if !wanted.is_empty() {
            self.set_table_features(&wanted)?;
        }
        Ok(Some(Body::TableFeaturesReply(self.bridge.ofproto.table_features())))
    }

    /// Sets table features; only names can be changed. No table can be disabled, so a request that replaces the tables must contain all of
    /// them, and requests to enable or disable tables are refused.
    fn set_table_features(&mut self, wanted: &[TableFeatures]) -> Result<(), OfError> {
        let ofproto = &mut self.bridge.ofproto;
        let old = ofproto.table_features();
        let leaves_tables_enabled = match wanted.first().map(|w| w.command) {
            Some(TableCommand::Enable | TableCommand::Disable) => false,
            Some(TableCommand::Modify) => true,
            Some(TableCommand::Replace) | None => wanted.len() >= old.len(),
        };
        if wanted.iter().any(|w| w.table == TABLE_INTERNAL) || !leaves_tables_enabled {
            return Err(OfError::TffcEperm);
        }
        if wanted.len() > old.len() {
            return Err(OfError::TffcTooMany);
        }
        for new in wanted {
            let old = old.iter().find(|o| o.table == new.table).ok_or(OfError::TffcBadTable)?;
            let name_is_fixed = ofproto.table(new.table).is_some_and(|t| t.config().name_from_database);
            let changes_fixed_name = name_is_fixed && !new.name.is_empty() && new.name != old.name;
            if new.max_entries != old.max_entries
                || changes_fixed_name
                || (!new.keeps_properties && exceeds(new, old))
            {
                return Err(OfError::TffcEperm);
            }
        }
        wanted.iter().for_each(|w| ofproto.name_table(w.table, &w.name));
        Ok(())
    }
}

/// The settings of a table.
fn desc(bridge: &Bridge, table: u8) -> Option<TableConfig> {
    let found = bridge.ofproto.table(table)?;
    let config = found.config();
    let (down, up) = config.vacancy_thresholds;
    Some(TableConfig {
        table,
        miss: config.miss,
        eviction: Some(config.evict_by_openflow),
        eviction_flags: Some(EVICTION_FLAGS),
        vacancy_events: Some(config.next_vacancy_event.is_some()),
        vacancy: config.next_vacancy_event.map(|_| Vacancy { down, up, now: found.vacancy() }),
    })
}

/// Sends table-status messages for tables whose vacancy has crossed a threshold because of `changes`.
pub fn report_vacancy(bridge: &mut Bridge, changes: &TableChanges) {
    for (table, event) in bridge.ofproto.vacancy_events(changes) {
        let reason = match event {
            VacancyEvent::Down => VACANCY_DOWN,
            VacancyEvent::Up => VACANCY_UP,
        };
        if let Some(desc) = desc(bridge, table) {
            bridge.conns.send_table_status(&TableStatus { reason, desc });
        }
    }
}

/// Whether `new` requests features that the table does not support.
fn exceeds(new: &TableFeatures, old: &TableFeatures) -> bool {
    let more_instructions = |n: &openflow::table::InstructionFeatures,
                             o: &openflow::table::InstructionFeatures| {
        n.instructions & !o.instructions != 0
            || n.next_tables.iter().any(|t| !o.next_tables.contains(t))
            || n.write_actions & !o.write_actions != 0
            || n.apply_actions & !o.apply_actions != 0
            || n.write_set_fields.iter().any(|f| !o.write_set_fields.contains(f))
            || n.apply_set_fields.iter().any(|f| !o.apply_set_fields.contains(f))
    };
    new.metadata_match & !old.metadata_match != 0
        || new.metadata_write & !old.metadata_write != 0
        || more_instructions(&new.nonmiss, &old.nonmiss)
        || more_instructions(&new.miss, &old.miss)
        || new.matching.iter().any(|f| !old.matching.contains(f))
        || new.wildcard.iter().any(|f| !old.wildcard.contains(f))
        || new.mask.iter().any(|f| !old.mask.contains(f))
}
