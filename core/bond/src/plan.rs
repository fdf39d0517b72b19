//! Balances loads among links with few moves and a result near the optimum.
//!
//! Repeatedly, the most loaded link gives one bucket to another link or exchanges two buckets with it,
//! whichever minimises the larger load of the two; this ends when it does not help any more. If the result is
//! far from the optimum, buckets are also assigned from scratch in two ways, largest first, and improved in
//! the same way (Graham 1969: even without improvement at most a third above the optimum).

/// A bucket: its load, and its link.
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
    /// Buckets and the links that get them.
    pub(crate) moves: Vec<(usize, usize)>,
    /// A bucket with more than a link's fair share, which cannot be divided.
    pub(crate) elephant: Option<usize>,
}

/// Returns the buckets to move so that `links` links have about the same load. A difference of `least` bytes
/// or less between the links with the most and the least load is ignored.
pub(crate) fn plan(loads: &[Load], links: usize, least: u64) -> Plan {
    let total: u64 = loads.iter().map(|l| l.bytes).sum();
    let mean = total / links.max(1) as u64;
    let largest = (0..loads.len()).max_by_key(|i| loads[*i].bytes);
    let elephant =
        largest.filter(|i| links > 1 && loads[*i].bytes > mean + mean / 10 && loads[*i].bytes > least);
    let bound = mean.max(largest.map_or(0, |i| loads[i].bytes));
    let mut shared = Shared::new(loads.to_vec(), links);
    let (low, high) = shared.extent();
    if links < 2 || high - low <= least || high - low < low / 32 {
        return Plan { moves: Vec::new(), elephant };
    }
    shared.improve(bound);
    if shared.extent().1 > bound + bound / 20 {
        let starts = [Shared::largest_first(loads, links), Shared::packed(loads, links, bound)];
        let improved = starts.into_iter().flatten().map(|mut start| {
            start.improve(bound);
            start
        });
        let scratch =
            improved.min_by_key(|s| s.extent().1).unwrap_or_else(|| Shared::new(loads.to_vec(), links));
        // All buckets would move, which must bring a clear improvement.
        if scratch.extent().1 + bound / 50 < shared.extent().1 {
            shared = scratch;
        }
    }
    let moved = loads.iter().zip(&shared.loads).enumerate().filter(|(_, (old, new))| old.link != new.link);
    Plan { moves: moved.map(|(bucket, (_, new))| (bucket, new.link)).collect(), elephant }
}

/// An assignment of buckets, and the load of each link.
struct Shared {
    loads: Vec<Load>,
    sums: Vec<u64>,
}

/// Indices, the largest load first.
fn descending(loads: &[Load]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..loads.len()).collect();
    order.sort_by_key(|i| std::cmp::Reverse(loads[*i].bytes));
    order
}

/// Moves a bucket to a link, and optionally one of that link back.
struct Exchange {
    there: usize,
    back: Option<usize>,
    to: usize,
    /// The larger load of the two links afterwards.
    high: u64,
}

impl Shared {
    fn new(loads: Vec<Load>, links: usize) -> Shared {
        let mut sums = vec![0; links];
        loads.iter().for_each(|l| sums[l.link] += l.bytes);
        Shared { loads, sums }
    }

    /// Assigns each bucket, the largest first, to the link that `choose` returns for the loads of the links so far and the load of
    /// the bucket. `None` if there is no link for a bucket.
    fn assigned(
        loads: &[Load],
        links: usize,
        choose: impl Fn(&[u64], u64) -> Option<usize>,
    ) -> Option<Shared> {
        let (mut loads, mut sums) = (loads.to_vec(), vec![0; links]);
        for i in descending(&loads) {
            let link = choose(&sums, loads[i].bytes)?;
            loads[i].link = link;
            sums[link] += loads[i].bytes;
        }
        Some(Shared { loads, sums })
    }

    /// Assigns each bucket to the link with the least load so far.
    fn largest_first(loads: &[Load], links: usize) -> Option<Shared> {
        Shared::assigned(loads, links, |sums, _| (0..links).min_by_key(|l| sums[*l]))
    }

    /// Fills links one after the other up to a limit, with the lowest limit found that suffices (MULTIFIT,
    /// Coffman, Garey and Johnson 1978).
    fn packed(loads: &[Load], links: usize, bound: u64) -> Option<Shared> {
        let (mut low, mut high, mut best) = (bound, bound + bound / 2, None);
        for _ in 0..8 {
            let limit = low.midpoint(high);
            match Shared::within(loads, links, limit) {
                Some(shared) => (best, high) = (Some(shared), limit),
                None => low = limit,
            }
        }
        best
    }

    /// Assigns each bucket to the first link where it fits.
    fn within(loads: &[Load], links: usize, limit: u64) -> Option<Shared> {
        Shared::assigned(loads, links, |sums, bytes| sums.iter().position(|sum| sum + bytes <= limit))
    }

    /// The least and the largest load of a link.
    fn extent(&self) -> (u64, u64) {
        let (low, high) = (self.sums.iter().min(), self.sums.iter().max());
        (low.copied().unwrap_or_default(), high.copied().unwrap_or_default())
    }

    /// Exchanges buckets while that brings the largest load closer to the optimum.
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

    /// The exchange between two links that balances them best; `None` if none improves by at least a
    /// five-hundredth.
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
            // Ideally the returned bucket makes the difference half of what it was; the nearest one is
            // chosen.
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
