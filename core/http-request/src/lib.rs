//! Parses HTTP/1 requests (RFC 9112). The bytes are untrusted: the result is a request, or the reason why there is
//! none.
//!
//! Only methods that change nothing are accepted: `GET` and `HEAD`.

mod origin;

pub use origin::{Origin, is_safe_host};

use std::str;

/// Maximum length of a request's first line and headers, in bytes.
pub const REQUEST_MAX: usize = 8192;
/// Maximum number of headers of a request.
const HEADERS_MAX: usize = 64;
/// Maximum number of parameters of a query.
pub const PARAMETERS_MAX: usize = 32;

/// A request for a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// `HEAD`: the body is not sent.
    pub head_only: bool,
    /// The decoded path. The server only compares it with known paths.
    pub path: String,
    /// The decoded parameters of the query.
    pub query: Vec<(String, String)>,
    /// The client accepts OpenMetrics.
    pub open_metrics: bool,
    /// The server that the client addresses, and whether a page of another site sent the request.
    pub origin: Origin,
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The bytes are not a valid HTTP request.
    Malformed,
    /// The request is longer than [`REQUEST_MAX`], or has too many headers or parameters.
    TooLarge,
    /// The method is neither `GET` nor `HEAD`.
    Method,
}

/// Parses the request at the beginning of `bytes`. `None`: the request is not complete.
pub fn parse(bytes: &[u8]) -> Result<Option<Request>, RequestError> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) if bytes.len() < REQUEST_MAX => return Ok(None),
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Err(RequestError::TooLarge);
        }
        Err(_) => return Err(RequestError::Malformed),
    }
    let head_only = match parsed.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(RequestError::Method),
    };
    let (target, authority) = parsed.path.and_then(split_target).ok_or(RequestError::Malformed)?;
    let origin = Origin::of(parsed.headers, authority).ok_or(RequestError::Malformed)?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = if path.is_empty() { "/" } else { path };
    let accepts = parsed.headers.iter().filter(|h| h.name.eq_ignore_ascii_case("accept"));
    let open_metrics = accepts.filter_map(|h| str::from_utf8(h.value).ok()).any(prefers_open_metrics);
    let path = decode(path).ok_or(RequestError::Malformed)?;
    Ok(Some(Request { head_only, path, query: parse_query(query)?, open_metrics, origin }))
}

/// The path and query of a request's target, and the host if the target contains one: a client may send an absolute URL
/// (RFC 9112 section 3.2.2).
fn split_target(target: &str) -> Option<(&str, Option<&str>)> {
    if target.starts_with('/') {
        return Some((target, None));
    }
    let (scheme, rest) = target.split_at_checked("http://".len())?;
    let host = rest.find(['/', '?']).unwrap_or(rest.len());
    let is_valid = scheme.eq_ignore_ascii_case("http://") && host > 0;
    is_valid.then(|| (&rest[host..], Some(&rest[..host])))
}

/// Whether a list of accepted media types contains OpenMetrics, with at least the weight of plain text.
fn prefers_open_metrics(accept: &str) -> bool {
    let weight = |of: &str| {
        let mut found: Option<f32> = None;
        for item in accept.split(',') {
            let mut parts = item.split(';').map(str::trim);
            if parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case(of)) {
                let q = parts.find_map(|p| p.strip_prefix("q=")).map_or(Some(1.0), |q| q.parse().ok());
                found = Some(found.unwrap_or(0.0).max(q.unwrap_or(0.0)));
            }
        }
        found.unwrap_or(0.0)
    };
    let open = weight("application/openmetrics-text");
    open > 0.0 && open >= weight("text/plain")
}

fn parse_query(query: &str) -> Result<Vec<(String, String)>, RequestError> {
    let parts: Vec<&str> = query.split('&').filter(|part| !part.is_empty()).collect();
    if parts.len() > PARAMETERS_MAX {
        return Err(RequestError::TooLarge);
    }
    let pair = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let plain = |text: &str| decode(&text.replace('+', " "));
        Some((plain(name)?, plain(value)?))
    };
    parts.into_iter().map(pair).collect::<Option<Vec<_>>>().ok_or(RequestError::Malformed)
}

/// Decodes percent-encoding such as `%41`. `None`: an escape sequence is invalid, or the text is not UTF-8.
fn decode(text: &str) -> Option<String> {
    let (mut out, mut bytes) = (Vec::with_capacity(text.len()), text.bytes());
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16));
                out.push((digit()? << 4 | digit()?) as u8);
            }
            byte => out.push(byte),
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// For all input, a complete request is the same if more bytes follow, and its size is bounded.
    fn check(bytes: &[u8]) {
        let whole = parse(bytes);
        if let Ok(Some(request)) = &whole {
            assert!(request.query.len() <= PARAMETERS_MAX);
            assert_eq!(parse(&[bytes, b"x"].concat()), whole);
        }
        if whole == Ok(None) {
            assert!(bytes.len() < REQUEST_MAX);
        }
    }

    fn get(line: &str) -> Result<Option<Request>, RequestError> {
        parse(format!("{line} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
    }

    #[test]
    fn requests_and_what_is_refused() {
        let request = get("GET /api/trace?bridge=br0&flow=in_port%3D1%2Cip+x&a").unwrap().unwrap();
        let query: Vec<(&str, &str)> = request.query.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(
            (request.path.as_str(), query),
            ("/api/trace", vec![("bridge", "br0"), ("flow", "in_port=1,ip x"), ("a", "")])
        );
        assert!(get("HEAD /").unwrap().unwrap().head_only);
        assert_eq!(get("POST /"), Err(RequestError::Method));
        for (target, path) in
            [("http://x/metrics?a", "/metrics"), ("HTTP://[::1]:9310", "/"), ("http://x?a", "/")]
        {
            let request = get(&format!("GET {target}")).unwrap().unwrap();
            assert_eq!(
                (request.path.as_str(), request.query.len()),
                (path, usize::from(target.contains('?')))
            );
        }
        for target in ["https://x/", "http:///", "http://", "*", "x:80", "httpé://x/"] {
            assert_eq!(get(&format!("GET {target}")), Err(RequestError::Malformed), "{target}");
        }
        assert_eq!(get("GET /%4"), Err(RequestError::Malformed));
        assert_eq!(get("GET /%ff"), Err(RequestError::Malformed));
        assert_eq!(get(&format!("GET /?{}", "a&".repeat(40))), Err(RequestError::TooLarge));
        assert_eq!(parse(b"GET / HTTP/1.1\r\nHost"), Ok(None));
        assert_eq!(parse(&[b'A'; REQUEST_MAX]), Err(RequestError::TooLarge));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(100));
        assert_eq!(parse(many.as_bytes()), Err(RequestError::TooLarge));
    }

    #[test]
    fn the_format_is_the_one_that_the_client_prefers() {
        let prometheus =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        assert!(prefers_open_metrics(prometheus));
        assert!(!prefers_open_metrics("text/plain;q=0.5, application/openmetrics-text;q=0.2"));
        assert!(!prefers_open_metrics("application/openmetrics-text;q=x") && !prefers_open_metrics("*/*"));
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            check(&bytes);
        }

        #[test]
        fn any_target(target in "[ -~]{0,200}") {
            check(format!("GET /{target} HTTP/1.1\r\nAccept: {target}\r\n\r\n").as_bytes());
        }
    }
}
