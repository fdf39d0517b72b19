//! ARCHITECTURE.md names files and crates that exist, and every crate. Examples in the documentation of crates are run.

use arch::{root, rust_files};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn page() -> String {
    std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap()
}

/// Returns the text in backquotes in the first cell of each row of tables.
fn first_cells(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let cells = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    cells.map(|cell| cell.split('`').skip(1).step_by(2).collect())
}

#[test]
fn files_of_the_paths_exist() {
    let page = page();
    let paths = page.split("## Where things are").nth(1).unwrap().split("## Crates").next().unwrap();
    let mut missing = Vec::new();
    for cell in first_cells(paths) {
        let mut folder = PathBuf::from("core/datapath/src");
        for name in cell.into_iter().filter(|name| name.ends_with(".rs") || name.ends_with('/')) {
            let is_from_root = ["core/", "shell/", "bin/"].iter().any(|part| name.starts_with(part));
            let path = if is_from_root { PathBuf::from(name) } else { folder.join(name) };
            if !root().join(&path).exists() {
                missing.push(path.clone());
            }
            if let Some(parent) = path.parent().filter(|_| is_from_root) {
                folder = Path::to_path_buf(parent);
            }
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}

/// Returns whether the documentation in a source file has an example in Rust: a block of code that names no other language.
fn has_example(text: &str) -> bool {
    let (mut is_open, mut found) = (false, false);
    for line in text.lines().map(str::trim_start) {
        let Some(line) = line.strip_prefix("//!").or_else(|| line.strip_prefix("///")) else { continue };
        if let Some(language) = line.trim_start().strip_prefix("```") {
            is_open = !is_open;
            found |= is_open
                && matches!(language.split(',').next(), Some("" | "rust" | "no_run" | "should_panic"));
        }
    }
    found
}

#[test]
fn examples_of_the_documentation_are_run() {
    let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap();
    let line = makefile.lines().find_map(|line| line.strip_prefix("DOC_EXAMPLES := ")).unwrap();
    let run: BTreeSet<String> = line.split_whitespace().map(str::to_owned).collect();
    let mut there = BTreeSet::new();
    for folder in ["core", "shell"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap().map(Result::unwrap) {
            let mut files = Vec::new();
            rust_files(&entry.path(), &mut files);
            if files.iter().any(|file| has_example(&std::fs::read_to_string(file).unwrap())) {
                there.insert(entry.file_name().into_string().unwrap());
            }
        }
    }
    assert_eq!(there, run, "crates with examples, and DOC_EXAMPLES of the Makefile");
    assert!(has_example("/// ```rust,ignore") && !has_example("/// ```text\n/// x\n/// ```"));
}

#[test]
fn every_crate_has_a_row() {
    let page = page();
    let rows: Vec<Vec<&str>> = first_cells(page.split("## Crates").nth(1).unwrap()).collect();
    let named: Vec<&str> = rows.into_iter().flatten().collect();
    for folder in ["core", "shell", "bin"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            let is_crate = entry.path().join("Cargo.toml").exists();
            assert!(!is_crate || named.contains(&name.as_str()), "{folder}/{name} has no row");
        }
    }
}
