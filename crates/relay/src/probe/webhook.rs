//! Delivers messages to the webhook, one after another, independently of the rounds: a slow or unavailable webhook does not delay them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::metrics::ProbeMetrics;
use super::{Target, post};
use crate::upstream::UpstreamPool;

/// Maximum number of waiting messages; further ones are dropped. Each has two samples, whose texts are of bounded size.
const WAITING_MAX: usize = 16;
/// Attempts to send a message before it is dropped.
const ATTEMPTS_MAX: u32 = 3;
/// Maximum size of an answer in bytes.
const ANSWER_SIZE_MAX: usize = 64 << 10;

/// The webhook, and the task that calls it.
pub(super) struct Webhook {
    messages: Sender<String>,
    task: JoinHandle<()>,
    limit: Duration,
    metrics: Arc<ProbeMetrics>,
}

impl Webhook {
    /// Starts a task that sends messages to `target`, each within `limit`.
    pub(super) fn start(pool: UpstreamPool, target: Target, limit: Duration, metrics: Arc<ProbeMetrics>) -> Self {
        let (messages, waiting) = channel(WAITING_MAX);
        let task = tokio::spawn(deliver_all(pool, target, limit, Arc::clone(&metrics), waiting));
        Webhook { messages, task, limit, metrics }
    }

    /// Queues a message; it is dropped if the queue is full.
    pub(super) fn send(&self, message: String) {
        if self.messages.try_send(message).is_err() {
            tracing::error!("a message to the webhook was dropped: the queue is full");
            self.metrics.webhook(false);
        }
    }

    /// Waits until all messages are delivered, but no longer than one message may take.
    pub(super) async fn finish(self) {
        drop(self.messages);
        let abort = self.task.abort_handle();
        if timeout(self.limit, self.task).await.is_err() {
            tracing::error!("the webhook did not receive the last alarm change in time");
            abort.abort();
        }
    }
}

async fn deliver_all(
    pool: UpstreamPool,
    target: Target,
    limit: Duration,
    metrics: Arc<ProbeMetrics>,
    mut waiting: Receiver<String>,
) {
    while let Some(message) = waiting.recv().await {
        let mut is_delivered = false;
        for attempt in 1..=ATTEMPTS_MAX {
            let error = match timeout(limit, post(&pool, &target, message.clone().into_bytes(), ANSWER_SIZE_MAX)).await
            {
                Ok(Ok((status, _))) if status.is_success() => {
                    is_delivered = true;
                    break;
                }
                Ok(Ok((status, _))) => format!("it answered with status {}", status.as_u16()),
                Ok(Err(error)) => error,
                Err(_) => "it did not answer in time".to_owned(),
            };
            tracing::error!(error, attempt, "cannot deliver the message to the webhook");
            if attempt < ATTEMPTS_MAX {
                sleep(limit).await;
            }
        }
        metrics.webhook(is_delivered);
    }
}
