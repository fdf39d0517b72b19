//! Checks and converts flow mods of controllers without access to the tables.
//!
//! **Threads**: any. The thread that decodes flow mods also converts them, so that only the short form is handed to the owner of the
//! tables.

use crate::intern::Interner;
use crate::request::FlowRequest;
use crate::table_numbers::N_TABLES;
use crate::tlv::uses_option_fields;
use flow::Match;
use openflow::flow_mod::FlowMod;
use openflow::wire::check::{Limits, consistency};
use openflow::{Action, OfError, Version};
use units::OfPort;

/// Converts flow mods for execution.
#[derive(Debug, Default)]
pub struct Preparer {
    interner: Interner,
}

impl Preparer {
    /// Checks and converts a flow mod. `None`: only the owner of the tables can convert the flow mod, because it uses fields of tunnel
    /// options, whose layout is in the tables.
    pub fn prepare(&mut self, fm: &FlowMod, version: Version) -> Option<Result<FlowRequest, OfError>> {
        if uses_option_fields(&fm.matching, &fm.actions) {
            return None;
        }
        Some(check_flow_mod(fm, version).map(|()| FlowRequest::new(fm, &mut self.interner)))
    }
}

/// Checks a flow mod as far as possible without the tables.
pub fn check_flow_mod(fm: &FlowMod, version: Version) -> Result<(), OfError> {
    if fm.flags.emergency {
        // There is no emergency flow cache (OpenFlow 1.0.2 §4.3).
        let timeouts = fm.idle_timeout != 0 || fm.hard_timeout != 0;
        return Err(if timeouts { OfError::FmfcBadEmergTimeout } else { OfError::FmfcTableFull });
    }
    check_consistency(&fm.actions, &fm.matching, fm.table, version)
}

/// Checks that the actions are valid for the match and for this switch.
pub fn check_consistency(
    actions: &[Action],
    matching: &Match,
    table: u8,
    version: Version,
) -> Result<(), OfError> {
    let limits = Limits { max_port: OfPort::MAX, table, n_tables: N_TABLES as u8 };
    consistency(actions, matching, limits, version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::FieldId;

    #[test]
    fn the_converted_form_is_short() {
        let sizes = [size_of::<FlowMod>(), size_of::<FlowRequest>()];
        assert!(sizes[1] * 6 <= sizes[0], "{sizes:?}");
    }

    #[test]
    fn only_flow_mods_without_fields_of_tunnel_options_are_prepared() {
        let mut preparer = Preparer::default();
        let mut fm = FlowMod { actions: vec![Action::output(OfPort(2))], ..FlowMod::default() };
        fm.matching.set(FieldId::Metadata, 7);
        let prepared = preparer.prepare(&fm, Version::V13).unwrap().unwrap();
        assert_eq!(prepared.command(), fm.command);
        fm.flags.emergency = true;
        assert_eq!(preparer.prepare(&fm, Version::V10).unwrap().unwrap_err(), OfError::FmfcTableFull);
        fm.matching.mask.tlv.present = 1;
        assert!(preparer.prepare(&fm, Version::V13).is_none());
    }
}
