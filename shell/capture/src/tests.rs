//! A capture of a datapath without devices, read as a client reads it.

use super::*;
use datapath::capture::CaptureSpec;
use datapath::{Config, Datapath};
use dpif::DropReason;
use pcapng::{Block, BlockSplitter};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A capture, the path of its socket, and its datapath.
fn started(memory: usize) -> (Arc<Datapath>, Arc<Capture>, std::path::PathBuf) {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("capture-test-{}-{number}", std::process::id()));
    let datapath = Datapath::new(&Config::default());
    let clock = WallClock::new();
    let capture = Arc::new(Capture::new(CaptureSpec::everything(64, memory), Arc::new(move || clock.now())));
    let names = Names { ports: [(7, "p7".to_owned())].into(), datapath: "netdev@test".to_owned() };
    start(Arc::clone(&datapath), Arc::clone(&capture), names, &path).unwrap();
    (datapath, capture, path)
}

/// Drops packets of 100 bytes: port 7 does not exist.
fn lose(datapath: &Datapath, n: usize) {
    let flow = flow_of_port_seven();
    for _ in 0..n {
        datapath.execute(&[0; 100], &flow, &[dpif::DpAction::Output(units::PortNo(7))], units::Millis(1));
    }
}

fn flow_of_port_seven() -> flow::Flow {
    flow::Flow { in_port: 7, ..flow::Flow::ZERO }
}

/// Waits until the capture has ended and its socket is removed.
fn ended(datapath: &Datapath, path: &Path) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !datapath.captures().is_empty() || path.exists() {
        assert!(Instant::now() < deadline, "the capture did not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_client_reads_packets_and_statistics() {
    let (datapath, _, path) = started(1 << 20);
    let mut client = UnixStream::connect(&path).unwrap();
    lose(&datapath, 3);
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).unwrap();
    let (mut blocks, mut packets, mut counts) = (BlockSplitter::default(), 0, String::new());
    blocks.push(&bytes);
    while let Some((_, block)) = blocks.next_block().unwrap() {
        match block {
            Block::Interface(name, link) => assert_eq!((name, link), ("p7", 1)),
            Block::Packet(p) => {
                packets += 1;
                assert_eq!((p.bytes.len(), p.len, p.flags), (64, 100, 2));
                assert_eq!(p.comment, format!("side=drop reason={}", DropReason::InvalidPort.name()));
            }
            Block::Statistics(s) => counts = s.comment.to_owned(),
            Block::Section | Block::Other => {}
        }
    }
    assert_eq!((packets, counts.as_str()), (3, "wanted=3 kept=3 sampled_out=0 over_rate=0 lost=0"));
    ended(&datapath, &path);
}

#[test]
fn a_client_that_does_not_read_loses_packets_only_and_its_end_ends_the_capture() {
    let memory = 1 << 16;
    let (datapath, capture, path) = started(memory);
    let client = UnixStream::connect(&path).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while capture.counts().lost == 0 {
        assert!(Instant::now() < deadline, "no packet was lost");
        lose(&datapath, 1000);
    }
    // Upper limit of the number of packets that the thread, the socket and the capture can hold.
    let most = (WAITING_MAX + 2 * memory + (1 << 20)) / 64;
    assert!(capture.counts().kept < most as u64, "{:?}", capture.counts());
    drop(client);
    ended(&datapath, &path);
}
