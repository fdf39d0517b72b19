//! The common start-up of all daemon programs, from `main` to their main loop.
//!
//! Runs in the main thread. Options are parsed before anything is started, so that an invalid option has no side effects.
//! The log is set up before the process detaches, so that everything after that is logged. Signal handlers are installed
//! before the first thread is started.

use crate::daemon::{self, Capabilities, Daemon, DaemonArgs};
use crate::signals::Signals;
use crate::{Clock, Dirs, PollLoop, error_text, log};
use std::process::ExitCode;

/// The program's own texts.
#[derive(Clone, Copy, Debug)]
pub struct Texts {
    /// `--help`
    pub usage: fn(&Dirs) -> String,
    /// `--version`, without the newline.
    pub version: fn(&Dirs) -> String,
}

/// A program after the common start-up.
#[derive(Debug)]
pub struct Program<O> {
    /// The options of all daemons.
    pub args: DaemonArgs,
    /// The program's own options.
    pub options: O,
    /// The clock of the process.
    pub clock: Clock,
    /// The daemon; the program must report to it that it is ready.
    pub daemon: Daemon,
    /// The signals that end the program.
    pub signals: Signals,
    /// The event loop of the main thread.
    pub poll: PollLoop,
}

/// Starts a program. `parse`: parses the program's own options, and returns them with the capabilities to keep with
/// `--user`. Returns `None` after `--help` and `--version`, whose text has been printed.
pub fn start<O>(
    argv: &[String],
    dirs: &Dirs,
    texts: Texts,
    parse: impl FnOnce(&[String]) -> Result<(O, Capabilities), String>,
) -> Result<Option<Program<O>>, String> {
    let args = DaemonArgs::parse(argv.get(1..).unwrap_or_default(), dirs)?;
    if args.help {
        print!("{}", (texts.usage)(dirs));
        return Ok(None);
    }
    if args.version {
        println!("{}", (texts.version)(dirs));
        return Ok(None);
    }
    let (options, keeps) = parse(&args.rest)?;
    let clock = Clock::new();
    log::init(&dirs.progname, &clock);
    args.apply_log()?;
    log::log_panics();
    let daemon = daemon::start(&args, keeps)?;
    let signals = Signals::install().map_err(|e| error_text(&e))?;
    let poll = PollLoop::new(clock.clone()).map_err(|e| error_text(&e))?;
    Ok(Some(Program { args, options, clock, daemon, signals, poll }))
}

/// Ends a program: writes the queued log lines, and prints an error on standard error.
pub fn end(dirs: &Dirs, result: Result<ExitCode, String>) -> ExitCode {
    log::flush();
    result.unwrap_or_else(|text| {
        eprintln!("{}: {text}", dirs.progname);
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_options_and_questions_start_nothing() {
        let dirs = Dirs::from_env("prog");
        let texts = Texts { usage: |_| String::new(), version: |_| String::new() };
        let start = |arg: &str| {
            let argv = ["prog", arg].map(str::to_owned);
            start(&argv, &dirs, texts, |rest| Err::<((), _), _>(format!("unknown: {rest:?}")))
        };
        assert!(matches!(start("--version"), Ok(None)));
        assert!(matches!(start("--help"), Ok(None)));
        assert_eq!(start("--odd").err().as_deref(), Some("unknown: [\"--odd\"]"));
    }
}
