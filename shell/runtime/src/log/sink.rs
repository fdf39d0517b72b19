//! The destinations of log lines: console, syslog and file.
//!
//! A `Sinks` value is not changed while a line refers to it: `log::change_sinks` then changes a copy. Copies share sockets
//! and file.

use super::format::{Record, render};
use super::level::Dest;
use std::fs::File;
use std::io::Write;
use std::net::UdpSocket;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CONSOLE: &str = "%D{%Y-%m-%dT%H:%M:%SZ}|%05N|%c%T|%p|%m";
const SYSLOG: &str = "ovs|%05N|%c%T|%p|%m";
const FILE: &str = "%D{%Y-%m-%dT%H:%M:%S.###Z}|%05N|%c%T|%p|%m";
const RFC3164: &str = "<%B> %D{%h %e %T} %E %A:";

#[derive(Clone, Debug, Default)]
enum Syslog {
    /// Not configured yet: the environment variable is read when the first message is logged.
    #[default]
    Unset,
    /// Messages are discarded.
    Null,
    /// The socket `/dev/log`, as the C library uses it.
    Local(Option<Arc<UnixDatagram>>),
    Unix(Option<Arc<UnixDatagram>>),
    Udp(Option<Arc<UdpSocket>>),
}

/// The destinations, their patterns, and the program name in lines.
#[derive(Clone, Debug)]
pub(super) struct Sinks {
    patterns: [String; 3],
    syslog: Syslog,
    /// The socket of `--syslog-target`.
    target: Option<Arc<UdpSocket>>,
    file: Option<Arc<File>>,
    pub file_name: Option<PathBuf>,
    pub facility: u32,
    pub progname: String,
}

impl Sinks {
    pub fn new() -> Sinks {
        Sinks {
            patterns: [CONSOLE.into(), SYSLOG.into(), FILE.into()],
            syslog: Syslog::Unset,
            target: None,
            file: None,
            file_name: None,
            facility: 0,
            progname: String::new(),
        }
    }

    pub fn set_pattern(&mut self, dest: Option<Dest>, pattern: &str) {
        for d in Dest::ALL {
            if dest.is_none_or(|x| x == d) {
                self.patterns[d as usize] = pattern.to_string();
            }
        }
    }

    pub fn has_file(&self) -> bool {
        self.file.is_some()
    }

    pub fn close_file(&mut self) {
        self.file = None;
    }

    /// Opens the log file; `Ok(None)` if it is the file that is already open.
    pub fn open_file(&self, path: &Path) -> std::io::Result<Option<File>> {
        let f = File::options().append(true).create(true).mode(0o660).open(path)?;
        if let Some(old) = &self.file {
            let (a, b) = (old.metadata()?, f.metadata()?);
            if (a.dev(), a.ino()) == (b.dev(), b.ino()) {
                return Ok(None);
            }
        }
        Ok(Some(f))
    }

    pub fn install_file(&mut self, path: &Path, file: File) {
        self.file_name = Some(path.to_path_buf());
        self.file = Some(Arc::new(file));
    }

    /// Sets the syslog method; only the first call has an effect.
    pub fn set_syslog_method(&mut self, method: &str) -> Result<(), String> {
        if !matches!(self.syslog, Syslog::Unset) {
            return Ok(());
        }
        self.syslog = if method == "null" {
            Syslog::Null
        } else if method == "libc" {
            Syslog::Local(unix_datagram("/dev/log"))
        } else if let Some(path) = method.strip_prefix("unix:") {
            Syslog::Unix(unix_datagram(path))
        } else if let Some(addr) = method.strip_prefix("udp:") {
            Syslog::Udp(udp(addr))
        } else {
            return Err(format!("unsupported syslog method '{method}'"));
        };
        Ok(())
    }

    pub fn set_syslog_target(&mut self, target: &str) {
        self.target = udp(target);
    }

    /// Returns whether no syslog method is configured yet.
    pub fn lacks_syslog(&self) -> bool {
        matches!(self.syslog, Syslog::Unset)
    }

    /// Opens the syslog method that the environment variable `OVS_SYSLOG_METHOD` names; by default that of the C library.
    pub fn open_default_syslog(&mut self) {
        if matches!(self.syslog, Syslog::Unset) {
            let method = std::env::var("OVS_SYSLOG_METHOD").unwrap_or_default();
            if method.is_empty() || self.set_syslog_method(&method).is_err() {
                let _ = self.set_syslog_method("libc");
            }
        }
    }

    pub fn write_console(&self, r: &Record<'_>) {
        let line = render(&self.patterns[Dest::Console as usize], r) + "\n";
        let _ = std::io::stderr().write_all(line.as_bytes());
    }

    pub fn write_file(&self, r: &Record<'_>) {
        if let Some(f) = &self.file {
            let line = render(&self.patterns[Dest::File as usize], r) + "\n";
            let _ = (&**f).write_all(line.as_bytes());
        }
    }

    /// Sends one datagram for each line of the message. All of them have the same prefix.
    pub fn write_syslog(&self, r: &Record<'_>) {
        let text = render(&self.patterns[Dest::Syslog as usize], r);
        let facility = if self.facility == 0 { 3 << 3 } else { self.facility };
        let prefix = Record { facility, message: "", ..*r };
        let mut datagram = match &self.syslog {
            Syslog::Local(_) => render("<%B>%D{%h %e %T} %A: ", &prefix),
            _ => render(RFC3164, &prefix) + " ",
        };
        let start = datagram.len();
        for line in text.lines().filter(|l| !l.is_empty()) {
            datagram.truncate(start);
            datagram.push_str(line);
            let bytes = datagram.as_bytes();
            let _ = match &self.syslog {
                Syslog::Local(Some(s)) | Syslog::Unix(Some(s)) => s.send(bytes),
                Syslog::Udp(Some(s)) => s.send(bytes),
                _ => Ok(0),
            };
        }
        if let Some(s) = &self.target {
            let text = render("<%B>1 %D{%Y-%m-%dT%H:%M:%S.###Z} %E %A %P %c - \u{feff}%m", r);
            let _ = s.send(text.as_bytes());
        }
    }

    /// The reply to `vlog/list-pattern`.
    pub fn list_patterns(&self) -> String {
        let mut out = String::from(
            "         prefix                            format\n\
             \x20        ------                            ------\n",
        );
        for d in [Dest::Syslog, Dest::Console, Dest::File] {
            let prefix = match (&self.syslog, d) {
                (Syslog::Null, Dest::Syslog) => "",
                (_, Dest::Syslog) => RFC3164,
                _ => "none",
            };
            out += &format!("{:<7}  {prefix:<32}  {}\n", d.name(), self.patterns[d as usize]);
        }
        out
    }
}

fn unix_datagram(path: &str) -> Option<Arc<UnixDatagram>> {
    let s = UnixDatagram::unbound().ok()?;
    s.set_nonblocking(true).ok()?;
    s.connect(path).ok()?;
    Some(Arc::new(s))
}

fn udp(target: &str) -> Option<Arc<UdpSocket>> {
    let target = if target.rsplit_once(':').is_some_and(|(_, p)| p.parse::<u16>().is_ok()) {
        target.to_string()
    } else {
        format!("{target}:514")
    };
    let s = UdpSocket::bind("0.0.0.0:0").ok()?;
    s.connect(target).ok()?;
    s.set_nonblocking(true).ok()?;
    Some(Arc::new(s))
}
