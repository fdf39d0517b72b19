//! Balances loads among links with few moves and a result near the optimum.
//!
//! In each step the most loaded link gives one bucket to another link, and may take one bucket of that link in return. The chosen step
//! minimises the larger load of the two links. The steps end when none improves the result. If the result is far from the optimum, buckets are also
//! assigned from scratch in two ways, both of which begin with the largest bucket, and improved in the same way (Graham 1969: even without
//! improvement the result is at most a third above the optimum).

/// The load of a bucket, and its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// Bytes.
    pub(crate) bytes: u64,
    /// Index of the link.
    pub(crate) link: usize,
}

/// The changes to make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The buckets to move, each with its new link.
    pub(crate) moves: Vec<(usize, usize)>,
    /// A bucket with more than a link's fair share, which cannot be divided.
    pub(crate) elephant: Option<usize>,
}

/// Returns the buckets to move so that `links` links have about the same load. If the loads of the most and the least loaded link differ by at most
/// `least` bytes or by less than 1/32 of the lower load, no bucket is moved.
pub(crate) fn plan(loads: &[Load], links: usize, least: u64) -> Plan {
    let total: u64 = loads.iter().map(|l| l.bytes).sum();
    let mean = total / links.max(1) as u64;
    let largest = (0..loads.len()).max_by_key(|i| loads[*i].bytes);
    let elephant =
        largest.filter(|i| links > 1 && loads[*i].bytes > mean + mean / 10 && loads[*i].bytes > least);
    let bound = mean.max(largest.map_or(0, |i| loads[i].bytes));
    let mut shared = Assignment::new(loads.to_vec(), links);
    let (low, high) = shared.load_range();
    if links < 2 || high - low <= least || high - low < low / 32 {
        return Plan { moves: Vec::new(), elephant };
    }
    shared.improve(bound);
    if shared.load_range().1 > bound + bound / 20 {
        let candidates = [Assignment::largest_first(loads, links), Assignment::multifit(loads, links, bound)];
        let improved = candidates.into_iter().flatten().map(|mut start| {
            start.improve(bound);
            start
        });
        let scratch = improved
            .min_by_key(|s| s.load_range().1)
            .unwrap_or_else(|| Assignment::new(loads.to_vec(), links));
        // Most buckets would move, so the improvement must be clear: at least 2 % of the optimum.
        if scratch.load_range().1 + bound / 50 < shared.load_range().1 {
            shared = scratch;
        }
    }
    let moved = loads.iter().zip(&shared.loads).enumerate().filter(|(_, (old, new))| old.link != new.link);
    Plan { moves: moved.map(|(bucket, (_, new))| (bucket, new.link)).collect(), elephant }
}

/// An assignment of buckets, and the load of each link.
struct Assignment {
    loads: Vec<Load>,
    sums: Vec<u64>,
}

/// The indices of the loads, the largest load first.
fn descending(loads: &[Load]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..loads.len()).collect();
    order.sort_by_key(|i| std::cmp::Reverse(loads[*i].bytes));
    order
}

/// Moves a bucket to another link, and optionally a bucket of that link back.
struct Exchange {
    there: usize,
    back: Option<usize>,
    to: usize,
    /// The larger load of the two links afterwards.
    high: u64,
}

impl Assignment {
    fn new(loads: Vec<Load>, links: usize) -> Assignment {
        let mut sums = vec![0; links];
        loads.iter().for_each(|l| sums[l.link] += l.bytes);
        Assignment { loads, sums }
    }

    /// Assigns each bucket, the largest first, to the link that `choose` returns. Arguments of `choose`: the loads of the links so far, and the load
    /// of the bucket. `None` if no link accepts a bucket.
    fn assign_each(
        loads: &[Load],
        links: usize,
        choose: impl Fn(&[u64], u64) -> Option<usize>,
    ) -> Option<Assignment> {
        let (mut loads, mut sums) = (loads.to_vec(), vec![0; links]);
        for i in descending(&loads) {
            let link = choose(&sums, loads[i].bytes)?;
            loads[i].link = link;
            sums[link] += loads[i].bytes;
        }
        Some(Assignment { loads, sums })
    }

    /// Assigns each bucket to the link with the least load so far.
    fn largest_first(loads: &[Load], links: usize) -> Option<Assignment> {
        Assignment::assign_each(loads, links, |sums, _| (0..links).min_by_key(|l| sums[*l]))
    }

    /// Fills the links one after the other up to a limit. The lowest sufficient limit is found by bisection (MULTIFIT, Coffman, Garey and Johnson
    /// 1978).
    fn multifit(loads: &[Load], links: usize, bound: u64) -> Option<Assignment> {
        let (mut low, mut high, mut best) = (bound, bound + bound / 2, None);
        for _ in 0..8 {
            let limit = low.midpoint(high);
            match Assignment::first_fit(loads, links, limit) {
                Some(shared) => (best, high) = (Some(shared), limit),
                None => low = limit,
            }
        }
        best
    }

    /// Assigns each bucket to the first link where it fits.
    fn first_fit(loads: &[Load], links: usize, limit: u64) -> Option<Assignment> {
        Assignment::assign_each(loads, links, |sums, bytes| sums.iter().position(|sum| sum + bytes <= limit))
    }

    /// The smallest and the largest load of a link.
    fn load_range(&self) -> (u64, u64) {
        let (low, high) = (self.sums.iter().min(), self.sums.iter().max());
        (low.copied().unwrap_or_default(), high.copied().unwrap_or_default())
    }

    /// Exchanges buckets as long as this reduces the largest load, until that load is within 2 % of the lower bound `bound`.
    fn improve(&mut self, bound: u64) {
        for _ in 0..2 * self.loads.len() {
            let from = (0..self.sums.len()).max_by_key(|l| self.sums[*l]).unwrap_or_default();
            if self.sums[from] <= bound + bound / 50 {
                return;
            }
            let others = (0..self.sums.len()).filter(|to| *to != from);
            let Some(best) = others.filter_map(|to| self.best_exchange(from, to)).min_by_key(|e| e.high)
            else {
                return;
            };
            self.exchange(from, &best);
        }
    }

    fn exchange(&mut self, from: usize, e: &Exchange) {
        let (there, back) = (self.loads[e.there].bytes, e.back.map_or(0, |i| self.loads[i].bytes));
        self.loads[e.there].link = e.to;
        if let Some(i) = e.back {
            self.loads[i].link = from;
        }
        self.sums[from] = self.sums[from] + back - there;
        self.sums[e.to] = self.sums[e.to] + there - back;
    }

    /// The exchange that balances two links best. `None` if no exchange reduces the larger load by more than 0.2 %.
    fn best_exchange(&self, from: usize, to: usize) -> Option<Exchange> {
        let (high, low) = (self.sums[from], self.sums[to]);
        let half = high.checked_sub(low)? / 2;
        let of = |link: usize| (0..self.loads.len()).filter(move |i| self.loads[*i].link == link);
        let mut theirs: Vec<(u64, Option<usize>)> = of(to).map(|i| (self.loads[i].bytes, Some(i))).collect();
        theirs.push((0, None));
        theirs.sort_unstable();
        let mut best: Option<Exchange> = None;
        for there in of(from) {
            let bytes = self.loads[there].bytes;
            // The ideal exchange moves half of the difference of the loads. Only the two buckets to return that come nearest are tried.
            let at = theirs.partition_point(|(back, _)| *back < bytes.saturating_sub(half));
            for (back, i) in theirs[at.saturating_sub(1)..].iter().take(2).filter(|(back, _)| *back < bytes) {
                let new = (high - (bytes - back)).max(low + (bytes - back));
                if new + high / 500 < high && best.as_ref().is_none_or(|b| new < b.high) {
                    best = Some(Exchange { there, back: *i, to, high: new });
                }
            }
        }
        best
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
