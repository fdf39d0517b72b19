//! An attempt to create a pool that is larger than the free memory leaves memory to other users, also during the attempt.
//!
//! This is a program without a test harness, because the environment is initialized only once per process, and because it starts
//! the program again to try its start. If the environment cannot be started, the test prints the reason and passes.

use dpdk::eal::{self, EalOptions};
use dpdk::mempool::{Mempool, MempoolRequest};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use units::NumaId;

/// Bytes of memory that the rings of a guest with many queues need.
const PIECE: usize = 1 << 20;

fn main() -> ExitCode {
    let argv: Vec<String> = std::env::args().collect();
    if let Some(code) = dpdk::trial_start::run_if_child(&argv) {
        return code;
    }
    let words = "--no-huge -m 512 --no-shconf --no-pci --no-telemetry";
    let options = EalOptions {
        program: "dpdk-test".to_owned(),
        config: BTreeMap::from([("dpdk-extra".to_owned(), words.to_owned())]),
        rundir: std::env::temp_dir(),
        sink: |_, level, line| eprintln!("{level:?}: {line}"),
    };
    if let Err(why) = eal::init(&options) {
        println!("skipped: DPDK does not start here: {why}");
        return ExitCode::SUCCESS;
    }
    a_large_pool_leaves_memory_to_others();
    println!("test result: ok");
    ExitCode::SUCCESS
}

fn a_large_pool_leaves_memory_to_others() {
    let made = AtomicBool::new(false);
    let others = || {
        let mut tries = 0u64;
        while !made.load(Ordering::Acquire) {
            // SAFETY: the environment is initialized.
            let there = unsafe { dpdk_sys::sluice_heap_has(PIECE, 0) };
            assert!(there, "after {tries} tries there was no memory");
            tries += 1;
        }
        tries
    };
    thread::scope(|scope| {
        let others = scope.spawn(others);
        // The pool needs more than four times the memory. Its size is halved until it fits: an eighth of its packets.
        let pool = Mempool::request(&request(9000));
        made.store(true, Ordering::Release);
        assert!(others.join().is_ok_and(|tries| tries > 0));
        assert_eq!(pool.unwrap().available(), 262_144 / 8);
    });
}

fn request(mtu: u32) -> MempoolRequest {
    let port = "p0".to_owned();
    MempoolRequest { port, mtu, numa: NumaId(0), n_rxq: 1, n_rxq_desc: 2048, n_txq: 1, n_txq_desc: 2048 }
}
