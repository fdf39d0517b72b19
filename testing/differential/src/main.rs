//! `differential --seed N --cases M [--stock-dir DIR] [--ours PATH] [--loose] [--tunnels] [--keep-going N]`
//! `differential --seeds N,M,… […]`
//!
//! Runs the cases `N..N+M`, or those of the list. For each difference that occurs twice it prints the seed, the minimal flows and packets that
//! show it, and both results. The exit status is 1 if there was one.
//!
//! * `--stock-dir`: a built source tree of the stock switch (default: the installed one).
//! * `--ours`: the daemon to test.
//! * `--loose`: do not compare the text of traces, nor megaflows (for a stock switch of another version).
//! * `--tunnels`: outputs lead into tunnels, and packets arrive in tunnels.
//! * `--keep-going`: number of differences after which the run ends.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use differential::check::{Check, entries};
use differential::expected;
use differential::minimise::{Minimal, minimise};
use differential::packet::Packet;
use differential::pair::{Difference, Pair};
use differential::rng::Rng;
use differential::switch::{Stock, Switch};
use differential::table::Table;
use differential::tunnels::{UNDERLAY, widen, wrapped};
use differential::{labels, select, version10};

struct Options {
    /// The first case of a range.
    seed: u64,
    cases: u64,
    /// The cases to run.
    seeds: Vec<u64>,
    stock: Stock,
    ours: PathBuf,
    loose: bool,
    tunnels: bool,
    enough: usize,
}

fn options() -> Result<Options, String> {
    let mut o = Options {
        seed: 1,
        cases: 10,
        seeds: Vec::new(),
        stock: Stock { tree: None },
        ours: "target/compat/ovs-vswitchd".into(),
        loose: false,
        tunnels: false,
        enough: 5,
    };
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        if name == "--loose" {
            o.loose = true;
            continue;
        }
        if name == "--tunnels" {
            o.tunnels = true;
            continue;
        }
        let value = args.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{name} {value}: not a number"));
        match &*name {
            "--seed" => o.seed = number()?,
            "--cases" => o.cases = number()?,
            "--seeds" => o.seeds = seeds(&value)?,
            "--keep-going" => o.enough = number()? as usize,
            "--stock-dir" => o.stock.tree = Some(value.into()),
            "--ours" => o.ours = value.into(),
            _ => return Err(format!("what is {name}?")),
        }
    }
    // Each switch runs in a directory of its own.
    o.ours = std::path::absolute(&o.ours).map_err(|e| e.to_string())?;
    if o.seeds.is_empty() {
        o.seeds = (o.seed..o.seed.saturating_add(o.cases)).collect();
    }
    Ok(o)
}

/// The numbers of a list.
fn seeds(list: &str) -> Result<Vec<u64>, String> {
    list.split(',').map(|n| n.parse().map_err(|_| format!("--seeds: {n} is not a number"))).collect()
}

fn main() -> ExitCode {
    match options().and_then(|o| run(&o).map_err(|e| e.to_string())) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("differential: {e}");
            ExitCode::from(2)
        }
    }
}

/// Result of a run.
#[derive(Default)]
struct Tally {
    done: u64,
    /// Unexpected differences and unexpected ends of a switch.
    found: usize,
    /// Differences that a second try did not reproduce.
    once: usize,
    /// Cases that ended the stock switch as expected.
    ended: usize,
    /// Cases that kept the stock switch busy for longer than the time limit of a reply.
    busy: usize,
    /// Results that differed as expected, by the name of the expected difference: how many, and the first case.
    expected: BTreeMap<&'static str, (usize, u64)>,
}

impl Tally {
    /// Adds the expected differences of a case, and resets those of the pair.
    fn add(&mut self, pair: &mut Pair, seed: u64) {
        for (name, count) in std::mem::take(&mut pair.expected) {
            self.expected.entry(name).or_insert((0, seed)).0 += count;
        }
    }
}

fn start(o: &Options) -> io::Result<Pair> {
    Ok(Pair {
        stock: Switch::start("stock", &o.stock, None, o.tunnels)?,
        ours: Switch::start("ours", &o.stock, Some(&o.ours), o.tunnels)?,
        tunnels: o.tunnels,
        loose: o.loose,
        expected: BTreeMap::new(),
    })
}

fn run(o: &Options) -> io::Result<bool> {
    let mut pair = start(o)?;
    let mut tally = Tally::default();
    for &seed in &o.seeds {
        let (mut table, packets) = random(seed, o.tunnels);
        let outcome = pair.case(&mut table, &packets).and_then(|first| match first {
            Some((_, first)) => again(&mut pair, (seed, o.tunnels), &first, &mut tally),
            None => Ok(()),
        });
        tally.done += 1;
        tally.add(&mut pair, seed);
        match ended(&mut pair, outcome.is_err()) {
            Some((name, log)) => {
                match expected::end(&log).filter(|_| name == "stock") {
                    Some(why) => {
                        println!("case {seed} {}", why.replace("ends:", "ends the stock switch:"));
                        tally.ended += 1;
                        tally.expected.entry(why).or_insert((0, seed)).0 += 1;
                    }
                    None => {
                        println!("==== case {seed}: the {name} switch ended ====\n{}\n{log}", table.bundle());
                        tally.found += 1;
                    }
                }
                pair = start(o)?;
            }
            None if pair.stock.is_silent() => {
                println!("case {seed} keeps the stock switch busy: {:?}", outcome.err());
                tally.busy += 1;
                pair = start(o)?;
            }
            None => outcome?,
        }
        if tally.found >= o.enough {
            break;
        }
    }
    println!(
        "{} cases from seed {}: {} with a difference; {} differed in the first of two runs only, {} ended the stock switch, {} kept it busy",
        tally.done,
        o.seeds.first().unwrap_or(&o.seed),
        tally.found,
        tally.once,
        tally.ended,
        tally.busy
    );
    for (name, (count, seed)) in &tally.expected {
        println!("expected difference: {name}: {count} (first: {seed})");
    }
    Ok(tally.found == 0)
}

/// The table and the packets of a case.
fn random(seed: u64, tunnels: bool) -> (Table, Vec<Packet>) {
    let mut rng = Rng::new(seed);
    let size = rng.between(15, 60);
    let mut table = Table::random(&mut rng, size);
    if tunnels {
        widen(&mut rng, &mut table);
    }
    // With random numbers of their own, so that the rest of a case does not depend on them.
    let mut more = Rng::new(!seed);
    if more.chance(35) {
        version10::add(&mut more, &mut table);
    }
    // The trace of a packet in a tunnel does not say whether the inner packet is hashed.
    if more.chance(30) && !tunnels {
        select::add(&mut more, &mut table);
    }
    let has_labels = more.chance(25);
    if has_labels {
        labels::add(&mut more, &mut table);
    }
    let mut packets: Vec<Packet> = (0..10).map(|_| Packet::random(&mut rng, entries())).collect();
    for n in 0..8 {
        packets.push(packets[n].changed(&mut rng, entries()));
    }
    if has_labels {
        packets[9] = labels::packet(&mut more, entries());
    }
    if tunnels {
        for packet in &mut packets {
            if !rng.chance(40) {
                continue;
            }
            *packet = Packet { port: UNDERLAY, bytes: wrapped(&mut rng, &packet.bytes) };
        }
    }
    (table, packets)
}

/// Repeats a case with a difference: differences that depend on timing on a busy machine are not reproduced.
fn again(
    pair: &mut Pair,
    (seed, tunnels): (u64, bool),
    first: &Difference,
    tally: &mut Tally,
) -> io::Result<()> {
    let (mut table, packets) = random(seed, tunnels);
    match pair.case(&mut table, &packets)? {
        Some((check, difference)) => {
            tally.found += 1;
            let whole =
                Minimal { table: table.clone(), check: check.clone(), difference: difference.clone() };
            let least = minimise(pair, table, check, difference);
            print(seed, least.as_ref().unwrap_or(&whole));
            least?;
        }
        None => {
            tally.once += 1;
            println!("case {seed}: not shown by a second run: {}", first.what);
            print_lines(first);
        }
    }
    Ok(())
}

/// Which of the two switches has ended, and its log.
fn ended(pair: &mut Pair, silence: bool) -> Option<(&'static str, String)> {
    [&mut pair.stock, &mut pair.ours].into_iter().find_map(|s| Some((s.name, s.ended(silence)?)))
}

fn print(seed: u64, least: &Minimal) {
    println!("==== case {seed}: {} ====", least.difference.what);
    for line in least.table.groups.iter().chain(&least.table.flows).chain(&least.table.version10) {
        println!("{line}");
    }
    match &least.check {
        Check::Load => {}
        Check::AsTraced(packet) => println!("send p{} {} to ours alone", packet.port, packet.hex()),
        Check::SameBucket(packet) => println!("send p{} {} twice", packet.port, packet.hex()),
        Check::Trace(packet) => println!("trace p{} {}", packet.port, packet.hex()),
        Check::Forward(packets) => packets.iter().for_each(|p| println!("send p{} {}", p.port, p.hex())),
    }
    print_lines(&least.difference);
}

/// Prints the lines that are in only one of the results; of texts whose order matters, those between the first and the last
/// difference.
fn print_lines(difference: &Difference) {
    let (mut stock, mut ours): (Vec<&str>, Vec<&str>) =
        (difference.stock.lines().collect(), difference.ours.lines().collect());
    if difference.what == "trace text" {
        let alike = |(a, b): (&&str, &&str)| a == b;
        let before = stock.iter().zip(&ours).take_while(|pair| alike(*pair)).count();
        (stock, ours) = (stock.split_off(before), ours.split_off(before));
        let after = stock.iter().rev().zip(ours.iter().rev()).take_while(|pair| alike(*pair)).count();
        stock.truncate(stock.len() - after);
        ours.truncate(ours.len() - after);
        println!("- {}\n+ {}", stock.join("\n- "), ours.join("\n+ "));
        return;
    }
    stock.iter().filter(|l| !ours.contains(l)).for_each(|l| println!("- {l}"));
    ours.iter().filter(|l| !stock.contains(l)).for_each(|l| println!("+ {l}"));
    if stock.iter().all(|l| ours.contains(l)) && ours.iter().all(|l| stock.contains(l)) {
        println!("- {}\n+ {}", stock.join("\n- "), ours.join("\n+ "));
    }
}
