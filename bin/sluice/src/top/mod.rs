//! `sluice top`: live view of poll threads and rx queues.
//!
//! Reads the daemon's counters (`dpif-netdev/pmd-state`) every second and computes rates from two samples, so
//! the daemon keeps no state for it.
//!
//! * [`sample`]: rates between two samples.  * [`view`]: their lines, and JSON.  * [`screen`]: the terminal.

mod sample;
mod screen;
mod view;

#[cfg(test)]
mod tests;

use crate::appctl::{Asking, Failure, report_failure};
use crate::getopt::{Opt, Takes, opt};
use crate::page::{Names, Page};
use crate::{Call, own};
use ovsdb::Json;
use sample::Datapath;
use screen::{Key, Screen};
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use view::{Sort, View};

const OPTIONS: [Opt; 3] = [
    opt("target", Some('t'), Takes::Value)
        .says("TARGET", "name of the daemon, or absolute path of its socket"),
    opt("once", Some('1'), Takes::Nothing).says("", "prints one screen and exits"),
    opt("interval", Some('i'), Takes::Value).says("SECONDS", "time between two samples (default: 1)"),
];

fn options() -> Vec<Opt> {
    OPTIONS.into_iter().chain(own::FORMAT).chain(own::INFORMATIVE).collect()
}

const COMMAND: &str = "dpif-netdev/pmd-state";

/// The names of the tool.
pub const NAMES: Names = Names { tool: "top", peers: &[] };

/// The help page of the tool.
pub fn page() -> Page {
    Page {
        names: NAMES,
        title: "shows the load of poll threads and receive queues, live",
        synopsis: "[--once] [--json] [--interval SECONDS]",
        commands: Vec::new(),
        options: options(),
        notes: vec![(
            "Keys",
            "l, p and n sort queues by load, packets and name; up and down mark a queue; Enter shows the details of its port, and returns; \
             q quits."
                .into(),
        )],
    }
}

struct Arguments {
    target: Option<String>,
    once: bool,
    json: bool,
    interval: Duration,
}

/// Runs the tool.
pub fn main(call: &Call) -> ExitCode {
    let (parsed, json) = match own::arguments(call, &options(), page) {
        Ok(known) => known,
        Err(code) => return code,
    };
    if let Some(word) = parsed.rest.first() {
        return own::no_such_argument(call, word);
    }
    // JSON is printed only once.
    let mut arguments = Arguments { target: None, once: json, json, interval: Duration::from_secs(1) };
    for (name, value) in parsed.options {
        let seconds = || value.as_ref()?.parse::<f64>().ok().filter(|n| (0.1..=3600.0).contains(n));
        match name {
            "target" => arguments.target = value,
            "once" => arguments.once = true,
            "interval" => match seconds() {
                Some(n) => arguments.interval = Duration::from_secs_f64(n),
                None => return own::refuse(call, "--interval takes 0.1 to 3600 seconds"),
            },
            _ => {}
        }
    }
    let asking = match Asking::new(call, arguments.target.as_deref()) {
        Ok(asking) => asking,
        Err(failure) => return report_failure(&call.name, failure),
    };
    match if arguments.once { once(asking, &arguments) } else { live(asking, &arguments) } {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report_failure(&call.name, failure),
    }
}

fn once(mut asking: Asking, arguments: &Arguments) -> Result<(), Failure> {
    let before = asking.ask(COMMAND)?;
    std::thread::sleep(arguments.interval);
    let datapaths = sample::between(&before, &asking.ask(COMMAND)?);
    let text = match arguments.json {
        true => format!("{}\n", Json::Array(datapaths.iter().map(view::object).collect())),
        false => screen_lines(&datapaths, &View::default(), false).join("\n") + "\n",
    };
    // Ignore errors: the reader may have closed the pipe.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}

fn screen_lines(datapaths: &[Datapath], view: &View, mark: bool) -> Vec<String> {
    if datapaths.is_empty() {
        return vec!["There is no datapath.".to_owned()];
    }
    datapaths.iter().map(|d| view::lines(d, view, mark)).collect::<Vec<_>>().join(&String::new())
}

fn live(mut asking: Asking, arguments: &Arguments) -> Result<(), Failure> {
    let fatal = |e: std::io::Error| Failure::Fatal(format!("the terminal: {}", runtime::error_text(&e)));
    let screen = Screen::open().map_err(fatal)?;
    let mut view = View::default();
    let mut before = asking.ask(COMMAND)?;
    let mut shown: Vec<Datapath> = Vec::new();
    let mut next = Instant::now() + arguments.interval;
    loop {
        screen.show(&screen_lines(&shown, &view, true)).map_err(fatal)?;
        let left = next.saturating_duration_since(Instant::now());
        if let Some(key) = screen.key(left).map_err(fatal)? {
            if key == Key::Char('q') {
                return Ok(());
            }
            handle_key(key, &mut view, shown.first());
        }
        if Instant::now() >= next {
            let now = asking.ask(COMMAND)?;
            shown = sample::between(&before, &now);
            before = now;
            next = Instant::now() + arguments.interval;
        }
    }
}

fn handle_key(key: Key, view: &mut View, datapath: Option<&Datapath>) {
    let queues = datapath.map_or(Vec::new(), |d| view.queues(d));
    let last = queues.len().saturating_sub(1);
    match key {
        Key::Up => view.marked = view.marked.min(last).saturating_sub(1),
        Key::Down => view.marked = (view.marked + 1).min(last),
        Key::Enter => {
            view.port = match view.port {
                Some(_) => None,
                None => queues.get(view.marked).map(|q| q.port.clone()),
            };
            view.marked = 0;
        }
        Key::Char('l') => view.sort = Sort::Load,
        Key::Char('p') => view.sort = Sort::Packets,
        Key::Char('n') => view.sort = Sort::Name,
        Key::Char(_) => {}
    }
}
