//! `differential --seed N --cases M [--stock-dir DIR] [--ours PATH] [--loose] [--tunnels] [--keep-going N]`
//! `differential --seeds N,M,… […]`
//!
//! Runs the cases `N..N+M`, or those of the list. For each difference that a second run reproduces, it prints the seed, the
//! smallest set of flows and packets that still shows it, and both results. The exit status is 1 if there was a difference.
//!
//! * `--stock-dir`: a built source tree of the stock switch (default: the installed one).
//! * `--ours`: the daemon to test.
//! * `--loose`: do not compare the text of traces and the megaflows, for a stock switch of another version.
//! * `--tunnels`: some packets are sent to tunnels, and some arrive in tunnels.
//! * `--keep-going`: number of differences after which the run ends.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use differential::check::{Check, ingress_ports};
use differential::expected;
use differential::minimise::{Minimal, minimise};
use differential::packet::Packet;
use differential::pair::{Difference, Pair};
use differential::rng::Rng;
use differential::switch::{Stock, Switch};
use differential::table::Table;
use differential::tunnels::{UNDERLAY, encapsulated, use_tunnels};
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
    max_found: usize,
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
        max_found: 5,
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
            "--keep-going" => o.max_found = number()? as usize,
            "--stock-dir" => o.stock.tree = Some(value.into()),
            "--ours" => o.ours = value.into(),
            _ => return Err(format!("what is {name}?")),
        }
    }
    // The path must be absolute, because each switch runs in another directory.
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

/// The counts of a run.
#[derive(Default)]
struct Counts {
    done: u64,
    /// Number of unexpected differences, and of unexpected aborts of a switch.
    found: usize,
    /// Number of differences that a second run did not reproduce.
    not_reproduced: usize,
    /// Number of cases in which the stock switch aborted as expected.
    ended: usize,
    /// Number of cases in which the stock switch did not reply within the time limit.
    busy: usize,
    /// For each expected difference, by its name: how often it occurred, and the first case.
    expected: BTreeMap<&'static str, (usize, u64)>,
}

impl Counts {
    /// Adds the expected differences of a case, and resets the counts of the pair.
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
        is_other_version: o.loose,
        expected: BTreeMap::new(),
    })
}

fn run(o: &Options) -> io::Result<bool> {
    let mut pair = start(o)?;
    let mut counts = Counts::default();
    for &seed in &o.seeds {
        let (mut table, packets) = random_case(seed, o.tunnels);
        let outcome = pair.case(&mut table, &packets).and_then(|first| match first {
            Some((_, first)) => repeat_case(&mut pair, (seed, o.tunnels), &first, &mut counts),
            None => Ok(()),
        });
        counts.done += 1;
        counts.add(&mut pair, seed);
        match ended(&mut pair, outcome.is_err()) {
            Some((name, log)) => {
                match expected::abort_cause(&log).filter(|_| name == "stock") {
                    Some(why) => {
                        println!("case {seed} {}", why.replace("ends:", "ends the stock switch:"));
                        counts.ended += 1;
                        counts.expected.entry(why).or_insert((0, seed)).0 += 1;
                    }
                    None => {
                        println!("==== case {seed}: the {name} switch ended ====\n{}\n{log}", table.bundle());
                        counts.found += 1;
                    }
                }
                pair = start(o)?;
            }
            None if pair.stock.has_timed_out() => {
                println!("case {seed} keeps the stock switch busy: {:?}", outcome.err());
                counts.busy += 1;
                pair = start(o)?;
            }
            None => outcome?,
        }
        if counts.found >= o.max_found {
            break;
        }
    }
    println!(
        "{} cases from seed {}: {} with a difference; {} differed in the first of two runs only, {} ended the stock switch, {} kept it busy",
        counts.done,
        o.seeds.first().unwrap_or(&o.seed),
        counts.found,
        counts.not_reproduced,
        counts.ended,
        counts.busy
    );
    for (name, (count, seed)) in &counts.expected {
        println!("expected difference: {name}: {count} (first: {seed})");
    }
    Ok(counts.found == 0)
}

/// The table and the packets of a case.
fn random_case(seed: u64, tunnels: bool) -> (Table, Vec<Packet>) {
    let mut rng = Rng::new(seed);
    let size = rng.between(15, 60);
    let mut table = Table::random(&mut rng, size);
    if tunnels {
        use_tunnels(&mut rng, &mut table);
    }
    // These parts use other random numbers, so that the rest of the case does not depend on them.
    let mut more = Rng::new(!seed);
    if more.chance(35) {
        version10::add(&mut more, &mut table);
    }
    // The trace of a packet in a tunnel does not show whether the inner packet is hashed.
    if more.chance(30) && !tunnels {
        select::add(&mut more, &mut table);
    }
    let has_labels = more.chance(25);
    if has_labels {
        labels::add(&mut more, &mut table);
    }
    let mut packets: Vec<Packet> = (0..10).map(|_| Packet::random(&mut rng, ingress_ports())).collect();
    for n in 0..8 {
        packets.push(packets[n].changed(&mut rng, ingress_ports()));
    }
    if has_labels {
        packets[9] = labels::packet(&mut more, ingress_ports());
    }
    if tunnels {
        for packet in &mut packets {
            if !rng.chance(40) {
                continue;
            }
            *packet = Packet { port: UNDERLAY, bytes: encapsulated(&mut rng, &packet.bytes) };
        }
    }
    (table, packets)
}

/// Repeats a case that showed a difference, because some differences result only from delays on a busy machine.
fn repeat_case(
    pair: &mut Pair,
    (seed, tunnels): (u64, bool),
    first: &Difference,
    counts: &mut Counts,
) -> io::Result<()> {
    let (mut table, packets) = random_case(seed, tunnels);
    match pair.case(&mut table, &packets)? {
        Some((check, difference)) => {
            counts.found += 1;
            let original =
                Minimal { table: table.clone(), check: check.clone(), difference: difference.clone() };
            let smallest = minimise(pair, table, check, difference);
            print(seed, smallest.as_ref().unwrap_or(&original));
            smallest?;
        }
        None => {
            counts.not_reproduced += 1;
            println!("case {seed}: not shown by a second run: {}", first.what);
            print_lines(first);
        }
    }
    Ok(())
}

/// Returns the name and the log of the switch that has ended, if one has.
fn ended(pair: &mut Pair, is_reply_missing: bool) -> Option<(&'static str, String)> {
    [&mut pair.stock, &mut pair.ours].into_iter().find_map(|s| Some((s.name, s.ended(is_reply_missing)?)))
}

fn print(seed: u64, smallest: &Minimal) {
    println!("==== case {seed}: {} ====", smallest.difference.what);
    for line in
        smallest.table.groups.iter().chain(&smallest.table.flows).chain(&smallest.table.openflow10_flows)
    {
        println!("{line}");
    }
    match &smallest.check {
        Check::Load => {}
        Check::AsTraced(packet) => println!("send p{} {} to ours alone", packet.port, packet.hex()),
        Check::SameBucket(packet) => println!("send p{} {} twice", packet.port, packet.hex()),
        Check::Trace(packet) => println!("trace p{} {}", packet.port, packet.hex()),
        Check::Forward(packets) => packets.iter().for_each(|p| println!("send p{} {}", p.port, p.hex())),
    }
    print_lines(&smallest.difference);
}

/// Prints the lines that are in only one of the results. If the order of the lines matters, it prints all lines from the first
/// to the last difference.
fn print_lines(difference: &Difference) {
    let (mut stock, mut ours): (Vec<&str>, Vec<&str>) =
        (difference.stock.lines().collect(), difference.ours.lines().collect());
    if difference.what == "trace text" {
        let are_equal = |(a, b): (&&str, &&str)| a == b;
        let before = stock.iter().zip(&ours).take_while(|pair| are_equal(*pair)).count();
        (stock, ours) = (stock.split_off(before), ours.split_off(before));
        let after = stock.iter().rev().zip(ours.iter().rev()).take_while(|pair| are_equal(*pair)).count();
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
