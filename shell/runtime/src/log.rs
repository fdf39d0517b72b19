//! The log ("vlog"): modules with a level per destination, patterns, rate limits.
//!
//! A module is a static; a message that no destination wants costs one relaxed load. State is process-wide, so that no
//! function needs a log as an argument. Any thread may log. Lines and replies are those of Open vSwitch 3.7.
//!
//! A [`line::Line`] carries the destinations in force when it was logged. It is written at once by the thread that logs,
//! or, after [`start_writer`], by the writer thread. No lock is held while a line is formatted or written.

mod format;
mod line;
mod modules;
mod panic;
mod queue;
mod rate;
mod sink;
mod spec;
mod writer;

pub use panic::install as log_panics;
pub use rate::RateLimit;
pub use writer::{flush, never_wait, start as start_writer};

use crate::clock::Clock;
use line::Line;
use sink::Sinks;
use spec::Spec;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Arguments;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

static LOG: Module = Module::new("vlog");

/// A message is cut after so many bytes: more than the longest trace (1 MB) with what is told after it.
const MESSAGE_MAX: usize = 2 << 20;

/// How much a message matters; smaller is graver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Nothing is logged.
    Off,
    /// The process is about to die.
    Emer,
    /// Something is broken.
    Err,
    /// Something is odd.
    Warn,
    /// Worth a line in normal operation.
    Info,
    /// For finding faults.
    Dbg,
}

impl Level {
    const ALL: [Level; 6] = [Level::Off, Level::Emer, Level::Err, Level::Warn, Level::Info, Level::Dbg];

    fn name(self) -> &'static str {
        ["OFF", "EMER", "ERR", "WARN", "INFO", "DBG"][self as usize]
    }

    fn from_name(s: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|l| l.name().eq_ignore_ascii_case(s))
    }

    fn from_u8(v: u8) -> Level {
        Level::ALL.get(usize::from(v)).copied().unwrap_or(Level::Dbg)
    }

    fn syslog(self) -> u32 {
        [7, 1, 3, 4, 6, 7][self as usize]
    }
}

/// Where messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dest {
    /// Standard error.
    Console,
    /// The system's log.
    Syslog,
    /// The file of `--log-file`.
    File,
}

impl Dest {
    const ALL: [Dest; 3] = [Dest::Console, Dest::Syslog, Dest::File];

    fn name(self) -> &'static str {
        ["CONSOLE", "SYSLOG", "FILE"][self as usize]
    }

    fn from_name(s: &str) -> Option<Dest> {
        Dest::ALL.into_iter().find(|d| d.name().eq_ignore_ascii_case(s))
    }
}

#[derive(Debug)]
struct State {
    levels: [AtomicU8; 3],
    honor_limits: AtomicBool,
}

impl State {
    fn leak(defaults: [Level; 3]) -> &'static State {
        Box::leak(Box::new(State {
            levels: defaults.map(|l| AtomicU8::new(l as u8)),
            honor_limits: AtomicBool::new(true),
        }))
    }

    fn level(&self, d: Dest) -> Level {
        Level::from_u8(self.levels[d as usize].load(Ordering::Relaxed))
    }
}

struct Registry {
    modules: BTreeMap<String, &'static State>,
    /// Levels of modules that register later: what was last set for all.
    defaults: [Level; 3],
}

impl Registry {
    fn find(&self, name: &str) -> Option<&'static State> {
        self.modules.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, s)| *s)
    }
}

static CLOCK: OnceLock<Clock> = OnceLock::new();

fn registry() -> MutexGuard<'static, Registry> {
    static REGISTRY: OnceLock<Mutex<Registry>> = OnceLock::new();
    let new = || {
        let defaults = [Level::Warn, Level::Info, Level::Info];
        let modules = modules::KNOWN.iter().map(|n| (n.to_string(), State::leak(defaults))).collect();
        Mutex::new(Registry { modules, defaults })
    };
    REGISTRY.get_or_init(new).lock().unwrap_or_else(PoisonError::into_inner)
}

/// The destinations in force. The lock is held only to copy or to replace the pointer.
static SINKS: LazyLock<Mutex<Arc<Sinks>>> = LazyLock::new(|| Mutex::new(Arc::new(Sinks::new())));

fn sinks() -> Arc<Sinks> {
    Arc::clone(&SINKS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Changes the destinations for lines that are logged from now on.
fn change_sinks<T>(change: impl FnOnce(&mut Sinks) -> T) -> T {
    change(Arc::make_mut(&mut SINKS.lock().unwrap_or_else(PoisonError::into_inner)))
}

fn clock() -> &'static Clock {
    CLOCK.get_or_init(Clock::new)
}

thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(0) };
    /// As `%t` and `%T` show the thread; `None` is the main thread, or one without a name of its own.
    static THREAD: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// A source of messages: `static LOG: Module = Module::new("bridge");`
#[derive(Debug)]
pub struct Module {
    name: &'static str,
    state: OnceLock<&'static State>,
}

impl Module {
    /// For a static.
    pub const fn new(name: &'static str) -> Module {
        Module { name, state: OnceLock::new() }
    }

    fn state(&self) -> &'static State {
        self.state.get_or_init(|| {
            let mut r = registry();
            let defaults = r.defaults;
            r.modules.entry(self.name.to_string()).or_insert_with(|| State::leak(defaults))
        })
    }

    /// Whether any destination wants messages of this level.
    pub fn enabled(&self, level: Level) -> bool {
        let s = self.state();
        Dest::ALL.iter().any(|d| s.level(*d) >= level)
    }

    /// Logs; the macros are the usual way here.
    pub fn log(&self, level: Level, message: Arguments<'_>) {
        if self.enabled(level) {
            self.emit(level, message.to_string());
        }
    }

    /// Logs unless `limit` has been used up, and says how much was dropped.
    pub fn log_limited(&self, limit: &RateLimit, level: Level, message: Arguments<'_>) {
        self.log_lazily(limit, level, || message.to_string());
    }

    /// As `log_limited`, for messages that cost much to make: they are made only if they are logged.
    pub fn log_lazily(&self, limit: &RateLimit, level: Level, message: impl FnOnce() -> String) {
        if !self.enabled(level) {
            return;
        }
        if self.state().honor_limits.load(Ordering::Relaxed) {
            match limit.admit(clock().now().0) {
                None => return,
                Some(None) => {}
                Some(Some(d)) => self.emit(level, d.to_string()),
            }
        }
        self.emit(level, message());
    }

    fn emit(&self, level: Level, message: String) {
        if let Some(line) = self.line(level, message, sinks()) {
            writer::take(line);
        }
    }

    /// A line for those destinations that want it; `None` if none does.
    fn line(&self, level: Level, mut message: String, mut sinks: Arc<Sinks>) -> Option<Line> {
        let s = self.state();
        let wants = |d: Dest| s.level(d) >= level;
        let to = [wants(Dest::Console), wants(Dest::Syslog), wants(Dest::File) && sinks.has_file()];
        if !to.contains(&true) {
            return None;
        }
        if wants(Dest::Syslog) && sinks.lacks_syslog() {
            change_sinks(Sinks::open_default_syslog);
            sinks = self::sinks();
        }
        if message.len() > MESSAGE_MAX {
            let whole = message.len();
            message.truncate(message.floor_char_boundary(MESSAGE_MAX));
            message.push_str(&format!("\n(cut: {whole} bytes)"));
        }
        let number = NUMBER.with(|n| {
            n.set(n.get().wrapping_add(1));
            n.get()
        });
        Some(Line {
            module: self.name,
            level,
            message,
            wall_ms: crate::clock::wall_ms(),
            uptime_ms: clock().now().0.saturating_sub(clock().boot().0),
            number,
            // A thread may log while its variables are torn down.
            thread: THREAD.try_with(|t| t.borrow().clone()).ok().flatten(),
            to,
            sinks,
        })
    }
}

/// A moment, in milliseconds since 1970, as reports have it (UTC).
pub fn moment_text(wall_ms: u64) -> String {
    format::time_text("%Y-%m-%d %H:%M:%S.###", wall_ms)
}

/// Gives the log its program name and the clock of its rate limits. Call it first.
pub fn init(progname: &str, clock: &Clock) {
    let _ = CLOCK.set(clock.clone());
    change_sinks(|s| s.progname = progname.to_string());
}

/// Names the calling thread in its messages, such as `pmd-c01/id:3`.
pub fn set_thread_name(name: &str) {
    THREAD.with_borrow_mut(|t| *t = Some(name.into()));
}

/// One `-v` or `vlog/set` specification; the error is the reply's text.
pub fn set(spec: &str) -> Result<(), String> {
    let mut r = registry();
    match spec::parse(spec, |name| r.find(name).is_some())? {
        Spec::Levels { module, dest, level } => set_levels(&mut r, module.as_deref(), dest, level),
        Spec::Pattern { dest, pattern } => change_sinks(|s| s.set_pattern(dest, &pattern)),
        Spec::Facility(v) => change_sinks(|s| s.facility = v),
    }
    Ok(())
}

/// Everything at every destination: `-v` alone, `vlog/set` without arguments.
pub fn set_max_verbosity() {
    set_levels(&mut registry(), None, None, Level::Dbg);
}

/// What a tool wants at start: its console shows warnings, its syslog nothing.
pub fn set_tool_defaults() {
    let mut r = registry();
    set_levels(&mut r, None, Some(Dest::Console), Level::Warn);
    set_levels(&mut r, None, Some(Dest::Syslog), Level::Off);
}

fn set_levels(r: &mut Registry, module: Option<&str>, dest: Option<Dest>, level: Level) {
    for d in Dest::ALL.into_iter().filter(|d| dest.is_none_or(|x| x == *d)) {
        let store = |s: &State| s.levels[d as usize].store(level as u8, Ordering::Relaxed);
        match module {
            Some(name) => r.find(name).into_iter().for_each(store),
            None => {
                r.defaults[d as usize] = level;
                r.modules.values().for_each(|s| store(s));
            }
        }
    }
}

/// Opens (or changes to) a log file and says so in it.
pub fn set_file(path: &Path) -> std::io::Result<()> {
    let opened = sinks().open_file(path);
    let file = match opened {
        Ok(None) => return Ok(()),
        Ok(Some(f)) => f,
        Err(e) => {
            let text = crate::error_text(&e);
            crate::warn!(LOG, "failed to open {} for logging: {text}", path.display());
            return Err(e);
        }
    };
    if sinks().has_file() {
        crate::info!(LOG, "closing log file");
    }
    change_sinks(|s| s.install_file(path, file));
    crate::info!(LOG, "opened log file {}", path.display());
    Ok(())
}

/// `--syslog-method`
pub fn set_syslog_method(method: &str) -> Result<(), String> {
    change_sinks(|s| s.set_syslog_method(method))
}

/// `--syslog-target`
pub fn set_syslog_target(target: &str) {
    change_sinks(|s| s.set_syslog_target(target));
    crate::warn!(LOG, "--syslog-target flag is deprecated, use --syslog-method instead");
}

/// A log command of the control socket (`vlog/…`): the reply or error text, `None` if the
/// name is not one of them.
pub fn command(name: &str, args: &[String]) -> Option<Result<String, String>> {
    Some(match name {
        "vlog/list" => Ok(list()),
        "vlog/list-pattern" => Ok(sinks().list_patterns()),
        "vlog/set" => {
            if args.is_empty() {
                set_max_verbosity();
            }
            args.iter().try_for_each(|a| set(a)).map(|()| String::new())
        }
        "vlog/enable-rate-limit" => honor_limits(args, true),
        "vlog/disable-rate-limit" => honor_limits(args, false),
        "vlog/reopen" => reopen(),
        "vlog/close" => {
            change_sinks(Sinks::close_file);
            Ok(String::new())
        }
        "vlog/message" => {
            crate::info!(LOG, "user-message: {}", args.first().map_or("", |s| s));
            Ok(String::new())
        }
        _ => return None,
    })
}

fn list() -> String {
    let r = registry();
    let mut lines: Vec<String> = r
        .modules
        .iter()
        .map(|(name, s)| {
            let limited = s.honor_limits.load(Ordering::Relaxed);
            format!(
                "{name:<16}  {:>4}       {:>4}       {:>4}{}\n",
                s.level(Dest::Console).name(),
                s.level(Dest::Syslog).name(),
                s.level(Dest::File).name(),
                if limited { "" } else { "    (rate limiting disabled)" }
            )
        })
        .collect();
    lines.sort();
    "                 console    syslog    file\n                 -------    ------    ------\n".to_string()
        + &lines.concat()
}

fn honor_limits(args: &[String], on: bool) -> Result<String, String> {
    let r = registry();
    let all = || r.modules.values().for_each(|s| s.honor_limits.store(on, Ordering::Relaxed));
    if args.is_empty() {
        all();
    }
    for a in args {
        if a.eq_ignore_ascii_case("ANY") {
            all();
        } else {
            r.find(a).ok_or("unknown module")?.honor_limits.store(on, Ordering::Relaxed);
        }
    }
    Ok(String::new())
}

fn reopen() -> Result<String, String> {
    let name = sinks().file_name.clone();
    let name = name.ok_or("Logging to file not configured")?;
    set_file(&name).map(|()| String::new()).map_err(|e| crate::error_text(&e))
}

/// Logs at a level: `log_at!(LOG, Level::Dbg, "…")`.
#[macro_export]
macro_rules! log_at { ($m:expr, $l:expr, $($a:tt)*) => { $m.log($l, format_args!($($a)*)) } }
/// Logs that the process is about to die.
#[macro_export]
macro_rules! emer { ($m:expr, $($a:tt)*) => { $crate::log_at!($m, $crate::log::Level::Emer, $($a)*) } }
/// Logs an error.
#[macro_export]
macro_rules! err { ($m:expr, $($a:tt)*) => { $crate::log_at!($m, $crate::log::Level::Err, $($a)*) } }
/// Logs a warning.
#[macro_export]
macro_rules! warn { ($m:expr, $($a:tt)*) => { $crate::log_at!($m, $crate::log::Level::Warn, $($a)*) } }
/// Logs an event of normal operation.
#[macro_export]
macro_rules! info { ($m:expr, $($a:tt)*) => { $crate::log_at!($m, $crate::log::Level::Info, $($a)*) } }
/// Logs a detail.
#[macro_export]
macro_rules! debug { ($m:expr, $($a:tt)*) => { $crate::log_at!($m, $crate::log::Level::Dbg, $($a)*) } }
/// Logs within a rate limit: `log_rl!(LOG, LIMIT, Level::Warn, "…")`.
#[macro_export]
macro_rules! log_rl { ($m:expr, $rl:expr, $l:expr, $($a:tt)*) => { $m.log_limited(&$rl, $l, format_args!($($a)*)) } }
/// Logs a warning within a rate limit: `warn_rl!(LOG, LIMIT, "…")`.
#[macro_export]
macro_rules! warn_rl { ($m:expr, $rl:expr, $($a:tt)*) => { $crate::log_rl!($m, $rl, $crate::log::Level::Warn, $($a)*) } }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_register_and_are_listed() {
        static ODD: Module = Module::new("odd_one");
        assert!(ODD.enabled(Level::Info));
        set("odd_one:syslog:off").unwrap();
        let text = command("vlog/list", &[]).unwrap().unwrap();
        assert!(text.contains("odd_one           WARN        OFF       INFO\n"));
        assert!(text.contains("cooperative_multitasking  WARN       INFO       INFO\n"));
        assert!(command("vlog/set", &["nosuch".into()]).unwrap().is_err());
    }
}
