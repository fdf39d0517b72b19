//! Roles of controllers (OpenFlow 1.3.5 §6.3.6): at most one controller is primary, and role requests with an older generation id fail.

use crate::command::ConnId;
use crate::connections::Connections;
use openflow::session::{Role, RoleContent, RoleStatus};
use openflow::{Body, OfError, Version};

/// `OFPCRR_MASTER_REQUEST`
const ANOTHER_IS_PRIMARY: u8 = 0;

impl Connections {
    /// Executes a role request and returns the reply.
    pub fn request_role(&mut self, id: ConnId, request: &RoleContent) -> Result<RoleContent, OfError> {
        if !matches!(request.role, Role::NoChange | Role::Equal)
            && let Some(generation) = request.generation_id
        {
            self.advance_generation(generation)?;
        }
        match request.role {
            Role::NoChange => {}
            Role::Primary => self.make_primary(id),
            role => self.session(id).into_iter().for_each(|s| s.role = role),
        }
        let role = self.session(id).map(|s| s.role).unwrap_or_default();
        Ok(RoleContent { role, generation_id: self.generation_id, controller_id: None })
    }

    /// Stores the generation id. Fails if the id is older than the stored id. Because generation ids wrap around, an id counts as older if
    /// it is at most 2^63 behind.
    fn advance_generation(&mut self, generation: u64) -> Result<(), OfError> {
        if self.generation_id.is_some_and(|last| (generation.wrapping_sub(last) as i64) < 0) {
            return Err(OfError::RrfcStale);
        }
        self.generation_id = Some(generation);
        Ok(())
    }

    /// Makes a controller primary. The previous primary controller becomes secondary and gets a role status message.
    fn make_primary(&mut self, id: ConnId) {
        let generation_id = self.generation_id.unwrap_or(u64::MAX);
        for (other, session) in self.sessions() {
            if other == id {
                session.role = Role::Primary;
            } else if session.role == Role::Primary {
                session.role = Role::Secondary;
                if session.version() >= Version::V13 {
                    let status =
                        RoleStatus { role: Role::Secondary, reason: ANOTHER_IS_PRIMARY, generation_id };
                    session.send_unsolicited(Body::RoleStatus(status));
                }
            }
        }
    }
}
