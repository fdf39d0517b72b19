//! Duplicated code.

use arch::imports::without_tests;
use arch::{root, rust_files};
use std::collections::HashMap;
use std::path::PathBuf;

/// Number of equal consecutive lines that count as a copy. It is 12, because similar implementations of a trait have up to ten equal lines
/// that only call other methods.
const COPY_LINES: usize = 12;

/// Returns the lines of code with their numbers, without comments, attributes, imports, and lines that contain only brackets.
fn code_lines(text: &str) -> Vec<(usize, &str)> {
    let is_code = |line: &str| {
        let skipped = ["//", "#[", "use ", "pub use ", "mod ", "pub mod "];
        !skipped.iter().any(|start| line.starts_with(start)) && line.chars().any(char::is_alphanumeric)
    };
    let numbered = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    numbered.filter(|(_, line)| is_code(line)).collect()
}

/// Returns the pairs of places where [`COPY_LINES`] equal lines begin. For each copy it returns only the first pair. Copies without
/// a statement are ignored, for example two types with the same fields.
fn copies<'t>(files: &[(&'t str, &'t str)]) -> Vec<String> {
    let lines: Vec<(&str, Vec<(usize, &str)>)> =
        files.iter().map(|(name, text)| (*name, code_lines(text))).collect();
    let mut first: HashMap<Vec<&str>, (&str, usize)> = HashMap::new();
    let mut found = Vec::new();
    for (name, lines) in &lines {
        let mut in_copy = false;
        for run in lines.windows(COPY_LINES) {
            let texts: Vec<&str> = run.iter().map(|(_, line)| *line).collect();
            let here = (*name, run[0].0);
            let before = *first.entry(texts).or_insert(here);
            let is_copy = before != here && run.iter().any(|(_, line)| line.ends_with(';'));
            if is_copy && !in_copy {
                found.push(format!("{}:{} and {}:{}", before.0, before.1, here.0, here.1));
            }
            in_copy = is_copy;
        }
    }
    found
}

#[test]
fn no_code_is_copied() {
    let mut paths: Vec<PathBuf> = Vec::new();
    for folder in ["core", "shell", "bin", "testing"] {
        rust_files(&root().join(folder), &mut paths);
    }
    let is_test = |path: &PathBuf| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        stem.ends_with("tests") || path.components().any(|c| c.as_os_str() == "tests")
    };
    paths.retain(|path| !is_test(path) && !path.ends_with("bindings.rs"));
    paths.sort();
    let read = |path: &PathBuf| {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        (name, without_tests(&std::fs::read_to_string(path).unwrap()).to_owned())
    };
    let files: Vec<(String, String)> = paths.iter().map(read).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
    let found = copies(&files);
    assert!(found.is_empty(), "{COPY_LINES} equal lines, give them one function:\n{}", found.join("\n"));
}

#[test]
fn copies_are_found_and_fields_are_not() {
    let lines = |end: &str| (0..COPY_LINES).map(|n| format!("    line{n}{end}\n")).collect::<String>();
    let (statements, fields) = (lines(";"), lines(","));
    let other = format!("fn f() {{\n// comment\n{statements}}}\n");
    assert_eq!(copies(&[("a", &statements), ("b", &other)]), ["a:1 and b:3"]);
    assert!(copies(&[("a", &fields), ("b", &fields)]).is_empty());
    assert!(copies(&[("a", &statements)]).is_empty());
}
