//! Commands that are answered later: `time/warp`, `revalidator/wait`, `revalidator/verify`, `exit`; and `time/stop`.
//!
//! A waiting command is looked at once in each turn of the main loop. It is answered one whole turn after what it
//! waited for, so that whoever asked finds all that follows from it done.

use super::verify::Verify;
use super::{Answer, unknown};
use crate::revalidate;
use crate::switch::Switch;
use runtime::clock::Warp;
use unixctl::{Reply, RequestId};

/// A command that is not answered yet.
pub struct Pending {
    /// To answer it by.
    pub id: RequestId,
    /// What it waits for.
    pub wait: Wait,
}

/// What a command waits for.
pub enum Wait {
    /// Time, step by step.
    Warp(Warp),
    /// The main loop's next turn, after the last step of a warp.
    Warped,
    /// A sweep of all megaflows.
    Revalidated {
        /// A turn of the main loop has begun since.
        turned: bool,
    },
    /// A comparison of all megaflows with the tables.
    Verified(Verify),
    /// The end of the process: `exit` is answered when all is closed.
    Exit,
}

pub(super) fn execute(switch: &mut Switch, name: &str, args: &[String]) -> Answer {
    match name {
        "time/stop" => {
            switch.clock.stop();
            "".into()
        }
        "time/warp" => match Warp::parse(args) {
            Ok(warp) => Answer::Later(begin(switch, warp)),
            Err(text) => Answer::Now(Err(text.to_owned())),
        },
        "revalidator/wait" if switch.backers.len() == 1 => {
            switch.waker.wake();
            Answer::Later(Wait::Revalidated { turned: false })
        }
        "revalidator/wait" => Answer::Now(Err("can't wait on multiple udpifs.".to_owned())),
        "revalidator/verify" => {
            switch.waker.wake();
            Answer::Later(Wait::Verified(Verify::default()))
        }
        "exit" => {
            switch.exiting = Some(args.first().is_some_and(|a| a == "--cleanup"));
            Answer::Later(Wait::Exit)
        }
        _ => unknown(name),
    }
}

fn begin(switch: &Switch, mut warp: Warp) -> Wait {
    switch.waker.wake();
    if warp.step(&switch.clock) { Wait::Warped } else { Wait::Warp(warp) }
}

/// Takes a step with each waiting command: once in each turn of the main loop, after all other work. Returns the
/// answers.
pub fn poll_pending(switch: &mut Switch) -> Vec<(RequestId, Result<Reply, String>)> {
    let mut answers = Vec::new();
    let mut waiting = Vec::new();
    for Pending { id, wait } in std::mem::take(&mut switch.pending) {
        match step(switch, wait) {
            Ok(text) => answers.push((id, Ok(Reply::Text(text)))),
            Err(wait) => {
                if !matches!(wait, Wait::Exit) {
                    switch.waker.wake();
                }
                waiting.push(Pending { id, wait });
            }
        }
    }
    switch.pending.extend(waiting);
    answers
}

/// The text of the answer, or what there is still to wait for.
fn step(switch: &mut Switch, wait: Wait) -> Result<String, Wait> {
    match wait {
        Wait::Warp(warp) => Err(begin(switch, warp)),
        Wait::Warped => Ok("warped".to_owned()),
        Wait::Revalidated { turned: false } => Err(Wait::Revalidated { turned: true }),
        Wait::Revalidated { turned: true } => match revalidate_all(switch) {
            true => Ok(String::new()),
            false => Err(Wait::Revalidated { turned: true }),
        },
        Wait::Verified(verify) => verify.step(switch).map_err(Wait::Verified),
        Wait::Exit => Err(Wait::Exit),
    }
}

/// Publishes, revalidates and expires now what otherwise would be done when it is due. False: that is still under way.
fn revalidate_all(switch: &mut Switch) -> bool {
    let now = switch.clock.now();
    switch.publish_changes();
    for backer in switch.backers.values_mut() {
        revalidate::expire(backer, now);
    }
    switch.paused || !switch.backers.values().any(|b| b.revalidator.is_behind())
}

/// Who called `exit`, to be answered when all is closed.
pub fn take_exits(switch: &mut Switch) -> Vec<RequestId> {
    let is_exit = |p: &Pending| matches!(p.wait, Wait::Exit);
    let ids = switch.pending.iter().filter(|p| is_exit(p)).map(|p| p.id).collect();
    switch.pending.retain(|p| !is_exit(p));
    ids
}
