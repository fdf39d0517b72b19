//! Names that one transaction gives to rows it inserts (`uuid-name`, `named-uuid`).

use crate::Uuid;
use std::collections::BTreeMap;

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
pub struct Symbol {
    /// The row's UUID.
    pub uuid: Uuid,
    /// Whether an `insert` bore the name; until then it was only referred to.
    pub created: bool,
}

/// The names of one transaction. A name may be referred to before the insert that bears it.
pub struct Symbols<'a> {
    names: BTreeMap<String, Symbol>,
    new_uuid: &'a mut dyn FnMut() -> Uuid,
}

impl<'a> Symbols<'a> {
    /// No names; `new_uuid` yields fresh UUIDs.
    pub fn new(new_uuid: &'a mut dyn FnMut() -> Uuid) -> Self {
        Symbols { names: BTreeMap::new(), new_uuid }
    }

    /// The symbol called `name`, made up at its first mention.
    pub fn mention(&mut self, name: &str) -> &mut Symbol {
        let new_uuid = &mut self.new_uuid;
        self.names.entry(name.to_owned()).or_insert_with(|| Symbol { uuid: new_uuid(), created: false })
    }

    /// A fresh UUID.
    pub fn fresh(&mut self) -> Uuid {
        (self.new_uuid)()
    }
}
