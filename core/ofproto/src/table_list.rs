//! The flow tables of a bridge, in a list of two levels. A version of the tables is a copy of the list, which shares the tables: a copy
//! after each of thousands of flow mods must not touch all 255 tables.

use crate::table::Table;
use crate::table_numbers::N_TABLES;
use std::ops::Index;
use std::sync::Arc;

/// Number of tables that are copied together.
const CHUNK: usize = 16;
const CHUNKS: usize = N_TABLES.div_ceil(CHUNK);

/// All tables, by number. The last chunk has an entry that is no table.
#[derive(Clone, Debug)]
pub(crate) struct TableList([Arc<[Arc<Table>; CHUNK]>; CHUNKS]);

impl TableList {
    /// Tables that are copies of `table`.
    pub(crate) fn new(mut table: impl FnMut() -> Table) -> TableList {
        TableList(std::array::from_fn(|_| Arc::new(std::array::from_fn(|_| Arc::new(table())))))
    }

    /// A table; `None` for number 255, which is no table.
    pub(crate) fn get(&self, number: u8) -> Option<&Arc<Table>> {
        (usize::from(number) < N_TABLES).then(|| &self[number])
    }

    /// A table, mutable; copied first if another version uses it.
    pub(crate) fn get_mut(&mut self, number: u8) -> &mut Table {
        let chunk = Arc::make_mut(&mut self.0[usize::from(number) / CHUNK]);
        Arc::make_mut(&mut chunk[usize::from(number) % CHUNK])
    }

    /// All tables, in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.0.iter().flat_map(|chunk| chunk.iter()).take(N_TABLES)
    }
}

impl Index<u8> for TableList {
    type Output = Arc<Table>;

    #[inline]
    fn index(&self, number: u8) -> &Arc<Table> {
        &self.0[usize::from(number) / CHUNK][usize::from(number) % CHUNK]
    }
}
