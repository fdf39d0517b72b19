//! Checks one megaflow: translates its key again, compares the result with the megaflow, and repairs the megaflow.

use crate::published::PublishedState;
use crate::upcall::translator::{Retranslation, UNASSOCIATED, UpcallTranslator};
use classifier::megaflow::KeyMask;
use datapath::Datapath;
use dpif::text::{NoNames, actions_text};
use dpif::{DpFlow, Translation};
use flow::Flow;
use std::sync::Arc;
use units::Millis;

/// Result of checking a megaflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckResult {
    /// The megaflow is correct.
    Right,
    /// The actions are correct for the packet that created the megaflow, but the new translation consults more bits. The
    /// megaflow was removed.
    TooWide,
    /// The actions were wrong, or the megaflow should not exist. It was repaired or removed.
    Wrong,
}

/// The result of comparing a megaflow with a new translation of its key.
pub enum Comparison {
    /// The megaflow is correct. `None`: it drops packets of a port that belongs to no bridge, so there is no translation.
    Right(Option<Translation>),
    /// The actions are correct for the packet that created the megaflow, but the megaflow also matches packets that the
    /// translation does not cover.
    TooWide,
    /// The actions are wrong.
    Wrong {
        /// The new translation.
        wanted: Translation,
        /// The megaflow's mask has all bits of the new translation's mask, so replacing the actions is enough.
        covered: bool,
    },
    /// The megaflow should not exist.
    Unwanted,
}

impl Comparison {
    /// Whether the packet that created the megaflow would be handled differently now.
    pub fn is_wrong(&self) -> bool {
        matches!(self, Comparison::Wrong { .. } | Comparison::Unwanted)
    }

    /// Text of the actions that the megaflow should have, for the log.
    pub fn wanted(&self) -> String {
        match self {
            Comparison::Right(_) | Comparison::TooWide => "the same".to_owned(),
            Comparison::Wrong { wanted, .. } => actions_text(wanted.megaflow_actions(), &NoNames),
            Comparison::Unwanted => "not to be cached".to_owned(),
        }
    }
}

/// Translates the key of a megaflow again, and compares the result with the megaflow.
pub fn compare(translator: &UpcallTranslator, published: &PublishedState, flow: &DpFlow) -> Comparison {
    match translator.retranslate(published, &flow.key) {
        Retranslation::Unassociated(wanted) if *flow.actions == [UNASSOCIATED] => {
            if covers(&flow.mask, &wanted.mask) { Comparison::Right(None) } else { Comparison::TooWide }
        }
        Retranslation::Uncached | Retranslation::Unassociated(_) => Comparison::Unwanted,
        Retranslation::Megaflow(wanted) => {
            match (**wanted.megaflow_actions() == *flow.actions, covers(&flow.mask, &wanted.mask)) {
                (true, true) => Comparison::Right(Some(wanted)),
                (true, false) => Comparison::TooWide,
                (false, covered) => Comparison::Wrong { wanted, covered },
            }
        }
    }
}

/// Repairs a megaflow according to `compare`'s result.
pub(super) fn repair(
    datapath: &Datapath,
    name: &str,
    flow: &DpFlow,
    comparison: Comparison,
    now: Millis,
) -> CheckResult {
    match comparison {
        Comparison::Unwanted | Comparison::Wrong { covered: false, .. } => {
            datapath.flow_del(flow.ufid, now);
            CheckResult::Wrong
        }
        Comparison::TooWide => {
            datapath.flow_del(flow.ufid, now);
            CheckResult::TooWide
        }
        Comparison::Wrong { wanted: t, covered: true } => {
            let actions = Arc::clone(t.megaflow_actions());
            crate::flow_log::modified(name, flow, &actions);
            // If the flow has been removed meanwhile, there is nothing to repair.
            let _ = datapath.flow_modify(flow.ufid, actions, Some((t.owner, t.dependency_set)), now);
            CheckResult::Wrong
        }
        // The same actions may now come from other rules, whose statistics the megaflow must update from now on.
        Comparison::Right(translation) => {
            if let Some(t) = translation {
                let _ = datapath.flow_set_owner(flow.ufid, (t.owner, t.dependency_set), now);
            }
            CheckResult::Right
        }
    }
}

/// Whether the mask `installed` has every bit of `wanted` that a megaflow can match. It may have more bits: the datapath adds
/// bits to the masks of megaflows if there are too many different masks.
fn covers(installed: &Flow, wanted: &Flow) -> bool {
    let wanted = KeyMask::from_flow(wanted).to_flow();
    wanted.words().iter().zip(installed.words()).all(|(w, i)| w & !i == 0)
}
