//! Estimates the load of each hypervisor in an OVN deployment ("region"): tunnels, logical ports, flows, BFD packets.
//!
//! The guests of each tenant are placed on random hypervisors. A tenant has one router, a logical switch for each 50
//! guests, and a pair of gateways. A hypervisor has a tunnel to every other hypervisor. It has the flows of every logical
//! switch that its guests can reach through their router: `ovn-controller` works like that without `ovn-monitor-all`.
//! Flows per switch, port and tunnel are those that OVN 23.03 made on one hypervisor (`bench/experiments/ovn-scale`).

use crate::load::Random;
use std::collections::BTreeSet;

/// Flows of a hypervisor without logical switches.
const BASE_FLOWS: usize = 147;
/// Flows of a logical switch, including its router port.
const FLOWS_PER_SWITCH: usize = 160;
/// Flows of a logical port on another hypervisor.
const FLOWS_PER_PORT: usize = 4;
/// Flows of a tunnel.
const FLOWS_PER_TUNNEL: usize = 1;
/// Guests of a logical switch.
const GUESTS_PER_SWITCH: usize = 50;
/// BFD packets per second on a tunnel to a gateway: one in each direction every 100 ms.
const BFD_PACKETS: usize = 20;
/// Tenants have between 2 and this many guests; most have few.
const TENANT_MAX: f64 = 2000.0;

/// The size of a simulated OVN deployment.
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
pub struct HypervisorLoad {
    /// Tunnels to all other hypervisors.
    pub tunnels: usize,
    /// Other hypervisors with guests or gateways of the same tenants: the tunnels that have traffic.
    pub used_tunnels: usize,
    /// Logical ports for which it has flows.
    pub ports: usize,
    /// OpenFlow flows.
    pub flows: usize,
    /// BFD packets sent and received, with an interval of 100 ms.
    pub bfd_packets_per_second: usize,
}

struct Tenant {
    /// The hypervisor of each guest.
    hypervisors: Vec<usize>,
    gateways: [usize; 2],
}

impl Tenant {
    /// Creates a tenant with at most `left` guests. The first hypervisors of the region are the gateways.
    fn new(region: Region, rng: &mut Random, left: usize) -> Tenant {
        // Tenant sizes are log-uniformly distributed.
        let guests = (2.0 * (TENANT_MAX / 2.0).powf(rng.uniform())) as usize;
        let guests = guests.clamp(1, left);
        let mut pick = |below: usize| (rng.uniform() * below as f64) as usize % below;
        let gateways = [pick(region.gateways), pick(region.gateways)];
        Tenant { hypervisors: (0..guests).map(|_| pick(region.hypervisors)).collect(), gateways }
    }

    fn flows(&self) -> usize {
        let guests = self.hypervisors.len();
        guests.div_ceil(GUESTS_PER_SWITCH) * FLOWS_PER_SWITCH + guests * FLOWS_PER_PORT
    }
}

impl Region {
    fn tenants(self, rng: &mut Random) -> Vec<Tenant> {
        let mut left = self.hypervisors * self.guests;
        let mut all = Vec::new();
        while left > 0 {
            let tenant = Tenant::new(self, rng, left);
            left -= tenant.hypervisors.len();
            all.push(tenant);
        }
        all
    }

    /// The load of each hypervisor, in order.
    pub fn loads(self, seed: u64) -> Vec<HypervisorLoad> {
        let tenants = self.tenants(&mut Random(seed));
        let tunnels = self.hypervisors - 1;
        let start = HypervisorLoad {
            tunnels,
            flows: BASE_FLOWS + tunnels * FLOWS_PER_TUNNEL,
            ..HypervisorLoad::default()
        };
        let mut loads = vec![start; self.hypervisors];
        // For each hypervisor, a bit for each hypervisor with which it exchanges packets.
        let mut peers = vec![vec![0u64; self.hypervisors.div_ceil(64)]; self.hypervisors];
        let mut bfd_peers = vec![BTreeSet::new(); self.hypervisors];
        for tenant in &tenants {
            let gateways: BTreeSet<usize> = tenant.gateways.into();
            let hypervisors: BTreeSet<usize> =
                tenant.hypervisors.iter().copied().chain(gateways.iter().copied()).collect();
            let mut tenant_hypervisors = vec![0u64; self.hypervisors.div_ceil(64)];
            hypervisors
                .iter()
                .for_each(|hypervisor| tenant_hypervisors[hypervisor / 64] |= 1 << (hypervisor % 64));
            for &hypervisor in &hypervisors {
                loads[hypervisor].flows += tenant.flows();
                loads[hypervisor].ports += tenant.hypervisors.len();
                peers[hypervisor]
                    .iter_mut()
                    .zip(&tenant_hypervisors)
                    .for_each(|(known, more)| *known |= more);
                // Both endpoints of a tunnel between a gateway and another hypervisor send BFD packets.
                for &gateway in gateways.iter().filter(|&&gateway| gateway != hypervisor) {
                    bfd_peers[hypervisor].insert(gateway);
                    bfd_peers[gateway].insert(hypervisor);
                }
            }
        }
        for ((load, peers), bfd_peers) in loads.iter_mut().zip(peers).zip(bfd_peers) {
            let ones: u32 = peers.iter().map(|word| word.count_ones()).sum();
            // A hypervisor with tenants has its own bit set, too; it is not counted.
            load.used_tunnels = (ones as usize).saturating_sub(1);
            load.bfd_packets_per_second = bfd_peers.len() * BFD_PACKETS;
        }
        loads
    }
}

/// Formats the median and the maximum.
fn median_and_max(loads: &[HypervisorLoad], of: impl Fn(&HypervisorLoad) -> usize) -> String {
    let mut all: Vec<usize> = loads.iter().map(of).collect();
    all.sort_unstable();
    let at = |n: usize| all.get(n).copied().unwrap_or(0);
    format!("{} ({})", at(all.len() / 2), at(all.len().saturating_sub(1)))
}

/// Prints a table of regions: the median over the hypervisors, and the maximum in brackets.
pub fn print() {
    println!("| hypervisors | role | tunnels | with traffic | ports known | flows | BFD packets/s |");
    println!("|---|---|---|---|---|---|---|");
    for hypervisors in [100, 1000, 3000, 10_000] {
        let region = Region { hypervisors, guests: 20, gateways: (hypervisors / 50).max(2) };
        let loads = region.loads(1);
        for (role, some) in [("computes", &loads[region.gateways..]), ("gateways", &loads[..region.gateways])]
        {
            let of = |get: fn(&HypervisorLoad) -> usize| median_and_max(some, get);
            println!(
                "| {hypervisors} | {role} | {} | {} | {} | {} | {} |",
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
    fn equal_seeds_give_equal_loads() {
        assert_eq!(REGION.loads(3), REGION.loads(3));
        assert_ne!(REGION.loads(3), REGION.loads(4));
    }

    #[test]
    fn loads_stay_within_the_region() {
        let loads = REGION.loads(1);
        let guests = REGION.hypervisors * REGION.guests;
        for load in &loads {
            assert!(load.used_tunnels <= load.tunnels && load.ports <= guests, "{load:?}");
        }
        // A gateway has flows for the tenants of many hypervisors.
        let most = |some: &[HypervisorLoad]| some.iter().map(|c| c.ports).max();
        assert!(most(&loads[..REGION.gateways]) > most(&loads[REGION.gateways..]));
        let sent: usize = loads.iter().map(|c| c.bfd_packets_per_second).sum();
        assert!(sent > 0 && sent.is_multiple_of(2 * BFD_PACKETS), "each session has two ends");
    }
}
