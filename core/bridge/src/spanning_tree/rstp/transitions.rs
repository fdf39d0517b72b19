//! Port role transitions machine (§17.29).

use super::bridge::{Bridge, HELLO_TIME, MIGRATE_TIME};
use super::port::{Port, PortRole, Transition, Variables};

/// The variable that a transition sets at all ports of the bridge: setSyncTree (§17.21.14), setReRootTree (§17.21.15).
enum TreeVariable {
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
            selected && (port.role == PortRole::Root || port.has(Variables::SYNCED))
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
            Transition::Disable => port.enter_when_stopped(Transition::Disabled),
            Transition::Disabled => port.update_discarding(port.info.designated_times.max_age),
            Transition::Root => port.root_transition(re_rooted && rapid, all_synced, &mut tree),
            Transition::Designated => port.designated_transition(),
            Transition::Block => port.enter_when_stopped(Transition::Alternate),
            Transition::Alternate => port.alternate_transition(all_synced, &mut tree),
        };
        match tree {
            Some(TreeVariable::Sync) => {
                self.ports.values_mut().for_each(|port| port.variables |= Variables::SYNC)
            }
            Some(TreeVariable::ReRoot) => {
                self.ports.values_mut().for_each(|port| port.variables |= Variables::RE_ROOT)
            }
            None => {}
        }
        moved
    }
}

impl Port {
    /// Takes over the selected role.
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
        // Agreements of the previous role are not valid: a root port that is replaced may forward for a short time.
        self.variables -= Variables::SYNCED;
        if !self.role.is_active() {
            self.variables -= Variables::LEARN | Variables::FORWARD;
        }
    }

    /// Enters the next state as soon as the port has stopped learning and forwarding.
    fn enter_when_stopped(&mut self, next: Transition) -> bool {
        if self.has_any(Variables::LEARNING | Variables::FORWARDING) {
            return false;
        }
        self.machines.transition = next;
        true
    }

    /// Updates the variables of a port that does not forward: such a port is synchronized with all other ports. Returns
    /// whether a variable changed.
    fn update_discarding(&mut self, forward_delay: u16) -> bool {
        let is_unchanged = self.timers.forward_delay == forward_delay
            && self.timers.recent_root == 0
            && self.has(Variables::SYNCED)
            && !self.has_any(Variables::SYNC | Variables::RE_ROOT);
        self.timers.forward_delay = forward_delay;
        self.timers.recent_root = 0;
        self.variables |= Variables::SYNCED;
        self.variables -= Variables::SYNC | Variables::RE_ROOT;
        !is_unchanged
    }

    /// Handles proposals of the designated port of the LAN, for a root, alternate or backup port. Returns whether a
    /// variable changed.
    fn update_agreement(&mut self, all_synced: bool, tree: &mut Option<TreeVariable>) -> bool {
        let (proposed, agree) = (self.has(Variables::PROPOSED), self.has(Variables::AGREE));
        if proposed && !agree && !all_synced {
            *tree = Some(TreeVariable::Sync);
            self.variables -= Variables::PROPOSED;
            return true;
        }
        let agrees = all_synced && !agree || proposed && agree;
        if agrees {
            self.variables -= Variables::PROPOSED;
            self.variables |= Variables::AGREE | Variables::NEW_INFO;
        }
        agrees
    }

    /// Transitions of a root port. `tree`: receives the variable to set at all ports.
    fn root_transition(
        &mut self,
        re_rooted: bool,
        all_synced: bool,
        tree: &mut Option<TreeVariable>,
    ) -> bool {
        self.timers.recent_root = self.info.designated_times.forward_delay;
        let may_pass = self.timers.forward_delay == 0 || re_rooted && self.timers.recent_backup == 0;
        if self.update_agreement(all_synced, tree) {
            self.variables -= Variables::SYNC;
            return true;
        }
        if may_pass && !self.has(Variables::LEARN) {
            self.timers.forward_delay = self.forward_delay();
            self.variables |= Variables::LEARN;
        } else if may_pass && !self.has(Variables::FORWARD) {
            self.timers.forward_delay = 0;
            self.variables |= Variables::FORWARD;
        } else if self.has(Variables::RE_ROOT | Variables::FORWARD) {
            self.variables -= Variables::RE_ROOT;
        } else if !self.has_any(Variables::FORWARD | Variables::RE_ROOT) {
            *tree = Some(TreeVariable::ReRoot);
        } else {
            return false;
        }
        true
    }

    /// Transitions of a designated port.
    fn designated_transition(&mut self) -> bool {
        let edge = self.has(Variables::OPER_EDGE);
        let retired = self.timers.recent_root == 0;
        let must_stop = self.has(Variables::SYNC) && !self.has(Variables::SYNCED)
            || self.has(Variables::RE_ROOT) && !retired
            || self.has(Variables::DISPUTED);
        let may_pass = (self.timers.forward_delay == 0 || self.has(Variables::AGREED) || edge)
            && (retired || !self.has(Variables::RE_ROOT))
            && !self.has(Variables::SYNC);
        let stopped = !self.has_any(Variables::LEARNING | Variables::FORWARDING);
        let unsynced = !self.has(Variables::SYNCED);
        if must_stop && !edge && self.has_any(Variables::LEARN | Variables::FORWARD) {
            self.variables -= Variables::LEARN | Variables::FORWARD | Variables::DISPUTED;
            self.timers.forward_delay = self.forward_delay();
        } else if unsynced && (stopped || self.has(Variables::AGREED) || edge)
            || self.has(Variables::SYNC | Variables::SYNCED)
        {
            self.timers.recent_root = 0;
            self.variables |= Variables::SYNCED;
            self.variables -= Variables::SYNC;
        } else if retired && self.has(Variables::RE_ROOT) {
            self.variables -= Variables::RE_ROOT;
        } else if may_pass && !self.has(Variables::LEARN) {
            self.variables |= Variables::LEARN;
            self.timers.forward_delay = self.forward_delay();
        } else if may_pass && !self.has(Variables::FORWARD) {
            self.variables |= Variables::FORWARD;
            self.timers.forward_delay = 0;
            self.variables.set(Variables::AGREED, self.has(Variables::SEND_RSTP));
        } else if !self
            .has_any(Variables::FORWARD | Variables::AGREED | Variables::PROPOSING | Variables::OPER_EDGE)
        {
            self.variables |= Variables::PROPOSING | Variables::NEW_INFO;
            self.timers.edge_delay = self.edge_delay();
        } else {
            return false;
        }
        true
    }

    /// Transitions of an alternate or backup port.
    fn alternate_transition(&mut self, all_synced: bool, tree: &mut Option<TreeVariable>) -> bool {
        let backup = 2 * HELLO_TIME;
        if self.role == PortRole::Backup && self.timers.recent_backup != backup {
            self.timers.recent_backup = backup;
            return true;
        }
        self.update_discarding(self.info.designated_times.forward_delay)
            || self.update_agreement(all_synced, tree)
    }

    /// EdgeDelay (§17.20.4)
    fn edge_delay(&self) -> u16 {
        if self.is_point_to_point() { MIGRATE_TIME } else { self.info.designated_times.max_age }
    }
}
