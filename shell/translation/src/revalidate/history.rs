//! Recent changes, and the log line about a wrong megaflow that only the sweep found. The line names the dependencies of the
//! megaflow's translation and the changes since that translation, so that the missing dependency can be identified.

use super::check::Comparison;
use crate::changes::Changes;
use crate::published::PublishedState;
use crate::shared_state::SharedState;
use dpif::DpFlow;
use dpif::text::{NoNames, actions_text, key_text, ufid_text};
use flow::Match;
use std::collections::VecDeque;
use units::Millis;
use xlate::{BridgeId, Dependencies, DependencyChange};

/// Number of publications whose changes are stored.
const PUBLICATIONS_MAX: usize = 32;
/// Maximum length of a log line in bytes.
const LINE_MAX: usize = 4096;

/// The changes of one publication.
struct Publication {
    at: Millis,
    changes: Changes,
}

/// The last publications of changes, the newest first.
#[derive(Default)]
pub(super) struct History {
    publications: VecDeque<Publication>,
}

impl History {
    pub(super) fn note(&mut self, changes: &Changes, at: Millis) {
        self.publications.truncate(PUBLICATIONS_MAX - 1);
        self.publications.push_front(Publication { at, changes: changes.clone() });
    }

    /// The log line about a megaflow. `dependency_set`: the number of the megaflow's set of dependencies.
    pub(super) fn line(
        &self,
        shared: &SharedState,
        published: &PublishedState,
        (flow, dependency_set): (&DpFlow, u32),
        comparison: &Comparison,
        now: Millis,
    ) -> String {
        let name = |id: BridgeId| {
            published.snapshot.bridge(id).map_or_else(|| format!("bridge {}", id.0), |b| b.name.clone())
        };
        let dependencies = shared.dependencies(dependency_set);
        let consulted =
            dependencies.as_ref().map_or("unknown".to_owned(), |dependencies| dependencies.text(&name));
        let mut line = format!(
            "megaflow {} was wrong and is repaired: its actions were {}, and should be {}; {}; its translation consulted: {consulted}; \
             changes since it was made, the newest first: ",
            ufid_text(flow.ufid),
            actions_text(&flow.actions, &NoNames),
            comparison.wanted(),
            key_text(&flow.key, Some(&flow.mask), false, &NoNames),
        );
        line += &self.changes_since_creation(flow, dependencies.as_deref(), &name, now);
        cut(line)
    }

    fn changes_since_creation(
        &self,
        flow: &DpFlow,
        dependencies: Option<&Dependencies>,
        name: &dyn Fn(BridgeId) -> String,
        now: Millis,
    ) -> String {
        let later = self
            .publications
            .iter()
            .take_while(|publication| flow.created.is_none_or(|made| publication.at >= made));
        let mut parts = Vec::new();
        for publication in later {
            let ago = now.since(publication.at).0;
            if publication.changes.is_all() {
                parts.push(format!("everything ({ago} ms ago)"));
            }
            for change in publication.changes.list() {
                let found = if dependencies.is_none_or(|dependencies| affects(dependencies, change, flow)) {
                    ""
                } else {
                    ", does not affect it"
                };
                parts.push(format!("{} ({ago} ms ago{found})", change.text(name)));
            }
        }
        let rest = if self.publications.len() == PUBLICATIONS_MAX { " and perhaps others" } else { "" };
        if parts.is_empty() { format!("none{rest}") } else { parts.join(", ") + rest }
    }
}

/// Whether revalidation after this change checks the megaflow.
fn affects(dependencies: &Dependencies, change: &DependencyChange, flow: &DpFlow) -> bool {
    let meets = |m: &Match| m.flow.masked(&flow.mask) == flow.key.masked(&m.mask).masked(&flow.mask);
    dependencies.affected_by(change).iter().any(meets)
}

/// Cuts a log line to its maximum length.
fn cut(mut line: String) -> String {
    if line.len() > LINE_MAX {
        let end = (0..=LINE_MAX).rev().find(|i| line.is_char_boundary(*i)).unwrap_or(0);
        line.truncate(end);
        line += "... (truncated)";
    }
    line
}
