//! Configuration of tables by the database (`Flow_Table`) and by OpenFlow (`OFPT_TABLE_MOD`).

use crate::ofproto::Ofproto;
use crate::table::{TableConfig, TableSettings, VacancyEvent};
use crate::table_changes::TableChanges;
use crate::table_numbers::{N_TABLES, TABLE_ALL};
use classifier::of::PrefixField;
use openflow::error::OfError;
use openflow::flow_mod::RemovedReason;
use openflow::table::{TableConfig as TableMod, TableMiss, Vacancy};
use std::collections::BTreeSet;
use std::sync::Arc;
use units::Millis;

/// Longest table name in bytes.
const NAME_MAX: usize = 32;

impl Ofproto {
    /// Applies the database's settings of a table. If the table may evict, flows beyond a new limit are evicted.
    pub fn configure_table(&mut self, table: u8, settings: &TableSettings, now: Millis) -> TableChanges {
        if usize::from(table) >= N_TABLES {
            return TableChanges::default();
        }
        let t = self.state.table_mut(table);
        let config = Arc::make_mut(&mut t.config);
        set_database_name(config, settings.name.as_deref());
        if config.internal {
            self.generation += 1;
            return TableChanges::default();
        }
        config.max_flows = settings.max_flows;
        if (config.evict_by_database, &config.eviction_fields) != (settings.evict, &settings.eviction_fields)
        {
            config.evict_by_database = settings.evict;
            config.eviction_fields.clone_from(&settings.eviction_fields);
            t.eviction_changed();
        }
        t.classifier.set_prefix_fields(settings.prefixes.as_deref().unwrap_or(&PrefixField::DEFAULT));
        self.generation += 1;
        self.evict_overfull(table, now)
    }

    fn evict_overfull(&mut self, table: u8, now: Millis) -> TableChanges {
        self.change(now, |c| {
            while c.state.tables[table].is_overfull()
                && let Some(victim) = c.state.table_mut(table).victim()
            {
                c.remove(victim, RemovedReason::Eviction);
            }
            Ok(())
        })
        .unwrap_or_default()
    }

    /// `OFPT_TABLE_MOD`
    pub fn table_mod(&mut self, tm: &TableMod) -> Result<(), OfError> {
        if tm.table != TABLE_ALL && usize::from(tm.table) >= N_TABLES {
            return Err(OfError::TmfcBadTable);
        }
        let Vacancy { down, up, .. } = tm.vacancy.unwrap_or_default();
        let all = (0..N_TABLES as u8).filter(|t| tm.table == *t || tm.table == TABLE_ALL);
        for table in all {
            let old = &self.state.tables[table];
            if tm.table == TABLE_ALL && old.config().internal {
                continue;
            }
            let next = if old.vacancy() < up { VacancyEvent::Up } else { VacancyEvent::Down };
            let t = self.state.table_mut(table);
            let config = Arc::make_mut(&mut t.config);
            if tm.miss != TableMiss::Default {
                config.miss = tm.miss;
            }
            config.evict_by_openflow = tm.eviction.unwrap_or(config.evict_by_openflow);
            if let Some(on) = tm.vacancy_events {
                config.vacancy_thresholds = (down, up);
                config.next_vacancy_event = on.then(|| config.next_vacancy_event.unwrap_or(next));
            }
            if !config.evicts() {
                t.eviction_changed();
            }
        }
        self.generation += 1;
        Ok(())
    }

    /// The tables whose vacancy has crossed a threshold because of these changes, with the direction.
    pub fn vacancy_events(&mut self, changes: &TableChanges) -> Vec<(u8, VacancyEvent)> {
        let watched = |table: &u8| self.state.tables[*table].config.next_vacancy_event.is_some();
        let touched: BTreeSet<u8> = changes.flows.iter().map(|c| c.rule().table).filter(watched).collect();
        let mut events = Vec::new();
        for id in touched {
            let table = &self.state.tables[id];
            let Some(awaited) = table.config.next_vacancy_event else { continue };
            let (down, up) = table.config.vacancy_thresholds;
            let vacancy = table.vacancy();
            let next = match awaited {
                VacancyEvent::Down if vacancy < down => VacancyEvent::Up,
                VacancyEvent::Up if vacancy > up => VacancyEvent::Down,
                _ => continue,
            };
            Arc::make_mut(&mut self.state.table_mut(id).config).next_vacancy_event = Some(next);
            events.push((id, awaited));
        }
        events
    }

    /// Sets a table's name for a controller. A name from the database is not changed.
    pub fn name_table(&mut self, table: u8, new: &str) {
        if usize::from(table) < N_TABLES {
            let config = Arc::make_mut(&mut self.state.table_mut(table).config);
            if !config.name_from_database {
                config.name = truncate_name(new);
            }
            self.generation += 1;
        }
    }
}

/// Sets or removes a table's name as the database requests. A name that a controller has set stays if the database has none.
fn set_database_name(config: &mut TableConfig, new: Option<&str>) {
    match new {
        Some(n) => {
            config.name = truncate_name(n);
            config.name_from_database = true;
        }
        None if config.name_from_database => {
            config.name.clear();
            config.name_from_database = false;
        }
        None => {}
    }
}

fn truncate_name(name: &str) -> String {
    let mut end = name.len().min(NAME_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].to_owned()
}
