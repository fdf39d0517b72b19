//! `dpif/show-shadow`: results of shadow checks (`other_config:shadow-check`).
//!
//! Sluice's own command. "unsettled" counts checks during which the tables changed. "wrong" must be 0; the log contains
//! each wrong megaflow.

use crate::answer::Answer;
use ovsdb::Json;
use std::sync::atomic::Ordering;
use switch::{Backer, Switch};
use unixctl::{Format, Reply};

pub(crate) fn show(switch: &Switch, format: Format) -> Answer {
    let every = switch.limits.shadow_check;
    let reply = match format {
        Format::Text => Reply::Text(switch.datapaths.with_bridges().map(|b| text(b, every)).collect()),
        Format::Json => {
            Reply::Json(switch.datapaths.with_bridges().map(|b| (b.name(), object(b, every))).collect())
        }
    };
    Answer::Now(Ok(reply))
}

fn sums(backer: &Backer) -> [(&'static str, u64); 3] {
    let verdicts = &backer.upcall_translator.shadow_checks;
    [("checked", &verdicts.checked), ("unsettled", &verdicts.unsettled), ("wrong", &verdicts.wrong)]
        .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
}

fn text(backer: &Backer, every: u32) -> String {
    let rule = match every {
        0 => "off".to_owned(),
        n => format!("one packet in {n}"),
    };
    let lines = sums(backer).map(|(name, n)| format!("  {name}: {n}\n"));
    format!("{}: {rule}\n{}", backer.name(), lines.concat())
}

fn object(backer: &Backer, every: u32) -> Json {
    let sums = sums(backer).into_iter().map(|(name, n)| (name.to_owned(), Json::from(n.to_string())));
    sums.chain([("every".to_owned(), Json::from(every.to_string()))]).collect()
}
