//! Prints `learn(…)`.

use crate::action::{Learn, LearnSource, LearnSpec, LearnTarget};
use crate::flow_mod::FlowMod;
use flow::Subfield;
use flow::text::{NameMap, hex, table_text};

/// Prints the action.
pub(super) fn learn_text(l: &Learn, names: &dyn NameMap) -> String {
    let mut parts = vec![format!("table={}", table_text(l.table, names))];
    let mut nonzero = |name: &str, value: u64| {
        if value != 0 {
            parts.push(format!("{name}={value}"));
        }
    };
    nonzero("idle_timeout", l.idle_timeout.into());
    nonzero("hard_timeout", l.hard_timeout.into());
    nonzero("fin_idle_timeout", l.fin_idle_timeout.into());
    nonzero("fin_hard_timeout", l.fin_hard_timeout.into());
    if l.priority != FlowMod::default().priority {
        parts.push(format!("priority={}", l.priority));
    }
    if l.send_flow_rem {
        parts.push("send_flow_rem".to_owned());
    }
    if l.delete_learned {
        parts.push("delete_learned".to_owned());
    }
    if l.cookie != 0 {
        parts.push(format!("cookie={:#x}", l.cookie));
    }
    if l.limit != 0 {
        parts.push(format!("limit={}", l.limit));
    }
    if let Some(dst) = l.result_dst {
        parts.push(format!("result_dst={dst}"));
    }
    parts.extend(l.specs.iter().map(|s| spec_text(s, names)));
    format!("learn({})", parts.join(","))
}

fn spec_text(s: &LearnSpec, names: &dyn NameMap) -> String {
    match (&s.dst, &s.src) {
        (LearnTarget::Match(dst), LearnSource::Field(src)) if dst == src => dst.to_string(),
        (LearnTarget::Match(dst), LearnSource::Field(src)) => format!("{dst}={src}"),
        (LearnTarget::Match(dst), LearnSource::Value(value)) if is_whole(dst) => {
            format!("{}={}", dst.field.info().name, dst.field.format(*value, None, names))
        }
        (LearnTarget::Match(dst), LearnSource::Value(value)) => format!("{dst}={}", hex(*value)),
        (LearnTarget::Load(dst), LearnSource::Field(src)) => format!("load:{src}->{dst}"),
        (LearnTarget::Load(dst), LearnSource::Value(value)) => format!("load:{}->{dst}", hex(*value)),
        (LearnTarget::Output, LearnSource::Field(src)) => format!("output:{src}"),
        (LearnTarget::Output, LearnSource::Value(value)) => format!("output:{value:#x}"),
    }
}

/// Returns whether the subfield is a complete field.
pub(super) fn is_whole(field: &Subfield) -> bool {
    *field == Subfield::whole(field.field)
}
