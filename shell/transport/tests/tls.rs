//! Two peers over TLS: which peers are accepted, data transfer, and bootstrap of an authority's certificate.
//!
//! There is only one test, because a process has only one identity.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use transport::tls::{Files, configure};
use transport::{Listener, Outbox, Stream, Target};

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    Authority { issuer: Issuer::new(params, key), pem }
}

/// Returns the files of an identity that `by` has signed and that trusts `trusted`. The certificate chain includes `by`.
fn files(dir: &Path, name: &str, by: &Authority, trusted: &Authority) -> Files {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    let cert = params.signed_by(&key, &by.issuer).unwrap();
    let write = |what: &str, text: String| -> PathBuf {
        let path = dir.join(format!("{name}-{what}.pem"));
        std::fs::write(&path, text).unwrap();
        path
    };
    Files {
        private_key: write("key", key.serialize_pem()),
        certificate: write("cert", cert.pem() + &by.pem),
        ca_cert: write("ca", trusted.pem.clone()),
        ..Files::default()
    }
}

/// Connects, and continues the handshake of both peers until it is finished or fails.
fn meet(listener: &Listener, client: &Files, server: &Files) -> std::io::Result<(Stream, Stream)> {
    let target = Target::Ssl(listener.local_addr().unwrap());
    configure(client).unwrap();
    let mut a = Stream::connect(&target)?;
    configure(server).unwrap();
    let mut b = loop {
        if let Some(stream) = listener.accept()? {
            break stream;
        }
    };
    loop {
        let server_done = b.connect_progress()?;
        if a.connect_progress()? && server_done {
            return Ok((a, b));
        }
    }
}

/// Sends `n` bytes from one peer to the other, which reads them.
fn carry(from: &mut Stream, to: &mut Stream, n: usize) {
    let sent: Vec<u8> = (0..n).map(|i| ((i * 7) >> 3) as u8).collect();
    let mut out = Outbox::new();
    out.push(&sent);
    let (mut got, mut buffer) = (Vec::new(), [0; 5000]);
    while got.len() < n {
        out.flush(from).unwrap();
        match to.read(&mut buffer) {
            Ok(0) => panic!("closed early"),
            Ok(k) => got.extend_from_slice(&buffer[..k]),
            Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock),
        }
    }
    assert!(got == sent && out.is_empty());
}

#[test]
fn identities() {
    let dir = std::env::temp_dir().join(format!("transport-tls-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (good, other) = (authority("good"), authority("other"));
    let (ours, theirs) = (files(&dir, "ours", &good, &good), files(&dir, "theirs", &good, &good));
    let stranger = files(&dir, "stranger", &other, &good);
    let wary = files(&dir, "wary", &good, &other);
    let listener = Listener::bind(&Target::parse("pssl:0:127.0.0.1", 0).unwrap()).unwrap();

    let (mut a, mut b) = meet(&listener, &ours, &theirs).unwrap();
    assert!(b.name().starts_with("ssl:127.0.0.1:"));
    carry(&mut a, &mut b, 3_000_000);
    carry(&mut b, &mut a, 100_000);
    a.write_all(b"bye").unwrap();
    drop(a);
    let mut last = Vec::new();
    while b.read_to_end(&mut last).is_err() {}
    assert_eq!(last, b"bye");

    assert!(meet(&listener, &stranger, &theirs).is_err(), "the server lets anybody in");
    assert!(meet(&listener, &wary, &theirs).is_err(), "the client believes anybody");

    // The first connection only stores the authority; the second one works.
    let mut learning = files(&dir, "learning", &good, &good);
    std::fs::remove_file(&learning.ca_cert).unwrap();
    learning.bootstrap = true;
    let first = meet(&listener, &learning, &theirs).unwrap_err().to_string();
    assert!(first.contains("bootstrapped CA cert"), "{first}");
    assert_eq!(std::fs::read_to_string(&learning.ca_cert).unwrap(), good.pem.replace("\r\n", "\n"));
    meet(&listener, &learning, &theirs).unwrap();

    let broken = Files { certificate: dir.join("absent.pem"), ..ours };
    assert!(configure(&broken).unwrap_err().contains("absent.pem"));
    assert!(Stream::connect(&Target::Ssl(listener.local_addr().unwrap())).is_err());
    let none = Files { private_key: PathBuf::new(), ..broken };
    assert_eq!(configure(&none).unwrap_err(), "Private key must be configured to use SSL");
    std::fs::remove_dir_all(&dir).unwrap();
}
