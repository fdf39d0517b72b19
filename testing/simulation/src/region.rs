//! The load of each hypervisor of a region under OVN: tunnels, flows, neighbours, BFD packets.
//!
//! Tenants of different sizes have their guests on hypervisors at random. A tenant has one router, a logical switch for
//! each 50 guests, and a pair of gateways. A hypervisor gets the flows of every switch that its guests can reach through
//! their router, which is how `ovn-controller` works without `ovn-monitor-all`, and a tunnel to every other hypervisor.
//! Flows per switch, port and tunnel are those that OVN 23.03 made on one chassis (`bench/experiments/ovn-scale`).

use crate::load::Random;
use std::collections::BTreeSet;

/// Flows of a chassis without networks; of a logical switch with its router port; of a port that another chassis has;
/// of a tunnel.
const FLOWS: usize = 147;
const FLOWS_OF_SWITCH: usize = 160;
const FLOWS_OF_PORT: usize = 4;
const FLOWS_OF_TUNNEL: usize = 1;
const GUESTS_OF_SWITCH: usize = 50;
/// BFD packets per second on a tunnel to a gateway: one in each direction every 100 ms.
const BFD_PACKETS: usize = 20;
/// Tenants have between 2 and this many guests; most have few.
const TENANT_MAX: f64 = 2000.0;

/// A region.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// Hypervisors, including gateways.
    pub hypervisors: usize,
    /// Guests per hypervisor.
    pub guests: usize,
    /// Hypervisors that serve as gateways.
    pub gateways: usize,
}

/// The load of one hypervisor.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Tunnels to all other hypervisors.
    pub tunnels: usize,
    /// Other hypervisors with guests or gateways of the same tenants: the tunnels that have traffic.
    pub used_tunnels: usize,
    /// Logical ports that its flows know.
    pub ports: usize,
    /// OpenFlow flows.
    pub flows: usize,
    /// BFD packets sent and received, with an interval of 100 ms.
    pub bfd_packets_per_second: usize,
}

struct Tenant {
    hosts: Vec<usize>,
    gateways: [usize; 2],
}

impl Tenant {
    /// The first hypervisors of the region are the gateways.
    fn new(region: Region, rng: &mut Random, left: usize) -> Tenant {
        // Sizes whose logarithm is uniform.
        let guests = (2.0 * (TENANT_MAX / 2.0).powf(rng.uniform())) as usize;
        let guests = guests.clamp(1, left);
        let mut pick = |below: usize| (rng.uniform() * below as f64) as usize % below;
        let gateways = [pick(region.gateways), pick(region.gateways)];
        Tenant { hosts: (0..guests).map(|_| pick(region.hypervisors)).collect(), gateways }
    }

    fn flows(&self) -> usize {
        self.hosts.len().div_ceil(GUESTS_OF_SWITCH) * FLOWS_OF_SWITCH + self.hosts.len() * FLOWS_OF_PORT
    }
}

impl Region {
    fn tenants(self, rng: &mut Random) -> Vec<Tenant> {
        let mut left = self.hypervisors * self.guests;
        let mut all = Vec::new();
        while left > 0 {
            let tenant = Tenant::new(self, rng, left);
            left -= tenant.hosts.len();
            all.push(tenant);
        }
        all
    }

    /// The load of each hypervisor, in order.
    pub fn costs(self, seed: u64) -> Vec<Cost> {
        let tenants = self.tenants(&mut Random(seed));
        let tunnels = self.hypervisors - 1;
        let start = Cost { tunnels, flows: FLOWS + tunnels * FLOWS_OF_TUNNEL, ..Cost::default() };
        let mut costs = vec![start; self.hypervisors];
        // A bit for each hypervisor that a hypervisor exchanges packets with.
        let mut peers = vec![vec![0u64; self.hypervisors.div_ceil(64)]; self.hypervisors];
        let mut watched = vec![BTreeSet::new(); self.hypervisors];
        for tenant in &tenants {
            let gateways: BTreeSet<usize> = tenant.gateways.into();
            let hosts: BTreeSet<usize> =
                tenant.hosts.iter().copied().chain(gateways.iter().copied()).collect();
            let mut together = vec![0u64; self.hypervisors.div_ceil(64)];
            hosts.iter().for_each(|host| together[host / 64] |= 1 << (host % 64));
            for &host in &hosts {
                costs[host].flows += tenant.flows();
                costs[host].ports += tenant.hosts.len();
                peers[host].iter_mut().zip(&together).for_each(|(known, more)| *known |= more);
                // Both ends of a tunnel between a gateway and a hypervisor with guests send.
                for &gateway in gateways.iter().filter(|&&gateway| gateway != host) {
                    watched[host].insert(gateway);
                    watched[gateway].insert(host);
                }
            }
        }
        for ((cost, peers), watched) in costs.iter_mut().zip(peers).zip(watched) {
            let ones: u32 = peers.iter().map(|word| word.count_ones()).sum();
            // Its own bit is set by its first tenant.
            cost.used_tunnels = (ones as usize).saturating_sub(1);
            cost.bfd_packets_per_second = watched.len() * BFD_PACKETS;
        }
        costs
    }
}

/// The middle and the largest value.
fn range(costs: &[Cost], of: impl Fn(&Cost) -> usize) -> String {
    let mut all: Vec<usize> = costs.iter().map(of).collect();
    all.sort_unstable();
    let at = |n: usize| all.get(n).copied().unwrap_or(0);
    format!("{} ({})", at(all.len() / 2), at(all.len().saturating_sub(1)))
}

/// Prints a table of regions: the median hypervisor, and the largest value in brackets.
pub fn print() {
    println!("| hypervisors | which | tunnels | with traffic | ports known | flows | BFD packets/s |");
    println!("|---|---|---|---|---|---|---|");
    for hypervisors in [100, 1000, 3000, 10_000] {
        let region = Region { hypervisors, guests: 20, gateways: (hypervisors / 50).max(2) };
        let costs = region.costs(1);
        for (which, some) in
            [("computes", &costs[region.gateways..]), ("gateways", &costs[..region.gateways])]
        {
            let of = |get: fn(&Cost) -> usize| range(some, get);
            println!(
                "| {hypervisors} | {which} | {} | {} | {} | {} | {} |",
                of(|c| c.tunnels),
                of(|c| c.used_tunnels),
                of(|c| c.ports),
                of(|c| c.flows),
                of(|c| c.bfd_packets_per_second)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGION: Region = Region { hypervisors: 200, guests: 10, gateways: 4 };

    #[test]
    fn a_seed_is_a_region() {
        assert_eq!(REGION.costs(3), REGION.costs(3));
        assert_ne!(REGION.costs(3), REGION.costs(4));
    }

    #[test]
    fn costs_stay_within_the_region() {
        let costs = REGION.costs(1);
        let guests = REGION.hypervisors * REGION.guests;
        for cost in &costs {
            assert!(cost.used_tunnels <= cost.tunnels && cost.ports <= guests, "{cost:?}");
        }
        // A gateway has flows for the tenants of many hypervisors.
        let most = |some: &[Cost]| some.iter().map(|c| c.ports).max();
        assert!(most(&costs[..REGION.gateways]) > most(&costs[REGION.gateways..]));
        let sent: usize = costs.iter().map(|c| c.bfd_packets_per_second).sum();
        assert!(sent > 0 && sent.is_multiple_of(2 * BFD_PACKETS), "each session has two ends");
    }
}
