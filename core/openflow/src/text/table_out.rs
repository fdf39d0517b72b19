//! Prints counters, features and configuration of tables. A table equal to the previous one is printed as
//! "ditto".

use super::group_out::action_bits_text;
use crate::table::*;
use flow::FieldId;
use flow::text::{NameMap, hex, table_text};
use std::fmt::Write;

/// Length of the common prefix of two names, up to and including an underscore.
fn common_prefix(a: &str, b: &str) -> usize {
    let same = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    a[..same].rfind('_').map_or(0, |at| at + 1)
}

/// Number of leading names with a common prefix, and the length of that prefix.
fn prefix_run(names: &[&str]) -> (usize, usize) {
    let [first, second, ..] = names else { return (names.len(), 0) };
    let mut len = common_prefix(first, second);
    if len == 0 {
        return (1, 0);
    }
    let mut run = 2;
    for name in &names[2..] {
        match common_prefix(first, name) {
            0 => break,
            n => len = len.min(n),
        }
        run += 1;
    }
    (run, len)
}

fn split_number(name: &str) -> Option<(&str, u32)> {
    let head = name.trim_end_matches(|c: char| c.is_ascii_digit());
    Some((head, name[head.len()..].parse().ok()?))
}

/// Number of leading names that are numbered in sequence.
fn number_run(names: &[&str]) -> usize {
    let Some((head, start)) = names.first().and_then(|n| split_number(n)) else { return names.len().min(1) };
    let follows = |(i, n): &(usize, &&str)| split_number(n) == Some((head, start + *i as u32));
    names.iter().enumerate().take_while(follows).count()
}

/// Prints names in a short form: `eth_{src,dst} reg0...reg3`.
fn names_text(names: &[&str], separator: &str) -> String {
    let mut parts = Vec::new();
    let mut rest = names;
    while let Some(first) = rest.first() {
        let ((prefixed, len), numbered) = (prefix_run(rest), number_run(rest));
        let run = prefixed.max(numbered);
        if numbered >= prefixed {
            parts.push(if run > 1 { format!("{first}...{}", rest[run - 1]) } else { (*first).to_owned() });
        } else {
            let inner: Vec<&str> = rest[..run].iter().map(|n| &n[len..]).collect();
            parts.push(format!("{}{{{}}}", &first[..len], names_text(&inner, ",")));
        }
        rest = &rest[run..];
    }
    parts.join(separator)
}

fn sorted(fields: impl IntoIterator<Item = FieldId>) -> Vec<FieldId> {
    let mut fields: Vec<FieldId> = fields.into_iter().collect();
    fields.sort_by_key(|f| f.index());
    fields.dedup();
    fields
}

fn fields_line(label: &str, fields: &[FieldId]) -> String {
    let names: Vec<&str> = fields.iter().map(|f| f.info().name).collect();
    if names.is_empty() { String::new() } else { format!("{label}: {}\n", names_text(&names, " ")) }
}

/// Returns whether two lists contain the same fields.
fn same_fields(a: &[FieldId], b: &[FieldId]) -> bool {
    sorted(a.iter().copied()) == sorted(b.iter().copied())
}

/// Compares the next tables of two consecutive tables. Ignores that the later table is not among its own next tables.
fn same_next(a: (&[u8], u8), b: (&[u8], u8)) -> bool {
    let ((first, second), later) = match (a.1, b.1) {
        (x, y) if u16::from(x) + 1 == y.into() => ((a.0, b.0), y),
        (x, y) if u16::from(y) + 1 == x.into() => ((b.0, a.0), x),
        _ => return a.0 == b.0,
    };
    if first.contains(&later) && !second.contains(&later) {
        first.iter().filter(|&&t| t != later).eq(second.iter())
    } else {
        first == second
    }
}

fn same_actions(a: &InstructionFeatures, b: &InstructionFeatures) -> bool {
    a.write_actions == b.write_actions
        && a.apply_actions == b.apply_actions
        && same_fields(&a.write_set_fields, &b.write_set_fields)
        && same_fields(&a.apply_set_fields, &b.apply_set_fields)
}

fn same_instructions(a: (&InstructionFeatures, u8), b: (&InstructionFeatures, u8)) -> bool {
    same_next((&a.0.next_tables, a.1), (&b.0.next_tables, b.1))
        && a.0.instructions == b.0.instructions
        && same_actions(a.0, b.0)
}

fn same_features(a: &TableFeatures, b: &TableFeatures) -> bool {
    (a.metadata_match, a.metadata_write, a.miss_config, a.max_entries)
        == (b.metadata_match, b.metadata_write, b.miss_config, b.max_entries)
        && (a.supports_eviction, a.supports_vacancy_events)
            == (b.supports_eviction, b.supports_vacancy_events)
        && same_instructions((&a.nonmiss, a.table), (&b.nonmiss, b.table))
        && same_instructions((&a.miss, a.table), (&b.miss, b.table))
        && same_fields(&a.matching, &b.matching)
}

fn is_empty(f: &TableFeatures) -> bool {
    same_features(f, &TableFeatures { table: f.table, ..TableFeatures::default() })
}

fn next_tables_text(tables: &[u8]) -> String {
    let mut parts: Vec<(u8, u8)> = Vec::new();
    for &t in tables {
        match parts.last_mut() {
            Some((_, end)) if u16::from(*end) + 1 == t.into() => *end = t,
            _ => parts.push((t, t)),
        }
    }
    let parts: Vec<String> =
        parts.iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") }).collect();
    parts.join(",")
}

const INSTRUCTIONS: [(u32, &str); 6] = [
    (6, "meter"),
    (4, "apply_actions"),
    (5, "clear_actions"),
    (3, "write_actions"),
    (2, "write_metadata"),
    (1, "goto_table"),
];

fn actions_lines(actions: u32, fields: &[FieldId]) -> String {
    let mut text = String::new();
    if actions != 0 {
        let _ = writeln!(text, "        actions: {}", action_bits_text(actions));
    }
    text + &fields_line("        supported on Set-Field", &sorted(fields.iter().copied()))
}

fn instructions_lines(i: &InstructionFeatures, before: Option<&InstructionFeatures>) -> String {
    let mut text = String::new();
    if !i.next_tables.is_empty() {
        let _ = writeln!(text, "      next tables: {}", next_tables_text(&i.next_tables));
    }
    if i.instructions != 0 {
        if before.is_some_and(|b| b.instructions == i.instructions) {
            text += "      (same instructions)\n";
        } else {
            let names: Vec<&str> = INSTRUCTIONS
                .iter()
                .filter(|(bit, _)| i.instructions & 1 << bit != 0)
                .map(|(_, n)| *n)
                .collect();
            let _ = writeln!(text, "      instructions: {}", names.join(" "));
        }
    }
    let both = i.write_actions == i.apply_actions && same_fields(&i.write_set_fields, &i.apply_set_fields);
    if before.is_some_and(|b| same_actions(i, b)) && !i.write_set_fields.is_empty() {
        text += "      (same actions)\n";
    } else if !both {
        text += "      Write-Actions features:\n";
        text += &actions_lines(i.write_actions, &i.write_set_fields);
        text += "      Apply-Actions features:\n";
        text += &actions_lines(i.apply_actions, &i.apply_set_fields);
    } else if i.write_actions != 0 || !i.write_set_fields.is_empty() {
        text += "      Write-Actions and Apply-Actions features:\n";
        text += &actions_lines(i.write_actions, &i.write_set_fields);
    }
    text
}

fn all_instructions_lines(f: &TableFeatures, before: Option<&TableFeatures>) -> String {
    let has = f.nonmiss != InstructionFeatures::default();
    let (nonmiss, miss) = ((&f.nonmiss, f.table), (&f.miss, f.table));
    let same = before.is_some_and(|b| {
        same_instructions(nonmiss, (&b.nonmiss, b.table)) && same_instructions(miss, (&b.miss, b.table))
    });
    let lines = |i, of: fn(&TableFeatures) -> &InstructionFeatures| instructions_lines(i, before.map(of));
    match (same, same_instructions(nonmiss, miss)) {
        (true, _) if has => "    (same instructions)\n".to_owned(),
        (false, false) => format!(
            "    instructions (other than table miss):\n{}    instructions (table miss):\n{}",
            lines(&f.nonmiss, |b| &b.nonmiss),
            lines(&f.miss, |b| &b.miss)
        ),
        (false, true) if has => {
            format!("    instructions (table miss and others):\n{}", lines(&f.nonmiss, |b| &b.nonmiss))
        }
        _ => String::new(),
    }
}

fn matching_lines(f: &TableFeatures, before: Option<&TableFeatures>) -> String {
    if f.matching.is_empty() {
        return String::new();
    }
    if before.is_some_and(|b| same_fields(&b.matching, &f.matching)) {
        return "    (same matching)\n".to_owned();
    }
    let those = |mask: bool, wildcard: bool| {
        sorted(
            f.matching
                .iter()
                .copied()
                .filter(|m| f.mask.contains(m) == mask && f.wildcard.contains(m) == wildcard),
        )
    };
    "    matching:\n".to_owned()
        + &fields_line("      arbitrary mask", &those(true, true))
        + &fields_line("      exact match or wildcard", &those(false, true))
        + &fields_line("      must exact match", &those(false, false))
}

fn features_lines(f: &TableFeatures, before: Option<&TableFeatures>, capabilities: bool) -> String {
    let mut text = String::new();
    if f.metadata_match != 0 || f.metadata_write != 0 {
        let _ = writeln!(
            text,
            "    metadata: match={} write={}",
            hex(f.metadata_match.into()),
            hex(f.metadata_write.into())
        );
    }
    if capabilities {
        let not = |has: bool| if has { "" } else { "not " };
        let _ = writeln!(text, "    eviction: {}supported", not(f.supports_eviction));
        let _ = writeln!(text, "    vacancy events: {}supported", not(f.supports_vacancy_events));
    }
    if f.max_entries != 0 {
        let _ = writeln!(text, "    max_entries={}", f.max_entries);
    }
    text + &all_instructions_lines(f, before) + &matching_lines(f, before)
}

/// Counters of a table: active flows, lookups, matches.
type Counters = (u32, u64, u64);

/// Prints tables one after the other. A table that is equal to the previous one is printed as "ditto".
#[derive(Default)]
pub struct TablesText {
    text: String,
    before: Option<(TableFeatures, Option<Counters>)>,
    ditto: Option<(u8, u8)>,
    capabilities: bool,
}

impl TablesText {
    /// Creates the printer for messages of a version. Since 1.4, tables report whether they support eviction.
    pub fn new(version: crate::Version) -> TablesText {
        TablesText { capabilities: version >= crate::Version::V14, ..TablesText::default() }
    }

    /// Appends a table.
    pub fn features(&mut self, f: &TableFeatures) {
        self.table(f, None);
    }

    /// Appends a table with its counters.
    pub fn stats(&mut self, s: &TableStats) {
        self.table(&s.features, Some((s.active, s.lookups, s.matched)));
    }

    fn table(&mut self, f: &TableFeatures, stats: Option<Counters>) {
        let before = self.before.take();
        let same_stats = stats.is_none() || before.as_ref().is_some_and(|(_, s)| *s == stats);
        let same = before.as_ref().is_some_and(|(b, _)| same_features(f, b));
        if same_stats && same && f.name.is_empty() {
            self.ditto = Some((self.ditto.map_or(f.table, |(first, _)| first), f.table));
        } else {
            self.end_ditto();
            let command = match f.command {
                _ if before.is_some() => None,
                TableCommand::Replace => None,
                TableCommand::Modify => Some("modify"),
                TableCommand::Enable => Some("enable"),
                TableCommand::Disable => Some("disable"),
            };
            self.text += &command.map(|c| format!("\n  command: {c}")).unwrap_or_default();
            let _ = write!(self.text, "\n  table {}", f.table);
            if !f.name.is_empty() {
                let _ = write!(self.text, " (\"{}\")", f.name);
            }
            self.text += if same_stats && same { ": ditto" } else { ":\n" };
            if !(same_stats && same) {
                self.full(f, stats, before.as_ref().map(|(b, _)| b), same);
            }
        }
        self.before = Some((f.clone(), stats));
    }

    fn full(
        &mut self,
        f: &TableFeatures,
        stats: Option<Counters>,
        before: Option<&TableFeatures>,
        same: bool,
    ) {
        if let Some((active, lookups, matched)) = stats {
            let _ = writeln!(self.text, "    active={active}, lookup={lookups}, matched={matched}");
        }
        if !same {
            self.text += &features_lines(f, before, self.capabilities && stats.is_none());
        } else if !is_empty(f) {
            self.text += "    (same features)\n";
        }
    }

    fn end_ditto(&mut self) {
        match self.ditto.take() {
            Some((first, last)) if first == last => {
                let _ = write!(self.text, "\n  table {first}: ditto\n");
            }
            Some((first, last)) => {
                let _ = write!(self.text, "\n  tables {first}...{last}: ditto\n");
            }
            None => {}
        }
    }

    /// The text of all tables.
    pub fn finish(mut self) -> String {
        self.end_ditto();
        self.text
    }
}

/// Prints the configuration of a table (`OFPMP_TABLE_DESC`).
pub(super) fn table_desc_text(t: &TableConfig, names: &dyn NameMap) -> String {
    let on = |set: Option<bool>| if set == Some(true) { "on" } else { "off" };
    let flags = eviction_flags_text(t.eviction_flags);
    let table = table_text(t.table, names);
    let mut text = format!("\n  table {table}:\n   eviction={} eviction_flags={flags}\n", on(t.eviction));
    let _ = write!(text, "   vacancy={}", on(t.vacancy_events));
    if t.vacancy_events == Some(true) {
        let v = t.vacancy.unwrap_or_default();
        let _ = write!(text, " vacancy_down={}% vacancy_up={}% vacancy={}%", v.down, v.up, v.now);
    }
    text + "\n"
}

pub(super) fn table_status_text(s: &TableStatus, names: &dyn NameMap) -> String {
    let reason = match s.reason {
        VACANCY_DOWN => "VACANCY_DOWN".to_owned(),
        VACANCY_UP => "VACANCY_UP".to_owned(),
        other => other.to_string(),
    };
    format!(" reason={reason}\ntable_desc:-{}", table_desc_text(&s.desc, names))
}

pub(super) fn eviction_flags_text(flags: Option<u32>) -> String {
    const NAMES: [&str; 3] = ["OTHER", "IMPORTANCE", "LIFETIME"];
    match flags {
        Some(bits) if bits != u32::MAX => super::port_out::bits_text(bits, &NAMES).replace(' ', "|"),
        _ => "(default)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_abbreviated() {
        let names =
            ["eth_src", "eth_dst", "metadata", "reg0", "reg1", "reg2", "nsh_flags", "nsh_c1", "nsh_c2"];
        assert_eq!(names_text(&names, " "), "eth_{src,dst} metadata reg0...reg2 nsh_{flags,c1...c2}");
    }

    #[test]
    fn equal_tables_are_ditto() {
        let mut t = TablesText::new(crate::Version::V13);
        for table in 0..4 {
            t.features(&TableFeatures { table, max_entries: 9, ..TableFeatures::default() });
        }
        assert_eq!(t.finish(), "\n  table 0:\n    max_entries=9\n\n  tables 1...3: ditto\n");
    }
}
