//! Simulation of shared rx queues: 1,000 ports share 1 to 128 queues of one core, and some ports are flooded.
//!
//! The core serves 16 packets per microsecond. It polls the queues in turn and takes up to 4 packets from each. All floods
//! together send 24 packets per microsecond. Each port has 8 flows. Every 100 ms on average, a port gets a burst of 128
//! packets of one of its flows, at 12 packets per microsecond.

use crate::buffers::Uniform;

const PORTS: u64 = 1000;
const FLOWS: u64 = 8;
/// Number of simulated steps of 1 µs.
const STEPS: u64 = 100_000;
/// Packets are counted in units of 1/1000 packet, so that fractions of a packet can arrive in a step.
const PACKET: u64 = 1000;
/// Packets that the core serves in a step.
const SERVICE: u64 = 16 * PACKET;
/// Packets that the core takes from a queue at once.
const SERVICE_QUANTUM: u64 = 4 * PACKET;
/// Packets that all floods together send in a step.
const FLOOD: u64 = 24 * PACKET;
/// Packets of a burst.
const BURST: u64 = 128 * PACKET;
/// Packets of a burst that arrive in a step.
const BURST_RATE: u64 = 12 * PACKET;
/// Steps between two bursts of a port, on average.
const BURST_EVERY: f64 = 100_000.0;

/// What selects a packet's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// The packet's flow.
    Flow,
    /// The packet's port.
    Port,
}

/// The floods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flood {
    /// No flood.
    No,
    /// This many ports are flooded, each with one flow.
    OneFlow(u64),
    /// One port is flooded with many flows. There are many more flows than queues, so they are spread evenly over the
    /// queues if the flow selects the queue.
    ManyFlows,
}

/// A set of shared queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSet {
    /// Number of queues.
    pub queues: u64,
    /// Number of packets that each queue can hold.
    pub depth: u64,
    /// What selects a packet's queue.
    pub hash: Hash,
}

/// The result: losses of the bursts, and flows that share a queue with a flood.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FloodResult {
    /// Flows whose queue gets packets of a flood, in percent.
    pub shared: f64,
    /// Bursts that lost a packet, in percent.
    pub hit: f64,
    /// Packets of bursts that were lost, in percent.
    pub lost: f64,
}

struct Burst {
    queue: usize,
    left: u64,
    lost: u64,
}

fn mixed(x: u64) -> u64 {
    Uniform(x).bits()
}

impl QueueSet {
    fn queue_of(&self, port: u64, flow: u64) -> usize {
        let key = match self.hash {
            // Interface indexes are consecutive numbers, and the switch does not mix their bits.
            Hash::Port => port,
            Hash::Flow => mixed(port * FLOWS + flow),
        };
        (key % self.queues) as usize
    }

    /// The packets that the floods send to each queue in a step, in units.
    fn floods(&self, flood: Flood) -> Vec<u64> {
        let mut offered = vec![0; self.queues as usize];
        match flood {
            Flood::No => {}
            Flood::OneFlow(n) => {
                // The flooded ports are 331 ports apart, so that neighbouring queues are not flooded.
                (0..n).for_each(|i| offered[self.queue_of(i * 331 % PORTS, 0)] += FLOOD / n);
            }
            Flood::ManyFlows if self.hash == Hash::Port => offered[self.queue_of(0, 0)] = FLOOD,
            Flood::ManyFlows => offered.fill(FLOOD / self.queues),
        }
        offered
    }
}

/// Runs a set under floods for 100 ms of virtual time.
pub fn run(set: QueueSet, flood: Flood, seed: u64) -> FloodResult {
    let floods = set.floods(flood);
    let (mut random, mut next) = (Uniform(seed), 0);
    let mut waiting = vec![0; floods.len()];
    let mut bursts: Vec<Burst> = Vec::new();
    let (mut begun, mut ended, mut hit, mut lost) = (0, 0, 0, 0);
    for _ in 0..STEPS {
        if random.next() < PORTS as f64 / BURST_EVERY {
            let (port, flow) = (random.bits() % PORTS, random.bits() % FLOWS);
            bursts.push(Burst { queue: set.queue_of(port, flow), left: BURST, lost: 0 });
            begun += BURST;
        }
        let mut arriving = floods.clone();
        bursts.iter().for_each(|b| arriving[b.queue] += b.left.min(BURST_RATE));
        // All packets that arrive at a full queue in the same step are lost with the same probability.
        let taken = |queue: usize, waiting: &[u64]| {
            (set.depth * PACKET).saturating_sub(waiting[queue]).min(arriving[queue])
        };
        for b in &mut bursts {
            let part = b.left.min(BURST_RATE);
            b.lost += part - part * taken(b.queue, &waiting) / arriving[b.queue].max(1);
            b.left -= part;
        }
        for queue in 0..waiting.len() {
            waiting[queue] += taken(queue, &waiting);
        }
        for b in bursts.extract_if(.., |b| b.left == 0) {
            (ended, lost) = (ended + 1, lost + b.lost);
            // A loss of less than one packet is only a rounding error.
            hit += u64::from(b.lost >= PACKET);
        }
        serve(&mut waiting, &mut next);
    }
    let flows = (0..PORTS).flat_map(|port| (0..FLOWS).map(move |flow| (port, flow)));
    let shared = flows.filter(|(port, flow)| floods[set.queue_of(*port, *flow)] > 0).count() as u64;
    let percent = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
    FloodResult {
        shared: percent(shared, PORTS * FLOWS),
        hit: percent(hit, ended),
        lost: percent(lost, begun),
    }
}

/// The core serves the queues in turn for one microsecond.
fn serve(waiting: &mut [u64], next: &mut usize) {
    let (mut left, mut idle) = (SERVICE, 0);
    while left > 0 && idle < waiting.len() {
        let taken = waiting[*next].min(SERVICE_QUANTUM).min(left);
        waiting[*next] -= taken;
        left -= taken;
        idle = if taken == 0 { idle + 1 } else { 0 };
        *next = (*next + 1) % waiting.len();
    }
}

/// The rows of the table in bench/experiments/rx-buffers: number and depth of the queues.
pub const SETS: [(u64, u64); 5] = [(1, 16_384), (16, 1024), (64, 256), (128, 128), (128, 64)];

/// Prints the table.
pub fn print() {
    println!(
        "| queues x depth | hash | flood | flows that share a queue with the flood, % | bursts hit % | loss of victims % |"
    );
    println!("|---|---|---|---|---|---|");
    let floods = [
        ("none", Flood::No),
        ("one flow", Flood::OneFlow(1)),
        ("4 ports, a flow each", Flood::OneFlow(4)),
        ("one port, many flows", Flood::ManyFlows),
    ];
    for (name, flood) in floods {
        for (queues, depth) in SETS {
            for hash in [Hash::Flow, Hash::Port] {
                let r = run(QueueSet { queues, depth, hash }, flood, 7);
                println!(
                    "| {queues} x {depth} | {hash:?} | {name} | {:.1} | {:.1} | {:.2} |",
                    r.shared, r.hit, r.lost
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With more queues, fewer flows share a queue with a flood. A flood of many flows reaches every queue that is selected by flow, and
    /// only one of the queues that are selected by port. Many short queues lose bursts that fewer and longer queues with the same
    /// memory can store.
    #[test]
    fn collisions_follow_the_number_of_queues_and_the_hash() {
        let of = |queues, depth, hash, flood| run(QueueSet { queues, depth, hash }, flood, 7);
        let one = of(1, 16_384, Hash::Flow, Flood::OneFlow(1));
        let many = of(128, 128, Hash::Flow, Flood::OneFlow(1));
        assert!(one.shared == 100.0 && one.lost > 20.0, "{one:?}");
        assert!((0.3..1.5).contains(&many.shared) && many.lost < one.lost / 10.0, "{many:?}");
        let scan = Flood::ManyFlows;
        let (by_flow, by_port) = (of(16, 1024, Hash::Flow, scan), of(16, 1024, Hash::Port, scan));
        assert!(by_flow.shared == 100.0 && by_port.shared < 7.0 && by_port.lost < by_flow.lost / 4.0);
        assert_eq!(of(16, 1024, Hash::Port, Flood::No), FloodResult::default());
    }
}
