//! The directories of files, and the program's name, from which file names are derived. The defaults are the directories of
//! Debian's packages; environment variables of Open vSwitch override them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The directories and the program name, read once at start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dirs {
    /// Base name of `argv[0]`.
    pub progname: String,
    /// Sockets and pidfiles (`OVS_RUNDIR`).
    pub run: PathBuf,
    /// Log files (`OVS_LOGDIR`).
    pub log: PathBuf,
    /// The database file (`OVS_DBDIR`).
    pub db: PathBuf,
    /// Configuration (`OVS_SYSCONFDIR`).
    pub sysconf: PathBuf,
}

impl Dirs {
    /// Reads the environment. `argv0`: path or name of the program.
    pub fn from_env(argv0: &str) -> Dirs {
        Dirs::from(argv0, |var| std::env::var_os(var).filter(|value| !value.is_empty()))
    }

    /// The default directories, for manuals.
    pub fn defaults(argv0: &str) -> Dirs {
        Dirs::from(argv0, |_| None)
    }

    fn from(argv0: &str, set: impl Fn(&str) -> Option<OsString>) -> Dirs {
        let dir = |var: &str, default: &str| set(var).map_or_else(|| PathBuf::from(default), PathBuf::from);
        let sysconf = dir("OVS_SYSCONFDIR", "/etc");
        let db = set("OVS_DBDIR").map_or_else(|| sysconf.join("openvswitch"), PathBuf::from);
        Dirs {
            progname: Path::new(argv0)
                .file_name()
                .map_or_else(|| argv0.to_string(), |n| n.to_string_lossy().into_owned()),
            run: dir("OVS_RUNDIR", "/var/run/openvswitch"),
            log: dir("OVS_LOGDIR", "/var/log/openvswitch"),
            db,
            sysconf,
        }
    }

    /// The path of a name relative to the run directory; an absolute name is returned unchanged.
    pub fn in_run(&self, name: &str) -> PathBuf {
        self.run.join(name)
    }

    /// `<rundir>/<progname>.pid`
    pub fn pidfile(&self) -> PathBuf {
        self.run.join(format!("{}.pid", self.progname))
    }

    /// `<logdir>/<progname>.log`
    pub fn logfile(&self) -> PathBuf {
        self.log.join(format!("{}.log", self.progname))
    }
}
