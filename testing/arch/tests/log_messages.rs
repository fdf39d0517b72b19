//! The page of log messages in the guide quotes texts that the code logs.

use arch::{root, rust_files};
use std::collections::BTreeSet;

/// The replacement for values in the texts of the page and of the code.
const VALUE: char = '\0';

/// Converts the text of a message on the page, in which the letters X, Y and Z stand for values.
fn quoted(text: &str) -> String {
    let mut out = String::new();
    for (at, c) in text.char_indices() {
        let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let alone = !is_word(text[..at].chars().next_back()) && !is_word(text[at + 1..].chars().next());
        out.push(if matches!(c, 'X'..='Z') && alone { VALUE } else { c });
    }
    out
}

/// Converts the text of a literal in the code, in which `{…}` stands for a value.
fn logged(literal: &str) -> String {
    let mut out = String::new();
    let mut rest = literal;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        out.push(VALUE);
        rest = after.split_once('}').map_or("", |(_, rest)| rest);
    }
    out + rest
}

/// Returns the string literals of a source file. The lines of a literal are joined.
fn literals(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '"' {
            continue;
        }
        let mut literal = String::new();
        while let Some(c) = chars.next().filter(|c| *c != '"') {
            match (c, chars.peek()) {
                ('\\', Some('\n')) => while chars.next_if(|c| c.is_whitespace()).is_some() {},
                ('\\', Some(_)) => literal.extend(chars.next()),
                _ => literal.push(c),
            }
        }
        out.push(literal);
    }
    out
}

#[test]
fn every_message_of_the_page_is_logged() {
    let page = std::fs::read_to_string(root().join("docs/guide/reference/log-messages.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let messages: Vec<&str> = rows.map(|(message, _)| message).collect();
    assert!(messages.len() > 30, "{messages:?}");
    assert_eq!(messages.iter().collect::<BTreeSet<_>>().len(), messages.len(), "one message twice");

    let mut files = Vec::new();
    ["shell", "bin/sluiced"].iter().for_each(|folder| rust_files(&root().join(folder), &mut files));
    let mut known = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(file).unwrap();
        // Otherwise a quotation mark in a character literal would begin a string literal.
        let code = text.split("\nmod tests {").next().unwrap_or_default().replace("'\"'", "");
        known.extend(literals(&code).iter().map(|literal| logged(literal)));
    }
    let is_logged = |message: &str| {
        let text = quoted(message);
        known.range(text.clone()..).next().is_some_and(|literal| literal.starts_with(&text))
    };
    let unknown: Vec<&&str> = messages.iter().filter(|message| !is_logged(message)).collect();
    assert!(unknown.is_empty(), "not logged in these words: {unknown:#?}");
    assert!(!is_logged("X: this is not logged"));
}
