//! The panic hook: logs thread, location, message and backtrace of a panic, and aborts the process.
//!
//! A switch cannot continue after a panic in one thread: locks may stay locked, queues are not polled any more, and the
//! control socket waits for replies that never arrive. So the process aborts, and its supervisor (the monitor process, or
//! systemd) starts the next one.
//!
//! The hook runs on the panicking thread, which may hold any lock of the log. So the hook only tries to lock, and never
//! waits for a lock without a time limit. A watchdog thread aborts the process if the hook does not finish in time. Other
//! threads continue meanwhile.

use super::level::Level;
use super::line::Line;
use super::module::{Module, SINKS, THREAD};
use super::sink::Sinks;
use super::writer;
use std::backtrace::Backtrace;
use std::io::{BufRead, BufReader};
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, TryLockError};
use std::time::Duration;

static LOG: Module = Module::new("panic");

/// Time limit of the hook. For a backtrace, the debug information of the complete program is read, which takes about
/// 100 ms.
const LIMIT: Duration = Duration::from_secs(3);
/// Time limit for writing the lines that were logged before the panic.
const FLUSH_LIMIT: Duration = Duration::from_millis(200);
/// Longest message, in bytes.
const MESSAGE_MAX: usize = 16 << 10;
/// Longest backtrace, in bytes.
const BACKTRACE_MAX: usize = 256 << 10;

/// Makes every later panic, in any thread, abort the process after it has been logged.
pub fn install() {
    // Register the module now, because the hook must not wait for the registry's lock.
    LOG.state();
    std::panic::set_hook(Box::new(|info| {
        report(info);
        std::process::abort();
    }));
}

fn report(info: &PanicHookInfo<'_>) {
    static ENTERED: AtomicBool = AtomicBool::new(false);
    if ENTERED.swap(true, Ordering::SeqCst) {
        // Another thread is panicking, and aborts the process when it has logged its panic.
        std::thread::sleep(LIMIT);
        return;
    }
    let watchdog = || {
        std::thread::sleep(LIMIT);
        std::process::abort();
    };
    // If the watchdog thread cannot be started, the hook runs without a time limit.
    let _ = std::thread::Builder::new().name("panic".to_owned()).spawn(watchdog);
    writer::flush_in_panic(FLUSH_LIMIT);
    let place = info.location().map_or("an unknown place".to_owned(), ToString::to_string);
    let message = truncated(info.payload_as_str().unwrap_or("(no message)"), MESSAGE_MAX).to_owned();
    write(format!("thread '{}' panicked at {place}: {message}", thread_name()));
    // The alternate format also prints addresses: for a program without symbols, these and `image` are needed to find the
    // symbols on another machine.
    let backtrace = format!("{:#}", Backtrace::force_capture());
    write(format!("backtrace, program at {}:\n{}", image(), truncated(&backtrace, BACKTRACE_MAX)));
}

/// The thread's name in log lines; if it has none, its name in the system.
fn thread_name() -> String {
    let of_log = THREAD.try_with(|name| name.try_borrow().ok().and_then(|name| name.clone())).ok().flatten();
    of_log.map_or_else(
        || std::thread::current().name().unwrap_or("without a name").to_owned(),
        |name| name.to_string(),
    )
}

/// The address at which the program is loaded.
fn image() -> String {
    let program = std::env::current_exe().unwrap_or_default();
    let maps = std::fs::File::open("/proc/self/maps").map(BufReader::new);
    let mut lines = maps.into_iter().flat_map(|maps| maps.lines().map_while(Result::ok));
    // The program's first segment is the one at offset 0.
    let first = lines.find(|line| program.to_str().is_some_and(|path| line.ends_with(path)));
    let start = first.as_deref().and_then(|line| line.split_once('-')).map(|(start, _)| format!("0x{start}"));
    start.unwrap_or_else(|| "an unknown place".to_owned())
}

/// Writes a line on this thread.
fn write(message: String) {
    if let Some(line) = sinks().and_then(|sinks| line(message, sinks)) {
        line.write();
    }
}

fn line(message: String, mut sinks: Arc<Sinks>) -> Option<Line> {
    if sinks.lacks_syslog() {
        Arc::make_mut(&mut sinks).open_default_syslog();
    }
    LOG.line(Level::Emer, message, sinks)
}

/// The configured destinations; `None` if another thread holds their lock for 100 ms.
fn sinks() -> Option<Arc<Sinks>> {
    const TRIES: u32 = 100;
    for _ in 0..TRIES {
        match SINKS.try_lock() {
            Ok(sinks) => return Some(Arc::clone(&sinks)),
            Err(TryLockError::Poisoned(poisoned)) => return Some(Arc::clone(&poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    None
}

/// The beginning of a text: at most `most` bytes, and no incomplete character.
fn truncated(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(truncated("short", 100), "short");
        assert_eq!(truncated("aé", 2), "a");
        assert_eq!(truncated("aé", 3), "aé");
    }
}
