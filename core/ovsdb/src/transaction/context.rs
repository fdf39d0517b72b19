//! The permissions, the client and the memory limits of one transaction.

use crate::Error;
use crate::rbac::Client;
use std::cell::Cell;

/// Context of a transaction.
pub struct Context<'a> {
    /// Milliseconds since the request was received.
    pub elapsed_ms: i64,
    /// Whether the session owns the named lock.
    pub owns_lock: &'a dyn Fn(&str) -> bool,
    /// Whether changes are refused.
    pub read_only: bool,
    /// The client, for role-based access control.
    pub client: Client<'a>,
    /// Whether to cancel the transaction because its client has disconnected.
    pub is_abandoned: &'a dyn Fn() -> bool,
    /// Limit of the memory of selected rows, in bytes, in addition to the memory of the complete database
    /// before the transaction (`ovsdb-client backup` selects all of it). A transaction that exceeds the limit
    /// fails. Results of other operations do not count: they have a small fixed size, so the number of
    /// operations limits them.
    pub max_selected_memory: usize,
    /// Estimated memory of the rows that the transaction has selected, in bytes; counted by [`execute`](super::execute).
    pub selected: Cell<usize>,
    /// Limit of the memory of copied values, in bytes: if `update` or `mutate` writes a value to several
    /// rows, each row but the first counts as a copy. A transaction that exceeds the limit fails. In memory
    /// the rows share the value, but the record of the transaction and the updates of monitors contain it
    /// once for each row.
    pub max_copied_memory: usize,
    /// Estimated memory of these copies, in bytes; counted by [`execute`](super::execute).
    pub copied: Cell<usize>,
}

impl Default for Context<'_> {
    /// The context of a request that was received just now from a connected client with all permissions, which may select
    /// any number of rows.
    fn default() -> Self {
        Context {
            elapsed_ms: 0,
            owns_lock: &|_| false,
            read_only: false,
            client: Client::default(),
            is_abandoned: &|| false,
            max_selected_memory: usize::MAX,
            selected: Cell::new(0),
            max_copied_memory: usize::MAX,
            copied: Cell::new(0),
        }
    }
}

impl Context<'_> {
    /// Counts a value of this memory that is written to `rows` rows; an error if it exceeds the limit.
    pub(super) fn count_copies(&self, value_memory: usize, rows: usize) -> Result<(), Error> {
        let copies = value_memory.saturating_mul(rows.saturating_sub(1));
        self.copied.set(self.copied.get().saturating_add(copies));
        match self.copied.get() > self.max_copied_memory {
            true => {
                let text = format!(
                    "values written to several rows exceed {} bytes of memory",
                    self.max_copied_memory
                );
                Err(Error::new("resources exhausted", text))
            }
            false => Ok(()),
        }
    }

    pub(super) fn check_abandoned(&self) -> Result<(), Error> {
        match (self.is_abandoned)() {
            true => Err(Error::new("canceled", "the client has gone")),
            false => Ok(()),
        }
    }
}
