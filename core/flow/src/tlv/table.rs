//! Which option is which field: what `NXT_TLV_TABLE_MOD` changes.

use super::{FIELD_BYTES_MAX, FIELDS, Layout};
use thiserror::Error;

/// An option that a field stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Who defines the option (RFC 8926 §3.5).
    pub class: u16,
    /// Which of theirs.
    pub kind: u8,
    /// Bytes of data: a multiple of four, 124 at most.
    pub len: u8,
}

/// Why a field cannot be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TlvError {
    /// There are not so many fields.
    #[error("no such field")]
    Index,
    /// No option has such a length.
    #[error("bad length of an option")]
    Length,
    /// It has an option already.
    #[error("the field is mapped")]
    AlreadyMapped,
    /// Another field has the option.
    #[error("the option is mapped")]
    Duplicate,
    /// No room is left.
    #[error("the table is full")]
    Full,
}

/// The options that a switch knows.
#[derive(Clone, Debug)]
pub struct TlvTable {
    layout: Layout,
    mappings: [Option<Mapping>; FIELDS],
}

impl Default for TlvTable {
    fn default() -> TlvTable {
        TlvTable { layout: Layout::EMPTY, mappings: [None; FIELDS] }
    }
}

impl TlvTable {
    /// Where the fields lie.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The option of a field.
    pub fn mapping(&self, index: usize) -> Option<Mapping> {
        self.mappings.get(index).copied().flatten()
    }

    /// All fields with their options.
    pub fn iter(&self) -> impl Iterator<Item = (usize, Mapping)> + '_ {
        self.mappings.iter().enumerate().filter_map(|(i, m)| Some((i, (*m)?)))
    }

    /// The field of an option.
    pub fn field_of(&self, class: u16, kind: u8) -> Option<(usize, Mapping)> {
        self.iter().find(|(_, m)| (m.class, m.kind) == (class, kind))
    }

    /// Maps a field.
    pub fn add(&mut self, index: usize, mapping: Mapping) -> Result<(), TlvError> {
        let len = usize::from(mapping.len);
        if len > FIELD_BYTES_MAX || len % 4 != 0 {
            return Err(TlvError::Length);
        }
        match self.mappings.get(index) {
            None => return Err(TlvError::Index),
            Some(Some(_)) => return Err(TlvError::AlreadyMapped),
            Some(None) => {}
        }
        if self.field_of(mapping.class, mapping.kind).is_some() {
            return Err(TlvError::Duplicate);
        }
        if !self.layout.allocate(index, len) {
            return Err(TlvError::Full);
        }
        self.mappings[index] = Some(mapping);
        Ok(())
    }

    /// Maps a field no more.
    pub fn remove(&mut self, index: usize) {
        if let Some(mapping) = self.mappings.get_mut(index) {
            *mapping = None;
            self.layout.release(index);
        }
    }
}
