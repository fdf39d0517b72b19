use super::not_built::{ALL, HW_OFFLOAD, TUNNELS, of_kind};
use super::*;
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn the_table_covers_the_schema_and_nothing_else() {
    let schema = ovsdb::schema::open_vswitch();
    let mut wrong = Vec::new();
    let mut known = BTreeSet::new();
    for table in &schema.tables {
        let columns = table.columns.iter().map(|c| c.name.as_str()).filter(|c| !c.starts_with('_'));
        for column in columns {
            known.insert((table.name.as_str(), column));
            let set = all().any(|s| s.table == table.name && s.column == column);
            let listed = state::COLUMNS.iter().filter(|(t, _)| *t == table.name).flat_map(|(_, c)| *c);
            match (set, listed.filter(|(c, _)| *c == column).count()) {
                (true, 0) | (false, 1) => {}
                (set, n) => wrong.push(format!("{}.{column}: setting {set}, state {n} times", table.name)),
            }
        }
    }
    let strangers = all().filter(|s| !known.contains(&(s.table, s.column)));
    wrong.extend(strangers.map(|s| format!("{}: not in the schema", s.full_name())));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_setting_has_two_entries_and_each_has_a_description() {
    let mut seen = BTreeSet::new();
    for s in all() {
        for kind in if s.kinds.is_empty() { &[""] } else { s.kinds } {
            assert!(seen.insert((s.full_name(), *kind)), "{} twice for {kind}", s.full_name());
        }
        assert!(
            s.doc.ends_with('.') && !s.doc[..s.doc.len() - 1].contains(". "),
            "{}: {}",
            s.full_name(),
            s.doc
        );
        if let Value::Int { min, max, default: Some(d), .. } = s.value {
            let ok = (min..=max).contains(&d) || s == &connection::INACTIVITY_PROBE;
            assert!(ok, "{}: default {d} outside {min}..{max}", s.full_name());
        }
        if let Value::Choice(words, default) = s.value {
            assert!(default.is_empty() || words.contains(&default), "{}", s.full_name());
        }
    }
}

fn map(key: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}

#[test]
fn values_are_parsed_as_the_entry_specifies() {
    let memory = |v: &str| root::MEGAFLOW_MEMORY.number(&map("megaflow-memory", v));
    assert_eq!(["7", "0x10", " 8 ", "-1", "x", ""].map(memory), [7, 16, 8, 1024, 1024, 1024]);
    let aging = |v: &str| bridge::MAC_AGING_TIME.number(&map("mac-aging-time", v));
    assert_eq!(["5", "100", "99999", "x", "0"].map(aging), [15, 100, 3600, 300, 300]);
    assert_eq!(
        (bridge::MAC_AGING_TIME.fault("0"), bridge::STP_MAX_AGE.fault("0")),
        (None, Some(Fault::OutOfRange(6)))
    );
    let isolate = |v: &str| root::PMD_RXQ_ISOLATE.flag_of(&map("pmd-rxq-isolate", v));
    assert_eq!(["false", "FALSE", "true", "what"].map(isolate), [false, false, true, true]);
    assert!(root::PMD_RXQ_ISOLATE.flag_of(&BTreeMap::new()));
    assert!(!root::PER_PORT_MEMORY.flag_of(&map("per-port-memory", "yes")));
    assert_eq!(root::BUNDLE_IDLE_TIMEOUT.opt_number(&BTreeMap::new()), None);
    assert_eq!(options::XDP_N_RXQ.number(&map("n_rxq", "17")), 17);
}

#[test]
fn settings_md_matches_the_table() {
    let page = include_str!("../../../docs/settings.md");
    assert!(
        page == text::markdown(),
        "docs/settings.md is old: sluice settings --markdown > docs/settings.md"
    );
}

#[test]
fn each_part_is_listed_once_and_needed_by_something() {
    for part in ALL {
        let asked = text::settings_that_need(*part).count() + part.kinds.len();
        assert!(asked > 0, "{}: nothing asks for it", part.name);
        assert_eq!(ALL.iter().filter(|p| p.name == part.name).count(), 1, "{}", part.name);
    }
    assert_eq!(TUNNELS.missing(), "bareudp, LISP and STT tunnels are not built yet");
    assert_eq!(HW_OFFLOAD.missing(), "hardware offload is not built yet");
    assert_eq!(of_kind("bareudp"), Some(TUNNELS));
    assert_eq!(of_kind("gre"), None);
    assert_eq!(of_kind("internal"), None);
}

#[test]
fn documents_match_the_list_of_what_is_not_built() {
    let page = include_str!("../../../docs/not-built.md");
    assert!(
        page == text::not_built_markdown(),
        "docs/not-built.md is old: sluice settings --not-built > docs/not-built.md"
    );
    let readme = include_str!("../../../README.md");
    let row = readme.lines().find(|line| line.starts_with("| not yet |"));
    assert_eq!(row, Some(text::not_built_readme_row().as_str()), "the README's row is old");
}
