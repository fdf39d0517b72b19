//! Every setting of the database that a switch like this one knows: one typed table.
//!
//! A setting is a column, or a key of a column that is a map. The table says what values it takes, what it is without
//! one, whether it has an effect here and when a change is obeyed. Who reads a setting reads it through its entry, so
//! that a range or a default is written once; the log, `sluice settings`, `sluice doctor` and docs/settings.md say what
//! the table says. Names, ranges and defaults are those of ovs-vswitchd.conf.db(5), where nothing else is said.
//!
//! Invariants, held by tests: each column of the schema is in the table or in `state`; no setting is there twice; what
//! has an effect is read somewhere, and what is read is here.

mod value;

use crate::not_built::Part;

pub mod bridge;
pub mod check;
pub mod connection;
pub mod interface;
pub mod options;
pub mod port;
pub mod root;
pub mod sampling;
pub mod state;
pub mod tables;
pub mod text;

pub use value::Fault;

#[cfg(test)]
mod tests;

/// What a setting does in this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// What it says.
    Full,
    /// Less than it says; how much less.
    Partly(&'static str),
    /// Nothing, and nothing is lost but a tuning; why.
    None(&'static str),
    /// Nothing: it asks for a part of the switch that is not there.
    NotBuilt(Part),
    /// What it says with one value; more than one ask for a part that is not there.
    Several(Part),
    /// Nothing: it is a detail of a part that is not there, and matters only where something asks for the part.
    Detail(Part),
    /// Another program obeys; which.
    Elsewhere(&'static str),
}

/// When a change is obeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At once.
    Live,
    /// When the daemon starts again.
    Restart,
}

/// What becomes of a number outside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// The default takes its place.
    Default,
    /// The nearest number of the range does.
    Nearest,
    /// Who reads it says no.
    Refused,
}

/// The values that a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// `true` or `false`, and what holds without either.
    Bool(bool),
    /// A whole number.
    Int {
        /// The least.
        min: i64,
        /// The most.
        max: i64,
        /// Without one, if that is a number.
        default: Option<i64>,
        /// See there.
        outside: Outside,
    },
    /// One of some words; the default is empty where there is none.
    Choice(&'static [&'static str], &'static str),
    /// Text of a form; who reads it says what is wrong with it.
    Text {
        /// The form in words.
        form: &'static str,
        /// What holds without one; empty where that cannot be said in a word.
        default: &'static str,
    },
    /// Rows of another table, or of this one.
    Rows(&'static str),
}

/// One entry of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Table of the database.
    pub table: &'static str,
    /// Its column.
    pub column: &'static str,
    /// The key, if the column is a map with known keys; else empty.
    pub key: &'static str,
    /// The types of interfaces that have it; none is all.
    pub kinds: &'static [&'static str],
    /// See there.
    pub value: Value,
    /// See there.
    pub effect: Effect,
    /// See there.
    pub when: When,
    /// What it is, in one sentence.
    pub doc: &'static str,
}

/// The greatest number that fits 32 bits.
pub const U32: i64 = u32::MAX as i64;
/// The greatest number that fits 31 bits.
pub const I32: i64 = i32::MAX as i64;

impl Setting {
    /// A setting with effect, obeyed at once, of any text.
    pub const fn new(table: &'static str, column: &'static str, key: &'static str) -> Setting {
        Setting {
            table,
            column,
            key,
            kinds: &[],
            value: Value::Text { form: "", default: "" },
            effect: Effect::Full,
            when: When::Live,
            doc: "",
        }
    }

    const fn value(mut self, value: Value) -> Setting {
        self.value = value;
        self
    }

    const fn flag(self, default: bool) -> Setting {
        self.value(Value::Bool(default))
    }

    const fn int(self, min: i64, max: i64, default: i64) -> Setting {
        self.value(Value::Int { min, max, default: Some(default), outside: Outside::Default })
    }

    /// As `int`, but a number outside becomes the nearest inside.
    const fn held(self, min: i64, max: i64, default: i64) -> Setting {
        self.value(Value::Int { min, max, default: Some(default), outside: Outside::Nearest })
    }

    /// As `int`, but a number outside is an error of the row.
    const fn strict(self, min: i64, max: i64, default: i64) -> Setting {
        self.value(Value::Int { min, max, default: Some(default), outside: Outside::Refused })
    }

    /// A number without which something is chosen.
    const fn opt_int(self, min: i64, max: i64) -> Setting {
        self.value(Value::Int { min, max, default: None, outside: Outside::Default })
    }

    const fn choice(self, words: &'static [&'static str], default: &'static str) -> Setting {
        self.value(Value::Choice(words, default))
    }

    const fn text(self, form: &'static str) -> Setting {
        self.text_or(form, "")
    }

    const fn text_or(self, form: &'static str, default: &'static str) -> Setting {
        self.value(Value::Text { form, default })
    }

    const fn rows(self, table: &'static str) -> Setting {
        self.value(Value::Rows(table))
    }

    const fn of(mut self, kinds: &'static [&'static str]) -> Setting {
        self.kinds = kinds;
        self
    }

    const fn restart(mut self) -> Setting {
        self.when = When::Restart;
        self
    }

    const fn partly(mut self, what: &'static str) -> Setting {
        self.effect = Effect::Partly(what);
        self
    }

    const fn elsewhere(mut self, who: &'static str) -> Setting {
        self.effect = Effect::Elsewhere(who);
        self
    }

    const fn none(mut self, why: &'static str) -> Setting {
        self.effect = Effect::None(why);
        self
    }

    const fn asks_for(mut self, part: Part) -> Setting {
        self.effect = Effect::NotBuilt(part);
        self
    }

    const fn several_ask_for(mut self, part: Part) -> Setting {
        self.effect = Effect::Several(part);
        self
    }

    const fn detail_of(mut self, part: Part) -> Setting {
        self.effect = Effect::Detail(part);
        self
    }

    const fn doc(mut self, doc: &'static str) -> Setting {
        self.doc = doc;
        self
    }

    /// `table.column:key`
    pub fn place(&self) -> String {
        format!("{}.{}", self.table, self.name())
    }

    /// `column:key`
    pub fn name(&self) -> String {
        match self.key {
            "" => self.column.to_owned(),
            key => format!("{}:{key}", self.column),
        }
    }

    /// Whether interfaces of this type have it.
    pub fn is_of(&self, kind: &str) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }
}

/// Names the settings that the code reads, and lists them.
macro_rules! settings {
    ($($name:ident = $value:expr;)*) => {
        $(
            #[allow(missing_docs, reason = "its field `doc` is shown to users and says it")]
            pub const $name: Setting = $value;
        )*
        /// Those that have a name here.
        pub const NAMED: &[Setting] = &[$($name),*];
    };
}
use settings;

/// All settings, table by table.
pub fn all() -> impl Iterator<Item = &'static Setting> {
    let lists: [&'static [Setting]; 15] = [
        root::NAMED,
        root::OTHERS,
        bridge::NAMED,
        bridge::OTHERS,
        port::NAMED,
        port::OTHERS,
        interface::NAMED,
        interface::OTHERS,
        options::NAMED,
        options::OTHERS,
        connection::NAMED,
        connection::OTHERS,
        tables::NAMED,
        tables::OTHERS,
        sampling::OTHERS,
    ];
    lists.into_iter().flatten()
}

/// The entry of a key, for interfaces of type `kind`.
pub fn find(table: &str, column: &str, key: &str, kind: &str) -> Option<&'static Setting> {
    all().find(|s| s.table == table && s.column == column && s.key == key && s.is_of(kind))
}
