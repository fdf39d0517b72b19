//! The state of running commands.

use super::model::Model;
use super::schema_names::ROOT;
use super::transaction::Transaction;
use crate::notation::Symbols;
use crate::table::Table;
use ovsdb::replica::Config;
use ovsdb::{Json, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The columns that commands read. Other columns are not copied from the server.
#[derive(Default)]
pub struct NeededColumns(BTreeMap<&'static str, BTreeSet<&'static str>>);

impl NeededColumns {
    /// Adds the rows of a table, without columns.
    pub fn table(&mut self, table: &'static str) {
        self.0.entry(table).or_default();
    }

    /// Adds columns of a table.
    pub fn columns(&mut self, table: &'static str, columns: impl IntoIterator<Item = &'static str>) {
        self.0.entry(table).or_default().extend(columns);
    }

    /// The configuration of a copy of the database with these tables and columns.
    pub fn config(self) -> Config {
        let columns = |c: BTreeSet<&str>| Some(c.into_iter().map(str::to_owned).collect());
        let tables = self.0.into_iter().map(|(table, c)| (table.to_owned(), columns(c))).collect();
        Config { database: ROOT.to_owned(), tables, ..Config::default() }
    }
}

/// Why a command ends without output.
#[derive(Debug, PartialEq, Eq)]
pub enum CommandStop {
    /// An error, with its text.
    Fatal(String),
    /// Exit with this status, without a text.
    Exit(u8),
    /// The database is not yet in the requested state; all commands run again after its next change.
    Again,
}

impl From<String> for CommandStop {
    fn from(text: String) -> CommandStop {
        CommandStop::Fatal(text)
    }
}

impl From<&str> for CommandStop {
    fn from(text: &str) -> CommandStop {
        CommandStop::Fatal(text.to_owned())
    }
}

/// The output of a command.
#[derive(Debug)]
pub enum CommandOutput {
    /// Text.
    Text(String),
    /// Text, and the same value as JSON.
    Value(String, Json),
    /// A table.
    Table(Table),
    /// The UUID that the server assigns to this new row.
    Row(Uuid),
}

impl CommandOutput {
    /// No output.
    pub const NONE: CommandOutput = CommandOutput::Text(String::new());

    /// Sorted lines.
    pub fn sorted(mut lines: Vec<String>) -> CommandOutput {
        lines.sort_unstable();
        let json = lines.iter().map(|line| Json::from(line.as_str())).collect();
        CommandOutput::Value(lines.into_iter().map(|line| line + "\n").collect(), json)
    }

    /// A word on its own line.
    pub fn word(word: &str) -> CommandOutput {
        CommandOutput::Value(format!("{word}\n"), word.into())
    }
}

/// The state of one run of the commands.
pub struct Context<'a> {
    /// The copy of the database with the transaction's changes.
    pub tx: Transaction<'a>,
    /// The row of the root table.
    pub root: Uuid,
    /// Names of rows.
    pub symbols: Symbols,
    /// Whether this is the last command.
    pub last: bool,
    /// Interfaces to check once the switch has applied the change.
    pub new_interfaces: Vec<Uuid>,
    verified_ports: bool,
    model: Option<Rc<Model>>,
}

impl<'a> Context<'a> {
    /// The state before the first command.
    pub fn new(mut tx: Transaction<'a>) -> Self {
        let stored = tx.rows(ROOT).first().copied();
        let root = stored.unwrap_or_else(|| tx.insert(ROOT, None));
        Context {
            tx,
            root,
            symbols: Symbols::default(),
            last: false,
            new_interfaces: Vec::new(),
            verified_ports: false,
            model: None,
        }
    }

    /// Prepares for the next command.
    pub fn begin(&mut self, last: bool) {
        self.last = last;
        self.verified_ports = false;
    }

    /// Bridges, ports and interfaces after the changes so far.
    pub fn model(&mut self) -> Rc<Model> {
        self.model.get_or_insert_with(|| Rc::new(Model::build(&self.tx, self.root))).clone()
    }

    /// Must be called after a change to bridges, ports or interfaces.
    pub fn invalidate_model(&mut self) {
        self.model = None;
    }

    /// Verifies the columns that form the tree of bridges, ports and interfaces, so that the transaction fails if the tree changes.
    pub fn verify_ports(&mut self) {
        if std::mem::replace(&mut self.verified_ports, true) {
            return;
        }
        self.tx.verify(ROOT, self.root, "bridges");
        for (table, column) in [("Bridge", "ports"), ("Port", "interfaces")] {
            self.tx.rows(table).into_iter().for_each(|row| self.tx.verify(table, row, column));
        }
    }
}
