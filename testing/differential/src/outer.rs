//! Frames that are sent in a tunnel: their outer headers, and the inner frames.

use std::ops::Range;

use crate::checksum::{fold, sum};

/// The outer headers of a frame.
#[derive(Debug, PartialEq, Eq)]
struct Outer {
    /// The length of the headers in bytes.
    len: usize,
    /// The checksum that covers the inner frame, if there is one.
    sum: Option<Checksum>,
}

/// A checksum (RFC 1071).
#[derive(Debug, PartialEq, Eq)]
struct Checksum {
    at: usize,
    covers: Range<usize>,
    /// The addresses in the IP header, which UDP's pseudo header contains.
    addresses: Range<usize>,
    is_udp: bool,
}

const VXLAN: u16 = 4789;
const GENEVE: u16 = 6081;

/// Returns the text of a frame that is sent in a tunnel: the outer headers, in which a checksum that covers the inner frame is
/// replaced by whether it is correct, and the inner frame as converted by `inner`. Returns `None` for other frames.
pub fn split(hex: &str, inner: impl Fn(&str) -> String) -> Option<String> {
    let bytes: Vec<u8> = (0..hex.len() / 2)
        .map(|i| hex.get(2 * i..2 * i + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok()))
        .collect::<Option<_>>()?;
    let Outer { len, sum } = outer(&bytes)?;
    let mut head = hex.get(..2 * len)?.to_owned();
    if let Some(sum) = sum {
        let result = if is_correct(&bytes, &sum)? { "good" } else { "bad_" };
        head.replace_range(2 * sum.at..2 * sum.at + 4, result);
    }
    Some(format!("{head} {}", inner(&hex[2 * len..])))
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn outer(bytes: &[u8]) -> Option<Outer> {
    let (l4, protocol, addresses) = match read_u16(bytes, 12)? {
        0x0800 => (14 + 4 * usize::from(bytes.get(14)? & 15), *bytes.get(23)?, 26..34),
        0x86dd => (54, *bytes.get(20)?, 22..54),
        _ => return None,
    };
    match protocol {
        17 => {
            let len = match read_u16(bytes, l4 + 2)? {
                VXLAN => 16,
                GENEVE => 16 + 4 * usize::from(bytes.get(l4 + 8)? & 0x3f),
                _ => return None,
            };
            let covers = l4..l4 + usize::from(read_u16(bytes, l4 + 4)?);
            let sum = (read_u16(bytes, l4 + 6)? != 0).then_some(Checksum {
                at: l4 + 6,
                covers,
                addresses,
                is_udp: true,
            });
            Some(Outer { len: l4 + len, sum })
        }
        47 => {
            let flags = read_u16(bytes, l4)?;
            let (has_sum, has_key) = (flags & 0x8000 != 0, flags & 0x2000 != 0);
            let sum = has_sum.then_some(Checksum {
                at: l4 + 4,
                covers: l4..bytes.len(),
                addresses: 0..0,
                is_udp: false,
            });
            Some(Outer { len: l4 + 4 + 4 * usize::from(has_sum) + 4 * usize::from(has_key), sum })
        }
        _ => None,
    }
}

fn is_correct(bytes: &[u8], checksum: &Checksum) -> Option<bool> {
    let covered = bytes.get(checksum.covers.clone())?;
    let mut pseudo = bytes.get(checksum.addresses.clone())?.to_vec();
    if checksum.is_udp {
        pseudo.extend([0, 17]);
        pseudo.extend((covered.len() as u16).to_be_bytes());
    }
    Some(fold(sum(&pseudo) + sum(covered)) == [0, 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames that a stock switch has sent: one in Geneve over IPv6, and one in VXLAN over IPv4.
    const IN_GENEVE: &str = "f8bc12443494aa55aa55000286dd60000000004c1140fd310001000000000000000000000001fd3100010000000000000000000000949c4017c1004c237b000065580000090050540000000250540000000108004500002012342010fe11a081e00000050a00000200350050000c3c87646174610000000000000000000000000000";
    const IN_VXLAN: &str = "f8bc12443491aa55aa550002080045020060000040004011dfefac1f0101ac1f015c9c4012b5004c0000080000000000070050540000000550540000000408004503002c123448004006717b0a000101ac100009005003ea00000001000000025004ff001cc20000646174610000";

    #[test]
    fn the_checksum_is_told_and_the_frame_stays() {
        let text = split(IN_GENEVE, str::to_owned).unwrap();
        assert!(text.contains("9c4017c1004cgood00006558"), "{text}");
        assert!(text.ends_with(" 50540000000250540000000108004500002012342010fe11a081e00000050a00000200350050000c3c87646174610000000000000000000000000000"));
        let wrong = IN_GENEVE.replace("3c87", "3c88");
        assert!(split(&wrong, str::to_owned).unwrap().contains("004cbad_0000"));
        let text = split(IN_VXLAN, |inner| format!("<{inner}>")).unwrap();
        assert!(text.contains("12b5004c00000800000000000700 <505400000005"), "{text}");
    }

    #[test]
    fn other_frames_are_not_in_a_tunnel() {
        for cut in 0..50 {
            split(&IN_VXLAN[..2 * cut], str::to_owned);
        }
        assert_eq!(split(&IN_VXLAN.replace("12b5", "12b6"), str::to_owned), None);
        assert_eq!(split("", str::to_owned), None);
        assert_eq!(split("zz", str::to_owned), None);
    }
}
