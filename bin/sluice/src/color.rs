//! Colours on terminals.
//!
//! Text is coloured if standard output is a terminal that supports colours and `NO_COLOR` is unset or empty
//! (no-color.org). In pipes and files, and if the tool is called by its Open vSwitch name, text has no colours unless
//! `--color` requests them.

use crate::suggest;
use std::ffi::OsString;
use std::io::IsTerminal;

/// A text style: the parameters of the escape sequence SGR (ECMA-48).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style(&'static str);

/// For headings.
pub const HEADING: Style = Style("1");
/// For problems, and for `actions=`.
pub const BAD: Style = Style("1;31");
/// For warnings, and for the words in `SPECIAL`.
pub const WARN: Style = Style("33");
/// For advice.
pub const ADVICE: Style = Style("36");
/// For names of fields.
pub const FIELD: Style = Style("36");
/// For names of protocols, and for other lower-case words without a value, such as `commit`.
pub const PROTOCOL: Style = Style("32");
/// For the action `drop`.
pub const DROP: Style = Style("34");
/// For actions with arguments in parentheses.
pub const ACTION_WITH_ARGUMENTS: Style = Style("35");
/// For the action `learn`.
pub const LEARN: Style = Style("31");

/// The value of an environment variable that is not empty.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns whether the environment allows colours.
pub fn is_allowed() -> bool {
    variable("NO_COLOR").is_none()
}

/// Returns whether text is coloured by default.
pub fn is_wanted() -> bool {
    let can = variable("TERM").is_some_and(|term| term != "dumb");
    !suggest::is_compat() && can && is_allowed() && std::io::stdout().is_terminal()
}

/// The text in a style if `on`, otherwise unchanged.
pub fn paint(on: bool, style: Style, text: &str) -> String {
    if !on || text.is_empty() {
        return text.to_owned();
    }
    format!("\x1b[{}m\x1b[K{text}\x1b[m\x1b[K", style.0)
}

/// Words with a fixed style: actions that send a packet or set a field, and the words for a flow's table and priority.
const SPECIAL: [&str; 9] =
    ["table=", "priority=", "load:", "output:", "move:", "group:", "CONTROLLER:", "set_field:", "resubmit:"];

/// Colours a dump of flows, word by word.
pub fn flows(text: &str) -> String {
    text.split_inclusive('\n')
        .map(|line| if line.contains("actions=") { flow(line) } else { line.to_owned() })
        .collect()
}

fn flow(line: &str) -> String {
    let mut out = String::new();
    // The styles of the open parentheses.
    let mut open: Vec<Option<Style>> = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.find([',', ' ', '(', ')', '=', ':', '\n']) {
        let (word, after) = rest.split_at(at);
        let (mark, after) = after.split_at(1);
        let keyed = format!("{word}{mark}");
        match mark {
            "(" => {
                let style =
                    (!word.is_empty()).then_some(if word == "learn" { LEARN } else { ACTION_WITH_ARGUMENTS });
                out += &style.map_or(keyed.clone(), |style| paint(true, style, &keyed));
                open.push(style);
            }
            ")" => {
                out += &paint_lone_word(word);
                out += &open.pop().flatten().map_or(mark.to_owned(), |style| paint(true, style, mark));
            }
            "=" | ":" if word == "actions" => out += &paint(true, BAD, &keyed),
            "=" | ":" if SPECIAL.contains(&keyed.as_str()) => out += &paint(true, WARN, &keyed),
            "=" => out += &paint(true, FIELD, &keyed),
            // Addresses contain colons, too.
            ":" if word.starts_with(|c: char| c.is_ascii_alphabetic()) && word.contains('_') => {
                out += &paint(true, FIELD, &keyed);
            }
            ":" => out += &keyed,
            _ => out += &(paint_lone_word(word) + mark),
        }
        rest = after;
        // Copy the value without a style, up to the next separator. A colon does not end it: values such as addresses contain colons.
        if mark == "=" && word != "actions" {
            let end = rest.find([',', ' ', '(', ')', '\n']).unwrap_or(rest.len());
            let (value, after) = rest.split_at(end);
            out += value;
            rest = after;
        }
    }
    out + &paint_lone_word(rest)
}

/// Colours a word without a value.
fn paint_lone_word(word: &str) -> String {
    let is_name = word.starts_with(|c: char| c.is_ascii_lowercase())
        && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    match word {
        "drop" => paint(true, DROP, word),
        _ if is_name => paint(true, PROTOCOL, word),
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("\x1b[") {
            out += before;
            rest = after.split_once(['m', 'K']).map_or("", |(_, rest)| rest);
        }
        out + rest
    }

    #[test]
    fn colours_change_no_letter() {
        let dump = "NXST_FLOW reply (xid=0x4):\n cookie=0x0, table=0, priority=9,tcp,dl_dst=00:11:22:33:44:55,ipv6_src=::1 \
                    actions=ct(commit,nat(src=1.1.1.1)),learn(table=2,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[]),LOCAL\n \
                    priority=1 actions=drop\n";
        let painted = flows(dump);
        assert_eq!(plain(&painted), dump);
        for part in [
            "\x1b[1;31m\x1b[Kactions=\x1b[m\x1b[K",
            "\x1b[34m\x1b[Kdrop\x1b[m\x1b[K",
            "\x1b[32m\x1b[Ktcp\x1b[m\x1b[K",
            "\x1b[33m\x1b[Kpriority=\x1b[m\x1b[K9",
            "\x1b[31m\x1b[Klearn(\x1b[m\x1b[K",
        ] {
            assert!(painted.contains(part), "{part:?} in {painted:?}");
        }
        assert_eq!(paint(false, BAD, "x"), "x");
    }
}
