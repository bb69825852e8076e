//! Sends the records of a log to a sink, one batch at a time, from the log's files.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leafseal_engine::audit::{
    LogCursor, LogReader, ReadError, RecordBatch, SinkTarget, SinkTransport, VerifierKey, webhook_signature,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UdpSocket, UnixDatagram};
use tokio::time::{sleep, timeout};

use super::connection::{ByteStream, PostedMessage, connect, post};

/// Between two looks for new records.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Before the first and the later attempts after a failure.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// Longest secret of a webhook.
const SECRET_SIZE_MAX: usize = 4096;

/// A log that is followed.
#[derive(Debug, Clone)]
pub(crate) struct FollowedFolder {
    pub(crate) folder: PathBuf,
    pub(crate) key: VerifierKey,
    /// Where cursors are.
    pub(crate) cursors: PathBuf,
}

/// A sink, and how far it is.
pub(super) struct SinkDelivery {
    log: FollowedFolder,
    target: SinkTarget,
    limit: Duration,
    cursor: Option<LogCursor>,
    /// The checkpoint that was sent last.
    checkpoint: String,
    stream: Option<Box<dyn ByteStream>>,
}

impl SinkDelivery {
    pub(super) fn new(log: FollowedFolder, target: SinkTarget, limit: Duration) -> Self {
        Self { log, target, limit, cursor: None, checkpoint: String::new(), stream: None }
    }

    /// Sends for ever. A failure is logged once, until it is over or another one.
    pub(super) async fn run(mut self) {
        let (mut pause, mut fault) = (BACKOFF.0, None);
        let sink = self.target.address().to_owned();
        loop {
            match self.send_new().await {
                Ok(()) => {
                    if fault.take().is_some() {
                        tracing::info!(sink, "records of the audit log are sent again");
                    }
                    pause = BACKOFF.0;
                    sleep(POLL_INTERVAL).await;
                }
                Err(error) => {
                    self.stream = None;
                    if fault.as_ref() != Some(&error) {
                        tracing::warn!(sink, error, "records of the audit log are not sent; they are tried again");
                    }
                    fault = Some(error);
                    sleep(pause).await;
                    pause = (pause * 2).min(BACKOFF.1);
                }
            }
        }
    }

    /// Sends everything that is in the newest checkpoint and was not sent.
    async fn send_new(&mut self) -> Result<(), String> {
        let reader = match LogReader::open(&self.log.folder, &self.log.key) {
            Ok(reader) => reader,
            // Nothing is signed yet.
            Err(ReadError::Absent) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        if self.cursor.is_none() {
            let file = self.log.cursors.join(self.target.name());
            self.cursor = Some(LogCursor::open(&file, self.log.key.name()).map_err(|error| error.to_string())?);
        }
        loop {
            let next = self.cursor.as_ref().map_or(0, LogCursor::next);
            if next > reader.size() {
                return Err(format!("{next} records were sent, and the log has {}: it was cut off", reader.size()));
            }
            if next < reader.minimum() {
                tracing::warn!(from = next, to = reader.minimum(), "records were removed before they were sent");
            }
            let batch = RecordBatch::read(&reader, next.max(reader.minimum()), |entry| self.target.wants(entry));
            let batch = batch.map_err(|error| error.to_string())?;
            let is_new = self.target.wants_checkpoints() && batch.checkpoint != self.checkpoint;
            let is_last = batch.next >= reader.size();
            if !batch.records.is_empty() || is_new && is_last {
                self.send(&batch).await?;
                self.checkpoint.clone_from(&batch.checkpoint);
            }
            if batch.next != next
                && let Some(cursor) = &mut self.cursor
            {
                cursor.advance(batch.next).map_err(|error| format!("its cursor cannot be written: {error}"))?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    async fn send(&mut self, batch: &RecordBatch) -> Result<(), String> {
        let limit = self.limit;
        let sent = async {
            match self.target.transport.clone() {
                SinkTransport::SyslogStream { address, .. } => self.send_stream(&address, batch).await,
                SinkTransport::SyslogUdp(address) => self.send_udp(&address, batch).await,
                SinkTransport::SyslogUnix(path) => self.send_unix(&path, batch).await,
                SinkTransport::Otlp(_) | SinkTransport::Webhook(_) => self.send_http(batch).await,
            }
        };
        timeout(limit, sent).await.unwrap_or_else(|_| Err(format!("not taken within {limit:?}")))
    }

    async fn send_stream(&mut self, address: &str, batch: &RecordBatch) -> Result<(), String> {
        if let Some(stream) = &mut self.stream {
            // A peer that has closed would take a message without an error.
            let mut byte = [0];
            if timeout(Duration::ZERO, stream.read(&mut byte)).await.is_ok_and(|read| !matches!(read, Ok(1))) {
                self.stream = None;
            }
        }
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => connect(address, self.target.authorities.as_deref()).await?,
        };
        let messages = self.target.syslog(batch).concat();
        stream.write_all(&messages).await.map_err(|error| error.to_string())?;
        stream.flush().await.map_err(|error| error.to_string())?;
        self.stream = Some(stream);
        Ok(())
    }

    async fn send_udp(&self, address: &str, batch: &RecordBatch) -> Result<(), String> {
        let send = async {
            let target = tokio::net::lookup_host(address).await?.next();
            let target = target.ok_or_else(|| std::io::Error::other("it has no address"))?;
            let own = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let socket = UdpSocket::bind(own).await?;
            for message in self.target.syslog(batch) {
                socket.send_to(&message, target).await?;
            }
            Ok::<_, std::io::Error>(())
        };
        send.await.map_err(|error| error.to_string())
    }

    async fn send_unix(&self, path: &std::path::Path, batch: &RecordBatch) -> Result<(), String> {
        let send = async {
            let socket = UnixDatagram::unbound()?;
            socket.connect(path)?;
            for message in self.target.syslog(batch) {
                socket.send(&message).await?;
            }
            Ok::<_, std::io::Error>(())
        };
        send.await.map_err(|error| error.to_string())
    }

    async fn send_http(&self, batch: &RecordBatch) -> Result<(), String> {
        let (url, body) = match &self.target.transport {
            SinkTransport::Otlp(url) => (url, self.target.otlp(batch)),
            SinkTransport::Webhook(url) => (url, self.target.webhook(batch)),
            _ => return Ok(()),
        };
        let first = batch.records.first().map_or(batch.next, |(index, _)| *index);
        let mut headers = vec![("idempotency-key", format!("{}/{first}-{}", batch.origin, batch.next))];
        if let Some(file) = &self.target.secret {
            let secret = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
            let secret = secret.trim_ascii();
            if secret.is_empty() || secret.len() > SECRET_SIZE_MAX {
                return Err(format!("{} has no secret of at most {SECRET_SIZE_MAX} bytes", file.display()));
            }
            headers.push(("leafseal-signature", webhook_signature(secret, unix_s(), &body)));
        }
        let authorities = self.target.authorities.as_deref();
        let (status, _) =
            post(self.limit, PostedMessage { url, authorities, content_type: "application/json", headers, body })
                .await?;
        if (200..300).contains(&status) { Ok(()) } else { Err(format!("it answers with status {status}")) }
    }
}

pub(super) fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
