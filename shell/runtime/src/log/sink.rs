//! Where log lines go: console, syslog and file, behind one process-wide lock.

use super::Dest;
use super::format::{Record, render};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

const CONSOLE: &str = "%D{%Y-%m-%dT%H:%M:%SZ}|%05N|%c%T|%p|%m";
const SYSLOG: &str = "ovs|%05N|%c%T|%p|%m";
const FILE: &str = "%D{%Y-%m-%dT%H:%M:%S.###Z}|%05N|%c%T|%p|%m";
const RFC3164: &str = "<%B> %D{%h %e %T} %E %A:";

#[derive(Debug, Default)]
enum Syslog {
    /// Not decided yet: the environment is asked at the first message.
    #[default]
    Unset,
    Null,
    /// `/dev/log`, as the C library would use it.
    Local(Option<UnixDatagram>),
    Unix(Option<UnixDatagram>),
    Udp(Option<std::net::UdpSocket>),
}

/// The destinations' state.
#[derive(Debug)]
pub(super) struct Sinks {
    patterns: [String; 3],
    syslog: Syslog,
    target: Option<std::net::UdpSocket>,
    file: Option<File>,
    pub file_name: Option<PathBuf>,
    pub facility: u32,
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

    pub fn close_file(&mut self) -> bool {
        self.file.take().is_some()
    }

    /// Opens the log file; `Ok(None)` when it is the one that is open already.
    pub fn open_file(path: &Path, current: Option<&Sinks>) -> std::io::Result<Option<File>> {
        let f = File::options().append(true).create(true).mode(0o660).open(path)?;
        if let Some(old) = current.and_then(|s| s.file.as_ref()) {
            let (a, b) = (old.metadata()?, f.metadata()?);
            if (a.dev(), a.ino()) == (b.dev(), b.ino()) {
                return Ok(None);
            }
        }
        Ok(Some(f))
    }

    pub fn install_file(&mut self, path: &Path, file: File) {
        self.file_name = Some(path.to_path_buf());
        self.file = Some(file);
    }

    /// Only the first method given counts.
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

    fn ensure_syslog(&mut self) {
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

    pub fn write_file(&mut self, r: &Record<'_>) {
        if let Some(f) = &mut self.file {
            let line = render(&self.patterns[Dest::File as usize], r) + "\n";
            let _ = f.write_all(line.as_bytes());
        }
    }

    pub fn write_syslog(&mut self, r: &Record<'_>) {
        self.ensure_syslog();
        let text = render(&self.patterns[Dest::Syslog as usize], r);
        let daemon = Record { facility: if self.facility == 0 { 3 << 3 } else { self.facility }, ..*r };
        for line in text.lines().filter(|l| !l.is_empty()) {
            let prefix = match &self.syslog {
                Syslog::Local(_) => render("<%B>%D{%h %e %T} %A: ", &daemon),
                _ => render(RFC3164, &daemon) + " ",
            };
            let bytes = format!("{prefix}{line}");
            let _ = match &self.syslog {
                Syslog::Local(Some(s)) | Syslog::Unix(Some(s)) => s.send(bytes.as_bytes()),
                Syslog::Udp(Some(s)) => s.send(bytes.as_bytes()),
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

fn unix_datagram(path: &str) -> Option<UnixDatagram> {
    let s = UnixDatagram::unbound().ok()?;
    s.set_nonblocking(true).ok()?;
    s.connect(path).ok()?;
    Some(s)
}

fn udp(target: &str) -> Option<std::net::UdpSocket> {
    let target = if target.rsplit_once(':').is_some_and(|(_, p)| p.parse::<u16>().is_ok()) {
        target.to_string()
    } else {
        format!("{target}:514")
    };
    let s = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    s.connect(target).ok()?;
    s.set_nonblocking(true).ok()?;
    Some(s)
}
