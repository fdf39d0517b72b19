//! Generates docs/commands.md: the commands and options of all tools, from the pages that `--help` prints.

use crate::page::{Page, forms};
use std::fmt::Write;

/// The page, in the order of `sluice help`.
pub fn markdown(pages: &[Page]) -> String {
    let mut out =
        "# Commands\n\nThe tools of `sluice`, and the programs of Open vSwitch that each replaces. Made by \
                   `sluice help --markdown`.\n"
            .to_owned();
    for page in pages {
        let replaced: Vec<String> = page.names.other_names.iter().map(|name| format!("`{name}`")).collect();
        let replaces = if replaced.is_empty() {
            String::new()
        } else {
            format!(" Replaces {}.", replaced.join(" and "))
        };
        let call = ["sluice", page.names.tool, page.synopsis].join(" ");
        let _ = write!(
            out,
            "\n## sluice {}\n\n{}.{replaces}\n\n    {call}\n",
            page.names.tool,
            capital(page.title)
        );
        let commands: Vec<(String, &str)> =
            page.commands.iter().map(|line| (format!("{} {}", line.name, line.usage), line.text)).collect();
        rows(&mut out, "command", &commands);
        let options: Vec<(String, &str)> =
            page.options.iter().filter(|o| !o.text.is_empty()).map(|o| (forms(o), o.text)).collect();
        rows(&mut out, "option", &options);
    }
    out
}

/// A table, unless it would be empty.
fn rows(out: &mut String, heading: &str, rows: &[(String, &str)]) {
    if rows.is_empty() {
        return;
    }
    let _ = write!(out, "\n| {heading} | what it does |\n|---|---|\n");
    for (name, text) in rows {
        let _ = writeln!(out, "| `{}` | {} |", cell(name.trim()), cell(text));
    }
}

/// Escapes the text of a table cell: a vertical bar would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|c| c.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn commands_md_matches_the_pages() {
        let page = include_str!("../../../docs/commands.md");
        assert!(
            page == super::markdown(&crate::pages()),
            "docs/commands.md is old: sluice help --markdown > docs/commands.md"
        );
    }
}
