//! Role requests, and messages about requests of other controllers.

use crate::request_context::{RequestContext, RequestResult};
use ofconn::AsyncKind;
use openflow::session::RoleContent;
use openflow::{Body, Message, Xid};

impl RequestContext<'_> {
    pub(crate) fn role(&mut self, request: &RoleContent) -> RequestResult {
        let reply = self.bridge.conns.request_role(self.conn, request)?;
        Ok(Some(Body::RoleReply(reply)))
    }

    /// Forwards a request that changed groups (reason 0) or meters (reason 1) to the other controllers that have subscribed to such
    /// messages (OpenFlow 1.4.1 §7.4.6).
    pub(crate) fn forward(&mut self, message: &Message, reason: u8) {
        let source = self.conn;
        for (id, session) in self.bridge.conns.sessions() {
            let version = session.version();
            if id != source && session.wants(AsyncKind::RequestForward, reason) {
                let inner = Message { version, ..message.clone() };
                let body = Body::RequestForward(Box::new(inner));
                session.send(Message::new(version, Xid(0), body));
            }
        }
    }
}
