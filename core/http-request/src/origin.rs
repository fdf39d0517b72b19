//! The origin of a request: the server that the client addresses, and whether a page of another site sent the request.
//!
//! A web page of any site can make its reader's browser send requests to this server. Two headers show that a request comes from such a page.
//! `Sec-Fetch-Site`: the browser reports that the page belongs to another site. `Host`: a site can let its own name resolve to this server's address
//! (DNS rebinding). For the browser, page and server are then the same site, but `Host` contains the name of that site.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str;

/// The origin of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The server's name that the client used, without port. `None`: the client sent no name; browsers always send it.
    pub host: Option<String>,
    /// A page of another origin sent the request, not the user (`Sec-Fetch-Site`).
    pub is_cross_origin: bool,
}

impl Origin {
    /// Reads the origin from the headers. `authority`: the host in the request's target, which takes precedence over the header. `None`: the headers
    /// are invalid.
    pub(crate) fn of(headers: &[httparse::Header<'_>], authority: Option<&str>) -> Option<Origin> {
        let values = |name: &'static str| {
            headers.iter().filter(move |h| h.name.eq_ignore_ascii_case(name)).map(|h| str::from_utf8(h.value))
        };
        let host = values("host").next().transpose().ok()?;
        // More than one `Host` header is an error (RFC 9112 section 3.2).
        if values("host").count() > 1 {
            return None;
        }
        let site = values("sec-fetch-site").next().transpose().ok()?;
        let is_cross_origin = site.is_some_and(|site| !matches!(site, "same-origin" | "none"));
        Some(Origin { host: authority.or(host).map(without_port), is_cross_origin })
    }
}

/// The name in lower case, without port and without a trailing dot.
fn without_port(host: &str) -> String {
    let port = host.rfind(':').filter(|at| host[at + 1..].bytes().all(|b| b.is_ascii_digit()));
    let name = host[..port.unwrap_or(host.len())].trim();
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Returns whether no other site can have this host name. Safe hosts are IP addresses, names without a dot
/// (sites in the public DNS have one), names that end with `.localhost`, and `names`, the server's own names.
pub fn is_safe_host(host: &str, names: &[String]) -> bool {
    let in_brackets = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    host.parse::<Ipv4Addr>().is_ok()
        || in_brackets.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
        || !host.contains('.')
        || host.ends_with(".localhost")
        || names.iter().any(|name| name == host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(headers: &[(&str, &str)], authority: Option<&str>) -> Option<Origin> {
        let headers: Vec<httparse::Header<'_>> =
            headers.iter().map(|(name, value)| httparse::Header { name, value: value.as_bytes() }).collect();
        Origin::of(&headers, authority)
    }

    #[test]
    fn the_host_is_that_of_the_target_or_of_the_header() {
        for (header, authority, host) in [
            ("Switch.Example:9310", None, "switch.example"),
            ("localhost", Some("a.b:1"), "a.b"),
            ("[::1]:9310", None, "[::1]"),
            ("a.b.", None, "a.b"),
        ] {
            assert_eq!(
                origin(&[("host", header)], authority).unwrap().host.as_deref(),
                Some(host),
                "{header}"
            );
        }
        assert_eq!(origin(&[], None), Some(Origin::default()));
        assert_eq!(origin(&[("Host", "a"), ("hOst", "b")], None), None);
    }

    #[test]
    fn pages_of_other_sites_are_recognized() {
        for (site, is_foreign) in
            [("cross-site", true), ("same-site", true), ("same-origin", false), ("none", false)]
        {
            assert_eq!(
                origin(&[("Sec-Fetch-Site", site)], None).unwrap().is_cross_origin,
                is_foreign,
                "{site}"
            );
        }
    }

    #[test]
    fn hosts_that_a_foreign_site_cannot_have() {
        let names = ["hv1.example.com".to_owned()];
        for host in [
            "127.0.0.1",
            "10.1.2.3",
            "[::1]",
            "[fe80::1]",
            "localhost",
            "x.localhost",
            "hv1",
            "hv1.example.com",
            "",
        ] {
            assert!(is_safe_host(host, &names), "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "hv1.example.com.evil.example",
            "localhost.evil.example",
            "[evil.example]",
            "1.2.3",
        ] {
            assert!(!is_safe_host(host, &names), "{host}");
        }
    }
}
