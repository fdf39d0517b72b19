//! Rules about files, functions, lines, names and commits that the compiler and Clippy do not check.

use arch::imports::without_tests;
use arch::{root, rust_files};
use std::path::PathBuf;

/// Maximum number of code lines of a file, without tests.
const LINES_MAX: usize = 600;

/// Names that `core/` must not use: its functions get the time and packets as arguments, and do no I/O.
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
#[test]
fn no_god_files() {
    let mut wrong = Vec::new();
    for path in sources(&["core", "shell", "bin", "testing"]) {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = without_tests(&text).lines().count();
        if lines > LINES_MAX && !path.ends_with("tests.rs") && !path.ends_with("bindings.rs") {
            wrong.push(format!("{}: {lines} lines (limit {LINES_MAX})", path.display()));
        }
    }
    assert!(wrong.is_empty(), "split these by stage or subject:\n{}", wrong.join("\n"));
}

/// Maximum number of lines of a function. Only functions with many match arms are nearly as long.
const FUNCTION_LINES_MAX: usize = 125;

/// Returns the number of lines of each function, with its name. In formatted code the closing bracket has the same indent as the
/// function.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut out = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = &line[..line.len() - code.len()];
        let Some((before, after)) = code.split_once("fn ").filter(|_| line.ends_with('{')) else { continue };
        let words = ["pub", "pub(crate)", "pub(super)", "const", "unsafe", "extern", "\"C\""];
        if before.split_whitespace().all(|word| words.contains(&word)) {
            let length =
                lines[at..].iter().position(|l| *l == format!("{indent}}}")).map_or(0, |end| end + 1);
            let name = after.split(['(', '<']).next().unwrap_or_default();
            out.push((name.to_owned(), length));
        }
    }
    out
}

#[test]
fn functions_fit() {
    let mut wrong = Vec::new();
    let files = sources(&["core", "shell", "bin", "testing"]);
    for path in files.into_iter().filter(|path| !path.ends_with("bindings.rs")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let long = functions(&text).into_iter().filter(|(_, lines)| *lines > FUNCTION_LINES_MAX);
        wrong.extend(long.map(|(name, lines)| format!("{}: {name} has {lines} lines", path.display())));
    }
    assert!(wrong.is_empty(), "functions over {FUNCTION_LINES_MAX} lines:\n{}", wrong.join("\n"));
}

/// Maximum number of characters of a line without a string. rustfmt does not wrap comments and strings.
const LINE_MAX: usize = 150;

#[test]
fn lines_are_short() {
    let mut wrong = Vec::new();
    let files = sources(&["core", "shell", "bin", "testing"]);
    for path in files.into_iter().filter(|path| !path.ends_with("bindings.rs")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let is_long = |line: &str| line.chars().count() > LINE_MAX && !line.contains('"');
        let long = text.lines().enumerate().filter(|(_, line)| is_long(line));
        wrong.extend(long.map(|(at, _)| format!("{}:{}", path.display(), at + 1)));
    }
    assert!(wrong.is_empty(), "lines over {LINE_MAX} characters:\n{}", wrong.join("\n"));
}

/// Words that do not say what a thing is; GLOSSARY.md has the terms to use. They are compared with the words of identifiers,
/// ignoring case.
const PRIVATE_WORDS: [&str; 17] = [
    "bed", "bell", "brake", "courtesy", "deed", "desk", "graves", "house", "knob", "knobs", "nap", "rhythm",
    "seat", "trail", "twin", "twins", "vouched",
];

/// Returns the words of every identifier that the text declares: types, functions, modules, constants.
fn declared_words(text: &str) -> Vec<String> {
    let keywords = ["struct", "enum", "fn", "mod", "trait", "const", "static", "type"];
    let mut out = Vec::new();
    for line in text.lines().map(str::trim_start).filter(|line| !line.starts_with("//")) {
        let words: Vec<&str> = line.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
        for pair in words.windows(2).filter(|pair| keywords.contains(&pair[0])) {
            let mut word = String::new();
            for c in pair[1].chars().chain(['_']) {
                if c == '_' || c.is_uppercase() && !word.chars().all(char::is_uppercase) {
                    out.push(std::mem::take(&mut word).to_lowercase());
                }
                word.extend((c != '_').then_some(c));
            }
        }
    }
    out
}

#[test]
fn names_are_of_the_field() {
    let mut wrong = Vec::new();
    for path in sources(&["core", "shell", "bin", "testing"]) {
        let text = std::fs::read_to_string(&path).unwrap();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().replace('-', "_");
        let words = declared_words(&format!("mod {stem}\n{text}"));
        for word in PRIVATE_WORDS.iter().filter(|word| words.iter().any(|w| w == *word)) {
            wrong.push(format!("{}: {word}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "names that GLOSSARY.md has other terms for:\n{}", wrong.join("\n"));
}

#[test]
fn words_of_names_are_found() {
    assert_eq!(
        declared_words("pub struct HandlerList {\n// fn nothing\nconst SLEEP_MAX: u8"),
        ["handler", "list", "sleep", "max"]
    );
}

/// Maximum number of fields of a struct.
const FIELDS_MAX: usize = 20;

/// Structs with more fields, and how many they have. The fields of `Flow` are those of a packet. When a field is removed, the
/// number must be changed here, so that no field is added again.
const LARGE_STRUCTS: [(&str, &str, usize); 1] = [("core/flow/src/flow.rs", "Flow", 47)];

/// Returns the number of fields of each struct, with its name.
fn structs(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut out = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = &line[..line.len() - code.len()];
        let Some((before, after)) = code.split_once("struct ").filter(|_| line.ends_with('{')) else {
            continue;
        };
        if before.is_empty() || before.starts_with("pub") {
            let body = lines[at + 1..].iter().take_while(|line| **line != format!("{indent}}}"));
            let field = format!("{indent}    ");
            let is_field = |line: &str| {
                let code = line.strip_prefix(&*field).filter(|code| !code.starts_with([' ', '/', '#']));
                code.is_some_and(|code| code.contains(": "))
            };
            let name = after.split(['<', ' ']).next().unwrap_or_default();
            out.push((name, body.filter(|line| is_field(line)).count()));
        }
    }
    out
}

#[test]
fn structs_have_few_fields() {
    let mut wrong = Vec::new();
    let mut left: Vec<(&str, &str, usize)> = LARGE_STRUCTS.to_vec();
    let files = sources(&["core", "shell", "bin", "testing"]);
    for path in files.into_iter().filter(|path| !path.ends_with("bindings.rs")) {
        let file = path.strip_prefix(root()).unwrap().display().to_string();
        let text = std::fs::read_to_string(&path).unwrap();
        for (name, fields) in structs(&text).into_iter().filter(|(_, fields)| *fields > FIELDS_MAX) {
            match left.iter().position(|large| *large == (&*file, name, fields)) {
                Some(at) => drop(left.swap_remove(at)),
                None => wrong.push(format!("{file}: {name} has {fields} fields (limit {FIELDS_MAX})")),
            }
        }
    }
    assert!(wrong.is_empty(), "divide these structs by subject:\n{}", wrong.join("\n"));
    assert!(left.is_empty(), "LARGE_STRUCTS has entries of structs that are smaller or gone: {left:?}");
}

#[test]
fn fields_are_counted() {
    let text = "pub struct A<'a> {\n    /// Note: no field.\n    a: u8,\n    pub b: [\n        u8: 1\n    ],\n}\nstruct B {\n}";
    assert_eq!(structs(text), [("A", 2), ("B", 0)]);
}

#[test]
fn core_is_pure() {
    let mut wrong = Vec::new();
    // Unit tests may read the seed of random numbers from the environment.
    for path in sources(&["core"]).into_iter().filter(|path| !path.ends_with("tests.rs")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let code = without_tests(&text);
        for word in IMPURE.iter().filter(|w| code.contains(**w)) {
            wrong.push(format!("{}: {word}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "core/ names the outside world:\n{}", wrong.join("\n"));
}

/// Maximum number of characters of a commit subject.
const SUBJECT_MAX: usize = 72;

/// The last commit before this limit was introduced.
const SUBJECTS_SINCE: &str = "62325a4";

#[test]
fn commit_subjects_are_short() {
    let log = std::process::Command::new("git")
        .args(["log", "--no-merges", "--format=%h %s", &format!("{SUBJECTS_SINCE}..HEAD")])
        .current_dir(root())
        .output()
        .expect("git runs");
    // In an archive without history and in a shallow clone there is nothing to check.
    let log = String::from_utf8_lossy(&log.stdout).into_owned();
    let subject = |line: &str| line.split_once(' ').map_or(0, |(_, subject)| subject.chars().count());
    let long: Vec<&str> = log.lines().filter(|line| subject(line) > SUBJECT_MAX).collect();
    assert!(long.is_empty(), "subjects over {SUBJECT_MAX} characters:\n{}", long.join("\n"));
    let without_area: Vec<&str> = log.lines().filter(|line| !line.contains(": ")).collect();
    assert!(
        without_area.is_empty(),
        "subjects that are not `area: what changed`:\n{}",
        without_area.join("\n")
    );
}

#[test]
fn no_left_overs() {
    // Each is split in two parts, so that this file does not contain it.
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
