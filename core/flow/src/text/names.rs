//! Names of ports and tables.

use super::quotes::{quoted, unquoted};
use units::OfPort;

/// The names of a bridge's ports and tables.
pub trait NameMap {
    /// The name of a port; `None`: its number is printed.
    fn port_name(&self, port: OfPort) -> Option<String>;
    /// The port with this name.
    fn port_number(&self, name: &str) -> Option<OfPort>;

    /// The name of a table. Most implementations know only ports.
    fn table_name(&self, _table: u8) -> Option<String> {
        None
    }

    /// The table with this name.
    fn table_number(&self, _name: &str) -> Option<u8> {
        None
    }
}

/// No names: ports and tables are printed and parsed as numbers.
pub struct NoNames;

impl NameMap for NoNames {
    fn port_name(&self, _: OfPort) -> Option<String> {
        None
    }

    fn port_number(&self, _: &str) -> Option<OfPort> {
        None
    }
}

/// The text of a table: its name, in quotes if necessary, or its number.
pub fn table_text(table: u8, names: &dyn NameMap) -> String {
    names.table_name(table).map_or_else(|| table.to_string(), |name| quoted(&name))
}

/// Parses a table: a decimal number or a name.
pub fn table_from_text(text: &str, names: &dyn NameMap) -> Option<u8> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().ok();
    }
    match text.starts_with('"') {
        true => names.table_number(&unquoted(text)?),
        false => names.table_number(text),
    }
}
