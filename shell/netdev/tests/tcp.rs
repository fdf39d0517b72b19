//! TCP between two namespaces, through ports without changed offload settings: large segments with partial checksums.

mod common;

use common::{Cleanup, can_make_devices, ip, open, unique};
use packet::frame::FramePool;
use packet::queue::{RxQueue, TxQueue};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ROLE: &str = "NETDEV_TEST_TCP_ROLE";
const BYTES: usize = 50 << 20;
const ADDRESS: &str = "NETDEV_TEST_TCP_ADDRESS";

fn pattern(from: usize, buffer: &mut [u8]) {
    for (i, b) in buffer.iter_mut().enumerate() {
        *b = ((from + i) % 251) as u8;
    }
}

fn server() -> SocketAddr {
    std::env::var(ADDRESS).unwrap().parse().unwrap()
}

fn serve() {
    let listener = TcpListener::bind(server()).unwrap();
    println!("listening");
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let (mut buffer, mut expected, mut got) = (vec![0; 1 << 16], vec![0; 1 << 16], 0);
    loop {
        let n = stream.read(&mut buffer).unwrap();
        pattern(got, &mut expected[..n]);
        assert_eq!(buffer[..n], expected[..n]);
        got += n;
        if n == 0 {
            break;
        }
    }
    assert_eq!(got, BYTES);
    stream.write_all(b"done").unwrap();
}

fn send() {
    let mut stream = TcpStream::connect_timeout(&server(), Duration::from_secs(5)).unwrap();
    let mut buffer = vec![0; 1 << 16];
    for i in 0..BYTES / buffer.len() {
        pattern(i * buffer.len(), &mut buffer);
        stream.write_all(&buffer).unwrap();
    }
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "done");
}

/// Client and server: this test binary again, in a namespace.
#[test]
fn end_of_the_connection() {
    match std::env::var(ROLE).as_deref() {
        Ok("server") => serve(),
        Ok("client") => send(),
        _ => {}
    }
}

fn start(namespace: &str, role: &str, address: &str) -> Child {
    Command::new("ip")
        .args(["netns", "exec", namespace])
        .arg(std::env::current_exe().unwrap())
        .args(["end_of_the_connection", "--exact", "--nocapture"])
        .env(ROLE, role)
        .env(ADDRESS, address)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn forward(rx: &mut dyn RxQueue, tx: &mut dyn TxQueue, pool: &mut FramePool) -> (usize, usize) {
    let mut batch = Vec::new();
    rx.rx(pool, &mut batch, 32);
    let longest = batch.iter().map(|f| f.len()).max().unwrap_or(0);
    let n = batch.len();
    tx.tx(&mut batch);
    batch.into_iter().for_each(|f| pool.free(f));
    (n, longest)
}

#[test]
fn tcp_crosses_in_large_pieces_and_whole() {
    if !can_make_devices() {
        return;
    }
    let longest = tcp_crosses("system", "s", 77);
    assert!(longest > 10_000, "TCP came in wire-sized pieces: {longest}");
}

/// The namespaces leave checksums to their devices, but AF_XDP does not report that.
#[test]
fn tcp_crosses_af_xdp_without_help() {
    if !can_make_devices() {
        return;
    }
    let longest = tcp_crosses("afxdp", "x", 78);
    assert!(longest <= 1514, "longer than the MTU: {longest}");
}

/// Transfers the data between two ports of this type. Returns the length of the longest frame.
fn tcp_crosses(kind: &str, tag: &str, net: u8) -> usize {
    let mut cleanup = Vec::new();
    let mut ports = Vec::new();
    for (i, side) in ["a", "b"].into_iter().enumerate() {
        let side = format!("{tag}{side}");
        let (ns, port, end) = (unique(&side), unique(&format!("{side}p")), unique(&format!("{side}e")));
        ip(&format!("netns add {ns}"));
        cleanup.push(Cleanup(format!("netns del {ns}")));
        ip(&format!("link add {port} type veth peer name {end} netns {ns}"));
        cleanup.push(Cleanup(format!("link del {port}")));
        ip(&format!("link set {port} up"));
        ip(&format!("-n {ns} addr add 10.{net}.0.{}/24 dev {end}", i + 1));
        ip(&format!("-n {ns} link set {end} up"));
        ports.push(open(&port, kind));
    }
    let [a, b] = ports.as_mut_slice() else { unreachable!("two sides") };
    let (mut tx_a, mut tx_b) = (a.tx_queue(), b.tx_queue());
    let mut rx_a = a.take_rx_queues().pop().unwrap();
    let mut rx_b = b.take_rx_queues().pop().unwrap();
    let address = format!("10.{net}.0.2:7777");
    let mut server = start(&unique(&format!("{tag}b")), "server", &address);
    std::thread::sleep(Duration::from_millis(300));
    let mut client = start(&unique(&format!("{tag}a")), "client", &address);
    let mut pool = FramePool::new(256);
    let mut longest = 0;
    let end = Instant::now() + Duration::from_secs(20);
    let status = loop {
        let (n, l) = forward(&mut *rx_a.queue, &mut *tx_b, &mut pool);
        let (m, _) = forward(&mut *rx_b.queue, &mut *tx_a, &mut pool);
        longest = longest.max(l);
        if n + m == 0 {
            if let Some(status) = client.try_wait().unwrap() {
                break Some(status);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        if Instant::now() > end {
            break None;
        }
    };
    let _ = client.kill();
    let _ = server.kill();
    let _ = (client.wait(), server.wait());
    assert!(status.is_some_and(|s| s.success()), "the client failed, or it took too long");
    longest
}
