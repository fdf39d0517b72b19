//! Translations that the rings of a guest with an IOMMU need, and that the front-end has not sent yet.
//!
//! Workers add the pages that they miss, and the serving thread sends one message for each. A ring waits until its pages are translated.
//! Both lists are bounded, so a guest whose addresses are never translated uses a bounded amount of memory.

use crate::address_space::Miss;
use crate::iotlb::{Access, IovaRange};
use std::collections::VecDeque;

/// Maximum number of pages that wait to be sent. A ring whose page does not fit into the list offers it again at its next burst.
const UNSENT_MAX: usize = 64;
/// Maximum number of requested pages that are remembered. When there are more, the oldest one is forgotten: it may be requested again.
const SENT_MAX: usize = 128;

/// A missing page, and the number of the ring that misses it.
#[derive(Clone, Copy, Debug)]
struct PageRequest {
    miss: Miss,
    ring: usize,
}

/// The missing translations of one guest.
#[derive(Debug, Default)]
pub(crate) struct MissingPages {
    unsent: VecDeque<PageRequest>,
    sent: VecDeque<PageRequest>,
}

impl MissingPages {
    /// Adds a page that a ring misses, unless it was requested already. Returns false if the list is full.
    pub fn request_translation(&mut self, ring: usize, miss: Miss) -> bool {
        let is_requested = |PageRequest { miss: other, .. }: &PageRequest| {
            other.page == miss.page && other.access.includes(miss.access)
        };
        if self.sent.iter().any(is_requested) {
            return true;
        }
        // Different accesses to one page are requested together: some front-ends grant only what was requested.
        if let Some(PageRequest { miss: other, .. }) =
            self.unsent.iter_mut().find(|other| other.miss.page == miss.page)
        {
            other.access = other.access.with(miss.access);
            return true;
        }
        let has_room = self.unsent.len() < UNSENT_MAX;
        if has_room {
            self.unsent.push_back(PageRequest { miss, ring });
        }
        has_room
    }

    /// The next page to request.
    pub fn next(&mut self) -> Option<Miss> {
        let mut next = self.unsent.pop_front()?;
        // If the page was requested for another access before, request both: a grant of only this access would replace the earlier grant.
        let before = self.sent.iter().filter(|other| other.miss.page == next.miss.page);
        next.miss.access = before.fold(next.miss.access, |access, other| access.with(other.miss.access));
        if self.sent.len() == SENT_MAX {
            self.sent.pop_front();
        }
        self.sent.push_back(next);
        Some(next.miss)
    }

    /// Removes the requests that a translation of this range answers. `Err`: the number of a ring that requested an access that is not
    /// granted. Front-ends answer the requests for a page in the order in which they were sent, so only the oldest request for each page is checked.
    pub fn answered(&mut self, range: IovaRange, granted: Access) -> Result<(), usize> {
        let (mut pages, mut denied) = (Vec::new(), Ok(()));
        self.sent.retain(|PageRequest { miss, ring }| {
            if !range.contains(miss.page) {
                return true;
            }
            let is_granted = granted.includes(miss.access);
            if !is_granted && !pages.contains(&miss.page) {
                denied = Err(*ring);
            }
            pages.push(miss.page);
            !is_granted
        });
        self.unsent
            .retain(|PageRequest { miss, .. }| !(range.contains(miss.page) && granted.includes(miss.access)));
        denied
    }

    /// Removes the pages of a range that the front-end invalidated. The front-end may be unable to answer the earlier requests before the
    /// guest maps other memory there, so these pages must be requested again.
    pub fn forget(&mut self, range: IovaRange) {
        self.unsent.retain(|wanted| !range.contains(wanted.miss.page));
        self.sent.retain(|wanted| !range.contains(wanted.miss.page));
    }

    /// Forgets all pages.
    pub fn clear(&mut self) {
        self.unsent.clear();
        self.sent.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn miss(page: u64, access: Access) -> Miss {
        Miss { page: page << 12, access }
    }

    fn page(n: u64) -> IovaRange {
        IovaRange::new(n << 12, 4096).unwrap()
    }

    #[test]
    fn each_page_is_requested_once_until_it_is_answered() {
        let mut missing = MissingPages::default();
        assert!(
            missing.request_translation(0, miss(1, Access::READ))
                && missing.request_translation(0, miss(2, Access::READ))
        );
        assert!(
            missing.request_translation(1, miss(1, Access::READ))
                && missing.request_translation(1, miss(1, Access::WRITE))
        );
        assert_eq!(missing.next(), Some(miss(1, Access::BOTH)));
        assert!(missing.request_translation(0, miss(1, Access::WRITE)));
        assert_eq!((missing.next(), missing.next()), (Some(miss(2, Access::READ)), None));
        assert_eq!(
            (missing.answered(page(1), Access::BOTH), missing.answered(page(3), Access::READ)),
            (Ok(()), Ok(()))
        );
        assert!(missing.request_translation(0, miss(2, Access::READ)) && missing.next().is_none());
        assert!(missing.request_translation(0, miss(1, Access::READ)));
        assert_eq!(missing.next(), Some(miss(1, Access::READ)));
        missing.forget(page(1));
        assert!(
            missing.request_translation(0, miss(2, Access::READ))
                && missing.request_translation(0, miss(1, Access::READ))
        );
        assert_eq!((missing.next(), missing.next()), (Some(miss(1, Access::READ)), None));
        missing.clear();
        assert!(missing.request_translation(0, miss(2, Access::READ)) && missing.next().is_some());
    }

    #[test]
    fn an_access_that_is_not_granted_is_noticed() {
        let mut missing = MissingPages::default();
        missing.request_translation(3, miss(1, Access::READ));
        missing.next();
        // The answer to the first request comes after the second was sent.
        missing.request_translation(2, miss(1, Access::WRITE));
        assert_eq!(missing.next(), Some(miss(1, Access::BOTH)));
        assert_eq!(missing.answered(page(1), Access::READ), Ok(()));
        assert_eq!(missing.answered(page(1), Access::READ), Err(2));
    }

    #[test]
    fn pages_that_are_never_answered_take_bounded_memory() {
        let mut missing = MissingPages::default();
        let wanted = |missing: &mut MissingPages, from| {
            (from..from + 1000).filter(|n| missing.request_translation(0, miss(*n, Access::READ))).count()
        };
        for from in 0..10 {
            assert_eq!(wanted(&mut missing, from * 1000), UNSENT_MAX);
            assert_eq!(std::iter::from_fn(|| missing.next()).count(), UNSENT_MAX);
            assert!(missing.sent.len() <= SENT_MAX);
        }
    }
}
