//! Settings of the log: levels, patterns, destinations, the writer thread.

use super::level::{Dest, Level};
use super::module::{Module, Registry, State, change_sinks, registry, set_thread_name, sinks};
use super::sink::Sinks;
use super::spec::{self, Spec};
use super::writer;
use crate::error_text;
use std::path::Path;
use std::sync::atomic::Ordering;

static LOG: Module = Module::new("vlog");

/// Starts the writer thread, which from then on writes the lines of all threads. If the thread cannot be started, each
/// thread continues to write its own lines.
pub fn start_writer() {
    let report = |dropped: u64| {
        crate::warn!(LOG, "{dropped} log messages were dropped: they came faster than they could be written");
    };
    if let Err(e) = writer::start(|| set_thread_name("log"), report) {
        crate::warn!(LOG, "no writer thread: {}", error_text(&e));
    }
}

/// Applies one specification of `-v` or `vlog/set`; the error is the text of the reply.
pub fn set(spec: &str) -> Result<(), String> {
    let mut r = registry();
    match spec::parse(spec, |name| r.find(name).is_some())? {
        Spec::Levels { module, dest, level } => set_levels(&mut r, module.as_deref(), dest, level),
        Spec::Pattern { dest, pattern } => change_sinks(|s| s.set_pattern(dest, &pattern)),
        Spec::Facility(v) => change_sinks(|s| s.facility = v),
    }
    Ok(())
}

/// Logs all levels to all destinations: `-v` or `vlog/set` without arguments.
pub fn set_max_verbosity() {
    set_levels(&mut registry(), None, None, Level::Dbg);
}

/// Sets the levels of a tool: warnings on the console, nothing to syslog.
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

/// Opens a log file and closes the previous one, unless both are the same file. Logs the closing to the old file and the opening to the
/// new one.
pub fn set_file(path: &Path) -> std::io::Result<()> {
    let opened = sinks().open_file(path);
    let file = match opened {
        Ok(None) => return Ok(()),
        Ok(Some(f)) => f,
        Err(e) => {
            let text = error_text(&e);
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

/// Enables or disables the rate limits of these modules; without arguments, of all modules.
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
    set_file(&name).map(|()| String::new()).map_err(|e| error_text(&e))
}

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
