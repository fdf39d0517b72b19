//! HTTP requests. Every client that can connect to the address of `metrics-listen` can send them.

use http_request::{PARAMETERS_MAX, REQUEST_MAX, parse};

pub fn run(data: &[u8]) {
    let whole = parse(data);
    match &whole {
        Ok(Some(request)) => {
            assert!(request.query.len() <= PARAMETERS_MAX);
            assert!(
                data.starts_with(b"GET ")
                    || data.starts_with(b"HEAD ")
                    || data.starts_with(b"\r")
                    || data.starts_with(b"\n")
            );
            assert_eq!(parse(&[data, b"GET"].concat()), whole);
        }
        Ok(None) => assert!(data.len() < REQUEST_MAX),
        Err(_) => {}
    }
    // If the request arrives in parts, the first result other than "incomplete" is the same request.
    if whole.as_ref().is_ok_and(Option::is_some) {
        let early = (0..data.len()).find_map(|end| parse(&data[..end]).transpose());
        assert!(early.is_none_or(|early| early.ok() == whole.ok().flatten()));
    }
}
