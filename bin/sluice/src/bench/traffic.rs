//! The packets of an experiment: the order of their flows.

use std::sync::Arc;

/// How often each flow occurs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Each flow once in random order, repeatedly, as a traffic generator sends them.
    Equal,
    /// Each packet belongs to a random flow; all flows are equally probable.
    Uniform,
    /// Each packet belongs to a random flow; the probabilities follow Zipf's law with this exponent.
    Zipf(f64),
}

impl Distribution {
    pub fn name(self) -> String {
        match self {
            Distribution::Equal => "equal".into(),
            Distribution::Uniform => "uniform".into(),
            Distribution::Zipf(s) => format!("zipf{s}"),
        }
    }
}

/// Number of drawn packets, after which the sequence is repeated.
const DRAWS: usize = 1 << 20;

/// The flow number of each packet; the caller repeats the sequence.
pub fn order(flows: usize, distribution: Distribution) -> Arc<[u32]> {
    let mut random = fastrand::Rng::with_seed(flows as u64);
    match distribution {
        Distribution::Equal => shuffled(flows, &mut random).into(),
        Distribution::Uniform => (0..DRAWS).map(|_| random.u32(..flows as u32)).collect(),
        Distribution::Zipf(s) => {
            let mut sums = Vec::with_capacity(flows);
            let mut sum = 0.0;
            for rank in 1..=flows {
                sum += (rank as f64).powf(-s);
                sums.push(sum);
            }
            // Shuffle the flow numbers, so that flows of neighbouring rank do not have similar addresses.
            let flow_numbers = shuffled(flows, &mut random);
            let draw = || {
                let at = random.f64() * sum;
                flow_numbers[sums.partition_point(|s| *s < at).min(flows - 1)]
            };
            std::iter::repeat_with(draw).take(DRAWS).collect()
        }
    }
}

fn shuffled(n: usize, random: &mut fastrand::Rng) -> Vec<u32> {
    let mut all: Vec<u32> = (0..n as u32).collect();
    for i in (1..n).rev() {
        all.swap(i, random.usize(..=i));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_distribution_is_what_its_name_says() {
        let mut equal = order(1000, Distribution::Equal).to_vec();
        assert!(!equal.is_sorted());
        equal.sort_unstable();
        assert_eq!(equal, (0..1000).collect::<Vec<u32>>());
        let most = |d| {
            let mut counts = vec![0; 1000];
            order(1000, d).iter().for_each(|f| counts[*f as usize] += 1);
            f64::from(counts.into_iter().max().unwrap()) / DRAWS as f64
        };
        assert!(most(Distribution::Uniform) < 0.0015);
        // The most frequent flow of a thousand has the share 1 / (1 + 1/2^1.1 + ...).
        let zipf = most(Distribution::Zipf(1.1));
        assert!((0.15..0.20).contains(&zipf), "{zipf}");
    }
}
