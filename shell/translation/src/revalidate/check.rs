//! One megaflow: translated again, compared, repaired.

use crate::published::Published;
use crate::upcall::handler::{Handler, Retranslation, UNASSOCIATED};
use classifier::megaflow::KeyMask;
use datapath::Datapath;
use dpif::text::{NoNames, actions_text};
use dpif::{DpFlow, Translation};
use flow::Flow;
use units::Millis;

/// What a megaflow turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// As it should.
    Right,
    /// Right for the packet that made it; the tables look at more bits now, so it was removed.
    TooWide,
    /// It did something else, or should not be there. It is repaired.
    Wrong,
}

/// How a megaflow compares with what there should be.
pub enum Finding {
    /// It does what it should; with what it was found by.
    Right(Option<Translation>),
    /// It does what it should for the packet that made it, and matches packets that the translation says nothing about.
    TooWide,
    /// It does something else.
    Wrong {
        /// What there should be.
        wanted: Translation,
        /// Other actions are all that it needs.
        covered: bool,
    },
    /// There should be none.
    Unwanted,
}

impl Finding {
    /// The packet that made it would be treated otherwise now.
    pub fn is_wrong(&self) -> bool {
        matches!(self, Finding::Wrong { .. } | Finding::Unwanted)
    }

    /// What the megaflow should do, for the log.
    pub fn wanted(&self) -> String {
        match self {
            Finding::Right(_) | Finding::TooWide => "that".to_owned(),
            Finding::Wrong { wanted, .. } => actions_text(&wanted.actions, &NoNames),
            Finding::Unwanted => "not to be cached".to_owned(),
        }
    }
}

/// Translates a megaflow again and compares.
pub fn compare(handler: &Handler, published: &Published, flow: &DpFlow) -> Finding {
    match handler.retranslate(published, &flow.key) {
        Retranslation::Unassociated if *flow.actions == [UNASSOCIATED] => Finding::Right(None),
        Retranslation::OneByOne | Retranslation::Unassociated => Finding::Unwanted,
        Retranslation::Megaflow(wanted) => {
            match (*wanted.actions == *flow.actions, covers(&flow.mask, &wanted.mask)) {
                (true, true) => Finding::Right(Some(wanted)),
                (true, false) => Finding::TooWide,
                (false, covered) => Finding::Wrong { wanted, covered },
            }
        }
    }
}

/// Does with a megaflow what `compare` has shown to be necessary.
pub(super) fn repair(
    datapath: &Datapath,
    name: &str,
    flow: &DpFlow,
    finding: Finding,
    now: Millis,
) -> Verdict {
    match finding {
        Finding::Unwanted | Finding::Wrong { covered: false, .. } => {
            datapath.flow_del(flow.ufid, now);
            Verdict::Wrong
        }
        Finding::TooWide => {
            datapath.flow_del(flow.ufid, now);
            Verdict::TooWide
        }
        Finding::Wrong { wanted: t, covered: true } => {
            crate::flow_log::modified(name, flow, &t.actions);
            // The flow may be gone by now; then there is nothing to repair.
            let _ = datapath.flow_modify(flow.ufid, t.actions, Some((t.owner, t.dependency_set)), now);
            Verdict::Wrong
        }
        // Same actions, but perhaps by other rules: those are to be credited from now on.
        Finding::Right(translation) => {
            if let Some(t) = translation {
                let _ = datapath.flow_set_owner(flow.ufid, (t.owner, t.dependency_set), now);
            }
            Verdict::Right
        }
    }
}

/// Every bit that `wanted` matches, of those that a megaflow can match, is matched by `installed`, which may match more:
/// the datapath narrows megaflows when there are too many masks.
fn covers(installed: &Flow, wanted: &Flow) -> bool {
    let wanted = KeyMask::from_flow(wanted).to_flow();
    wanted.words().iter().zip(installed.words()).all(|(w, i)| w & !i == 0)
}
