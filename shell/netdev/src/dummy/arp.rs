//! ARP replies of a dummy. Source: RFC 826.

use std::net::Ipv4Addr;

const ARP: [u8; 2] = [0x08, 0x06];
/// Hardware type Ethernet, protocol type IPv4, lengths of both addresses, operation "request".
const REQUEST: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 1];
/// The same fields with operation "reply".
const REPLY: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 2];
const LENGTH: usize = 42;

/// The reply to `frame`; `None`: it is not an ARP request for one of `addresses`.
pub(super) fn reply(frame: &[u8], mac: [u8; 6], addresses: &[(Ipv4Addr, u8)]) -> Option<Vec<u8>> {
    if frame.get(12..14)? != ARP || frame.get(14..22)? != REQUEST {
        return None;
    }
    let asked: [u8; 4] = frame.get(38..42)?.try_into().ok()?;
    let asker = frame.get(22..32)?;
    addresses.iter().find(|(address, _)| address.octets() == asked)?;
    let mut out = Vec::with_capacity(LENGTH);
    out.extend(frame.get(6..12)?);
    out.extend(mac);
    out.extend(ARP);
    out.extend(REPLY);
    out.extend(mac);
    out.extend(asked);
    out.extend(asker);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_request_for_us_is_answered() {
        let mut request = vec![0xff; 6];
        request.extend([2, 0, 0, 0, 0, 9]);
        request.extend(ARP);
        request.extend(REQUEST);
        request.extend([2, 0, 0, 0, 0, 9, 10, 0, 0, 9, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1]);
        let us = [(Ipv4Addr::new(10, 0, 0, 1), 24)];
        let answer = reply(&request, [0xaa; 6], &us).unwrap();
        assert_eq!(answer[..12], [2, 0, 0, 0, 0, 9, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa]);
        assert_eq!(answer[28..32], [10, 0, 0, 1]);
        assert_eq!(answer[38..], [10, 0, 0, 9]);
        assert_eq!(reply(&request, [0xaa; 6], &[(Ipv4Addr::new(10, 0, 0, 2), 24)]), None);
        assert_eq!(reply(&answer, [0xaa; 6], &us), None);
        assert_eq!(reply(&request[..30], [0xaa; 6], &us), None);
    }
}
