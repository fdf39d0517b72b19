//! Executes a meter mod on the state, and answers requests about meters.

use crate::flow_mod::StateEditor;
use crate::meter::{Meter, MeterProvider};
use crate::ofproto::Ofproto;
use crate::references::Reference;
use crate::table_changes::TableChanges;
use dpif::meter::{MAX_BANDS, MAX_METERS};
use dpif::{MeterSlot, Meters};
use openflow::error::OfError;
use openflow::flow_mod::RemovedReason;
use openflow::meter::{
    METER_ALL, METER_CONTROLLER, METER_MAX, METER_SLOWPATH, MeterCommand, MeterConfig, MeterFeatures,
    MeterMod, meter_flags,
};
use std::sync::Arc;
use units::Millis;

/// Supported band types as bits, by their numbers on the wire: drop (1) and DSCP remark (2).
const BAND_TYPES: u32 = 1 << 1 | 1 << 2;
/// Supported meter flags.
const FLAGS: u16 = meter_flags::KBPS | meter_flags::PKTPS | meter_flags::BURST | meter_flags::STATS;

impl StateEditor<'_> {
    /// Executes one meter mod. Deleting a meter that does not exist is not an error.
    pub(crate) fn meter_mod(
        &mut self,
        mm: &MeterMod,
        meters: Option<&Arc<dyn Meters>>,
    ) -> Result<(), OfError> {
        let config = &mm.config;
        if mm.command == MeterCommand::Delete {
            self.delete_meters(config.meter);
            return Ok(());
        }
        let meters = meters.ok_or(OfError::MmfcInvalidMeter)?;
        check_number(config)?;
        let (created, slot) = match (mm.command, self.state.meters.get(&config.meter)) {
            (MeterCommand::Add, Some(_)) => return Err(OfError::MmfcMeterExists),
            (MeterCommand::Add, None) => {
                check_bands(config)?;
                (self.now, Arc::new(MeterSlot::new(meters).ok_or(OfError::MmfcOutOfMeters)?))
            }
            (_, None) => return Err(OfError::MmfcUnknownMeter),
            (_, Some(old)) => {
                check_bands(config)?;
                (old.created, Arc::clone(&old.slot))
            }
        };
        self.changes.meters.push(config.meter);
        self.state.meters.insert_mut(config.meter, Arc::new(Meter { config: config.clone(), created, slot }));
        Ok(())
    }

    /// Deletes a meter, or all meters, and the flows that use them.
    fn delete_meters(&mut self, id: u32) {
        let gone: Vec<u32> = match id {
            METER_ALL => self.state.meters.keys().copied().collect(),
            one => self.state.meters.contains_key(&one).then_some(one).into_iter().collect(),
        };
        for id in &gone {
            self.state.meters.remove_mut(id);
            self.changes.meters.push(*id);
        }
        self.remove_users(gone.into_iter().map(Reference::Meter), RemovedReason::MeterDelete);
    }
}

fn check_number(config: &MeterConfig) -> Result<(), OfError> {
    match config.meter {
        1..=METER_MAX | METER_SLOWPATH | METER_CONTROLLER if config.bands.len() > MAX_BANDS => {
            Err(OfError::MmfcOutOfBands)
        }
        1..=METER_MAX | METER_SLOWPATH | METER_CONTROLLER => Ok(()),
        _ => Err(OfError::MmfcInvalidMeter),
    }
}

fn check_bands(config: &MeterConfig) -> Result<(), OfError> {
    let unit = config.flags & (meter_flags::KBPS | meter_flags::PKTPS);
    if unit.count_ones() != 1 || config.flags & !FLAGS != 0 {
        Err(OfError::MmfcBadFlags)
    } else if config.bands.is_empty() {
        Err(OfError::MmfcOutOfBands)
    } else if config.bands.iter().any(|b| b.rate == 0) {
        Err(OfError::MmfcBadRate)
    } else {
        Ok(())
    }
}

impl Ofproto {
    /// Sets the datapath that implements the meters. Without a datapath, meter mods fail and no meters are reported.
    pub fn set_meters(&mut self, meters: Arc<dyn Meters>) {
        self.meters = Some(MeterProvider(meters));
    }

    /// Executes a meter mod.
    pub fn handle_meter_mod(&mut self, mm: &MeterMod, now: Millis) -> Result<TableChanges, OfError> {
        let meters = self.meters.clone();
        self.change(now, |c| c.meter_mod(mm, meters.as_ref().map(MeterProvider::get)))
    }

    /// Configures added and modified meters in the datapath.
    pub(crate) fn configure_meters(&self, changes: &TableChanges, now: Millis) {
        for meter in changes.meters.iter().filter_map(|id| self.state.meters.get(id)) {
            meter.slot.set(&meter.spec(), now);
        }
    }

    /// `OFPMP_METER_FEATURES`
    pub fn meter_features(&self) -> MeterFeatures {
        match self.meters {
            None => MeterFeatures::default(),
            Some(_) => MeterFeatures {
                max_meters: MAX_METERS,
                band_types: BAND_TYPES,
                capabilities: FLAGS.into(),
                max_bands: MAX_BANDS as u8,
                max_color: 0,
            },
        }
    }

    /// One meter, or for `METER_ALL` all meters, sorted by number.
    pub fn meters(&self, id: u32) -> Result<Vec<Arc<Meter>>, OfError> {
        if id != METER_ALL {
            return Ok(vec![self.state.meters.get(&id).cloned().ok_or(OfError::MmfcUnknownMeter)?]);
        }
        let mut all: Vec<Arc<Meter>> = self.state.meters.values().cloned().collect();
        all.sort_by_key(|m| m.config.meter);
        Ok(all)
    }

    /// As [`meters`](Self::meters), each with the number of flows that use it.
    pub fn meters_with_users(&self, id: u32) -> Result<Vec<(Arc<Meter>, u32)>, OfError> {
        let with_users = |m: Arc<Meter>| {
            let users = self.state.user_count(Reference::Meter(m.config.meter));
            (m, users)
        };
        Ok(self.meters(id)?.into_iter().map(with_users).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table_changes::FlowChange;
    use dpif::{MeterCounts, MeterSpec};
    use openflow::action::Action;
    use openflow::flow_mod::FlowMod;
    use openflow::meter::MeterBand;
    use std::sync::Mutex;

    /// A datapath that records the calls.
    #[derive(Default)]
    struct RecordedCalls(Mutex<Vec<String>>);

    impl RecordedCalls {
        fn say(&self, text: String) {
            self.0.lock().unwrap().push(text);
        }

        fn take(&self) -> Vec<String> {
            std::mem::take(&mut self.0.lock().unwrap())
        }
    }

    impl Meters for RecordedCalls {
        fn allocate(&self) -> Option<u32> {
            Some(7)
        }
        fn set(&self, id: u32, spec: &MeterSpec, _: Millis) {
            self.say(format!("set {id} {}", spec.bands[0].rate));
        }
        fn counts(&self, _: u32) -> MeterCounts {
            MeterCounts { total: (3, 300), bands: vec![(1, 100)] }
        }
        fn release(&self, id: u32) {
            self.say(format!("release {id}"));
        }
    }

    const NOW: Millis = Millis(5);

    fn rig() -> (Ofproto, Arc<RecordedCalls>) {
        let (mut o, told) = (Ofproto::new(NOW, 0), Arc::new(RecordedCalls::default()));
        o.set_meters(Arc::clone(&told) as Arc<dyn Meters>);
        (o, told)
    }

    fn mod_(command: MeterCommand, meter: u32, rate: u32) -> MeterMod {
        let bands = vec![MeterBand { dscp_remark: None, rate, burst: 0 }];
        MeterMod { command, config: MeterConfig { meter, flags: meter_flags::PKTPS, bands } }
    }

    fn metered(id: u32) -> FlowMod {
        FlowMod { table: 0, actions: vec![Action::Meter(id)], ..FlowMod::default() }
    }

    #[test]
    fn a_deleted_meter_removes_its_flows_and_is_freed_when_unused() {
        use MeterCommand::*;
        let (mut o, told) = rig();
        assert_eq!(o.handle_flow_mod(&metered(1), NOW).unwrap_err(), OfError::MmfcInvalidMeter);
        o.handle_meter_mod(&mod_(Add, 1, 10), NOW).unwrap();
        assert_eq!(o.handle_meter_mod(&mod_(Add, 1, 10), NOW).unwrap_err(), OfError::MmfcMeterExists);
        o.handle_flow_mod(&metered(1), NOW).unwrap();
        o.handle_meter_mod(&mod_(Modify, 1, 20), NOW).unwrap();
        assert_eq!(told.take(), ["set 7 10", "set 7 20"]);
        {
            let (meter, users) = o.meters_with_users(METER_ALL).unwrap().remove(0);
            let stats = meter.stats(users, NOW);
            assert_eq!((stats.flow_count, stats.packets), (1, 3));
        }

        let seen = o.publish();
        let changes = o.handle_meter_mod(&mod_(Delete, METER_ALL, 0), NOW).unwrap();
        let [FlowChange::Removed { reason: RemovedReason::MeterDelete, .. }] = &changes.flows[..] else {
            panic!("{changes:?}")
        };
        assert_eq!(o.meters(1).unwrap_err(), OfError::MmfcUnknownMeter);
        assert!(told.take().is_empty());
        o.publish();
        drop(seen);
        assert_eq!(told.take(), ["release 7"]);
    }

    #[test]
    fn a_bundle_that_fails_leaves_no_meter() {
        let (mut o, told) = rig();
        let mut trial = o.begin();
        trial.meter_mod(&mod_(MeterCommand::Add, 2, 10), NOW).unwrap();
        trial.flow_mod(o.request(&metered(2)), NOW).unwrap();
        drop(trial);
        assert_eq!(told.take(), ["release 7"]);
        assert!(o.meters(METER_ALL).unwrap().is_empty());

        let mut trial = o.begin();
        trial.meter_mod(&mod_(MeterCommand::Add, 2, 10), NOW).unwrap();
        o.commit(trial, NOW).unwrap();
        assert_eq!(told.take(), ["set 7 10"]);
    }

    #[test]
    fn invalid_meters_are_refused() {
        use MeterCommand::*;
        let (mut o, _) = rig();
        let mut check = |mm: MeterMod| o.handle_meter_mod(&mm, NOW).unwrap_err();
        assert_eq!(check(mod_(Modify, 1, 1)), OfError::MmfcUnknownMeter);
        assert_eq!(check(mod_(Add, 0, 1)), OfError::MmfcInvalidMeter);
        assert_eq!(check(mod_(Add, METER_ALL, 1)), OfError::MmfcInvalidMeter);
        assert_eq!(check(mod_(Add, 1, 0)), OfError::MmfcBadRate);
        let mut many = mod_(Add, 1, 1);
        many.config.bands = vec![many.config.bands[0]; MAX_BANDS + 1];
        assert_eq!(check(many), OfError::MmfcOutOfBands);
        let mut unitless = mod_(Add, 1, 1);
        unitless.config.flags = meter_flags::STATS;
        assert_eq!(check(unitless), OfError::MmfcBadFlags);
        assert!(o.handle_meter_mod(&mod_(Add, METER_CONTROLLER, 1), NOW).is_ok());
    }
}
