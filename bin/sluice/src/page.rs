//! The description of a tool, from which `--help`, the manual page and the shell completion are generated.
//!
//! A tool lists its commands and options once, each with a sentence. This module renders the description as text for a
//! terminal and as roff.

use crate::color;
use crate::getopt::{Opt, Takes};

/// Width of the column of names in `--help`, in characters.
const NAME_WIDTH: usize = 25;
/// Longest line of `--help`, in characters.
const WIDTH: usize = 100;

/// A command.
#[derive(Clone, Debug)]
pub struct CommandEntry {
    /// The name of the command.
    pub name: String,
    /// The arguments.
    pub usage: String,
    /// The description.
    pub text: &'static str,
}

/// The names of a tool.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// The name after `sluice`; empty for the program itself.
    pub tool: &'static str,
    /// Other names of the tool: those of the programs that it replaces, or of its use as a plug-in of Wireshark.
    pub other_names: &'static [&'static str],
}

impl Names {
    /// Returns whether the tool has this name.
    pub fn include(&self, name: &str) -> bool {
        self.tool == name || self.other_names.contains(&name)
    }
}

/// The description of a tool.
#[derive(Clone, Debug)]
pub struct Page {
    /// The names of the tool.
    pub names: Names,
    /// The purpose of the tool, in a few words.
    pub title: &'static str,
    /// The usage line without the tool's name.
    pub synopsis: &'static str,
    /// The commands.
    pub commands: Vec<CommandEntry>,
    /// The options. Options without a description are omitted in the output.
    pub options: Vec<Opt>,
    /// Headings and their texts.
    pub notes: Vec<(&'static str, String)>,
}

impl Page {
    /// The text of `--help`; `name` is the name by which the tool was called.
    pub fn help(&self, name: &str) -> String {
        let mut out = format!("{name}: {}\nusage: {name} {}\n", self.title, self.synopsis);
        let colored = color::is_wanted();
        let heading =
            |text: &str| format!("\n{}\n", color::paint(colored, color::HEADING, &format!("{text}:")));
        if !self.commands.is_empty() {
            out.push_str(&heading("Commands"));
        }
        for command in &self.commands {
            entry(&mut out, &format!("{} {}", command.name, command.usage), command.text);
        }
        if !self.options.is_empty() {
            out.push_str(&heading("Options"));
        }
        for option in self.options.iter().filter(|o| !o.text.is_empty()) {
            entry(&mut out, &forms(option), option.text);
        }
        for (title, text) in &self.notes {
            out.push_str(&heading(title));
            text.lines().for_each(|line| wrap(&mut out, line, 2));
        }
        out
    }

    /// The name of the manual page.
    pub fn man_name(&self) -> String {
        if self.names.tool.is_empty() { "sluice".into() } else { format!("sluice-{}", self.names.tool) }
    }

    /// The manual page, for section 8.
    pub fn man(&self, version: &str) -> String {
        let name = self.man_name();
        let call = name.replacen('-', " ", 1);
        let mut out = format!(
            ".TH {} 8 \"\" \"Sluice {}\" \"Sluice Manual\"\n.SH NAME\n{} \\- {}\n",
            name.to_uppercase().replace('-', "\\-"),
            roff(version),
            roff(&name),
            roff(self.title)
        );
        out.push_str(&format!(".SH SYNOPSIS\n.B {}\n{}\n", roff(&call), roff(self.synopsis)));
        for other in self.names.other_names {
            out.push_str(&format!(".br\n.B {}\n{}\n", roff(other), roff(self.synopsis)));
        }
        if !self.commands.is_empty() {
            out.push_str(".SH COMMANDS\n");
        }
        for command in &self.commands {
            let usage =
                if command.usage.is_empty() { String::new() } else { format!(" {}", roff(&command.usage)) };
            out.push_str(&format!(
                ".TP\n\\fB{}\\fR{usage}\n{}\n",
                roff(&command.name),
                sentence(command.text)
            ));
        }
        if !self.options.is_empty() {
            out.push_str(".SH OPTIONS\n");
        }
        for option in self.options.iter().filter(|o| !o.text.is_empty()) {
            out.push_str(&format!(".TP\n\\fB{}\\fR\n{}\n", roff(&forms(option)), sentence(option.text)));
        }
        for (heading, text) in &self.notes {
            out.push_str(&format!(".SH {}\n", roff(&heading.to_uppercase())));
            let blocks: Vec<&str> = text.lines().collect();
            // Lines that begin with blanks are printed unchanged.
            out.push_str(".nh\n");
            for line in blocks {
                match line.starts_with(' ') {
                    true => out.push_str(&format!(".RS\n.nf\n{}\n.fi\n.RE\n", roff(line.trim()))),
                    false => out.push_str(&format!("{}\n.br\n", roff(line))),
                }
            }
        }
        out
    }
}

/// The forms of an option, such as `-t, --timeout=SECS`.
pub fn forms(option: &Opt) -> String {
    let value = match option.takes {
        Takes::Nothing => String::new(),
        Takes::Maybe => format!("[={}]", option.arg),
        Takes::Value => format!("={}", option.arg),
    };
    let short = option.short.map(|letter| format!("-{letter}, ")).unwrap_or_default();
    format!("{short}--{}{value}", option.name)
}

/// A name and its description, on one line if the name is short enough.
fn entry(out: &mut String, name: &str, text: &str) {
    let name = name.trim_end();
    out.push_str(&format!("  {name}"));
    match name.len() < NAME_WIDTH {
        true => out.push_str(&" ".repeat(NAME_WIDTH - name.len())),
        false => out.push_str(&format!("\n  {}", " ".repeat(NAME_WIDTH))),
    }
    let mut wrapped = String::new();
    wrap(&mut wrapped, text, NAME_WIDTH + 2);
    out.push_str(wrapped.trim_start());
    if wrapped.trim().is_empty() {
        out.push('\n');
    }
}

/// Wraps words to lines indented by `indent` blanks. A text that begins with blanks is indented but not wrapped.
fn wrap(out: &mut String, text: &str, indent: usize) {
    if text.starts_with(' ') {
        out.push_str(&format!("{}{text}\n", " ".repeat(indent)));
        return;
    }
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && indent + line.len() + 1 + word.len() > WIDTH {
            out.push_str(&format!("{}{line}\n", " ".repeat(indent)));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        out.push_str(&format!("{}{line}\n", " ".repeat(indent)));
    }
}

/// Escapes a text for roff.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('"', "\\(dq");
    // A dot at the beginning of a line would be a roff request.
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}

/// Adds a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase()).into_iter();
    roff(&format!("{}.", first.chain(letters).collect::<String>().trim_end_matches('.')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::getopt::opt;

    fn page() -> Page {
        Page {
            names: Names { tool: "x", other_names: &["ovs-x"] },
            title: "does x",
            synopsis: "COMMAND",
            commands: vec![CommandEntry { name: "go-on".into(), usage: "[N]".into(), text: "goes .on" }],
            options: vec![
                opt("time", Some('t'), Takes::Value).described("SECS", "ends"),
                opt("hidden", None, Takes::Nothing),
            ],
            notes: vec![("More", "Words.\n  ls -l".into())],
        }
    }

    #[test]
    fn help() {
        assert_eq!(
            page().help("sluice x"),
            "sluice x: does x\nusage: sluice x COMMAND\n\nCommands:\n  go-on [N]                goes .on\n\nOptions:\n  \
             -t, --time=SECS          ends\n\nMore:\n  Words.\n    ls -l\n"
        );
    }

    #[test]
    fn manual() {
        let man = page().man("1");
        assert!(man.contains(".SH NAME\nsluice\\-x \\- does x\n"), "{man}");
        assert!(man.contains(".TP\n\\fBgo\\-on\\fR [N]\nGoes .on.\n"), "{man}");
        assert!(!man.contains("hidden"));
        assert_eq!(roff(".a'b"), "\\&.a\\(aqb");
    }

    #[test]
    fn long_texts_are_wrapped() {
        let mut out = String::new();
        entry(&mut out, &"n".repeat(40), &"word ".repeat(30));
        assert!(out.lines().all(|line| line.len() <= WIDTH), "{out}");
        assert!(out.lines().count() > 2);
    }
}
