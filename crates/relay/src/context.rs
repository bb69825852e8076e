//! The state of the threads that carry traffic, and of their listeners.

use std::sync::Arc;

use arc_swap::ArcSwap;
use hyper::http::request::Parts;
use leafseal_errors::Observers;
use leafseal_http::ConnectionPeer;

use crate::access::{AccessLog, Record};
use crate::config::{Configuration, Limits};
use crate::leaf_issuer::LeafIssuer;
use crate::metrics::ListenerMetrics;
use crate::refusal_log::RefusalLog;
use crate::rules::transform::TransformContext;
use crate::upstream::UpstreamPool;

/// A thread's state under one configuration.
pub(crate) struct WorkerContext {
    pub(crate) configuration: Arc<Configuration>,
    pub(crate) transforms: TransformContext,
    pub(crate) pool: UpstreamPool,
    pub(crate) limits: Limits,
    /// The issuers of the outbound listeners, by index.
    pub(crate) leaf_issuers: Vec<Arc<LeafIssuer>>,
    /// The content of `upstream.authorities` when the pool's connector was created.
    pub(crate) authorities: Arc<Option<Vec<u8>>>,
}

/// The context of a thread, which a reload replaces.
pub(crate) type SharedWorkerContext = Arc<ArcSwap<WorkerContext>>;

/// The context of a listener on one thread.
#[derive(Clone)]
pub(crate) struct ListenerContext {
    pub(crate) worker: SharedWorkerContext,
    pub(crate) index: usize,
    pub(crate) metrics: Arc<ListenerMetrics>,
    pub(crate) refusals: Arc<RefusalLog>,
    /// The observers of the relay's decisions.
    pub(crate) observers: Arc<Observers>,
    pub(crate) log: Option<Arc<dyn AccessLog>>,
}

impl ListenerContext {
    pub(crate) fn worker(&self) -> Arc<WorkerContext> {
        self.worker.load_full()
    }

    pub(crate) fn record(
        &self,
        name: &Arc<str>,
        worker: &WorkerContext,
        peer: &Arc<ConnectionPeer>,
        head: &Parts,
    ) -> Record {
        let process = &worker.configuration.process;
        let log = self.log.as_ref().filter(|_| process.access_log);
        let log = log.map(|log| (log, process.access_log_text_size_max));
        Record::new(name, (&self.metrics, &self.refusals, &self.observers), log, Arc::clone(peer), head)
    }
}
