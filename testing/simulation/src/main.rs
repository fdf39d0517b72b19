//! Prints the results of policies under loads as CSV: `simulation [--hours N] [--seeds N] [--cores N,N]`.

use simulation::load::Kind;
use simulation::policy::Policy;
use std::process::ExitCode;

/// Rx queues for each core.
const QUEUES: usize = 8;

struct Asked {
    hours: usize,
    seeds: u64,
    cores: Vec<usize>,
}

fn parse(args: &[String]) -> Option<Asked> {
    let mut asked = Asked { hours: 1, seeds: 3, cores: vec![8, 16, 32, 64] };
    let mut rest = args;
    while let [option, value, after @ ..] = rest {
        match option.as_str() {
            "--hours" => asked.hours = value.parse().ok()?,
            "--seeds" => asked.seeds = value.parse().ok()?,
            "--cores" => asked.cores = value.split(',').map(|n| n.parse().ok()).collect::<Option<_>>()?,
            _ => return None,
        }
        rest = after;
    }
    (rest.is_empty() && asked.cores.iter().all(|n| (1..=256).contains(n))).then_some(asked)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(asked) = parse(&args) else {
        eprintln!("usage: simulation [--hours N] [--seeds N] [--cores N,N]");
        return ExitCode::FAILURE;
    };
    println!("load,policy,cores,queues,hours,seed,mean,p99,lost_percent,moves_per_hour");
    for kind in Kind::ALL {
        for cores in &asked.cores {
            for policy in Policy::ALL {
                for seed in 0..asked.seeds {
                    let size = (cores * QUEUES, *cores);
                    let out = simulation::run(policy, kind, size, asked.hours * 3600, 11 + seed);
                    println!(
                        "{},{},{cores},{},{},{seed},{:.4},{:.3},{:.4},{:.1}",
                        kind.name(),
                        policy.name(),
                        size.0,
                        asked.hours,
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
