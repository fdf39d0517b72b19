//! A setting: its column and key in the database, its values and its effect.

use crate::not_built::Part;

/// The effect of a setting in this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Full effect.
    Full,
    /// Partial effect; the text says what is missing.
    Partly(&'static str),
    /// No effect, which at most costs performance; the text is the reason.
    None(&'static str),
    /// No effect: the setting needs a part of the switch that is not implemented.
    NotBuilt(Part),
    /// No effect: the setting is a detail of a part that is not implemented. It is reported only together with a
    /// setting that needs the part.
    Detail(Part),
    /// Another program implements the setting; the text is its name.
    OtherProgram(&'static str),
}

/// When a change takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Immediately.
    Live,
    /// At the next start of the daemon.
    Restart,
}

/// How a number outside its range is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfRange {
    /// The default is used.
    Default,
    /// The nearest number of the range is used.
    Nearest,
    /// As `Nearest`, but 0 means the default.
    NearestOrDefault,
    /// The code that reads the setting refuses it.
    Refused,
}

/// The valid values of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// `true` or `false`, with the default.
    Bool(bool),
    /// An integer.
    Int {
        /// The minimum.
        min: i64,
        /// The maximum.
        max: i64,
        /// The default; `None` if there is no number as default.
        default: Option<i64>,
        /// How a number outside the range is treated.
        outside: OutOfRange,
    },
    /// One of several words, and the default; an empty default means that there is none.
    Choice(&'static [&'static str], &'static str),
    /// Text of a given form; the code that reads it reports errors.
    Text {
        /// Description of the form.
        form: &'static str,
        /// The default; empty if it cannot be written as a value.
        default: &'static str,
    },
    /// References to rows of a table.
    Rows(&'static str),
}

/// One entry of the table of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The table in the database.
    pub table: &'static str,
    /// The column.
    pub column: &'static str,
    /// The key, if the column is a map with known keys; otherwise empty.
    pub key: &'static str,
    /// The interface types that have the setting; empty: all.
    pub kinds: &'static [&'static str],
    /// The valid values.
    pub value: Value,
    /// The effect.
    pub effect: Effect,
    /// When a change takes effect.
    pub when: When,
    /// Description in one sentence.
    pub doc: &'static str,
}

/// The largest unsigned 32-bit number.
pub const U32_MAX: i64 = u32::MAX as i64;
/// The largest signed 32-bit number.
pub const I32_MAX: i64 = i32::MAX as i64;

impl Setting {
    /// A setting that accepts any text, has full effect and takes effect immediately.
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

    pub(crate) const fn value(mut self, value: Value) -> Setting {
        self.value = value;
        self
    }

    pub(crate) const fn flag(self, default: bool) -> Setting {
        self.value(Value::Bool(default))
    }

    pub(crate) const fn int(self, min: i64, max: i64, default: i64) -> Setting {
        self.value(Value::Int { min, max, default: Some(default), outside: OutOfRange::Default })
    }

    /// Like `int`, but a number outside the range is replaced by the nearest valid one.
    pub(crate) const fn clamped(self, min: i64, max: i64, default: i64) -> Setting {
        self.value(Value::Int { min, max, default: Some(default), outside: OutOfRange::Nearest })
    }

    /// Like `clamped`, but 0 means the default.
    pub(crate) const fn clamped_or_default(self, min: i64, max: i64, default: i64) -> Setting {
        self.value(Value::Int { min, max, default: Some(default), outside: OutOfRange::NearestOrDefault })
    }

    /// Like `int`, but a number outside the range is an error of the row.
    pub(crate) const fn strict(self, min: i64, max: i64, default: i64) -> Setting {
        self.value(Value::Int { min, max, default: Some(default), outside: OutOfRange::Refused })
    }

    /// A number without a default: if it is not set, the switch chooses the value.
    pub(crate) const fn opt_int(self, min: i64, max: i64) -> Setting {
        self.value(Value::Int { min, max, default: None, outside: OutOfRange::Default })
    }

    pub(crate) const fn choice(self, words: &'static [&'static str], default: &'static str) -> Setting {
        self.value(Value::Choice(words, default))
    }

    pub(crate) const fn text(self, form: &'static str) -> Setting {
        self.text_or(form, "")
    }

    pub(crate) const fn text_or(self, form: &'static str, default: &'static str) -> Setting {
        self.value(Value::Text { form, default })
    }

    pub(crate) const fn rows(self, table: &'static str) -> Setting {
        self.value(Value::Rows(table))
    }

    pub(crate) const fn for_kinds(mut self, kinds: &'static [&'static str]) -> Setting {
        self.kinds = kinds;
        self
    }

    pub(crate) const fn restart(mut self) -> Setting {
        self.when = When::Restart;
        self
    }

    pub(crate) const fn partly_effective(mut self, what: &'static str) -> Setting {
        self.effect = Effect::Partly(what);
        self
    }

    pub(crate) const fn other_program(mut self, program: &'static str) -> Setting {
        self.effect = Effect::OtherProgram(program);
        self
    }

    pub(crate) const fn without_effect(mut self, why: &'static str) -> Setting {
        self.effect = Effect::None(why);
        self
    }

    pub(crate) const fn needs(mut self, part: Part) -> Setting {
        self.effect = Effect::NotBuilt(part);
        self
    }

    pub(crate) const fn detail_of(mut self, part: Part) -> Setting {
        self.effect = Effect::Detail(part);
        self
    }

    pub(crate) const fn doc(mut self, doc: &'static str) -> Setting {
        self.doc = doc;
        self
    }

    /// The full name: `table.column:key`.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.table, self.name())
    }

    /// The name within its table: `column:key`.
    pub fn name(&self) -> String {
        match self.key {
            "" => self.column.to_owned(),
            key => format!("{}:{key}", self.column),
        }
    }

    /// Whether interfaces of this type have the setting.
    pub fn applies_to(&self, kind: &str) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }
}

/// Declares the settings that the code reads by name, and lists them.
macro_rules! settings {
    ($($name:ident = $value:expr;)*) => {
        $(
            #[allow(missing_docs, reason = "its field `doc` is shown to users and says it")]
            pub const $name: Setting = $value;
        )*
        /// The settings that the code reads by name.
        pub const NAMED: &[Setting] = &[$($name),*];
    };
}
pub(crate) use settings;
