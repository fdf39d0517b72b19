//! Meters (OpenFlow 1.3.5 §6.5): their configuration, and the datapath meter that implements each.
//!
//! An OpenFlow meter holds a slot of the datapath. Versions of the tables share the slot, so the datapath keeps a
//! deleted meter until no translation uses it. A meter mod in a bundle configures the datapath when the bundle is committed, not when
//! it is tried. Modifying a meter fills its token buckets and resets its counters, as in Open vSwitch.

use crate::duration::duration;
use dpif::meter::Band;
use dpif::{MeterSlot, MeterSpec, Meters};
use openflow::meter::{MeterConfig, MeterStats, meter_flags};
use std::sync::Arc;
use units::Millis;

/// One meter.
#[derive(Clone, Debug)]
pub struct Meter {
    /// The configuration.
    pub config: MeterConfig,
    pub(crate) created: Millis,
    pub(crate) slot: Arc<MeterSlot>,
}

impl Meter {
    /// The meter's number in the datapath.
    pub fn datapath_id(&self) -> u32 {
        self.slot.id()
    }

    pub(crate) fn spec(&self) -> MeterSpec {
        let band = |b: &openflow::meter::MeterBand| Band {
            rate: b.rate,
            burst: if b.burst == 0 { b.rate } else { b.burst },
            remark: b.dscp_remark,
        };
        let packets = self.config.flags & meter_flags::PKTPS != 0;
        MeterSpec { packets, bands: self.config.bands.iter().map(band).collect() }
    }

    /// The counters of the meter for a reply; `flow_count`: the number of flows that use the meter.
    pub fn stats(&self, flow_count: u32, now: Millis) -> MeterStats {
        let counts = self.slot.counts();
        MeterStats {
            meter: self.config.meter,
            flow_count,
            packets: counts.total.0,
            bytes: counts.total.1,
            duration: duration(self.created, now),
            bands: counts.bands,
        }
    }
}

/// The datapath's implementation of meters.
#[derive(Clone)]
pub(crate) struct MeterProvider(pub(crate) Arc<dyn Meters>);

impl MeterProvider {
    pub(crate) fn get(&self) -> &Arc<dyn Meters> {
        &self.0
    }
}

impl std::fmt::Debug for MeterProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Provider")
    }
}
