//! The TLS options of every program.

use super::TlsSettings;

/// The short and long names. Each option has an argument.
const OPTIONS: [(Option<&str>, &str); 9] = [
    (Some("-p"), "--private-key"),
    (Some("-c"), "--certificate"),
    (Some("-C"), "--ca-cert"),
    (None, "--bootstrap-ca-cert"),
    (None, "--peer-ca-cert"),
    (None, "--ssl-protocols"),
    (None, "--ssl-ciphers"),
    (None, "--ssl-ciphersuites"),
    (None, "--ssl-server-name"),
];

/// Returns the long name of a TLS option; `None` if `name` is not a TLS option.
pub fn option(name: &str) -> Option<&'static str> {
    OPTIONS.iter().find(|(short, long)| name == *long || Some(name) == *short).map(|(_, long)| *long)
}

impl<P: for<'a> From<&'a str>> TlsSettings<P> {
    /// Sets the option that its long name selects. Returns false for an option without effect: `--ssl-server-name`, because the peer's
    /// name is not verified, and `--peer-ca-cert`, because only the certificates in the certificate file are sent.
    pub fn set(&mut self, option: &str, value: &str) -> bool {
        match option {
            "--private-key" => self.private_key = value.into(),
            "--certificate" => self.certificate = value.into(),
            "--ca-cert" => (self.ca_cert, self.bootstrap) = (value.into(), false),
            "--bootstrap-ca-cert" => (self.ca_cert, self.bootstrap) = (value.into(), true),
            "--ssl-protocols" => self.protocols = value.to_owned(),
            "--ssl-ciphers" => self.ciphers = value.to_owned(),
            "--ssl-ciphersuites" => self.ciphersuites = value.to_owned(),
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_by_both_names() {
        let mut names = TlsSettings::<String>::default();
        for (name, value, has_effect) in [
            ("-p", "key", true),
            ("--certificate", "cert", true),
            ("--bootstrap-ca-cert", "ca", true),
            ("--peer-ca-cert", "x", false),
        ] {
            assert_eq!(names.set(option(name).unwrap(), value), has_effect, "{name}");
        }
        let wanted = TlsSettings {
            private_key: "key".to_owned(),
            certificate: "cert".into(),
            ca_cert: "ca".into(),
            bootstrap: true,
            ..TlsSettings::default()
        };
        assert_eq!(names, wanted);
        assert_eq!([option(""), option("-x"), option("private-key")], [None; 3]);
    }
}
