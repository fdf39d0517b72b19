//! `sluice top`: live view of PMD threads, ports, drops, megaflows and connections.
//!
//! Reads the daemon's counters every second and computes rates from two replies, so the daemon keeps no state for this tool.
//!
//! * [`pages`]: the pages of the screen.
//! * [`replies`]: two replies of the daemon.
//! * [`rates`]: rates of threads and queues between two replies.
//! * [`thread_lines`]: lines and JSON of threads and queues.
//! * [`page_lines`]: lines of ports, drops, megaflows and connections.
//! * [`findings`]: sentences about threads and queues that need attention.
//! * [`screen`]: the terminal.

mod findings;
mod page_lines;
mod pages;
mod rates;
mod replies;
mod screen;
mod thread_lines;

#[cfg(test)]
mod tests;

use crate::appctl::{ControlSession, Failure, report_failure};
use crate::call::Call;
use crate::common;
use crate::getopt::{Opt, Takes, opt};
use crate::page::{Names, Page};
use ovsdb::Json;
use pages::ScreenPage;
use rates::DatapathRates;
use replies::ReplyPair;
use screen::{Key, Screen};
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use thread_lines::{Selection, Sort};

const OPTIONS: [Opt; 4] = [
    opt("page", Some('p'), Takes::Value)
        .described("PAGE", "threads (default), ports, drops, flows or connections"),
    opt("target", Some('t'), Takes::Value)
        .described("TARGET", "name of the daemon, or absolute path of its socket"),
    opt("once", Some('1'), Takes::Nothing).described("", "prints one screen and exits"),
    opt("interval", Some('i'), Takes::Value).described("SECONDS", "time between two samples (default: 1)"),
];

fn options() -> Vec<Opt> {
    common::options(OPTIONS)
}

/// The names of the tool.
pub const NAMES: Names = Names { tool: "top", other_names: &[] };

/// The help page of the tool.
pub fn page() -> Page {
    Page {
        names: NAMES,
        title: "shows poll threads, ports, drops, megaflows and connections, live",
        synopsis: "[--page PAGE] [--once] [--json] [--interval SECONDS]",
        commands: Vec::new(),
        options: options(),
        notes: vec![(
            "Keys",
            "1 to 5 and Tab change the page; up and down scroll. Of threads: l, p and n sort queues by load, packets and name; up and down mark a queue; Enter shows the details of its port, and returns; \
             q quits."
                .into(),
        ), (
            "Forecast",
            "The share of a core that a queue will need in the next second. It is above 100 if the thread was never idle and the queue's bursts \
             were full: there may be more packets than were polled, so a quarter is added."
                .into(),
        )],
    }
}

/// Time from the first to the second reply for a page. It is short, so that rates appear soon after a change of the page.
const FIRST_INTERVAL: Duration = Duration::from_millis(300);

struct Arguments {
    target: Option<String>,
    once: bool,
    json: bool,
    interval: Duration,
    /// The page that is shown first.
    page: ScreenPage,
}

/// Runs the tool.
pub fn main(call: &Call) -> ExitCode {
    let (parsed, json) = match common::options_only(call, &options(), page) {
        Ok(known) => known,
        Err(code) => return code,
    };
    let interval = Duration::from_secs(1);
    // `--json` implies `--once`.
    let mut arguments = Arguments { target: None, once: json, json, interval, page: ScreenPage::default() };
    for (name, value) in parsed.options {
        let seconds = || value.as_ref()?.parse::<f64>().ok().filter(|n| (0.1..=3600.0).contains(n));
        match name {
            "target" => arguments.target = value,
            "once" => arguments.once = true,
            "page" => match ScreenPage::of_name(value.as_deref().unwrap_or_default()) {
                Some(page) => arguments.page = page,
                None => {
                    return common::refuse(call, "--page takes threads, ports, drops, flows or connections");
                }
            },
            "interval" => match seconds() {
                Some(n) => arguments.interval = Duration::from_secs_f64(n),
                None => return common::refuse(call, "--interval takes 0.1 to 3600 seconds"),
            },
            _ => {}
        }
    }
    let session = match ControlSession::new(call, arguments.target.as_deref()) {
        Ok(session) => session,
        Err(failure) => return report_failure(&call.name, failure),
    };
    match if arguments.once { print_once(session, &arguments) } else { run_live(session, &arguments) } {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report_failure(&call.name, failure),
    }
}

/// Requests the counters of a page from the daemon.
fn ask(session: &mut ControlSession, page: ScreenPage) -> Result<Json, Failure> {
    let (command, words) = page.command();
    let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    session.ask_with_args(command, &words)
}

fn print_once(mut session: ControlSession, arguments: &Arguments) -> Result<(), Failure> {
    let page = arguments.page;
    let before = (ask(&mut session, page)?, Instant::now());
    std::thread::sleep(arguments.interval);
    let now = ask(&mut session, page)?;
    let text = match (page, arguments.json) {
        (ScreenPage::Threads, true) => {
            let datapaths = rates::between(&before.0, &now);
            format!("{}\n", Json::Array(datapaths.iter().map(thread_lines::object).collect()))
        }
        (ScreenPage::Threads, false) => {
            screen_lines(&rates::between(&before.0, &now), &Selection::default(), false).join("\n") + "\n"
        }
        // Print counters and not rates, so that a program can compute rates over an interval of its choice.
        (_, true) => format!("{now}\n"),
        (_, false) => {
            let seconds = before.1.elapsed().as_secs_f64();
            page.lines(&ReplyPair { before: &before.0, now: &now, seconds }).join("\n") + "\n"
        }
    };
    // Ignore errors: the reader may have closed the pipe.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}

fn screen_lines(datapaths: &[DatapathRates], selection: &Selection, mark: bool) -> Vec<String> {
    if datapaths.is_empty() {
        return vec!["There is no datapath.".to_owned()];
    }
    datapaths.iter().map(|d| thread_lines::lines(d, selection, mark)).collect::<Vec<_>>().join(&String::new())
}

/// The state of the page on the screen.
struct PageState {
    page: ScreenPage,
    before: Option<(Json, Instant)>,
    /// The rates to show if the page is [`ScreenPage::Threads`].
    threads: Vec<DatapathRates>,
    /// The lines to show on other pages.
    lines: Vec<String>,
    /// The index of the first line on the screen.
    from: usize,
    selection: Selection,
}

impl PageState {
    fn new(page: ScreenPage) -> PageState {
        PageState {
            page,
            before: None,
            threads: Vec::new(),
            lines: Vec::new(),
            from: 0,
            selection: Selection::default(),
        }
    }

    /// Reads the counters of the page, and computes rates since the previous reply.
    fn update(&mut self, session: &mut ControlSession) -> Result<(), Failure> {
        let now = (ask(session, self.page)?, Instant::now());
        let none = (Json::Null, now.1);
        let before = self.before.as_ref().unwrap_or(&none);
        if self.page == ScreenPage::Threads {
            self.threads = if self.before.is_some() { rates::between(&before.0, &now.0) } else { Vec::new() };
        } else {
            let seconds = (now.1 - before.1).as_secs_f64();
            self.lines = self.page.lines(&ReplyPair { before: &before.0, now: &now.0, seconds });
        }
        self.before = Some(now);
        Ok(())
    }

    fn text(&self) -> Vec<String> {
        let mut out = vec![pages::heading(self.page)];
        match (self.page, self.threads.is_empty()) {
            (ScreenPage::Threads, true) => {}
            (ScreenPage::Threads, false) => out.extend(screen_lines(&self.threads, &self.selection, true)),
            _ => out.extend(self.lines.iter().skip(self.from).cloned()),
        }
        out
    }

    fn key(&mut self, key: Key) {
        match key {
            Key::Up if self.page != ScreenPage::Threads => self.from = self.from.saturating_sub(1),
            Key::Down if self.page != ScreenPage::Threads => {
                self.from = (self.from + 1).min(self.lines.len().saturating_sub(1));
            }
            _ => handle_key(key, &mut self.selection, self.threads.first()),
        }
    }
}

/// The page that a key selects.
fn page_of(key: Key, page: ScreenPage) -> Option<ScreenPage> {
    match key {
        Key::Tab => Some(page.next()),
        Key::Char(c) => ScreenPage::of_key(c),
        _ => None,
    }
}

fn run_live(mut session: ControlSession, arguments: &Arguments) -> Result<(), Failure> {
    let fatal = |e: std::io::Error| Failure::Fatal(format!("the terminal: {}", runtime::error_text(&e)));
    let screen = Screen::open().map_err(fatal)?;
    let mut shown = PageState::new(arguments.page);
    shown.update(&mut session)?;
    let mut next = Instant::now() + arguments.interval;
    loop {
        screen.show(&shown.text()).map_err(fatal)?;
        let left = next.saturating_duration_since(Instant::now());
        if let Some(key) = screen.key(left).map_err(fatal)? {
            if key == Key::Char('q') {
                return Ok(());
            }
            match page_of(key, shown.page) {
                Some(page) => {
                    shown = PageState::new(page);
                    next = Instant::now();
                }
                None => shown.key(key),
            }
        }
        if Instant::now() >= next {
            let first = shown.before.is_none();
            shown.update(&mut session)?;
            // Rates need two replies, so request the second one soon after the first.
            next = Instant::now()
                + if first { arguments.interval.min(FIRST_INTERVAL) } else { arguments.interval };
        }
    }
}

fn handle_key(key: Key, selection: &mut Selection, datapath: Option<&DatapathRates>) {
    let queues = datapath.map_or(Vec::new(), |d| selection.queues(d));
    let last = queues.len().saturating_sub(1);
    match key {
        Key::Up => selection.marked = selection.marked.min(last).saturating_sub(1),
        Key::Down => selection.marked = (selection.marked + 1).min(last),
        Key::Enter => {
            selection.port = match selection.port {
                Some(_) => None,
                None => queues.get(selection.marked).map(|q| q.port.clone()),
            };
            selection.marked = 0;
        }
        Key::Char('l') => selection.sort = Sort::Load,
        Key::Char('p') => selection.sort = Sort::Packets,
        Key::Char('n') => selection.sort = Sort::Name,
        Key::Char(_) | Key::Tab => {}
    }
}
