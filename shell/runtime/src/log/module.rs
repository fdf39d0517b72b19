//! Modules: the sources of messages, each with a level for each destination.

use super::level::{Dest, Level};
use super::line::Line;
use super::rate::RateLimit;
use super::sink::Sinks;
use super::{modules, writer};
use crate::clock::Clock;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Arguments;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

/// A message is truncated to this many bytes: more than the longest trace (1 MB) and the lines after it.
const MESSAGE_MAX: usize = 2 << 20;

/// The settings of a module.
#[derive(Debug)]
pub(super) struct State {
    /// The level of each destination: messages of this and more severe levels are logged.
    pub(super) levels: [AtomicU8; 3],
    /// Rate limits are enabled.
    pub(super) honor_limits: AtomicBool,
}

impl State {
    fn leak(defaults: [Level; 3]) -> &'static State {
        Box::leak(Box::new(State {
            levels: defaults.map(|l| AtomicU8::new(l as u8)),
            honor_limits: AtomicBool::new(true),
        }))
    }

    pub(super) fn level(&self, d: Dest) -> Level {
        Level::from_u8(self.levels[d as usize].load(Ordering::Relaxed))
    }
}

pub(super) struct Registry {
    pub(super) modules: BTreeMap<String, &'static State>,
    /// The levels that were last set for all modules; modules that register later get them.
    pub(super) defaults: [Level; 3],
}

impl Registry {
    pub(super) fn find(&self, name: &str) -> Option<&'static State> {
        self.modules.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, s)| *s)
    }
}

static CLOCK: OnceLock<Clock> = OnceLock::new();

pub(super) fn registry() -> MutexGuard<'static, Registry> {
    static REGISTRY: OnceLock<Mutex<Registry>> = OnceLock::new();
    let new = || {
        let defaults = [Level::Warn, Level::Info, Level::Info];
        let modules = modules::KNOWN.iter().map(|n| (n.to_string(), State::leak(defaults))).collect();
        Mutex::new(Registry { modules, defaults })
    };
    REGISTRY.get_or_init(new).lock().unwrap_or_else(PoisonError::into_inner)
}

/// The configured destinations. The lock is held only while the pointer is copied or replaced.
pub(super) static SINKS: LazyLock<Mutex<Arc<Sinks>>> = LazyLock::new(|| Mutex::new(Arc::new(Sinks::new())));

pub(super) fn sinks() -> Arc<Sinks> {
    Arc::clone(&SINKS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Changes the destinations for lines that are logged from now on.
pub(super) fn change_sinks<T>(change: impl FnOnce(&mut Sinks) -> T) -> T {
    change(Arc::make_mut(&mut SINKS.lock().unwrap_or_else(PoisonError::into_inner)))
}

fn clock() -> &'static Clock {
    CLOCK.get_or_init(Clock::new)
}

thread_local! {
    /// Number of messages that this thread has logged (`%N`).
    static NUMBER: Cell<u32> = const { Cell::new(0) };
    /// The name of the thread for `%t` and `%T`; `None`: the main thread, or a thread without a name.
    pub(super) static THREAD: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// A source of messages: `static LOG: Module = Module::new("bridge");`
#[derive(Debug)]
pub struct Module {
    name: &'static str,
    state: OnceLock<&'static State>,
}

impl Module {
    /// A module, for a static.
    pub const fn new(name: &'static str) -> Module {
        Module { name, state: OnceLock::new() }
    }

    pub(super) fn state(&self) -> &'static State {
        self.state.get_or_init(|| {
            let mut r = registry();
            let defaults = r.defaults;
            r.modules.entry(self.name.to_string()).or_insert_with(|| State::leak(defaults))
        })
    }

    /// Whether messages of this level are logged to any destination.
    pub fn enabled(&self, level: Level) -> bool {
        let s = self.state();
        Dest::ALL.iter().any(|d| s.level(*d) >= level)
    }

    /// Logs a message; usually called by the macros.
    pub fn log(&self, level: Level, message: Arguments<'_>) {
        if self.enabled(level) {
            self.emit(level, message.to_string());
        }
    }

    /// Logs a message unless the rate limit is exceeded. If messages were dropped before, logs their number first.
    pub fn log_limited(&self, limit: &RateLimit, level: Level, message: Arguments<'_>) {
        self.log_lazily(limit, level, || message.to_string());
    }

    /// Like `log_limited`, for messages that are expensive to build: `message` is called only if it is logged.
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
            writer::submit(line);
        }
    }

    /// Builds the line for a message; `None` if it is logged to no destination.
    pub(super) fn line(&self, level: Level, mut message: String, mut sinks: Arc<Sinks>) -> Option<Line> {
        let s = self.state();
        let is_enabled = |d: Dest| s.level(d) >= level;
        let to =
            [is_enabled(Dest::Console), is_enabled(Dest::Syslog), is_enabled(Dest::File) && sinks.has_file()];
        if !to.contains(&true) {
            return None;
        }
        if is_enabled(Dest::Syslog) && sinks.lacks_syslog() {
            change_sinks(Sinks::open_default_syslog);
            sinks = self::sinks();
        }
        if message.len() > MESSAGE_MAX {
            let full_len = message.len();
            message.truncate(message.floor_char_boundary(MESSAGE_MAX));
            message.push_str(&format!("\n(cut: {full_len} bytes)"));
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
            // A thread may log while its thread-local variables are destroyed.
            thread: THREAD.try_with(|t| t.borrow().clone()).ok().flatten(),
            to,
            sinks,
        })
    }
}

/// Sets the program name in log lines, and the clock of rate limits. Must be called before anything is logged.
pub fn init(progname: &str, clock: &Clock) {
    let _ = CLOCK.set(clock.clone());
    change_sinks(|s| s.progname = progname.to_string());
}

/// Sets the name of the calling thread in its log lines, such as `pmd-c01/id:3`.
pub fn set_thread_name(name: &str) {
    THREAD.with_borrow_mut(|t| *t = Some(name.into()));
}
