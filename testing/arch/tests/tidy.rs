//! House rules that a reader of one file cannot see broken.

use arch::{root, rust_files};
use std::path::PathBuf;

/// Code lines a file may have, tests not counted.
const LINES_MAX: usize = 600;

/// What `core/` may not name: it is told the time, handed its packets, and returns what to do.
const IMPURE: [&str; 8] = [
    "std::time::Instant",
    "SystemTime",
    "std::thread",
    "std::net::TcpStream",
    "std::os::unix",
    "std::fs::",
    "std::env::",
    "std::process",
];

fn sources(folders: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in folders {
        rust_files(&root().join(folder), &mut files);
    }
    files.retain(|f| f.components().any(|c| c.as_os_str() == "src"));
    files
}

/// The part of a source file before its unit tests.
fn code(text: &str) -> &str {
    text.split("\n#[cfg(test)]").next().unwrap_or(text)
}

#[test]
fn no_god_files() {
    let mut wrong = Vec::new();
    for path in sources(&["core", "shell", "bin", "testing"]) {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = code(&text).lines().count();
        if lines > LINES_MAX && !path.ends_with("tests.rs") && !path.ends_with("bindings.rs") {
            wrong.push(format!("{}: {lines} lines (limit {LINES_MAX})", path.display()));
        }
    }
    assert!(wrong.is_empty(), "split these by stage or subject:\n{}", wrong.join("\n"));
}

#[test]
fn core_is_pure() {
    let mut wrong = Vec::new();
    // Unit tests may read a seed from the environment.
    for path in sources(&["core"]).into_iter().filter(|path| !path.ends_with("tests.rs")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let code = code(&text);
        for word in IMPURE.iter().filter(|w| code.contains(**w)) {
            wrong.push(format!("{}: {word}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "core/ names the outside world:\n{}", wrong.join("\n"));
}

/// Bytes that the subject of a commit may have.
const SUBJECT_MAX: usize = 72;

/// The last commit from before the limit.
const SUBJECTS_SINCE: &str = "62325a4";

#[test]
fn commit_subjects_are_short() {
    let log = std::process::Command::new("git")
        .args(["log", "--no-merges", "--format=%h %s", &format!("{SUBJECTS_SINCE}..HEAD")])
        .current_dir(root())
        .output()
        .expect("git runs");
    // An archive without history, or a shallow clone, has nothing to check.
    let log = String::from_utf8_lossy(&log.stdout).into_owned();
    let subject = |line: &str| line.split_once(' ').map_or(0, |(_, subject)| subject.chars().count());
    let long: Vec<&str> = log.lines().filter(|line| subject(line) > SUBJECT_MAX).collect();
    assert!(long.is_empty(), "subjects over {SUBJECT_MAX} characters:\n{}", long.join("\n"));
}

#[test]
fn no_left_overs() {
    // Spelt in two parts, so that this file does not find itself.
    let words = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:"), concat!("/wo", "rk/")];
    let mut wrong = Vec::new();
    for path in sources(&["core", "shell", "bin", "testing"]) {
        let text = std::fs::read_to_string(&path).unwrap();
        for word in words.iter().filter(|w| text.contains(**w)) {
            wrong.push(format!("{}: {word}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}
