//! `upcall/*`, `revalidator/purge`, `revalidator/pause` and `revalidator/resume`: creation and revalidation of
//! megaflows.

use crate::answer::{Answer, unknown};
use ctl::names;
use switch::{Backer, Switch};
use units::Millis;

pub(crate) fn execute(switch: &mut Switch, name: &str, args: &[String]) -> Answer {
    let now = switch.clock.now();
    let backers = || switch.datapaths.with_bridges();
    match name {
        names::UPCALL_SHOW => backers().map(show).collect::<String>().into(),
        names::UPCALL_SET_FLOW_LIMIT => {
            let limit = number(args.first().map(String::as_str).unwrap_or_default());
            switch.limits.flows = Some(limit as usize);
            switch.datapaths.with_bridges().for_each(|b| switch.limits.apply_flow_limits(b));
            format!("set flow_limit to {limit}\n").into()
        }
        names::UPCALL_DISABLE_MEGAFLOWS | names::UPCALL_ENABLE_MEGAFLOWS => {
            let on = name == names::UPCALL_ENABLE_MEGAFLOWS;
            backers().for_each(|b| b.upcall_translator.command_settings.set_exact(!on));
            flush(switch, now);
            if on { "megaflows enabled".into() } else { "megaflows disabled".into() }
        }
        names::UPCALL_DISABLE_UFID => {
            backers().for_each(|b| b.upcall_translator.command_settings.set_ufid(false));
            "Datapath dumping tersely using UFID disabled".into()
        }
        names::UPCALL_ENABLE_UFID => {
            backers().for_each(|b| b.upcall_translator.command_settings.set_ufid(true));
            "Datapath dumping tersely using UFID enabled for supported datapaths".into()
        }
        names::REVALIDATOR_PAUSE | names::REVALIDATOR_RESUME => {
            switch.revalidation_paused = name == names::REVALIDATOR_PAUSE;
            switch.datapaths.with_bridges().for_each(|b| b.revalidator.pause(switch.revalidation_paused));
            "".into()
        }
        names::REVALIDATOR_PURGE => {
            flush(switch, now);
            "".into()
        }
        _ => unknown(name),
    }
}

/// Parses the number at the beginning of a text, limited to 32 bits; 0 if there is none.
fn number(text: &str) -> u32 {
    let digits = text.trim_start().split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse::<u64>().map_or(0, |n| u32::try_from(n).unwrap_or(u32::MAX))
}

fn flush(switch: &mut Switch, now: Millis) {
    switch.datapaths.with_bridges().for_each(|b| b.datapath.flow_flush(now));
}

fn show(backer: &Backer) -> String {
    let current = backer.datapath.flow_count() as u64;
    let max = backer.revalidator.flows_max().max(current);
    let settings = &backer.upcall_translator.command_settings;
    // If memory limits the number of megaflows, the limit is an estimate.
    let sizes = (current, max, backer.datapath.flow_capacity() as u64);
    show_text(&backer.name(), sizes, backer.revalidator.took_ms(), settings.ufid())
}

fn show_text(name: &str, (current, max, limit): (u64, u64, u64), round_ms: u64, ufid: bool) -> String {
    // One revalidator handles all megaflows, so there is one line, with thread number 0.
    format!(
        "{name}:\n  flows         : (current {current}) (avg {current}) (max {max}) (limit {limit})\n  \
         dump duration : {round_ms}ms\n  ufid enabled : {ufid}\n\n  0: (keys {current})\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_as_scripts_read_them() {
        let text = show_text("dummy@ovs-dummy", (1, 2, 200), 3, true);
        assert_eq!(
            text,
            "dummy@ovs-dummy:
  flows         : (current 1) (avg 1) (max 2) (limit 200)
  dump duration : 3ms
  ufid enabled : true

  0: (keys 1)
"
        );
        assert_eq!((number("100"), number("x"), number("5000000000")), (100, 0, u32::MAX));
    }
}
