//! What follows the audit log: sinks that its records are sent to, witnesses that cosign its checkpoints, and the witness that this engine
//! is for other logs. All of it reads the log's files on a thread of its own; no request and no record waits for any of it.

mod connection;
mod delivery;
mod witnesses;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::thread::JoinHandle;

use leafseal_engine::audit::{LogWitness, SinkTarget, WitnessTarget};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use crate::settings::AuditSettings;
pub(super) use delivery::FollowedFolder;
use delivery::SinkDelivery;
use witnesses::AskedWitness;

/// The thread. It ends on drop; what was not sent is sent after the next start.
#[derive(Debug)]
pub(super) struct ForwardingThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Where the witness listens.
    pub(super) witness_address: Option<SocketAddr>,
}

impl ForwardingThread {
    /// Starts it, unless there is nothing for it to do.
    pub(super) fn start(
        settings: &AuditSettings,
        log: &FollowedFolder,
        witness: Option<(SocketAddr, LogWitness)>,
    ) -> io::Result<Option<Self>> {
        let sinks: Vec<_> = settings.sinks.iter().filter_map(|text| SinkTarget::parse(text)).collect();
        let asked: Vec<WitnessTarget> =
            settings.witnesses.iter().filter_map(|text| WitnessTarget::parse(text)).collect();
        if sinks.is_empty() && asked.is_empty() && witness.is_none() {
            return Ok(None);
        }
        let listener =
            witness.map(|(address, witness)| Ok::<_, io::Error>((std::net::TcpListener::bind(address)?, witness)));
        let listener = listener.transpose()?;
        let witness_address = listener.as_ref().map(|(listener, _)| listener.local_addr()).transpose()?;
        if let Some((listener, _)) = &listener {
            listener.set_nonblocking(true)?;
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let (log, limit, interval, min) =
            (log.clone(), settings.sinks_timeout, settings.witnesses_interval, settings.witnesses_min as usize);
        let work = move || {
            let tasks = LocalSet::new();
            for sink in sinks {
                tasks.spawn_local(SinkDelivery::new(log.clone(), sink, limit).run());
            }
            if !asked.is_empty() {
                let asked = asked.into_iter().map(AskedWitness::new).collect();
                tasks.spawn_local(witnesses::ask_for_ever(log, asked, min, interval, limit));
            }
            tasks.block_on(&runtime, async {
                if let Some((listener, witness)) = listener {
                    match tokio::net::TcpListener::from_std(listener) {
                        Ok(listener) => drop(tokio::task::spawn_local(witnesses::serve_for_ever(listener, witness))),
                        Err(error) => tracing::error!(%error, "the witness cannot listen"),
                    }
                }
                // An error means that the sender is gone.
                let _ = stopped.await;
            });
            drop(tasks);
            // A look-up of a name may hang.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("leafseal-sinks".to_owned()).spawn(work)?;
        Ok(Some(Self { stop: Some(stop), thread: Some(thread), witness_address }))
    }
}

impl Drop for ForwardingThread {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // Its result is of no interest.
            let _ = thread.join();
        }
    }
}

/// The folder of a witness's state and of cursors, beside the logs.
pub(super) fn beside(folder: &Path, name: &str) -> std::path::PathBuf {
    folder.join(format!("{name}.state"))
}
