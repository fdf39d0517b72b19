//! Port role transitions machine (§17.29).

use super::bridge::{Bridge, HELLO_TIME, MIGRATE_TIME};
use super::port::{Is, Port, PortRole, Transition};

/// Moves of the machine that concern other ports, too.
enum Tree {
    Sync,
    ReRoot,
}

impl Bridge {
    /// Port role transitions machine.
    pub(super) fn role_transitions(&mut self, number: u16) -> bool {
        let rapid = self.is_rapid();
        // reRooted (§17.20.9) and allSynced (§17.20.3)
        let re_rooted = self.all_others(number, |port| port.timers.recent_root == 0);
        let all_synced = self.ports.values().all(|port| {
            let selected = port.is_settled() && port.role == port.selected_role;
            selected && (port.role == PortRole::Root || port.has(Is::SYNCED))
        });
        let Some(port) = self.ports.get_mut(&number) else { return false };
        if !port.is_settled() {
            return false;
        }
        if port.role != port.selected_role {
            port.enter_role();
            return true;
        }
        let mut tree = None;
        let moved = match port.machines.transition {
            Transition::Disable => port.leave(Transition::Disabled),
            Transition::Disabled => port.rest(port.info.designated_times.max_age),
            Transition::Root => port.be_root(re_rooted && rapid, all_synced, &mut tree),
            Transition::Designated => port.be_designated(),
            Transition::Block => port.leave(Transition::Alternate),
            Transition::Alternate => port.be_alternate(all_synced, &mut tree),
        };
        match tree {
            Some(Tree::Sync) => self.ports.values_mut().for_each(|port| port.is |= Is::SYNC),
            Some(Tree::ReRoot) => self.ports.values_mut().for_each(|port| port.is |= Is::RE_ROOT),
            None => {}
        }
        moved
    }
}

impl Port {
    fn enter_role(&mut self) {
        self.role = self.selected_role;
        self.machines.transition = match self.role {
            PortRole::Root => {
                self.timers.recent_root = self.info.designated_times.forward_delay;
                Transition::Root
            }
            PortRole::Designated => Transition::Designated,
            PortRole::Disabled => Transition::Disable,
            PortRole::Alternate | PortRole::Backup => Transition::Block,
        };
        // What was agreed in another role does not count: a root port that is replaced may forward for a moment.
        self.is -= Is::SYNCED;
        if !self.role.is_active() {
            self.is -= Is::LEARN | Is::FORWARD;
        }
    }

    /// Waits until the port has stopped to forward.
    fn leave(&mut self, next: Transition) -> bool {
        if self.has_any(Is::LEARNING | Is::FORWARDING) {
            return false;
        }
        self.machines.transition = next;
        true
    }

    /// A port that does not forward is in agreement with all others.
    fn rest(&mut self, forward_delay: u16) -> bool {
        let rests = self.timers.forward_delay == forward_delay
            && self.timers.recent_root == 0
            && self.has(Is::SYNCED)
            && !self.has_any(Is::SYNC | Is::RE_ROOT);
        self.timers.forward_delay = forward_delay;
        self.timers.recent_root = 0;
        self.is |= Is::SYNCED;
        self.is -= Is::SYNC | Is::RE_ROOT;
        !rests
    }

    /// Agreement of a root or alternate port with the designated port of its LAN. Returns whether the machine moved.
    fn agree(&mut self, all_synced: bool, tree: &mut Option<Tree>) -> bool {
        let (proposed, agree) = (self.has(Is::PROPOSED), self.has(Is::AGREE));
        if proposed && !agree && !all_synced {
            *tree = Some(Tree::Sync);
            self.is -= Is::PROPOSED;
            return true;
        }
        let agrees = all_synced && !agree || proposed && agree;
        if agrees {
            self.is -= Is::PROPOSED;
            self.is |= Is::AGREE | Is::NEW_INFO;
        }
        agrees
    }

    fn be_root(&mut self, re_rooted: bool, all_synced: bool, tree: &mut Option<Tree>) -> bool {
        self.timers.recent_root = self.info.designated_times.forward_delay;
        let may_pass = self.timers.forward_delay == 0 || re_rooted && self.timers.recent_backup == 0;
        if self.agree(all_synced, tree) {
            self.is -= Is::SYNC;
            return true;
        }
        if may_pass && !self.has(Is::LEARN) {
            self.timers.forward_delay = self.forward_delay();
            self.is |= Is::LEARN;
        } else if may_pass && !self.has(Is::FORWARD) {
            self.timers.forward_delay = 0;
            self.is |= Is::FORWARD;
        } else if self.has(Is::RE_ROOT | Is::FORWARD) {
            self.is -= Is::RE_ROOT;
        } else if !self.has_any(Is::FORWARD | Is::RE_ROOT) {
            *tree = Some(Tree::ReRoot);
        } else {
            return false;
        }
        true
    }

    fn be_designated(&mut self) -> bool {
        let edge = self.has(Is::OPER_EDGE);
        let retired = self.timers.recent_root == 0;
        let must_stop = self.has(Is::SYNC) && !self.has(Is::SYNCED)
            || self.has(Is::RE_ROOT) && !retired
            || self.has(Is::DISPUTED);
        let may_pass = (self.timers.forward_delay == 0 || self.has(Is::AGREED) || edge)
            && (retired || !self.has(Is::RE_ROOT))
            && !self.has(Is::SYNC);
        let stopped = !self.has_any(Is::LEARNING | Is::FORWARDING);
        let unsynced = !self.has(Is::SYNCED);
        if must_stop && !edge && self.has_any(Is::LEARN | Is::FORWARD) {
            self.is -= Is::LEARN | Is::FORWARD | Is::DISPUTED;
            self.timers.forward_delay = self.forward_delay();
        } else if unsynced && (stopped || self.has(Is::AGREED) || edge) || self.has(Is::SYNC | Is::SYNCED) {
            self.timers.recent_root = 0;
            self.is |= Is::SYNCED;
            self.is -= Is::SYNC;
        } else if retired && self.has(Is::RE_ROOT) {
            self.is -= Is::RE_ROOT;
        } else if may_pass && !self.has(Is::LEARN) {
            self.is |= Is::LEARN;
            self.timers.forward_delay = self.forward_delay();
        } else if may_pass && !self.has(Is::FORWARD) {
            self.is |= Is::FORWARD;
            self.timers.forward_delay = 0;
            self.is.set(Is::AGREED, self.has(Is::SEND_RSTP));
        } else if !self.has_any(Is::FORWARD | Is::AGREED | Is::PROPOSING | Is::OPER_EDGE) {
            self.is |= Is::PROPOSING | Is::NEW_INFO;
            self.timers.edge_delay = self.edge_delay();
        } else {
            return false;
        }
        true
    }

    fn be_alternate(&mut self, all_synced: bool, tree: &mut Option<Tree>) -> bool {
        let backup = 2 * HELLO_TIME;
        if self.role == PortRole::Backup && self.timers.recent_backup != backup {
            self.timers.recent_backup = backup;
            return true;
        }
        self.rest(self.info.designated_times.forward_delay) || self.agree(all_synced, tree)
    }

    /// EdgeDelay (§17.20.4)
    fn edge_delay(&self) -> u16 {
        if self.is_point_to_point() { MIGRATE_TIME } else { self.info.designated_times.max_age }
    }
}
