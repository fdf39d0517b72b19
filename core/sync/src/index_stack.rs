//! A lock-free stack of small numbers: the free buffers of a pool that several workers use.
//!
//! The numbers are indices below a fixed length; each is in the stack at most once. `head` contains the topmost number and a tag that every
//! change increments. So the compare-and-exchange of a pop fails, and the pop is repeated, if the stack has changed while the pop
//! read the links: a number that was popped and pushed again in between is the same, but the tag differs.

use crate::atomic::{AtomicU32, AtomicU64, Ordering, zeros};

/// The link that marks the end of the stack. Other links are a number plus one.
const END: u32 = 0;

/// The stack. All methods may be called from any thread.
#[derive(Debug)]
pub struct IndexStack {
    /// Tag in the upper half, link to the topmost number in the lower half.
    head: AtomicU64,
    /// For each number, the link to the number below it.
    below: Box<[AtomicU32]>,
}

fn tagged(old: u64, link: u32) -> u64 {
    ((old >> 32).wrapping_add(1) << 32) | u64::from(link)
}

impl IndexStack {
    /// An empty stack of numbers below `len`. `None`: out of memory.
    pub fn new(len: u32) -> Option<IndexStack> {
        Some(IndexStack { head: AtomicU64::new(0), below: zeros(len as usize)? })
    }

    /// Pushes these numbers. None of them may be in the stack; numbers out of range are ignored.
    pub fn push(&self, numbers: &[u32]) {
        let len = self.below.len();
        let mut valid = numbers.iter().copied().filter(|n| (*n as usize) < len);
        let Some(first) = valid.next() else { return };
        let mut last = first;
        for n in valid {
            self.below[last as usize].store(n + 1, Ordering::Relaxed);
            last = n;
        }
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            self.below[last as usize].store(head as u32, Ordering::Relaxed);
            let new = tagged(head, first + 1);
            // Release: a thread that pops these numbers sees what was written to their buffers before this push.
            match self.head.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Pops up to `out.len()` numbers; returns how many.
    pub fn pop(&self, out: &mut [u32]) -> usize {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let (mut link, mut n) = (head as u32, 0);
            while link != END && n < out.len() {
                out[n] = link - 1;
                n += 1;
                // If another thread changes the links meanwhile, the tag changes and the compare-and-exchange below fails.
                link = self.below[link as usize - 1].load(Ordering::Relaxed);
            }
            if n == 0 {
                return 0;
            }
            let new = tagged(head, link);
            match self.head.compare_exchange_weak(head, new, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return n,
                Err(now) => head = now,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_once() {
        let stack = IndexStack::new(8).unwrap();
        let mut out = [0; 8];
        assert_eq!(stack.pop(&mut out), 0);
        stack.push(&[3, 1, 8, 5]);
        stack.push(&[7]);
        assert_eq!((stack.pop(&mut out[..2]), out[0], out[1]), (2, 7, 3));
        assert_eq!((stack.pop(&mut out), out[0], out[1]), (2, 1, 5));
        assert_eq!(stack.pop(&mut out), 0);
    }

    #[test]
    fn threads_share_it() {
        let stack = IndexStack::new(64).unwrap();
        stack.push(&(0..64).collect::<Vec<_>>());
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut out = [0; 7];
                    for _ in 0..20_000 {
                        let n = stack.pop(&mut out);
                        stack.push(&out[..n]);
                    }
                });
            }
        });
        let mut out = [0; 64];
        assert_eq!(stack.pop(&mut out), 64);
        out.sort_unstable();
        assert!(out.iter().copied().eq(0..64));
    }
}
