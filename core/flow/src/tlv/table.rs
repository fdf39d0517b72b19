//! The mapping of options to fields, which `NXT_TLV_TABLE_MOD` changes.

use super::{FIELD_BYTES_MAX, FIELDS, Layout};
use thiserror::Error;

/// The option of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Option class (RFC 8926 §3.5).
    pub class: u16,
    /// Option type.
    pub kind: u8,
    /// Length of the option's data in bytes: a multiple of four, at most 124.
    pub len: u8,
}

/// Why a field cannot be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TlvError {
    /// The field index is too large.
    #[error("no such field")]
    Index,
    /// The length is not valid for an option.
    #[error("bad length of an option")]
    Length,
    /// The field is mapped already.
    #[error("the field is mapped")]
    AlreadyMapped,
    /// The option is mapped to another field already.
    #[error("the option is mapped")]
    Duplicate,
    /// Too few slots are free.
    #[error("the table is full")]
    Full,
}

/// The mapped options of a switch.
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
    /// The layout of the mapped fields.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The option of a field.
    pub fn mapping(&self, index: usize) -> Option<Mapping> {
        self.mappings.get(index).copied().flatten()
    }

    /// All mapped fields with their options.
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

    /// Unmaps a field.
    pub fn remove(&mut self, index: usize) {
        if let Some(mapping) = self.mappings.get_mut(index) {
            *mapping = None;
            self.layout.release(index);
        }
    }
}
