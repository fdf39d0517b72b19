//! Output of the table for users: plain text, JSON, Markdown.

use super::{Effect, Setting, When, all};

impl Effect {
    /// Whether the setting has an effect in the switch.
    pub const fn is_some(&self) -> bool {
        matches!(self, Effect::Full | Effect::Partly(_))
    }

    /// `yes`, `partly: …`, `none: …` or `in …`.
    pub fn text(&self) -> String {
        match self {
            Effect::Full => "yes".to_owned(),
            Effect::Partly(what) => format!("partly: {what}"),
            Effect::None(why) => format!("none: {why}"),
            Effect::NotBuilt(part) | Effect::Detail(part) => format!("none: {}", part.missing()),
            Effect::Elsewhere(who) => format!("in {who}"),
        }
    }
}

impl When {
    /// `live` or `restart`.
    pub const fn text(&self) -> &'static str {
        match self {
            When::Live => "live",
            When::Restart => "restart",
        }
    }
}

/// Whether a pattern selects a setting: a substring of its full name or of its description, ignoring case.
pub fn matches(setting: &Setting, pattern: &str) -> bool {
    let pattern = pattern.to_lowercase();
    setting.place().to_lowercase().contains(&pattern) || setting.doc.to_lowercase().contains(&pattern)
}

/// The text of an entry for a terminal.
pub fn plain(setting: &Setting) -> String {
    let mut text = setting.place();
    if !setting.kinds.is_empty() {
        text.push_str(&format!("  (type {})", setting.kinds.join(", ")));
    }
    text.push_str(&format!("\n    {}\n    {}: {}", setting.doc, setting.type_name(), setting.range()));
    let default = setting.default_text();
    if !default.is_empty() {
        text.push_str(&format!("; default {default}"));
    }
    text.push_str(&format!("\n    effect {}", setting.effect.text()));
    if setting.effect.is_some() {
        text.push_str(&format!("; {}", setting.when.text()));
    }
    text.push('\n');
    text
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The text of docs/settings.md.
pub fn markdown() -> String {
    let mut out =
        "# Settings\n\nWhat the database holds for the switch, and what becomes of it in this version. \
                   Made by `sluice settings --markdown`.\n"
            .to_owned();
    let mut tables: Vec<&str> = Vec::new();
    all().for_each(|s| {
        if !tables.contains(&s.table) {
            tables.push(s.table)
        }
    });
    for (at, s) in tables.iter().flat_map(|table| all().filter(|s| s.table == *table).enumerate()) {
        if at == 0 {
            let table = s.table;
            out.push_str(&format!(
                "\n## {table}\n\n| setting | values | default | effect | change | |\n|---|---|---|---|---|---|\n"
            ));
        }
        let kinds = if s.kinds.is_empty() { String::new() } else { format!(" ({})", s.kinds.join(", ")) };
        let obeyed = s.effect.is_some();
        let change = if obeyed { s.when.text() } else { "" };
        let cells = [
            format!("`{}`{kinds}", s.name()),
            s.range(),
            s.default_text(),
            s.effect.text(),
            change.to_owned(),
            s.doc.to_owned(),
        ];
        out.push_str(&format!("| {} |\n", cells.map(|c| cell(&c)).join(" | ")));
    }
    out.push_str(LIMITS);
    out
}

/// The limits of clients of the database server. They are not database settings, because a client could change those.
const LIMITS: &str = "
## --ovsdb-limits

Limits on clients of the database server, on the command line of `ovsdb-server` and of `sluiced` where it serves its own
database: `--ovsdb-limits=NAME=NUMBER[,...]`.

| name | default | what is limited | beyond it |
|---|---|---|---|
| `bytes` | 67108864 | The text of one message. | the client is disconnected |
| `values` | 16777216 | JSON values of one message. | the client is disconnected |
| `operations` | 1048576 | Operations of one transaction. | the transaction is refused |
| `sessions` | 1024 | Clients of one remote. | they wait to be let in |
";
