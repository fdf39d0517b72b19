//! Reads the common name of a certificate's subject (RFC 5280 §4.1.2.6) from the DER encoding (X.690).
//!
//! The certificate has been verified before. A name that cannot be parsed is treated as missing.

/// `id-at-commonName`, 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
/// The tag `[0]` of the version, which is optional.
const VERSION: u8 = 0xa0;

/// Returns the last common name of the subject.
pub(crate) fn common_name(certificate: &[u8]) -> Option<&str> {
    let mut signed = content(certificate, SEQUENCE)?;
    let mut fields = take_element(&mut signed).filter(|(tag, _)| *tag == SEQUENCE)?.1;
    if fields.first() == Some(&VERSION) {
        take_element(&mut fields)?;
    }
    // Skip serial number, algorithm, issuer and validity.
    for _ in 0..4 {
        take_element(&mut fields)?;
    }
    let mut names = content(fields, SEQUENCE)?;
    let mut found = None;
    while let Some((SET, mut set)) = take_element(&mut names) {
        while let Some((SEQUENCE, mut pair)) = take_element(&mut set) {
            if take_element(&mut pair) == Some((OBJECT_ID, COMMON_NAME)) {
                found = take_element(&mut pair).and_then(|(_, text)| std::str::from_utf8(text).ok());
            }
        }
    }
    found
}

/// Returns the content of the first element if it has this tag.
fn content(mut der: &[u8], kind: u8) -> Option<&[u8]> {
    take_element(&mut der).filter(|(tag, _)| *tag == kind).map(|(_, content)| content)
}

/// Removes the first element and returns its tag and content. The length may be encoded in up to four bytes.
fn take_element<'a>(der: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut len = usize::from(first);
    if first & 0x80 != 0 {
        let n = usize::from(first & 0x7f);
        let digits = rest.get(..n).filter(|_| (1..=4).contains(&n))?;
        len = digits.iter().fold(0, |len, digit| len << 8 | usize::from(*digit));
        rest = rest.get(n..)?;
    }
    let content = rest.get(..len)?;
    *der = rest.get(len..)?;
    Some((tag, content))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    fn certificate() -> Vec<u8> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::OrganizationName, "somewhere");
        params.distinguished_name.push(DnType::CommonName, "chassis-7");
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_name_is_found() {
        assert_eq!(common_name(&certificate()), Some("chassis-7"));
    }

    proptest! {
        #[test]
        fn never_panics(at in 0..300usize, byte in any::<u8>(), cut in 0..400usize) {
            let mut bytes = certificate();
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            bytes.truncate(cut);
            let _ = common_name(&bytes);
        }
    }
}
