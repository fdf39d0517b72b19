//! Checks the settings in a database: invalid values, and settings without effect.
//!
//! Unknown keys are reported only in columns where every key is a setting of the switch: in `options`, and in the
//! `other_config` of the switch and of bridges. In the `other_config` of ports and interfaces, other programs store
//! data.

use ovsdb::{Atom, Datum};
use settings::not_built::{self, Part};
use settings::port::{CVLANS, TAG, TRUNKS, VLAN_MODE};
use settings::root::{EMC_INSERT_INV_PROB, FLOW_CACHE, SMC_ENABLE};
use settings::{Effect, Fault, Setting, all};
use std::collections::BTreeMap;
use std::fmt;

/// A problem of one setting of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The row, such as `Bridge br0`; empty for the row of the switch.
    pub row: String,
    /// The name of the setting: `column` or `column:key`.
    pub name: String,
    /// The present value.
    pub value: String,
    /// The problem.
    pub problem: Problem,
}

/// The kind of a problem.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// The key is unknown.
    Unknown,
    /// A setting that only affects performance has no effect here; the reason.
    NoEffect(String),
    /// The setting needs a part of the switch that is not implemented.
    NotBuilt(Part),
    /// A list of VLANs of a port with a tag and without a mode, which makes it an access port.
    IgnoredOnAccessPort,
    /// The value is invalid.
    Invalid {
        /// The valid values.
        range: String,
        /// The value used instead; empty if the switch chooses one.
        used: String,
    },
    /// A number is outside its range; the nearest valid one is used.
    Clamped {
        /// The valid range.
        range: String,
        /// The number used instead.
        used: i64,
    },
}

impl Problem {
    /// Whether the problem is logged as a warning, because the administrator should correct it.
    pub const fn is_warning(&self) -> bool {
        !matches!(self, Problem::NoEffect(_) | Problem::Clamped { .. })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { row, name, value, problem } = self;
        if !row.is_empty() {
            write!(f, "{row}: ")?;
        }
        match problem {
            Problem::Unknown => write!(f, "{name} is unknown and has no effect"),
            Problem::NoEffect(why) => write!(f, "{name} has no effect in this version of Sluice: {why}"),
            Problem::NotBuilt(part) => {
                write!(f, "{name} has no effect in this version of Sluice: {}", part.why())
            }
            // The words of Open vSwitch, which users search for.
            Problem::IgnoredOnAccessPort => write!(f, "ignoring {name} in favor of implicit vlan"),
            Problem::Invalid { range, used } => {
                write!(f, "{name}={value} is not a valid value ({range}); ")?;
                if used.is_empty() {
                    f.write_str("it is treated as not set")
                } else {
                    write!(f, "{used} is used")
                }
            }
            Problem::Clamped { range, used } => {
                write!(f, "{name}={value} is outside of {range}; {used} is used")
            }
        }
    }
}

/// The name of findings about the type of an interface.
pub const TYPE: &str = "type";

/// A table to which no other table refers. Its lack of effect is therefore reported for its own rows.
const UNREFERENCED_TABLE: &str = "Flow_Sample_Collector_Set";

/// Prefix of keys that `ovn-controller` stores for itself in the `other_config` of the switch: indexes of chassis.
const OVN_KEY_PREFIX: &str = "ovn-chassis-idx-";

/// The settings of one table, prepared to check many rows.
pub struct Checker {
    table: &'static str,
    columns: Vec<&'static Setting>,
    maps: BTreeMap<&'static str, Vec<&'static Setting>>,
}

impl Checker {
    /// Returns a checker for each table that has settings with an effect. If a table has none, the columns that refer
    /// to the table are reported instead.
    pub fn of_all_tables() -> Vec<Checker> {
        let mut tables: BTreeMap<&'static str, Checker> = BTreeMap::new();
        for setting in all() {
            let table = setting.table;
            let checker =
                tables.entry(table).or_insert(Checker { table, columns: Vec::new(), maps: BTreeMap::new() });
            match setting.key {
                "" => checker.columns.push(setting),
                _ => checker.maps.entry(setting.column).or_default().push(setting),
            }
        }
        let does =
            |s: &Setting| !matches!(s.effect, Effect::None(_) | Effect::NotBuilt(_) | Effect::Detail(_));
        let counts = |table: &str| table == UNREFERENCED_TABLE || all().any(|s| s.table == table && does(s));
        tables.into_values().filter(|checker| counts(checker.table)).collect()
    }

    /// The name of the table.
    pub const fn table(&self) -> &'static str {
        self.table
    }

    /// Checks a row. `get`: returns a column of the row. `is_dummy`: whether a dummy device replaces an interface type.
    pub fn row<'a>(
        &self,
        get: impl Fn(&str) -> Option<&'a Datum>,
        is_dummy: impl Fn(&str) -> bool,
    ) -> Vec<Finding> {
        let text = |column: &str| get(column).and_then(Datum::first).and_then(Atom::as_str);
        let kind = match text("type").filter(|_| self.table == "Interface") {
            Some("") | None => "system",
            Some(kind) => kind,
        };
        let mut found = Vec::new();
        let missing = not_built::of_kind(kind).filter(|_| self.table == "Interface");
        if let Some(part) = missing {
            found.push((TYPE.to_owned(), kind.to_owned(), Problem::NotBuilt(part)));
        }
        for setting in &self.columns {
            let problem = get(setting.column).and_then(|datum| check_column(setting, datum));
            found.extend(problem.map(|(value, problem)| (setting.column.to_owned(), value, problem)));
        }
        if self.table == "Port" {
            found.extend(lists_of_access_port(&get));
        }
        for (column, settings) in &self.maps {
            let Some(datum) = get(column).filter(|d| !d.is_empty()) else { continue };
            // If the port's type is refused, its options are not reported in addition.
            if *column == "options" && missing.is_some() {
                continue;
            }
            // If a dummy device replaces the type, the options are those of dummy devices.
            let kind = if is_dummy(kind) { "dummy" } else { kind };
            for (key, value) in datum.keys().zip(datum.values()) {
                let (Some(key), Some(value)) = (key.as_str(), value.as_str()) else { continue };
                let setting = settings.iter().find(|s| s.key == key && s.applies_to(kind));
                if setting.is_none() && key.starts_with(OVN_KEY_PREFIX) {
                    continue;
                }
                let problem = self
                    .check_key(column, setting.copied(), value)
                    .or_else(|| check_unused_flow_cache(setting?, value, datum));
                if let Some(problem) = problem {
                    found.push((format!("{column}:{key}"), value.to_owned(), problem));
                }
            }
        }
        if found.is_empty() {
            return Vec::new();
        }
        if self.table == UNREFERENCED_TABLE {
            found.truncate(1);
        }
        let label = match (self.table, text("name").or_else(|| text("target"))) {
            ("Open_vSwitch", _) => String::new(),
            (table, None) => table.to_owned(),
            (table, Some(name)) => format!("{table} {name}"),
        };
        let finding = |(name, value, problem)| Finding { row: label.clone(), name, value, problem };
        found.into_iter().map(finding).collect()
    }

    fn check_key(&self, column: &str, setting: Option<&Setting>, value: &str) -> Option<Problem> {
        let Some(setting) = setting else {
            let ours = column == "options" || matches!(self.table, "Open_vSwitch" | "Bridge");
            return ours.then_some(Problem::Unknown);
        };
        if let Some(problem) = without_effect(setting) {
            // A setting without effect is not reported if it has the default value.
            let is_default = !value.is_empty() && value.eq_ignore_ascii_case(&setting.default_text());
            return (!is_default).then_some(problem);
        }
        if let Effect::OtherProgram(_) = setting.effect {
            return None;
        }
        setting.fault(value).map(|fault| problem(setting, &fault))
    }
}

/// Reports a setting of a flow cache that the chosen one (`flow-cache`) does not use, unless it has the default value.
fn check_unused_flow_cache(setting: &Setting, value: &str, other_config: &Datum) -> Option<Problem> {
    let is_used_by: fn(&str) -> bool = match setting.key {
        key if key == EMC_INSERT_INV_PROB.key => |cache| cache != "unified",
        key if key == SMC_ENABLE.key => |cache| cache == "ovs",
        _ => return None,
    };
    let chosen = other_config.get(&Atom::from(FLOW_CACHE.key)).and_then(Atom::as_str);
    let chosen = chosen.filter(|cache| FLOW_CACHE.fault(cache).is_none());
    let chosen = chosen.map_or_else(|| FLOW_CACHE.default_text(), str::to_ascii_lowercase);
    (!is_used_by(&chosen) && value != setting.default_text())
        .then(|| Problem::NoEffect(format!("flow-cache={chosen} does not use it")))
}

/// Reports the lists of VLANs of a port that is an access port because it has a tag and no mode.
fn lists_of_access_port<'a>(get: impl Fn(&str) -> Option<&'a Datum>) -> Option<(String, String, Problem)> {
    let is_set = |column: &&str| get(column).is_some_and(|datum| !datum.is_empty());
    let list = [TRUNKS.column, CVLANS.column].into_iter().find(is_set)?;
    let is_access = is_set(&TAG.column) && !is_set(&VLAN_MODE.column);
    is_access.then(|| (list.to_owned(), String::new(), Problem::IgnoredOnAccessPort))
}

fn problem(setting: &Setting, fault: &Fault) -> Problem {
    match *fault {
        Fault::Invalid => Problem::Invalid { range: setting.range(), used: setting.default_text() },
        Fault::OutOfRange(used) => Problem::Clamped { range: setting.range(), used },
    }
}

/// Reports a column without effect whose value is not the default.
fn check_column(setting: &Setting, datum: &Datum) -> Option<(String, Problem)> {
    let value = match datum.first()? {
        Atom::String(text) => text.to_string(),
        other => other.to_string(),
    };
    match setting.effect {
        _ if value.is_empty() || value == setting.default_text() => None,
        _ => without_effect(setting).map(|problem| (value, problem)),
    }
}

/// The problem to report for a setting without effect.
fn without_effect(setting: &Setting) -> Option<Problem> {
    match setting.effect {
        Effect::None(why) => Some(Problem::NoEffect(why.to_owned())),
        Effect::Detail(part) => Some(Problem::NoEffect(part.missing())),
        Effect::NotBuilt(part) => Some(Problem::NotBuilt(part)),
        Effect::Full | Effect::Partly(_) | Effect::OtherProgram(_) => None,
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
