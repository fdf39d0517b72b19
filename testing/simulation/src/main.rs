//! Command line of the simulations.
//!
//! `simulation [--hours N] [--seeds N] [--cores N,N]` prints the results of the scheduling policies as CSV.
//! `simulation buffers` prints the table of receive buffers, `simulation queues` the table of shared rx queues, and
//! `simulation region` the table of hypervisors in OVN deployments.

use simulation::load::Kind;
use simulation::policy::Policy;
use std::process::ExitCode;

/// Number of rx queues per core.
const QUEUES: usize = 8;

struct Options {
    hours: usize,
    seeds: u64,
    cores: Vec<usize>,
}

fn parse(args: &[String]) -> Option<Options> {
    let mut options = Options { hours: 1, seeds: 3, cores: vec![8, 16, 32, 64] };
    let mut rest = args;
    while let [option, value, after @ ..] = rest {
        match option.as_str() {
            "--hours" => options.hours = value.parse().ok()?,
            "--seeds" => options.seeds = value.parse().ok()?,
            "--cores" => options.cores = value.split(',').map(|n| n.parse().ok()).collect::<Option<_>>()?,
            _ => return None,
        }
        rest = after;
    }
    (rest.is_empty() && options.cores.iter().all(|n| (1..=256).contains(n))).then_some(options)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let table: Option<fn()> = match args.first().map(String::as_str) {
        Some("buffers") if args.len() == 1 => Some(simulation::buffers::print),
        Some("queues") if args.len() == 1 => Some(simulation::shared_queues::print),
        Some("region") if args.len() == 1 => Some(simulation::region::print),
        _ => None,
    };
    if let Some(print) = table {
        print();
        return ExitCode::SUCCESS;
    }
    let Some(options) = parse(&args) else {
        eprintln!(
            "usage: simulation buffers | queues | region | simulation [--hours N] [--seeds N] [--cores N,N]"
        );
        return ExitCode::FAILURE;
    };
    println!("load,policy,cores,queues,hours,seed,mean,p99,lost_percent,moves_per_hour");
    for kind in Kind::ALL {
        for cores in &options.cores {
            for policy in Policy::ALL {
                for seed in 0..options.seeds {
                    let size = (cores * QUEUES, *cores);
                    let out = simulation::run(policy, kind, size, options.hours * 3600, 11 + seed);
                    println!(
                        "{},{},{cores},{},{},{seed},{:.4},{:.3},{:.4},{:.1}",
                        kind.name(),
                        policy.name(),
                        size.0,
                        options.hours,
                        out.mean,
                        out.p99,
                        out.lost,
                        out.moves
                    );
                }
            }
        }
    }
    ExitCode::SUCCESS
}
