//! Connection targets: `unix:FILE`, `tcp:HOST[:PORT]`, `ssl:HOST[:PORT]`, `punix:FILE`, `ptcp:[PORT][:HOST]`,
//! `pssl:[PORT][:HOST]`, as documented in `ovs-vswitchd(8)` and used in the database.
//!
//! Hosts are numeric addresses, because resolving a name could block. IPv6 addresses are in brackets.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// A target to connect to or to listen at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Connects to a Unix socket.
    Unix(PathBuf),
    /// Connects over TCP.
    Tcp(SocketAddr),
    /// Listens on a Unix socket.
    PUnix(PathBuf),
    /// Listens on TCP.
    PTcp(SocketAddr),
    /// Connects over TLS.
    Ssl(SocketAddr),
    /// Listens for TLS.
    PSsl(SocketAddr),
}

/// The reason why a text is not a valid target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetError {
    /// The kind of connection is unknown.
    UnknownKind(String),
    /// The address is invalid; the text contains the reason.
    Address(String),
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TargetError::UnknownKind(text) => write!(f, "{text}: unknown connection method"),
            TargetError::Address(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for TargetError {}

impl Target {
    /// Parses a target. A TCP or TLS address without a port gets `default_port`.
    pub fn parse(text: &str, default_port: u16) -> Result<Target, TargetError> {
        let bad = |what: String| TargetError::Address(format!("{text}: {what}"));
        let (kind, rest) = text.split_once(':').ok_or(TargetError::UnknownKind(text.into()))?;
        let file = || match rest.is_empty() {
            true => Err(bad("file name must be specified".into())),
            false => Ok(PathBuf::from(rest)),
        };
        match kind {
            "unix" => Ok(Target::Unix(file()?)),
            "punix" => Ok(Target::PUnix(file()?)),
            "tcp" => active(rest, default_port).map(Target::Tcp).map_err(bad),
            "ptcp" => passive(rest, default_port).map(Target::PTcp).map_err(bad),
            "ssl" => active(rest, default_port).map(Target::Ssl).map_err(bad),
            "pssl" => passive(rest, default_port).map(Target::PSsl).map_err(bad),
            _ => Err(TargetError::UnknownKind(text.into())),
        }
    }

    /// Prepends `dir` to a relative file name.
    pub fn within(self, dir: &Path) -> Target {
        match self {
            Target::Unix(p) => Target::Unix(dir.join(p)),
            Target::PUnix(p) => Target::PUnix(dir.join(p)),
            other => other,
        }
    }

    /// Returns whether the target listens.
    pub fn is_passive(&self) -> bool {
        matches!(self, Target::PUnix(_) | Target::PTcp(_) | Target::PSsl(_))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Unix(p) => write!(f, "unix:{}", p.display()),
            Target::PUnix(p) => write!(f, "punix:{}", p.display()),
            Target::Tcp(a) => write!(f, "tcp:{a}"),
            Target::Ssl(a) => write!(f, "ssl:{a}"),
            Target::PTcp(a) => write_passive(f, "ptcp", a),
            Target::PSsl(a) => write_passive(f, "pssl", a),
        }
    }
}

fn write_passive(f: &mut fmt::Formatter<'_>, kind: &str, a: &SocketAddr) -> fmt::Result {
    match a.ip() {
        IpAddr::V4(ip) => write!(f, "{kind}:{}:{ip}", a.port()),
        IpAddr::V6(ip) => write!(f, "{kind}:{}:[{ip}]", a.port()),
    }
}

fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("bad port number \"{text}\""))
}

fn host(text: &str) -> Result<IpAddr, String> {
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    bare.parse().map_err(|_| format!("bad IP address \"{bare}\""))
}

fn active(text: &str, default_port: u16) -> Result<SocketAddr, String> {
    // Without brackets, more than one colon can only be an IPv6 address without a port.
    let (h, p) = match text.rfind("]:") {
        Some(at) => (text.get(..=at).unwrap_or_default(), text.get(at + 2..)),
        None => match text.split_once(':') {
            Some((h, p)) if !p.contains(':') => (h, Some(p)),
            _ => (text, None),
        },
    };
    if h.is_empty() {
        return Err("host must be specified".into());
    }
    let p = p.map_or(Ok(default_port), port)?;
    match p {
        0 => Err("port must be specified".into()),
        p => Ok(SocketAddr::new(host(h)?, p)),
    }
}

fn passive(text: &str, default_port: u16) -> Result<SocketAddr, String> {
    let (p, h) = text.split_once(':').unwrap_or((text, ""));
    let p = if p.is_empty() { default_port } else { port(p)? };
    let ip = if h.is_empty() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { host(h)? };
    Ok(SocketAddr::new(ip, p))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> String {
        Target::parse(text, 6653).map_or_else(|e| format!("! {e}"), |t| t.to_string())
    }

    #[test]
    fn every_form() {
        assert_eq!(shown("tcp:10.0.0.1"), "tcp:10.0.0.1:6653");
        assert_eq!(shown("tcp:10.0.0.1:66"), "tcp:10.0.0.1:66");
        assert_eq!(shown("tcp:[::1]"), "tcp:[::1]:6653");
        assert_eq!(shown("tcp:[::1]:5"), "tcp:[::1]:5");
        assert_eq!(shown("tcp:fe80::2"), "tcp:[fe80::2]:6653");
        assert_eq!(shown("ptcp:"), "ptcp:6653:0.0.0.0");
        assert_eq!(shown("ptcp:0:127.0.0.1"), "ptcp:0:127.0.0.1");
        assert_eq!(shown("ptcp::127.0.0.1"), "ptcp:6653:127.0.0.1");
        assert_eq!(shown("ptcp:7:[::1]"), "ptcp:7:[::1]");
        assert_eq!(shown("ssl:1.2.3.4"), "ssl:1.2.3.4:6653");
        assert_eq!(shown("pssl:7:[::1]"), "pssl:7:[::1]");
        assert_eq!(shown("unix:/a/b"), "unix:/a/b");
        let relative = Target::parse("punix:x.sock", 0).unwrap().within(Path::new("/run"));
        assert_eq!(relative.to_string(), "punix:/run/x.sock");
    }

    #[test]
    fn refusals() {
        assert_eq!(shown("tcp:10.0.0.1:66666"), "! tcp:10.0.0.1:66666: bad port number \"66666\"");
        assert_eq!(shown("tcp:host"), "! tcp:host: bad IP address \"host\"");
        assert_eq!(shown("tcp:"), "! tcp:: host must be specified");
        assert_eq!(shown("none"), "! none: unknown connection method");
        assert_eq!(shown("unix:"), "! unix:: file name must be specified");
    }

    proptest! {
        #[test]
        fn never_panics_and_reads_what_it_shows(text in "(tcp|ptcp|ssl|pssl|unix):[\\[\\]0-9a-f:.é]{0,30}") {
            if let Ok(target) = Target::parse(&text, 1) {
                prop_assert_eq!(Target::parse(&target.to_string(), 2), Ok(target));
            }
        }
    }
}
