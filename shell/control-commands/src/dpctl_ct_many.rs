//! Commands that visit many connections: lists, counts and flushes. They run in steps, at most one in each turn of the main loop; between
//! two steps the main loop does all other work. Packets are not delayed: a list takes no lock that packets need, and a removal takes a lock
//! for one connection at a time.

use crate::answer::Answer;
use crate::dpctl_call::{Call, EINVAL, Failed, select_datapath};
use crate::dpctl_ct::{Counts, after_datapath_name, split_zone, stats_args};
use conntrack::{ConnectionSnapshot, Conntrack};
use ctl::names;
use openflow::text::parse_ct_flush;
use std::sync::Arc;
use switch::tracked_connections::{FlushOutcome, NotFound};
use switch::{Backer, Switch, step, tracked_connections};
use units::Millis;
use unixctl::LongText;

/// With this number of connections or more, a command runs in steps. Lists are not sorted then.
const MANY: u32 = 20_000;
/// Records that are visited before the clock is read again.
const RECORDS_PER_CLOCK_READ: u32 = 32;

/// Executes a command in steps. `None`: there are few connections, the command does not visit connections, or its arguments are wrong; then the
/// command is executed in the ordinary way.
pub(crate) fn execute(switch: &Switch, call: &mut Call, name: &str, args: &[String]) -> Option<LongText> {
    let text_len = call.text.len();
    let long_text = match name {
        names::DPCTL_DUMP_CONNTRACK => dump(switch, call, args),
        names::DPCTL_CT_STATS_SHOW => stats(switch, call, args),
        _ => None,
    };
    if long_text.is_none() {
        // Discard error texts: the ordinary execution reports them again.
        call.text.truncate(text_len);
    }
    long_text
}

/// The datapath of a command, if the datapath has many connections.
fn datapath_with_many<'s>(
    switch: &'s Switch,
    call: &mut Call,
    args: &[String],
    most: usize,
) -> Option<&'s Backer> {
    let (backer, _) = select_datapath(switch, call, args, most).ok()?;
    (backer.datapath.conntrack().count() >= MANY).then_some(backer)
}

fn dump(switch: &Switch, call: &mut Call, args: &[String]) -> Option<LongText> {
    let (zone, args) = split_zone(args);
    let backer = datapath_with_many(switch, call, args, 1)?;
    let (verbose, statistics) = (call.verbose, call.statistics);
    let mut visit = visit(zone, switch.clock.now());
    Some(in_steps(backer, move |table, next, text| {
        visit(table, next, &mut |entry| {
            *text += &entry.text(verbose, statistics);
            text.push('\n');
        })
    }))
}

fn stats(switch: &Switch, call: &mut Call, args: &[String]) -> Option<LongText> {
    let (verbose, zone, rest) = stats_args(call, args);
    let backer = datapath_with_many(switch, call, rest, 1)?;
    let (mut visit, mut counts) = (visit(zone, switch.clock.now()), Counts::default());
    Some(in_steps(backer, move |table, next, text| {
        let next = visit(table, next, &mut |entry| counts.add(&entry));
        if next == 0 {
            *text += &counts.text(verbose);
        }
        next
    }))
}

/// Removes connections: a single connection immediately, the connections that match a filter in steps.
pub(crate) fn flush(switch: &Switch, call: &mut Call, args: &[String]) -> Result<Answer, Failed> {
    let wanted = parse_ct_flush(after_datapath_name(switch, args));
    let wanted = wanted.map_err(|e| call.error(&e.to_string(), Some(EINVAL)))?;
    let (backer, _) = select_datapath(switch, call, args, 4)?;
    match tracked_connections::flush(backer, &wanted, switch.clock.now()) {
        FlushOutcome::One(Ok(())) => Ok(call.text.as_str().into()),
        FlushOutcome::One(Err(NotFound)) => {
            Err(call.error("failed to flush conntrack", Some("No such file or directory")))
        }
        FlushOutcome::Many(mut flush) => {
            let datapath = Arc::downgrade(&backer.datapath);
            // The datapath may be deleted between two steps.
            Ok(Answer::Long(LongText::new(move |_| {
                datapath.upgrade().is_some_and(|datapath| flush.run_step(datapath.conntrack()))
            })))
        }
    }
}

/// Returns a visitor. Called with a record number, it passes the connections of the next records to its last argument, and returns the
/// record number to continue from, or 0 at the end.
fn visit(
    zone: Option<u16>,
    now: Millis,
) -> impl FnMut(&Conntrack, u32, &mut dyn FnMut(ConnectionSnapshot)) -> u32 + 'static {
    move |table, next, each| table.dump_some((next, RECORDS_PER_CLOCK_READ), zone, now, each)
}

/// Text that is produced in steps: `add_text` adds the text for some records from a record number on, and returns the number to continue from, or
/// 0 at the end.
fn in_steps(
    backer: &Backer,
    mut add_text: impl FnMut(&Conntrack, u32, &mut String) -> u32 + 'static,
) -> LongText {
    let (datapath, mut next) = (Arc::downgrade(&backer.datapath), 0);
    LongText::new(move |text| {
        // The datapath may be deleted between two steps.
        let Some(datapath) = datapath.upgrade() else { return false };
        step(|| {
            next = add_text(datapath.conntrack(), next, text);
            next != 0
        })
    })
}
