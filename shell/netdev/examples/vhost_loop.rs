//! Forwards packets between two guests' ports without a datapath, to measure the cost of the vhost path alone.
//!
//! `vhost_loop <socket> <socket> [seconds]` connects to two sockets (for example of testpmd's virtio-user devices with
//! `server=1`) and prints, each second, the packets per second of the thread's CPU time. The environment variable `DPDK_EXTRA`
//! contains DPDK's options, `VHOST_BACKEND` the back-end (`own` or `dpdk`).

use dpdk::eal::{self, EalOptions};
use netdev::device::Netdev;
use netdev::open::Netdevs;
use packet::frame::FramePool;
use packet::queue::{RX_BURST, RxQueue, TxQueue};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let Some(code) = dpdk::trial_start::run_if_child(&args) {
        return code;
    }
    let [_, a, b, rest @ ..] = args.as_slice() else {
        panic!("usage: vhost_loop <socket> <socket> [seconds]")
    };
    let seconds: u64 = rest.first().and_then(|s| s.parse().ok()).unwrap_or(10);
    let extra =
        std::env::var("DPDK_EXTRA").unwrap_or_else(|_| "--no-pci --in-memory --no-telemetry".to_owned());
    let backend = std::env::var("VHOST_BACKEND").unwrap_or_else(|_| "dpdk".to_owned());
    let config = [("dpdk-extra", extra), ("dpdk-lcore-mask", "1".to_owned()), ("vhost-backend", backend)];
    let config = config.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let options = EalOptions {
        program: "vhost_loop".to_owned(),
        config,
        rundir: std::env::temp_dir(),
        sink: |_, level, text| {
            if level <= dpdk::log::Level::Warning {
                eprintln!("{text}");
            }
        },
    };
    eal::init(&options).expect("DPDK");
    let _registered = dpdk::thread::Registration::new();
    let mut netdevs = Netdevs::default();
    let mut open = |name: &str, path: &String| {
        let options = BTreeMap::from([("vhost-server-path".to_owned(), path.clone())]);
        let (port, refused) = netdevs.open(name, "dpdkvhostuserclient", &options).expect("port");
        assert!(refused.is_none(), "{refused:?}");
        port
    };
    let mut ports = [open("v0", a), open("v1", b)];
    let mut pool = FramePool::new(256);
    let mut batch = Vec::new();
    let mut paths = paths(&mut ports);
    for _ in 0..seconds {
        let (start, cpu) = (Instant::now(), cpu_time());
        let mut n = 0u64;
        while start.elapsed() < Duration::from_secs(1) {
            for _ in 0..1000 {
                for (rx, tx) in &mut paths {
                    rx.rx(&mut pool, &mut batch, RX_BURST);
                    if !batch.is_empty() {
                        n += u64::from(tx.tx(&mut batch).sent);
                        batch.drain(..).for_each(|f| pool.free(f));
                        pool.flush();
                    }
                }
            }
        }
        let used = (cpu_time() - cpu).as_secs_f64();
        println!(
            "{:.3} Mpps per CPU second, {:.2} CPU",
            n as f64 / used / 1e6,
            used / start.elapsed().as_secs_f64()
        );
        if ports.iter().any(|p| p.needs_restart()) {
            paths.clear();
            ports.iter_mut().for_each(|p| p.restart().expect("restart"));
            paths = crate::paths(&mut ports);
        }
    }
    drop(paths);
    for port in &mut ports {
        println!("{:?} {:?}", port.facts().unwrap().status, port.stats().unwrap().pairs());
    }
    ExitCode::SUCCESS
}

type Path = (Box<dyn RxQueue>, Box<dyn TxQueue>);

/// Each rx queue of both ports, with a tx queue of the other port.
fn paths(ports: &mut [Box<dyn Netdev>; 2]) -> Vec<Path> {
    let [a, b] = ports;
    let mut paths: Vec<Path> = Vec::new();
    paths.extend(a.take_rx_queues().into_iter().map(|q| (q.queue, b.tx_queue())));
    paths.extend(b.take_rx_queues().into_iter().map(|q| (q.queue, a.tx_queue())));
    paths
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0))
}
