//! Kernel devices for a test: created with `ip`, and removed when the test ends, whether or not it succeeds.

#![allow(dead_code, reason = "each test binary uses a part")]

use netdev::device::Netdev;
use netdev::open::{DummyLevel, Netdevs};
use packet::frame::{Frame, FramePool};
use packet::queue::RxQueue;
use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

/// Whether kernel devices can be created here. Prints the reason if not.
pub fn can_make_devices() -> bool {
    let why = if !rustix::process::geteuid().is_root() {
        "not root"
    } else if Command::new("ip").arg("-V").output().is_err() {
        "no ip(8)"
    } else {
        return true;
    };
    eprintln!("skipped: {why}");
    false
}

/// A name that no other test or run uses.
pub fn unique(tag: &str) -> String {
    format!("n{}{tag}", std::process::id())
}

/// Runs `ip` with these arguments; panics if it fails.
pub fn ip(words: &str) {
    let output = Command::new("ip").args(words.split_whitespace()).output().expect("ip starts");
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A device that is removed with `ip` on drop.
pub struct Cleanup(pub String);

impl Drop for Cleanup {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(self.0.split_whitespace()).output();
    }
}

/// A veth pair with both devices up in this namespace, on which only the test sends packets.
pub fn veth(tag: &str) -> (String, String, Cleanup) {
    let (a, b) = (unique(&format!("{tag}a")), unique(&format!("{tag}b")));
    ip(&format!("link add {a} type veth peer name {b}"));
    let cleanup = Cleanup(format!("link del {a}"));
    for end in [&a, &b] {
        ip(&format!("link set {end} addrgenmode none"));
        ip(&format!("link set {end} up"));
    }
    (a, b, cleanup)
}

/// Opens a device without options.
pub fn open(name: &str, kind: &str) -> Box<dyn Netdev> {
    let (device, refused) = Netdevs::new(DummyLevel::On).open(name, kind, &BTreeMap::new()).unwrap();
    assert!(refused.is_none());
    device
}

/// An Ethernet frame of the type for experiments, `len` bytes of payload after `front`.
pub fn frame_of(pool: &mut FramePool, front: &[u8], len: usize) -> Frame {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    bytes.extend(front);
    bytes.extend([0x88, 0xb5]);
    bytes.extend((0..len).map(|i| i as u8));
    pool.frame_of(&bytes).unwrap()
}

/// Receives until `n` frames of this test have arrived, for at most two seconds.
pub fn receive(queue: &mut dyn RxQueue, pool: &mut FramePool, n: usize) -> Vec<Frame> {
    let end = Instant::now() + Duration::from_secs(2);
    let mut all = Vec::new();
    while all.len() < n && Instant::now() < end {
        let mut batch = Vec::new();
        queue.rx(pool, &mut batch, 32);
        all.extend(batch.into_iter().filter(|f| f.bytes().get(6..12) == Some(&[2, 0, 0, 0, 0, 2])));
        std::thread::sleep(Duration::from_millis(1));
    }
    all
}

/// Waits until the condition holds, for at most 2 s: the buffers of a closed socket are free after 100 ms.
pub fn soon(mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}
