//! What commands work with while they run.

use super::model::Model;
use super::transaction::Transaction;
use crate::notation::Symbols;
use crate::table::Table;
use ovsdb::replica::Config;
use ovsdb::{Json, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The table whose one row is the root of the configuration.
pub const ROOT: &str = "Open_vSwitch";

/// The columns that commands read: no others are copied from the server.
#[derive(Default)]
pub struct Needs(BTreeMap<&'static str, BTreeSet<&'static str>>);

impl Needs {
    /// The rows of a table.
    pub fn table(&mut self, table: &'static str) {
        self.0.entry(table).or_default();
    }

    /// Columns of a table.
    pub fn columns(&mut self, table: &'static str, columns: impl IntoIterator<Item = &'static str>) {
        self.0.entry(table).or_default().extend(columns);
    }

    /// What to keep a copy of.
    pub fn config(self) -> Config {
        let columns = |c: BTreeSet<&str>| Some(c.into_iter().map(str::to_owned).collect());
        let tables = self.0.into_iter().map(|(table, c)| (table.to_owned(), columns(c))).collect();
        Config { database: ROOT.to_owned(), tables, ..Config::default() }
    }
}

/// Why a command does not end with an answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Stop {
    /// The words for standard error.
    Fatal(String),
    /// The program is to end with this status, without words.
    Exit(u8),
    /// The database is not yet as the command wants it.
    Again,
}

impl From<String> for Stop {
    fn from(text: String) -> Stop {
        Stop::Fatal(text)
    }
}

impl From<&str> for Stop {
    fn from(text: &str) -> Stop {
        Stop::Fatal(text.to_owned())
    }
}

/// What a command prints.
#[derive(Debug)]
pub enum Answer {
    /// Lines.
    Text(String),
    /// Lines, and what they say as JSON.
    Value(String, Json),
    /// A table.
    Table(Table),
    /// The UUID that the server gives to this new row.
    Row(Uuid),
}

impl Answer {
    /// Nothing.
    pub const NONE: Answer = Answer::Text(String::new());

    /// Lines in sorted order.
    pub fn sorted(mut lines: Vec<String>) -> Answer {
        lines.sort_unstable();
        let json = lines.iter().map(|line| Json::from(line.as_str())).collect();
        Answer::Value(lines.into_iter().map(|line| line + "\n").collect(), json)
    }

    /// One word on a line.
    pub fn word(word: &str) -> Answer {
        Answer::Value(format!("{word}\n"), word.into())
    }
}

/// The state of one run of the commands.
pub struct Context<'a> {
    /// The copy of the database with the changes made so far.
    pub tx: Transaction<'a>,
    /// The row of the root table.
    pub root: Uuid,
    /// Rows with names.
    pub symbols: Symbols,
    /// Whether this is the last command.
    pub last: bool,
    /// Interfaces to look after once the switch has taken the change up.
    pub new_interfaces: Vec<Uuid>,
    verified_ports: bool,
    model: Option<Rc<Model>>,
}

impl<'a> Context<'a> {
    /// The start of a run.
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

    /// Before each command.
    pub fn begin(&mut self, last: bool) {
        self.last = last;
        self.verified_ports = false;
    }

    /// Bridges, ports and interfaces as they are by now.
    pub fn model(&mut self) -> Rc<Model> {
        self.model.get_or_insert_with(|| Rc::new(Model::build(&self.tx, self.root))).clone()
    }

    /// After a change to anything that the model tells of.
    pub fn outdate_model(&mut self) {
        self.model = None;
    }

    /// Holds the server to the whole tree of bridges, ports and interfaces.
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
