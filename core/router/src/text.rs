//! Text form of routes and rules: the output of `ovs/route/show` and `ovs/route/rule/show`.

use crate::table::{TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN, is_standard};
use crate::{Route, Rule, Table};
use std::fmt::Write;

/// The name of a standard table.
pub fn table_name(table: u32) -> Option<&'static str> {
    match table {
        TABLE_DEFAULT => Some("default"),
        TABLE_MAIN => Some("main"),
        TABLE_LOCAL => Some("local"),
        _ => None,
    }
}

fn owner(user: bool) -> &'static str {
    if user { "User" } else { "Cached" }
}

impl Route {
    /// The line of a route. `named`: the line contains the number of the table, unless the table has a name.
    fn line(&self, table: u32, named: bool) -> String {
        let mut out = format!("{}: {}", owner(self.user), self.prefix);
        // Writing to a String cannot fail.
        if self.mark != 0 {
            let _ = write!(out, " MARK {}", self.mark);
        }
        let _ = write!(out, " dev {}", self.dev);
        if let Some(gateway) = self.gateway {
            let _ = write!(out, " GW {gateway}");
        }
        let _ = write!(out, " SRC {}", self.source);
        if table == TABLE_LOCAL && !self.user {
            out.push_str(" local");
        }
        if named && !is_standard(table) {
            let _ = write!(out, " table {table}");
        }
        out.push('\n');
        out
    }
}

impl Table {
    /// The lines of the table's routes. `named`: each line contains the number of the table, unless the table has a name.
    pub fn text(&self, number: u32, named: bool) -> String {
        self.sorted().into_iter().map(|route| route.line(number, named)).collect()
    }
}

/// A title and the lines of a table, which may not exist.
pub fn with_table_header(number: u32, table: Option<&Table>) -> String {
    let title =
        if is_standard(number) { "Route Table:".to_owned() } else { format!("Route Table #{number}:") };
    format!("{title}\n{}", table.map_or(String::new(), |t| t.text(number, false)))
}

impl Rule {
    /// The line of a rule.
    pub fn line(&self) -> String {
        let not = if self.invert { "not " } else { "" };
        let from = match () {
            () if self.from.matches_all() => "all".to_owned(),
            () if self.from.is_host() => self.from.addr().to_string(),
            // Open vSwitch writes a second blank after the length of a prefix.
            () => format!("{} ", self.from),
        };
        let table = table_name(self.table).map_or_else(|| self.table.to_string(), str::to_owned);
        format!("{}: {}: {not}from {from} lookup {table}\n", owner(self.user), self.priority)
    }
}
