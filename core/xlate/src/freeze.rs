//! Freezing: if the walk can continue only after the datapath has executed the actions so far, the walk's state is stored
//! under a recirculation id and the packet is recirculated. Thawing is the continuation with the stored state.

use crate::frozen::{Frozen, FrozenMetadata, FrozenStep};
use crate::limits::FREEZE_WORK;
use crate::messages::{report, unfilled_trace};
use crate::outcome::Failure;
use crate::trace::LineKind;
use crate::walk::{Freezing, Start, Walk};
use dpif::DpAction;
use flow::text::hex;
use openflow::action::Action;
use units::OfPort;

fn unroll_text(table: u8, cookie: u64) -> String {
    format!("unroll_xlate(table={table}, cookie={})", hex(cookie.into()))
}

impl Walk<'_> {
    /// Continues the walk of a recirculated packet.
    pub(crate) fn thaw(&mut self) {
        let id = self.out.flow.recirc_id;
        let Some(state) = self.input.recirc.state_ref(id) else {
            self.error(format_args!("Recirculation context not found for ID {id:x}"));
            self.out.error = Some(Failure::NoRecirculationContext);
            return;
        };
        self.out.recircs.push(id);
        let back = self.nest(LineKind::Thaw, || "thaw".into());
        if matches!(self.input.start, Start::Actions(_)) {
            self.error(format_args!("Recirculation conflict (actions)!"));
            self.out.error = Some(Failure::RecirculationConflict);
            return;
        }
        if state.bridge != self.bridge.id {
            let Some(bridge) = self.snapshot.bridge(state.bridge) else {
                self.error(format_args!("Frozen bridge no longer exists."));
                self.out.error = Some(Failure::BridgeNotFound);
                return;
            };
            self.bridge = bridge;
        }
        self.restore(&state);
        self.unnest(back);
        self.accept_layer_3_packet();
        if state.steps.is_empty() {
            self.first_table();
        } else if self.ingress_accepts() {
            self.mirror_arrival();
            self.steps(&state.steps);
            self.finish_actions();
        }
    }

    fn restore(&mut self, state: &Frozen) {
        self.mark_all_words_changed();
        self.current.table_id = state.table_id;
        report!(self, Thaw, "Resuming from table {}", self.current.table_id);
        self.packet_state.conntracked = state.conntracked;
        self.mirrored = state.mirrored;
        if !state.conntracked {
            self.clear_conntrack();
        }
        self.out.flow.layout = *self.bridge.tables.tlv().layout();
        state.metadata.restore(&mut self.out.flow);
        self.out.mask.layout = self.out.flow.layout;
        self.pipeline.stack.clone_from(&state.stack);
        if !state.action_set.is_empty() {
            self.report_actions(LineKind::Thaw, "Restoring action set", &state.action_set);
            self.out.flow.actset_output = OfPort::UNSET.0;
            self.write_actions(&state.action_set);
        }
        self.report_steps(&state.steps);
    }

    fn report_steps(&mut self, steps: &[FrozenStep]) {
        let (Some(trace), Some(text)) = (unfilled_trace(&mut self.out.trace), self.input.trace_format) else {
            return;
        };
        if steps.is_empty() {
            return;
        }
        let one = |step: &FrozenStep| match step {
            FrozenStep::Do(a) => text.actions(self.bridge, std::slice::from_ref(a)),
            FrozenStep::UnrollXlate { table, cookie } => unroll_text(*table, *cookie),
            FrozenStep::Bond(_) => "bond".to_owned(),
        };
        let list: Vec<String> = steps.iter().map(one).collect();
        trace.report(LineKind::Thaw, format!("Restoring actions: {}", list.join(",")));
    }

    /// Executes the remaining steps; `UnrollXlate` steps restore the table and cookie of the actions that follow.
    fn steps(&mut self, steps: &[FrozenStep]) {
        let mut rest = steps;
        while let Some(step) = rest.first() {
            match step {
                FrozenStep::UnrollXlate { table, cookie } => {
                    if self.progress.exit {
                        if self.freezing.active {
                            self.freezing.steps.push(step.clone());
                        }
                    } else {
                        report!(self, Action, "{}", unroll_text(*table, *cookie));
                        (self.current.table_id, self.current.rule_cookie) = (*table, *cookie);
                        let cookie = hex((*cookie).into());
                        report!(self, Thaw, "restored state: table={table}, cookie={cookie}");
                    }
                    rest = &rest[1..];
                }
                FrozenStep::Bond(bundle) => {
                    self.output_bucket(*bundle);
                    rest = &rest[1..];
                }
                FrozenStep::Do(_) => {
                    let run: Vec<Action> = rest
                        .iter()
                        .map_while(|s| match s {
                            FrozenStep::Do(a) => Some(a.clone()),
                            FrozenStep::UnrollXlate { .. } | FrozenStep::Bond(_) => None,
                        })
                        .collect();
                    rest = &rest[run.len()..];
                    if !self.actions(&run, rest.is_empty(), false) {
                        return;
                    }
                }
            }
        }
    }

    /// Stops the execution of actions. The remaining ones are only recorded, as steps, which are executed after recirculation.
    pub(crate) fn freeze(&mut self) {
        self.progress.exit = true;
        self.freezing.active = true;
    }

    pub(crate) fn cancel_freeze(&mut self) {
        self.freezing = Freezing::default();
    }

    /// The current state, to continue with after recirculation.
    pub(crate) fn frozen_state(
        &self,
        steps: Vec<FrozenStep>,
        action_set: Vec<Action>,
        userdata: Vec<u8>,
    ) -> Frozen {
        Frozen {
            bridge: self.bridge.id,
            table_id: self.current.table_id,
            metadata: FrozenMetadata::of(&self.out.flow),
            stack: self.pipeline.stack.clone(),
            conntracked: self.packet_state.conntracked,
            mirrored: self.mirrored,
            steps,
            action_set,
            userdata,
        }
    }

    /// Stores a state and returns its id; `None`: no id is free, or the limit of work is reached; the packet is dropped.
    pub(crate) fn store_frozen(&mut self, state: Frozen) -> Option<u32> {
        // The state contains copies of the stack, the action set and the steps, so their lengths count as work.
        if !self.add_work(FREEZE_WORK + state.stack.len() + state.action_set.len() + state.steps.len()) {
            return None;
        }
        let id = self.input.recirc.freeze(state);
        match id {
            Some(id) => self.out.recircs.push(id),
            None => {
                self.error(format_args!("Failed to allocate recirculation id"));
                self.out.error = Some(Failure::NoRecirculationContext);
            }
        }
        id
    }

    /// Stores the frozen state, and emits the recirculation or, for `controller(pause)`, the packet-in.
    pub(crate) fn finish_freezing(&mut self) {
        self.commit();
        let steps = std::mem::take(&mut self.freezing.steps);
        let userdata = self.freezing.pause.as_ref().map_or(Vec::new(), |p| p.userdata.clone());
        let state =
            Frozen { table_id: 0, ..self.frozen_state(steps, self.pipeline.action_set.clone(), userdata) };
        if let Some(id) = self.store_frozen(state) {
            if let Some(c) = self.freezing.pause.take() {
                // A dry run has no packet, so there is none that a controller could resume.
                if !self.input.dry_run {
                    self.send_to_controller(&c, c.reason, id, true);
                }
            } else {
                if let Some((alg, basis)) = self.freezing.hash {
                    self.out.actions.push(DpAction::Hash { alg, basis });
                }
                self.out.actions.push(DpAction::Recirc(id));
            }
        }
        self.cancel_freeze();
    }
}
