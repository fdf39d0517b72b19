//! Switch configuration, and the subscriptions of a connection to asynchronous messages.

use crate::request_context::{RequestContext, RequestResult};
use ofconn::AsyncKind;
use openflow::Body;
use openflow::packet_io::PacketInReason;
use openflow::session::{AsyncConfig, FragMode, Role, SwitchConfig};
use runtime::{Module, RateLimit};

static LOG: Module = Module::new("ofproto");
static LIMIT: RateLimit = RateLimit::new(1, 5);

/// Default `miss_send_len` of a peer that opened the connection itself and enables asynchronous messages.
const MISS_SEND_LEN: u16 = 128;

impl RequestContext<'_> {
    pub(crate) fn get_config(&mut self) -> RequestResult {
        let frag = self.bridge.frags;
        let session = self.session()?;
        let ttl = session.masks.wants(Role::Equal, AsyncKind::PacketIn, PacketInReason::InvalidTtl as u8);
        Ok(Some(Body::GetConfigReply(SwitchConfig {
            frag,
            invalid_ttl_to_controller: Some(ttl),
            miss_send_len: session.config.miss_send_len,
        })))
    }

    pub(crate) fn set_config(&mut self, config: &SwitchConfig) -> RequestResult {
        let session = self.session()?;
        session.config = *config;
        if let Some(on) = config.invalid_ttl_to_controller {
            session.masks.set(AsyncKind::PacketIn, PacketInReason::InvalidTtl as u8, on);
        }
        // A secondary controller may change its own settings, but not the switch's.
        if session.role != Role::Secondary && self.bridge.frags != config.frag {
            if config.frag == FragMode::Reassemble {
                let bridge = &self.bridge.name;
                runtime::warn_rl!(LOG, LIMIT, "{bridge}: unsupported fragment handling mode reassemble");
            } else {
                self.bridge.frags = config.frag;
                self.outside.mark_all_changed();
            }
        }
        Ok(None)
    }

    pub(crate) fn get_async(&mut self) -> RequestResult {
        let session = self.session()?;
        Ok(Some(Body::GetAsyncReply(session.masks.to_config(session.version()))))
    }

    pub(crate) fn set_async(&mut self, config: &AsyncConfig) -> RequestResult {
        let session = self.session()?;
        session.masks.apply(config, session.version());
        if session.is_service && session.config.miss_send_len == 0 {
            session.config.miss_send_len = MISS_SEND_LEN;
        }
        Ok(None)
    }
}
