//! Generates the demand of queues, second by second, from a seed.
//!
//! The mean demands of the queues are log-normally distributed, as in real deployments: few queues have most of the
//! traffic. The total demand is three quarters of the capacity of all cores. The demand of each queue varies about its
//! mean (first-order autoregressive process). In `drifting`, the mean also follows a sine with a period of ten minutes and
//! a phase that differs between queues. In `onoff`, each queue alternates between a high and a low demand, which last 45 s
//! each on average.

/// Period of `drifting`, in seconds.
const PERIOD: f64 = 600.0;
/// Mean duration of each state of `onoff`, in seconds.
const STATE_DURATION: f64 = 45.0;
/// Total mean demand of all queues, as a share of the capacity of all cores.
const TOTAL_DEMAND: f64 = 0.75;

/// How the mean demands change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// They are constant.
    Stable,
    /// They vary slowly.
    Drifting,
    /// They switch on and off.
    OnOff,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 3] = [Kind::Stable, Kind::Drifting, Kind::OnOff];

    /// The name in the output.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Stable => "stable",
            Kind::Drifting => "drifting",
            Kind::OnOff => "onoff",
        }
    }
}

/// Random number generator: SplitMix64. Not from a library, so that a seed always gives the published figures.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let a = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        b ^ (b >> 31)
    }

    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal distribution (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// The state of one queue's demand.
#[derive(Clone, Debug)]
struct Source {
    /// Mean demand, in cores.
    mean: f64,
    /// Logarithm of the factor by which the demand differs from its mean.
    log_deviation: f64,
    /// Phase of `drifting`, in periods.
    phase: f64,
    /// State of `onoff`.
    on: bool,
}

/// The demand of all queues.
#[derive(Clone, Debug)]
pub struct Load {
    kind: Kind,
    random: Random,
    sources: Vec<Source>,
    second: u64,
}

impl Load {
    /// Creates a load for this number of queues and cores.
    pub fn new(kind: Kind, queues: usize, cores: usize, seed: u64) -> Load {
        let mut random = Random(seed);
        let weights: Vec<f64> = (0..queues).map(|_| (1.2 * random.normal()).exp()).collect();
        let scale = TOTAL_DEMAND * cores as f64 / weights.iter().sum::<f64>();
        let source = |(i, weight): (usize, f64)| Source {
            // No single queue needs more than a core: such a queue would make every policy fail.
            mean: (weight * scale).min(0.9),
            log_deviation: 0.0,
            phase: i as f64 * 0.37,
            on: true,
        };
        Load { kind, random, sources: weights.into_iter().enumerate().map(source).collect(), second: 0 }
    }

    /// The demand of each queue in the next second, in cores.
    pub fn next_second(&mut self) -> Vec<f64> {
        let (kind, random, t) = (self.kind, &mut self.random, self.second as f64);
        self.second += 1;
        let demand = |s: &mut Source| {
            s.log_deviation = 0.98 * s.log_deviation + 0.04 * random.normal();
            let factor = match kind {
                Kind::Stable => 1.0,
                Kind::Drifting => 1.0 + 0.8 * (std::f64::consts::TAU * (t / PERIOD + s.phase)).sin(),
                Kind::OnOff => {
                    s.on ^= random.uniform() < 1.0 / STATE_DURATION;
                    if s.on { 1.7 } else { 0.15 }
                }
            };
            (s.mean * s.log_deviation.exp() * factor).min(1.0)
        };
        self.sources.iter_mut().map(demand).collect()
    }
}
