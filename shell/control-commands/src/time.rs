//! Commands that are answered later: `time/warp`, `revalidator/wait`, `revalidator/verify`, `exit`; and `time/stop`.
//!
//! A waiting command is checked once in each turn of the main loop, for the first time in the turn of its request. `time/warp` is
//! answered at the check after its last step. `revalidator/wait` checks the revalidator from the next turn on, so that requests that
//! arrived before it have had their effect.

use crate::answer::{Answer, Wait, unknown};
use crate::verify::Verify;
use ctl::names;
use runtime::clock::Warp;
use switch::{Switch, expire};

pub(crate) fn execute(
    exiting: &mut Option<bool>,
    switch: &mut Switch,
    name: &str,
    args: &[String],
) -> Answer {
    match name {
        names::TIME_STOP => {
            switch.clock.stop();
            "".into()
        }
        names::TIME_WARP => match Warp::parse(args) {
            Ok(warp) => Answer::Later(step_warp(switch, warp)),
            Err(text) => Answer::Now(Err(text.to_owned())),
        },
        names::REVALIDATOR_WAIT if switch.datapaths.only().is_some() => {
            switch.waker.wake();
            Answer::Later(Wait::Revalidated { checked_once: false })
        }
        names::REVALIDATOR_WAIT => Answer::Now(Err("can't wait on multiple udpifs.".to_owned())),
        names::REVALIDATOR_VERIFY => {
            switch.waker.wake();
            Answer::Later(Wait::Verified(Verify::default()))
        }
        names::EXIT => {
            *exiting = Some(args.first().is_some_and(|a| a == "--cleanup"));
            Answer::Later(Wait::Exit)
        }
        _ => unknown(name),
    }
}

/// Advances the clock by one step. Returns what the command waits for next.
fn step_warp(switch: &Switch, mut warp: Warp) -> Wait {
    switch.waker.wake();
    if warp.step(&switch.clock) { Wait::Warped } else { Wait::Warp(warp) }
}

/// Continues a waiting command: returns the reply, or (`Err`) what the command still waits for.
pub(crate) fn step(switch: &mut Switch, wait: Wait) -> Result<String, Wait> {
    match wait {
        Wait::Warp(warp) => Err(step_warp(switch, warp)),
        Wait::Warped => Ok("warped".to_owned()),
        Wait::Revalidated { checked_once: false } => Err(Wait::Revalidated { checked_once: true }),
        Wait::Revalidated { checked_once: true } => match revalidate_all(switch) {
            true => Ok(String::new()),
            false => Err(Wait::Revalidated { checked_once: true }),
        },
        Wait::Verified(verify) => verify.step(switch).map_err(Wait::Verified),
        Wait::Exit => Err(Wait::Exit),
    }
}

/// Publishes pending changes, and in dummy mode removes idle megaflows. Returns whether the revalidator has handled all
/// changes, or is paused.
fn revalidate_all(switch: &mut Switch) -> bool {
    let now = switch.clock.now();
    switch.publish_changes();
    for backer in switch.datapaths.with_bridges_mut() {
        expire(backer, now);
    }
    switch.revalidation_paused || !switch.datapaths.with_bridges().any(|b| b.revalidator.is_behind())
}
