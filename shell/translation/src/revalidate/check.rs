//! One megaflow: translated again, compared, repaired.

use crate::published::Published;
use crate::upcall::handler::{Handler, Retranslation, UNASSOCIATED};
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
    /// It is correct.
    Right,
    /// It was correct for the packet that made it, but the tables look at more bits now; it was removed.
    TooWide,
    /// Its actions were wrong, or it should not exist. It was repaired.
    Wrong,
}

/// Comparison of a megaflow with its translation.
pub enum Finding {
    /// It is correct; the translation, if there was one.
    Right(Option<Translation>),
    /// Correct for the packet that made it, but its mask is too wide: it matches packets that the translation does not
    /// cover.
    TooWide,
    /// Its actions are wrong.
    Wrong {
        /// The translation.
        wanted: Translation,
        /// The mask is right: replacing the actions is enough.
        covered: bool,
    },
    /// There should be no megaflow.
    Unwanted,
}

impl Finding {
    /// Whether the packet that made it would be treated differently now.
    pub fn is_wrong(&self) -> bool {
        matches!(self, Finding::Wrong { .. } | Finding::Unwanted)
    }

    /// Text of the actions that the megaflow should have, for the log.
    pub fn wanted(&self) -> String {
        match self {
            Finding::Right(_) | Finding::TooWide => "that".to_owned(),
            Finding::Wrong { wanted, .. } => actions_text(wanted.megaflow_actions(), &NoNames),
            Finding::Unwanted => "not to be cached".to_owned(),
        }
    }
}

/// Translates a megaflow again and compares.
pub fn compare(handler: &Handler, published: &Published, flow: &DpFlow) -> Finding {
    match handler.retranslate(published, &flow.key) {
        Retranslation::Unassociated(wanted) if *flow.actions == [UNASSOCIATED] => {
            if covers(&flow.mask, &wanted.mask) { Finding::Right(None) } else { Finding::TooWide }
        }
        Retranslation::Uncached | Retranslation::Unassociated(_) => Finding::Unwanted,
        Retranslation::Megaflow(wanted) => {
            match (**wanted.megaflow_actions() == *flow.actions, covers(&flow.mask, &wanted.mask)) {
                (true, true) => Finding::Right(Some(wanted)),
                (true, false) => Finding::TooWide,
                (false, covered) => Finding::Wrong { wanted, covered },
            }
        }
    }
}

/// Repairs a megaflow according to `compare`'s result.
pub(super) fn repair(
    datapath: &Datapath,
    name: &str,
    flow: &DpFlow,
    finding: Finding,
    now: Millis,
) -> CheckResult {
    match finding {
        Finding::Unwanted | Finding::Wrong { covered: false, .. } => {
            datapath.flow_del(flow.ufid, now);
            CheckResult::Wrong
        }
        Finding::TooWide => {
            datapath.flow_del(flow.ufid, now);
            CheckResult::TooWide
        }
        Finding::Wrong { wanted: t, covered: true } => {
            let actions = Arc::clone(t.megaflow_actions());
            crate::flow_log::modified(name, flow, &actions);
            // If the flow has been removed meanwhile, there is nothing to repair.
            let _ = datapath.flow_modify(flow.ufid, actions, Some((t.owner, t.dependency_set)), now);
            CheckResult::Wrong
        }
        // The same actions may come from other rules, which are to be credited from now on.
        Finding::Right(translation) => {
            if let Some(t) = translation {
                let _ = datapath.flow_set_owner(flow.ufid, (t.owner, t.dependency_set), now);
            }
            CheckResult::Right
        }
    }
}

/// Whether `installed` matches every bit of `wanted` that a megaflow can match. It may match more: the datapath
/// narrows megaflows if there are too many masks.
fn covers(installed: &Flow, wanted: &Flow) -> bool {
    let wanted = KeyMask::from_flow(wanted).to_flow();
    wanted.words().iter().zip(installed.words()).all(|(w, i)| w & !i == 0)
}
