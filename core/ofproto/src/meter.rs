//! Meters: this switch has none yet, and says so as a switch without meters does (OpenFlow 1.3.5 §6.5).

use crate::ofproto::Ofproto;
use openflow::error::OfError;
use openflow::meter::{MeterCommand, MeterFeatures, MeterMod};

impl Ofproto {
    /// Executes a meter mod. Deleting what is not there is no error.
    pub fn handle_meter_mod(&mut self, mm: &MeterMod) -> Result<(), OfError> {
        match mm.command {
            MeterCommand::Delete => Ok(()),
            MeterCommand::Add | MeterCommand::Modify => Err(OfError::MmfcInvalidMeter),
        }
    }

    /// `OFPMP_METER_FEATURES`: a maximum of zero.
    pub fn meter_features(&self) -> MeterFeatures {
        MeterFeatures::default()
    }
}
