//! What the daemons' programs have in common from their first line to their loop.
//!
//! The main thread runs it. Options are read before anything is started, so that a wrong one leaves no trace; the log is
//! there before the process detaches, so that the daemon's whole life is in it; signals are caught before the first thread
//! is made, which inherits that.

use crate::daemon::{self, Capabilities, Daemon, DaemonArgs};
use crate::signals::Signals;
use crate::{Clock, Dirs, PollLoop, error_text, log};
use std::process::ExitCode;

/// What a program says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Texts {
    /// `--help`
    pub usage: fn(&Dirs) -> String,
    /// `--version`, without the newline.
    pub version: fn(&Dirs) -> String,
}

/// A program that has started, up to its own parts.
#[derive(Debug)]
pub struct Program<O> {
    /// The options that all daemons have.
    pub args: DaemonArgs,
    /// Its own.
    pub options: O,
    /// Where time comes from.
    pub clock: Clock,
    /// To be told when it is ready.
    pub daemon: Daemon,
    /// What asks it to end.
    pub signals: Signals,
    /// What it sleeps in.
    pub poll: PollLoop,
}

/// Starts a program whose own options `parse` reads from what is left of the command line, and which of root's rights it
/// keeps under `--user`; `None` where it was only asked for a text, which it has printed.
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

/// How a program ends: what it logged is written, and what went wrong is told on standard error.
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
