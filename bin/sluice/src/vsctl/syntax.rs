//! The syntax of commands, and parsed commands.

use super::context::{CommandOutput, CommandStop, Context, NeededColumns};
use std::collections::BTreeMap;

/// One command of a command line.
#[derive(Debug)]
pub struct Command {
    /// The definition of the command.
    pub syntax: &'static Syntax,
    /// The options that were given, with their dashes.
    pub options: BTreeMap<String, Option<String>>,
    /// The arguments after the name.
    pub args: Vec<String>,
}

impl Command {
    /// Whether an option was given.
    pub fn has(&self, option: &str) -> bool {
        self.options.contains_key(option)
    }

    /// The value of an option.
    pub fn option(&self, option: &str) -> Option<&str> {
        self.options.get(option)?.as_deref()
    }

    /// An argument; empty if it is missing.
    pub fn arg(&self, index: usize) -> &str {
        self.args.get(index).map_or("", String::as_str)
    }

    /// The arguments from `index` on.
    pub fn args_from(&self, index: usize) -> &[String] {
        self.args.get(index..).unwrap_or_default()
    }

    /// The command with options and arguments as text, for error messages.
    pub fn line(&self) -> String {
        let words = self.options.keys().map(String::as_str).chain([self.syntax.name]);
        quote(words.chain(self.args.iter().map(String::as_str)))
    }
}

/// Words quoted for a shell.
pub fn quote<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let quoted =
        words.into_iter().map(|word| match word.contains([' ', '\t', '\r', '\n', '\x0b', '\\', '\'', '"']) {
            true => format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")),
            false => word.to_owned(),
        });
    quoted.collect::<Vec<_>>().join(" ")
}

/// See [`Syntax::prepare`].
pub type Prepare = fn(&Command, &mut NeededColumns) -> Result<(), String>;
/// See [`Syntax::run`].
pub type Run = fn(&mut Context<'_>, &Command) -> Result<CommandOutput, CommandStop>;

/// The definition of a command.
pub struct Syntax {
    /// The name of the command.
    pub name: &'static str,
    /// Minimum and maximum number of arguments.
    pub args: (usize, usize),
    /// The arguments' names in the notation of completion scripts: `!` required, `?` optional, `+` and `*`
    /// repeated.
    pub usage: &'static str,
    /// The names of the options; a name that ends in `=` requires a value.
    pub options: &'static [&'static str],
    /// Adds the columns that the command reads, and reports errors before a connection is made.
    pub prepare: Prepare,
    /// Runs the command.
    pub run: Run,
}

impl Syntax {
    /// Returns whether the command may change the database.
    pub fn writes(&self) -> bool {
        let reads = ["list", "get", "show", "find", "comment", "wait-until", "br-exists", "br-get"];
        !reads.iter().any(|start| self.name.starts_with(start)) && !self.name.contains("-to-")
    }
}

impl std::fmt::Debug for Syntax {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting() {
        assert_eq!(quote(["a", "b c", "d\"e"]), r#"a "b c" "d\"e""#);
    }
}
