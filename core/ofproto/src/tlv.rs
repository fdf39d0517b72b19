//! Which tunnel options are the fields `tun_metadata0` to `tun_metadata63` of this bridge.
//!
//! A field that a rule matches or names stays mapped as it is, so that what a rule says of bytes stays true: a mapping is
//! taken back only once no rule uses it. Groups are not asked (as with Open vSwitch): what is mapped no more reads as zero.

use crate::ofproto::Ofproto;
use crate::state::Named;
use flow::tlv::{FIELDS, Mapping, TlvError};
use flow::{Match, TlvTable};
use openflow::action::Action;
use openflow::error::OfError;
use openflow::flow_mod::FlowMod;
use openflow::session::{TlvMap, TlvTableMod};
use std::sync::Arc;

/// A match or actions use a field of tunnel options.
pub fn uses_fields(matching: &Match, actions: &[Action]) -> bool {
    matching.mask.tlv.present != 0 || openflow::tlv::named_by(actions) != 0
}

fn add(table: &mut TlvTable, map: &TlvMap) -> Result<(), OfError> {
    let mapping = Mapping { class: map.class, kind: map.kind, len: map.len };
    table.add(map.index.into(), mapping).map_err(|e| match e {
        TlvError::Index => OfError::NxttmfcBadFieldIdx,
        TlvError::Length => OfError::NxttmfcBadOptLen,
        TlvError::AlreadyMapped => OfError::NxttmfcAlreadyMapped,
        TlvError::Duplicate => OfError::NxttmfcDupEntry,
        TlvError::Full => OfError::NxttmfcTableFull,
    })
}

impl Ofproto {
    /// Which tunnel options are which fields.
    pub fn tlv(&self) -> &TlvTable {
        &self.state.tlv
    }

    /// Executes `NXT_TLV_TABLE_MOD`. An error means that nothing has changed.
    pub fn change_tlv(&mut self, change: &TlvTableMod) -> Result<(), OfError> {
        let mut table = TlvTable::clone(&self.state.tlv);
        match change {
            TlvTableMod::Add(maps) => maps.iter().try_for_each(|m| add(&mut table, m))?,
            TlvTableMod::Delete(maps) => {
                let indexes = maps.iter().map(|m| usize::from(m.index));
                self.unmap(&mut table, indexes)?;
            }
            TlvTableMod::Clear => self.unmap(&mut table, 0..FIELDS)?,
        }
        self.state.tlv = Arc::new(table);
        self.generation += 1;
        Ok(())
    }

    fn unmap(
        &self,
        table: &mut TlvTable,
        indexes: impl Iterator<Item = usize> + Clone,
    ) -> Result<(), OfError> {
        if indexes.clone().any(|i| i < FIELDS && self.state.users(Named::Tlv(i as u8)) > 0) {
            return Err(OfError::NxttmfcInvalidTlvDel);
        }
        indexes.for_each(|i| table.remove(i));
        Ok(())
    }

    /// A flow mod in line with the table.
    pub fn laid_out(&self, fm: &FlowMod) -> Result<FlowMod, OfError> {
        let mut fm = fm.clone();
        fm.matching = openflow::tlv::lay_out_match(&fm.matching, &self.state.tlv)?;
        openflow::tlv::lay_out(&mut fm.actions, &self.state.tlv)?;
        Ok(fm)
    }
}
