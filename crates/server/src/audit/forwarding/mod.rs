//! What follows the audit log: sinks that its records are sent to, witnesses that cosign its checkpoints, and the witness that this engine
//! is for other logs. All of it reads the log's files on a thread of its own; no request and no record waits for any of it.

mod connection;
mod delivery;
mod listener;
mod progress;
mod witnesses;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use leafseal_engine::audit::{LogWitness, SinkTarget, WitnessTarget};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use super::followed_folder::FollowedFolder;
use super::older::OlderLog;
use crate::settings::AuditSettings;
use delivery::SinkDelivery;
pub(crate) use progress::ForwardingFigures;
use progress::ForwardingProgress;
use witnesses::AskedWitness;

/// How long the end of the thread is waited for if nobody says how long.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Whether there is anything that follows the log, and may need its old records.
pub(super) fn is_followed(settings: &AuditSettings) -> bool {
    !settings.sinks.is_empty() || !settings.witnesses.is_empty()
}

impl ForwardingFigures {
    /// Before the thread has started, and how far sinks are is known.
    pub(super) fn stopped(settings: &AuditSettings) -> Self {
        let sinks: Vec<_> = settings.sinks.iter().filter_map(|text| SinkTarget::parse(text)).collect();
        let has_stopped = is_followed(settings) || settings.witness_address.is_some();
        let progress = ForwardingProgress::new(&sinks, false, Arc::default());
        Self { has_stopped, ..progress.figures() }
    }
}

/// The thread. It ends on drop; what was not sent is sent after the next start.
#[derive(Debug)]
pub(super) struct ForwardingThread {
    running: Mutex<Option<RunningThread>>,
    progress: Arc<ForwardingProgress>,
    /// Where the witness listens.
    pub(super) witness_address: Option<SocketAddr>,
}

#[derive(Debug)]
struct RunningThread {
    stop: oneshot::Sender<()>,
    /// Nothing is sent: the other end goes with the thread.
    ended: Receiver<()>,
}

impl ForwardingThread {
    /// Starts it. What sinks lack of `older` logs is sent first. `kept_from` is the first record that must not be removed.
    pub(super) fn start(
        settings: &AuditSettings,
        log: &FollowedFolder,
        older: Vec<OlderLog>,
        witness: Option<(SocketAddr, LogWitness)>,
        kept_from: Arc<AtomicU64>,
    ) -> io::Result<Self> {
        let sinks: Vec<_> = settings.sinks.iter().filter_map(|text| SinkTarget::parse(text)).collect();
        let asked: Vec<WitnessTarget> =
            settings.witnesses.iter().filter_map(|text| WitnessTarget::parse(text)).collect();
        let listener =
            witness.map(|(address, witness)| Ok::<_, io::Error>((std::net::TcpListener::bind(address)?, witness)));
        let listener = listener.transpose()?;
        let witness_address = listener.as_ref().map(|(listener, _)| listener.local_addr()).transpose()?;
        if let Some((listener, _)) = &listener {
            listener.set_nonblocking(true)?;
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let (end, ended) = channel();
        let progress = Arc::new(ForwardingProgress::new(&sinks, !asked.is_empty(), kept_from));
        let (log, limit, interval, min) =
            (log.clone(), settings.sinks_timeout, settings.witnesses_interval, settings.witnesses_min as usize);
        let shared = Arc::clone(&progress);
        let work = move || {
            let _end = end;
            let tasks = LocalSet::new();
            let mut logs: VecDeque<_> = older.into_iter().filter_map(|older| older.finish(&log.cursors)).collect();
            logs.push_back(log.clone());
            for (number, sink) in sinks.into_iter().enumerate() {
                tasks.spawn_local(SinkDelivery::new(logs.clone(), sink, limit, number, Arc::clone(&shared)).run());
            }
            if !asked.is_empty() {
                let asked = asked.into_iter().map(AskedWitness::new).collect();
                tasks.spawn_local(witnesses::ask_for_ever(log, asked, min, interval, limit, Arc::clone(&shared)));
            }
            tasks.block_on(&runtime, async {
                if let Some((listener, witness)) = listener {
                    match tokio::net::TcpListener::from_std(listener) {
                        Ok(listener) => {
                            drop(tokio::task::spawn_local(listener::serve_for_ever(listener, witness, shared)));
                        }
                        Err(error) => tracing::error!(%error, "the witness cannot listen"),
                    }
                }
                // An error means that the sender is gone.
                let _ = stopped.await;
            });
            drop(tasks);
            // A look-up of a name, or a disk, may hang.
            runtime.shutdown_background();
        };
        std::thread::Builder::new().name("leafseal-sinks".to_owned()).spawn(work)?;
        let running = Mutex::new(Some(RunningThread { stop, ended }));
        Ok(Self { running, progress, witness_address })
    }

    pub(super) fn figures(&self) -> ForwardingFigures {
        self.progress.figures()
    }

    /// Ends it; from the deadline on, without waiting for it any more: it may hang on a disk.
    pub(super) fn stop_by(&self, deadline: Instant) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(RunningThread { stop, ended }) = running else { return };
        drop(stop);
        let left = deadline.saturating_duration_since(Instant::now());
        if ended.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the thread that sends the audit log elsewhere did not end in time");
        }
    }
}

impl Drop for ForwardingThread {
    fn drop(&mut self) {
        self.stop_by(Instant::now() + STOP_TIMEOUT);
    }
}

/// The folder of a witness's state and of cursors, beside the logs.
pub(super) fn beside(folder: &Path, name: &str) -> std::path::PathBuf {
    folder.join(format!("{name}.state"))
}
