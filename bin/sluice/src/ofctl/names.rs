//! The names of a switch's ports and tables, as the switch reports them.

use flow::text::NameMap;
use openflow::port::Port;
use openflow::table::TableFeatures;
use std::collections::BTreeMap;
use std::sync::Arc;
use units::OfPort;

/// The ports of a switch.
#[derive(Debug, Default)]
pub struct Ports(pub Vec<Port>);

impl NameMap for Ports {
    fn port_name(&self, port: OfPort) -> Option<String> {
        self.0.iter().find(|p| p.number == port).map(|p| p.name.clone())
    }

    fn port_number(&self, name: &str) -> Option<OfPort> {
        self.0.iter().find(|p| p.name == name).map(|p| p.number)
    }
}

/// The names of the tables that have a name.
#[derive(Debug, Default)]
pub struct TableNames(BTreeMap<u8, String>);

impl TableNames {
    /// Adds a table.
    pub fn add(&mut self, table: &TableFeatures) {
        if !table.name.is_empty() {
            self.0.entry(table.table).or_insert_with(|| table.name.clone());
        }
    }

    /// The number of the table with this name; `None` if no table or several tables have the name.
    fn number(&self, name: &str) -> Option<u8> {
        let mut found = self.0.iter().filter(|(_, n)| *n == name);
        let (number, _) = found.next()?;
        found.next().is_none().then_some(*number)
    }

    fn name(&self, table: u8) -> Option<String> {
        self.0.get(&table).filter(|name| self.number(name).is_some()).cloned()
    }
}

/// The names of ports and of tables.
pub struct Names {
    /// The ports.
    pub ports: Arc<Ports>,
    /// The names of tables.
    pub tables: TableNames,
}

impl NameMap for Names {
    fn port_name(&self, port: OfPort) -> Option<String> {
        self.ports.port_name(port)
    }

    fn port_number(&self, name: &str) -> Option<OfPort> {
        self.ports.port_number(name)
    }

    fn table_name(&self, table: u8) -> Option<String> {
        self.tables.name(table)
    }

    fn table_number(&self, name: &str) -> Option<u8> {
        self.tables.number(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_two_tables_have_is_not_used() {
        let mut tables = TableNames::default();
        for (table, name) in [(0, "first"), (1, ""), (2, "twice"), (3, "twice")] {
            tables.add(&TableFeatures { table, name: name.to_owned(), ..TableFeatures::default() });
        }
        assert_eq!([0, 1, 2, 3].map(|t| tables.name(t)), [Some("first".to_owned()), None, None, None]);
        assert_eq!((tables.number("first"), tables.number("twice")), (Some(0), None));
    }
}
