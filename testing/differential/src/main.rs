//! `differential --seed N --cases M [--stock-dir DIR] [--ours PATH] [--loose] [--keep-going N]`
//!
//! Runs cases `N..N+M`. For each difference it prints the seed, the least flows and packets that show it and both answers; ends
//! with 1 when there was one. `--stock-dir` is a built source tree of the stock switch (without: the installed one), `--ours` the
//! daemon to test, `--loose` leaves the words of traces and megaflows out (for an oracle of another version), `--keep-going` is how many
//! differences are enough.

use std::path::PathBuf;
use std::process::ExitCode;

use differential::check::{Check, Pair, entries};
use differential::minimise::{Minimal, minimise};
use differential::packet::Packet;
use differential::rng::Rng;
use differential::switch::{Stock, Switch};
use differential::table::Table;

struct Options {
    seed: u64,
    cases: u64,
    stock: Stock,
    ours: PathBuf,
    loose: bool,
    enough: usize,
}

fn options() -> Result<Options, String> {
    let mut o = Options {
        seed: 1,
        cases: 10,
        stock: Stock { tree: None },
        ours: "target/compat/ovs-vswitchd".into(),
        loose: false,
        enough: 5,
    };
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        if name == "--loose" {
            o.loose = true;
            continue;
        }
        let value = args.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{name} {value}: not a number"));
        match &*name {
            "--seed" => o.seed = number()?,
            "--cases" => o.cases = number()?,
            "--keep-going" => o.enough = number()? as usize,
            "--stock-dir" => o.stock.tree = Some(value.into()),
            "--ours" => o.ours = std::path::absolute(&value).map_err(|e| e.to_string())?,
            _ => return Err(format!("what is {name}?")),
        }
    }
    Ok(o)
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

fn run(o: &Options) -> std::io::Result<bool> {
    let mut pair = Pair {
        stock: Switch::start("stock", &o.stock, None)?,
        ours: Switch::start("ours", &o.stock, Some(&o.ours))?,
        loose: o.loose,
    };
    let mut found = 0;
    let mut done = 0;
    for seed in o.seed..o.seed + o.cases {
        let mut rng = Rng::new(seed);
        let size = rng.between(15, 60);
        let mut table = Table::random(&mut rng, size);
        let mut packets: Vec<Packet> = (0..10).map(|_| Packet::random(&mut rng, entries())).collect();
        for n in 0..8 {
            packets.push(packets[n].changed(&mut rng, entries()));
        }
        let outcome = pair.case(&mut table, &packets);
        done += 1;
        for switch in [&mut pair.stock, &mut pair.ours] {
            if !switch.alive() {
                let log = switch.log();
                println!("case {seed}: the {} switch ended\n{}\n{log}", switch.name, table.bundle());
                return Ok(false);
            }
        }
        if let Some((check, difference)) = outcome? {
            found += 1;
            print(seed, &minimise(&mut pair, table, check, difference)?);
            if found >= o.enough {
                break;
            }
        }
    }
    println!("{done} cases from seed {}: {found} with a difference", o.seed);
    Ok(found == 0)
}

fn print(seed: u64, least: &Minimal) {
    println!("==== case {seed}: {} ====", least.difference.what);
    for line in least.table.groups.iter().chain(&least.table.flows) {
        println!("{line}");
    }
    match &least.check {
        Check::Load => {}
        Check::Trace(packet) => println!("trace p{} {}", packet.port, packet.hex()),
        Check::Forward(packets) => packets.iter().for_each(|p| println!("send p{} {}", p.port, p.hex())),
    }
    let (stock, ours): (Vec<&str>, Vec<&str>) =
        (least.difference.stock.lines().collect(), least.difference.ours.lines().collect());
    stock.iter().filter(|l| !ours.contains(l)).for_each(|l| println!("- {l}"));
    ours.iter().filter(|l| !stock.contains(l)).for_each(|l| println!("+ {l}"));
    if stock.iter().all(|l| ours.contains(l)) && ours.iter().all(|l| stock.contains(l)) {
        println!("- {}\n+ {}", stock.join("\n- "), ours.join("\n+ "));
    }
}
