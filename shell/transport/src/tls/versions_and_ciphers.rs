//! The allowed TLS versions and ciphers, in OpenSSL's notation (`--ssl-protocols`, `--ssl-ciphers`,
//! `--ssl-ciphersuites` and the columns of table SSL).
//!
//! The lists only restrict the supported versions and ciphers: TLS before 1.2 and ciphers without forward secrecy or
//! authenticated encryption are never used. OpenSSL's names of cipher groups (`HIGH`, `DEFAULT`) and levels are ignored.

use rustls::crypto::CryptoProvider;
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, SupportedCipherSuite, SupportedProtocolVersion};

/// Ciphers of TLS 1.2, by OpenSSL's names.
const CIPHERS: [(&str, CipherSuite); 6] = [
    ("ECDHE-ECDSA-AES128-GCM-SHA256", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-ECDSA-AES256-GCM-SHA384", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-RSA-AES128-GCM-SHA256", CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-RSA-AES256-GCM-SHA384", CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-RSA-CHACHA20-POLY1305", CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

/// Cipher suites of TLS 1.3, by the names of RFC 8446.
const SUITES: [(&str, CipherSuite); 3] = [
    ("TLS_AES_128_GCM_SHA256", CipherSuite::TLS13_AES_128_GCM_SHA256),
    ("TLS_AES_256_GCM_SHA384", CipherSuite::TLS13_AES_256_GCM_SHA384),
    ("TLS_CHACHA20_POLY1305_SHA256", CipherSuite::TLS13_CHACHA20_POLY1305_SHA256),
];

/// Returns the versions from the lowest to the highest in the list; all if the list is empty.
pub(crate) fn versions(list: &str) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let number = |word: &str| match word {
        "TLSv1.2" => Ok(2),
        "TLSv1.3" => Ok(3),
        _ => Err(format!("{list}: SSL/TLS protocol not recognized")),
    };
    let mut named = Vec::new();
    for word in list.split([',', ' ', '\t']).filter(|word| !word.is_empty()) {
        match (word.strip_suffix('+'), word.split_once('-')) {
            (Some(lowest), _) => named.extend([number(lowest)?, 3]),
            (None, Some((one, other))) => named.extend([number(one)?, number(other)?]),
            (None, None) => named.push(number(word)?),
        }
    }
    let (low, high) = (named.iter().min().copied().unwrap_or(2), named.iter().max().copied().unwrap_or(3));
    let all = [(2, &TLS12), (3, &TLS13)];
    Ok(all.into_iter().filter(|(n, _)| (low..=high).contains(n)).map(|(_, version)| version).collect())
}

/// Removes the ciphers that the lists do not allow: `ciphers` for TLS 1.2, `suites` for TLS 1.3.
pub(crate) fn restrict(provider: &mut CryptoProvider, ciphers: &str, suites: &str) {
    provider.cipher_suites.retain(|suite| match suite {
        SupportedCipherSuite::Tls13(_) => allows(suites, &SUITES, suite.suite()),
        _ => allows(ciphers, &CIPHERS, suite.suite()),
    });
}

fn allows(list: &str, names: &[(&str, CipherSuite)], suite: CipherSuite) -> bool {
    let named = |word: &str| names.iter().find(|(name, _)| *name == word).map(|(_, suite)| *suite);
    let words = || list.split([':', ',', ' ']);
    let excluded = |word: &str| word.strip_prefix(['!', '-']).and_then(named);
    let mut chosen = words().filter_map(named).peekable();
    let is_chosen = chosen.peek().is_none() || chosen.any(|chosen| chosen == suite);
    is_chosen && !words().filter_map(excluded).any(|excluded| excluded == suite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_a_range() {
        let count = |list: &str| versions(list).map(|v| v.len()).unwrap_or(0);
        assert_eq!(["", "TLSv1.2", "TLSv1.3", "TLSv1.2+", "TLSv1.3+"].map(count), [2, 1, 1, 2, 1]);
        assert_eq!(
            ["TLSv1.3, TLSv1.2", "TLSv1.3-TLSv1.2", "TLSv1.1", "TLSv1.2+TLSv1.3"].map(count),
            [2, 2, 0, 0]
        );
    }

    #[test]
    fn ciphers_are_chosen_and_struck() {
        let of = |ciphers: &str, suites: &str| {
            let mut provider = rustls::crypto::ring::default_provider();
            restrict(&mut provider, ciphers, suites);
            provider.cipher_suites.len()
        };
        assert_eq!(of("", ""), 9);
        assert_eq!(
            of("DEFAULT:@SECLEVEL=2:!ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_CHACHA20_POLY1305_SHA256"),
            6
        );
        assert_eq!(of("ECDHE-RSA-AES128-GCM-SHA256", ""), 4);
    }
}
