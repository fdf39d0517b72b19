//! Runs every stored input, and seeded mutations of each, through its target.

use fuzz::mutate::mutate;
use fuzz::{TARGETS, Target, corpus};
use std::panic;

/// Number of mutations for all inputs of a target.
const MUTATIONS: usize = 600;
/// Longer inputs are not mutated, because they would take most of the time.
const MUTATED_MAX: usize = 4096;

/// When the target fails, prints the input in hexadecimal, so that it can be stored with `xxd -r -p`.
fn run(target: &Target, name: &str, input: &[u8]) {
    if panic::catch_unwind(|| (target.run)(input)).is_err() {
        let hex: String = input.iter().map(|b| format!("{b:02x}")).collect();
        panic!("target {} fails on {name}:\n{hex}\n{}", target.name, String::from_utf8_lossy(input));
    }
}

fn replay(target: &Target) {
    let inputs = corpus::inputs(target).unwrap_or_else(|e| panic!("corpus of {}: {e}", target.name));
    assert!(!inputs.is_empty(), "{} has no inputs", target.name);
    for (name, input) in &inputs {
        run(target, name, input);
    }
    let short: Vec<_> = inputs.iter().filter(|(_, input)| input.len() <= MUTATED_MAX).collect();
    for n in 0..MUTATIONS {
        let mut random = fastrand::Rng::with_seed(n as u64 + 1);
        let (name, input) = short[n % short.len()];
        let other = &short[random.usize(..short.len())].1;
        run(target, &format!("mutation {n} of {name}"), &mutate(input, other, &mut random));
    }
}

#[test]
fn no_target_fails() {
    std::thread::scope(|scope| {
        let running: Vec<_> = TARGETS.iter().map(|t| (t.name, scope.spawn(|| replay(t)))).collect();
        let failed: Vec<_> =
            running.into_iter().filter_map(|(name, t)| t.join().is_err().then_some(name)).collect();
        assert!(failed.is_empty(), "failed: {failed:?}");
    });
}

#[test]
fn every_folder_is_a_target() {
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/corpus")).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        assert!(fuzz::find(&name).is_some(), "corpus/{name} is of no target");
    }
}
