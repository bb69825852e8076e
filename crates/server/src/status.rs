//! The state of a running server, for the operator port.

use std::io;
use std::sync::Arc;

use leafseal_engine::GuardedMemory;
use leafseal_net::metrics::ThreadTimes;
use leafseal_net::tls::PrivateKeyFigures;
use leafseal_net::{OperatorReport, ProcessFigures, ShutdownPhase};

use crate::clock;
use crate::metrics::MetricsSnapshot;
use crate::refusals::RefusalLine;
use crate::server_state::ServerState;
use leafseal_service::Service;

pub(crate) struct Status<S> {
    pub(crate) server_state: Arc<ServerState>,
    pub(crate) service: Arc<S>,
    pub(crate) threads: ThreadTimes,
}

impl<S: Service> Status<S> {
    /// An overloaded engine stays ready: it answers each caller with `overloaded` and a delay. If a load balancer removed it, its load
    /// would move to the other engines, which would then be overloaded too.
    fn is_ready(&self) -> Result<(), String> {
        match self.server_state.phase() {
            ShutdownPhase::Serving => {
                match self.server_state.peers_problem().or_else(|| self.server_state.audit_problem()) {
                    Some(problem) => Err(problem),
                    None => self.service.readiness(),
                }
            }
            ShutdownPhase::Notice | ShutdownPhase::Draining | ShutdownPhase::Closing => {
                Err("the engine is shutting down".to_owned())
            }
        }
    }
}

impl<S: Service> OperatorReport for Status<S> {
    async fn readiness(&self) -> Result<(), String> {
        self.is_ready()
    }

    async fn metrics(&self) -> String {
        let snapshot = MetricsSnapshot {
            counters: self.server_state.counters(),
            is_ready: self.is_ready().is_ok(),
            workers: self.server_state.pool.workers(),
            times: self.server_state.times.snapshot(),
            requests: self.server_state.requests.snapshot(),
            engine: self.service.counters(),
            api: self.server_state.api.snapshot(),
            decisions: Arc::clone(&self.server_state.decisions),
            audit: self.server_state.audit.as_ref().map(|audit| audit.figures()).unwrap_or_default(),
            process: ProcessFigures::read(),
            guarded: GuardedMemory::current(),
            key_exchanges: self.server_state.key_exchanges.get(),
            private_keys: PrivateKeyFigures::read(),
            certificates: self.server_state.certificates.first(),
            cpu: self.threads.read(),
        };
        snapshot.into_text()
    }

    fn sighting(&self, challenge: &str) -> Option<String> {
        self.service.engine().and_then(|engine| engine.sighting(challenge))
    }

    fn cannot_accept(&self, error: &io::Error) {
        let write = || tracing::error!(%error, "cannot accept connections at the operator port");
        self.server_state.refusals.line(RefusalLine::Connection, clock::now(), &"accept", write);
    }
}
