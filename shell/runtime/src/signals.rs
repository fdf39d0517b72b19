//! Signals that end the daemon: SIGTERM, SIGINT and SIGHUP set a flag that the main loop checks, so that the daemon can
//! close files and remove the pidfile. (Rust's start-up code makes the process ignore SIGPIPE.)

use crate::poll_loop::{Interest, WaitSet};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const END_SIGNALS: [i32; 3] =
    [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP];

/// Receives the signals that end the daemon.
#[derive(Debug)]
pub struct Signals {
    /// The number of the last signal; 0: none.
    which: Arc<AtomicUsize>,
    /// Readable after a signal, to wake the main loop.
    wake: UnixStream,
}

impl Signals {
    /// Installs the handlers.
    pub fn install() -> std::io::Result<Signals> {
        let which = Arc::new(AtomicUsize::new(0));
        let (wake, tail) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        for sig in END_SIGNALS {
            signal_hook::flag::register_usize(sig, Arc::clone(&which), sig as usize)?;
            signal_hook::low_level::pipe::register(sig, tail.try_clone()?)?;
        }
        Ok(Signals { which, wake })
    }

    /// The number of the received signal, if there was one.
    pub fn received(&self) -> Option<i32> {
        match self.which.load(Ordering::Acquire) {
            0 => None,
            n => Some(n as i32),
        }
    }

    /// Registers the event that wakes the loop when a signal arrives.
    pub fn wait<'a>(&'a self, set: &mut WaitSet<'a>) {
        set.fd(&self.wake, Interest::Read);
    }

    /// Ends the process by the signal's default action, after the caller has cleaned up.
    pub fn die(signal: i32) -> ! {
        let _ = signal_hook::low_level::emulate_default_handler(signal);
        std::process::exit(128 + signal)
    }
}

/// The bits of SIGSEGV and of SIGBUS in the signal masks of `/proc/self/status`.
const FAULT_SIGNALS: [(rustix::process::Signal, u64); 2] =
    [(rustix::process::Signal::SEGV, 1 << 10), (rustix::process::Signal::BUS, 1 << 6)];

/// Makes SIGSEGV and SIGBUS fatal when another process sends them, as in a C program.
///
/// Rust's start-up code installs a handler for both, to distinguish a stack overflow from other faults. For another fault
/// the handler restores the default action and returns, so that the instruction faults again. So the first signal that
/// another process sends only restores the default action. This function sends that first signal to its own process.
/// It must be called before threads are started.
pub(crate) fn make_faults_fatal() {
    let Some(caught) = caught_signals() else { return };
    for (signal, bit) in FAULT_SIGNALS {
        if caught & bit != 0 {
            let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
        }
    }
}

fn caught_signals() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|l| l.strip_prefix("SigCgt:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}
