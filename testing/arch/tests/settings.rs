//! The table of settings (core/settings) and the code agree.

use arch::imports::without_tests;
use arch::{root, rust_files};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The crates that read the database's settings.
const READERS: [&str; 8] = [
    "core/config/src",
    "core/bridge/src",
    "shell/openflow-service/src",
    "shell/switch/src",
    "shell/observe/src",
    "shell/netdev/src",
    "shell/dpdk/src",
    "bin/sluiced/src",
];

/// The folder of the table.
const TABLE: &str = "core/settings/src";

/// Returns the code that reads settings, without unit tests.
fn readers() -> BTreeMap<PathBuf, String> {
    let mut files = Vec::new();
    READERS.iter().for_each(|folder| rust_files(&root().join(folder), &mut files));
    files.retain(|f| !f.ends_with("tests.rs"));
    let code = |f: &PathBuf| without_tests(&std::fs::read_to_string(f).unwrap()).to_owned();
    files.into_iter().map(|f| (f.clone(), code(&f))).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

/// Returns the names in the definitions `NAME = oc("key")…;` of the table's source. The code uses the entries by these names.
fn names() -> BTreeSet<String> {
    let mut files = Vec::new();
    rust_files(&root().join(TABLE), &mut files);
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let mut names = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(file).unwrap();
        let Some((_, body)) = text.split_once("\nsettings! {\n") else { continue };
        let body = body.split("\n}\n").next().unwrap_or_default();
        let name = |line: &str| line.strip_prefix("    ")?.split_once(" = ").map(|(name, _)| name.to_owned());
        names.extend(body.lines().filter_map(name).filter(|n| is_name(n)));
    }
    names
}

/// Returns the literals after `get(` and `contains_key(` in lines that use a map of settings.
fn literal_keys(line: &str) -> Vec<&str> {
    if !["options", "config"].iter().any(|map| line.contains(map)) {
        return Vec::new();
    }
    let parts = line.split("get(\"").skip(1).chain(line.split("contains_key(\"").skip(1));
    parts.filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn every_key_that_is_read_is_in_the_table() {
    let known: BTreeSet<&str> = settings::all().map(|s| s.key).collect();
    let mut wrong = Vec::new();
    for (path, text) in readers() {
        for line in text.lines() {
            let unknown = literal_keys(line).into_iter().filter(|key| !known.contains(key));
            wrong.extend(unknown.map(|key| format!("{}: \"{key}\"", path.display())));
        }
    }
    assert!(wrong.is_empty(), "not in core/settings:\n{}", wrong.join("\n"));
}

/// Each entry that has an effect occurs in the code: by its name in the table, or by its column or key.
#[test]
fn what_has_an_effect_is_read() {
    let code: String = readers().into_values().collect::<Vec<_>>().join("\n");
    let used: BTreeSet<&str> = words(&code).collect();
    let mut idle: Vec<String> = Vec::new();
    for s in settings::all().filter(|s| s.effect == settings::Effect::Full) {
        let literal = if s.key.is_empty() { s.column } else { s.key };
        let upper = literal.to_uppercase().replace('-', "_");
        let by_name = used.iter().any(|word| *word == upper || word.ends_with(&format!("_{upper}")));
        if !by_name && !code.contains(&format!("\"{literal}\"")) && !code.contains(&format!(",{literal}\"")) {
            idle.push(s.full_name());
        }
    }
    assert!(idle.is_empty(), "the table says that these have an effect, but nothing reads them: {idle:?}");
}

#[test]
fn names_of_entries_are_those_of_the_table() {
    let named = names();
    assert!(named.len() > 50, "only {} names found", named.len());
    let keys: BTreeSet<String> = settings::all()
        .map(|s| if s.key.is_empty() { s.column } else { s.key })
        .map(|name| name.to_uppercase().replace('-', "_"))
        .collect();
    let strange: Vec<&String> =
        named.iter().filter(|n| !keys.iter().any(|k| *n == k || n.ends_with(&format!("_{k}")))).collect();
    assert!(strange.is_empty(), "{strange:?}");
}
