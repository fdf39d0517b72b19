//! The mapping of tunnel options to the fields `tun_metadata0` to `tun_metadata63` of a bridge.
//!
//! The mapping of a field that a rule matches or uses does not change, so that the bytes in the rule keep their meaning. A
//! mapping can be removed only if neither a rule nor a flow mod in an open bundle uses it. Groups are not checked, as in
//! Open vSwitch: a field that is no longer mapped reads as zero.

use crate::ofproto::Ofproto;
use crate::references::Reference;
use flow::tlv::{FIELDS, Mapping, TlvError};
use flow::{Match, TlvTable};
use openflow::action::Action;
use openflow::error::OfError;
use openflow::flow_mod::FlowMod;
use openflow::session::{TlvMap, TlvTableMod};
use std::sync::Arc;

/// Bit mask of the tunnel option fields that a match or actions use.
pub fn fields_used(matching: &Match, actions: &[Action]) -> u64 {
    matching.mask.tlv.present | openflow::tlv::option_fields_in(actions)
}

/// Whether a match or actions use a tunnel option field.
pub fn uses_option_fields(matching: &Match, actions: &[Action]) -> bool {
    fields_used(matching, actions) != 0
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
    /// The mapping of tunnel options to fields.
    pub fn tlv(&self) -> &TlvTable {
        &self.state.tlv
    }

    /// Executes `NXT_TLV_TABLE_MOD`. `fields_in_open_bundles`: bit mask of the fields that flow mods in open bundles use.
    /// If an error is returned, nothing has changed.
    pub fn change_tlv(&mut self, change: &TlvTableMod, fields_in_open_bundles: u64) -> Result<(), OfError> {
        let mut table = TlvTable::clone(&self.state.tlv);
        match change {
            TlvTableMod::Add(maps) => maps.iter().try_for_each(|m| add(&mut table, m))?,
            TlvTableMod::Delete(maps) => {
                let indexes = maps.iter().map(|m| usize::from(m.index));
                self.unmap(&mut table, fields_in_open_bundles, indexes)?;
            }
            TlvTableMod::Clear => self.unmap(&mut table, fields_in_open_bundles, 0..FIELDS)?,
        }
        self.state.tlv = Arc::new(table);
        self.generation += 1;
        Ok(())
    }

    fn unmap(
        &self,
        table: &mut TlvTable,
        fields_in_open_bundles: u64,
        indexes: impl Iterator<Item = usize> + Clone,
    ) -> Result<(), OfError> {
        let used = |i: usize| {
            fields_in_open_bundles >> i & 1 != 0 || self.state.user_count(Reference::Tlv(i as u8)) > 0
        };
        if indexes.clone().any(|i| i < FIELDS && used(i)) {
            return Err(OfError::NxttmfcInvalidTlvDel);
        }
        indexes.for_each(|i| table.remove(i));
        Ok(())
    }

    /// Converts the tunnel option fields of a flow mod according to the current mapping.
    pub fn with_tlv_layout(&self, fm: &FlowMod) -> Result<FlowMod, OfError> {
        let mut fm = fm.clone();
        fm.matching = openflow::tlv::adjust_match(&fm.matching, &self.state.tlv)?;
        openflow::tlv::adjust_actions(&mut fm.actions, &self.state.tlv)?;
        Ok(fm)
    }
}
