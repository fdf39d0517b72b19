//! Names of rows that a transaction inserts (`uuid-name`, `named-uuid`).

use std::collections::BTreeMap;
use uuid::Uuid;

/// The row that a name stands for.
#[derive(Clone, Copy, Debug)]
pub struct Symbol {
    /// The row's UUID.
    pub uuid: Uuid,
    /// Whether the `insert` with this name has been executed; the name can be used before.
    pub created: bool,
}

/// The names of one transaction. A name may be used before the insert that defines it.
pub struct Symbols<'a> {
    names: BTreeMap<String, Symbol>,
    new_uuid: &'a mut dyn FnMut() -> Uuid,
}

impl<'a> Symbols<'a> {
    /// A table without names; `new_uuid` generates UUIDs.
    pub fn new(new_uuid: &'a mut dyn FnMut() -> Uuid) -> Self {
        Symbols { names: BTreeMap::new(), new_uuid }
    }

    /// The symbol with this name; creates it on first use.
    pub fn get_or_create(&mut self, name: &str) -> &mut Symbol {
        let new_uuid = &mut self.new_uuid;
        self.names.entry(name.to_owned()).or_insert_with(|| Symbol { uuid: new_uuid(), created: false })
    }

    /// A new UUID.
    pub fn new_uuid(&mut self) -> Uuid {
        (self.new_uuid)()
    }
}
