//! Asks the witnesses of a log to cosign its newest checkpoint.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leafseal_engine::audit::{
    LogReader, VerifierKey, WitnessFault, WitnessRequest, WitnessTarget, write_cosigned_checkpoint,
};
use tokio::time::sleep;

use super::super::followed_folder::FollowedFolder;
use super::connection::{PostedMessage, post};
use super::progress::ForwardingProgress;

/// How often witnesses are asked for a checkpoint that they have cosigned already: the time of the newest cosignature shows that the log
/// was not cut off since.
const REFRESH_INTERVAL: Duration = Duration::from_secs(300);

/// A witness that is asked.
pub(super) struct AskedWitness {
    target: WitnessTarget,
    /// How much of the log it has signed, as far as is known.
    signed: u64,
    /// What was wrong last.
    fault: Option<String>,
}

/// Asks all witnesses once in an interval while there is a new checkpoint, else now and then. It is written with their cosignatures if
/// there are `min`.
pub(super) async fn ask_for_ever(
    log: FollowedFolder,
    mut witnesses: Vec<AskedWitness>,
    min: usize,
    interval: Duration,
    limit: Duration,
    progress: Arc<ForwardingProgress>,
) {
    let keys: Vec<VerifierKey> = witnesses.iter().map(|witness| witness.target.key.clone()).collect();
    // Records that all have cosigned, and when.
    let mut last: Option<(u64, Instant)> = None;
    loop {
        if let Ok(reader) = LogReader::open(&log.folder, &log.key) {
            progress.cosigned(reader.cosigned(&log.key).unwrap_or(0));
            if last.is_none_or(|(size, at)| reader.size() > size || at.elapsed() >= REFRESH_INTERVAL) {
                let mut lines = Vec::new();
                for witness in &mut witnesses {
                    match witness.ask(&reader, limit).await {
                        Ok(line) => {
                            witness.fault = None;
                            lines.push(line);
                        }
                        Err(fault) => witness.report(fault.to_string()),
                    }
                }
                if lines.len() == witnesses.len() {
                    last = Some((reader.size(), Instant::now()));
                }
                match write_cosigned_checkpoint(&reader, &lines, &keys, min) {
                    Ok(count) if count >= min.max(1) => progress.cosigned(reader.size()),
                    Ok(_) => {}
                    Err(error) => {
                        tracing::warn!(%error, "the checkpoint with the cosignatures of witnesses cannot be written");
                    }
                }
            }
        }
        sleep(interval).await;
    }
}

impl AskedWitness {
    pub(super) fn new(target: WitnessTarget) -> Self {
        Self { target, signed: 0, fault: None }
    }

    /// The line of its cosignature.
    async fn ask(&mut self, reader: &LogReader, limit: Duration) -> Result<String, WitnessFault> {
        match self.ask_once(reader, limit).await {
            Err(WitnessFault::Conflict(signed)) => {
                self.signed = signed;
                self.ask_once(reader, limit).await
            }
            asked => asked,
        }
    }

    async fn ask_once(&mut self, reader: &LogReader, limit: Duration) -> Result<String, WitnessFault> {
        let request = WitnessRequest::new(reader, self.signed)?;
        let (url, authorities) = (&self.target.url, self.target.authorities.as_deref());
        let (content_type, headers, body) = ("text/plain", Vec::new(), request.body.clone().into_bytes());
        let answer = post(limit, PostedMessage { url, authorities, content_type, headers, body }).await;
        let (status, body) = answer.map_err(|why| WitnessFault::Refused { status: 0, why })?;
        let line = request.cosignature(&self.target.key, status, &body)?;
        self.signed = reader.size();
        Ok(line)
    }

    fn report(&mut self, fault: String) {
        if self.fault.as_ref() != Some(&fault) {
            tracing::warn!(witness = self.target.key.name(), error = fault, "a witness has not cosigned the audit log");
        }
        self.fault = Some(fault);
    }
}
