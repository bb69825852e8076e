//! Sends the records of a log to a sink, one batch at a time, from the log's files.

use std::collections::VecDeque;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leafseal_engine::audit::{
    LogCursor, LogReader, ReadError, RecordBatch, SinkTarget, SinkTransport, webhook_signature,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UdpSocket, UnixDatagram};
use tokio::time::{sleep, timeout};

use super::super::followed_folder::FollowedFolder;
use super::connection::{ByteStream, PostedMessage, connect, post};
use super::progress::ForwardingProgress;

/// Between two looks for new records.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Before the first and the later attempts after a failure.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// Longest secret of a webhook.
const SECRET_SIZE_MAX: u64 = 4096;
/// Statuses with which a sink refuses a message for what is in it.
const REFUSALS: [u16; 3] = [400, 413, 422];
/// Attempts after which records that a sink refuses are not sent any more, though it takes no others either: some minutes.
const ATTEMPTS_MAX: u32 = 10;

/// Why a batch was not taken.
#[derive(Debug)]
enum DeliveryFault {
    /// The sink is there, and refuses this batch for what is in it.
    Refused(u16),
    /// The log cannot be read.
    Log(String),
    Other(String),
}

impl From<String> for DeliveryFault {
    fn from(text: String) -> Self {
        Self::Other(text)
    }
}

/// A sink, and how far it is.
pub(super) struct SinkDelivery {
    /// Older logs, of which it gets the rest, and then the engine's own, for ever.
    logs: VecDeque<FollowedFolder>,
    target: SinkTarget,
    /// Of the target.
    name: String,
    limit: Duration,
    cursor: Option<LogCursor>,
    /// The checkpoint that was sent last.
    checkpoint: String,
    stream: Option<Box<dyn ByteStream>>,
    /// How often in a row the next records were refused.
    refusals: u32,
    /// Its number in `progress`.
    number: usize,
    progress: Arc<ForwardingProgress>,
}

impl SinkDelivery {
    /// A sink for some logs, of which there is at least the last, the engine's own.
    pub(super) fn new(
        logs: VecDeque<FollowedFolder>,
        target: SinkTarget,
        limit: Duration,
        number: usize,
        progress: Arc<ForwardingProgress>,
    ) -> Self {
        let (name, checkpoint) = (target.name(), String::new());
        Self { logs, target, name, limit, cursor: None, checkpoint, stream: None, refusals: 0, number, progress }
    }

    /// Sends for ever. A failure is logged once, until it is over or another one.
    pub(super) async fn run(mut self) {
        let (mut pause, mut fault) = (BACKOFF.0, None);
        let sink = self.name.clone();
        loop {
            match self.send_new().await {
                Ok(()) if self.logs.len() > 1 => self.begin_next_log(),
                Err(DeliveryFault::Log(error)) if self.logs.len() > 1 => {
                    let folder = self.logs[0].folder.display();
                    tracing::error!(sink, %folder, error, "the rest of an older audit log cannot be sent");
                    self.begin_next_log();
                }
                Ok(()) => {
                    if fault.take().is_some() {
                        tracing::info!(sink, "records of the audit log are sent again");
                    }
                    pause = BACKOFF.0;
                    sleep(POLL_INTERVAL).await;
                }
                Err(error) => {
                    self.stream = None;
                    let error = match error {
                        DeliveryFault::Refused(status) => {
                            self.refusals += 1;
                            format!("it refuses records with status {status}")
                        }
                        DeliveryFault::Log(error) | DeliveryFault::Other(error) => error,
                    };
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

    fn begin_next_log(&mut self) {
        self.logs.pop_front();
        (self.cursor, self.checkpoint, self.refusals) = (None, String::new(), 0);
    }

    /// How far it is in the log, of `size` signed records.
    fn report(&self, next: u64, size: u64) {
        match self.logs.len() {
            1 => self.progress.sent(self.number, next, size),
            _ => self.progress.sends_older(self.number, size.saturating_sub(next)),
        }
    }

    fn open_cursor(&self) -> Result<LogCursor, String> {
        let FollowedFolder { cursors, key, cursor_key, .. } = &self.logs[0];
        let cursor = LogCursor::open(cursors, &self.name, key.name(), cursor_key).map_err(|error| error.to_string())?;
        if cursor.was_forged() {
            self.progress.count_forged_cursor();
            let file = cursor.file().display();
            tracing::error!(sink = self.name, %file, "a sink's place was changed by somebody else: all records are sent again");
        }
        Ok(cursor)
    }

    /// Sends everything that is in the newest checkpoint and was not sent.
    async fn send_new(&mut self) -> Result<(), DeliveryFault> {
        let reader = match LogReader::open(&self.logs[0].folder, &self.logs[0].key) {
            Ok(reader) => reader,
            // Nothing is signed yet.
            Err(ReadError::Absent) => return Ok(()),
            Err(error) => return Err(DeliveryFault::Log(error.to_string())),
        };
        if self.cursor.is_none() {
            self.cursor = Some(self.open_cursor()?);
        }
        loop {
            let next = self.cursor.as_ref().map_or(0, LogCursor::next);
            if next > reader.size() {
                return Err(
                    format!("{next} records were sent, and the log has {}: it was cut off", reader.size()).into()
                );
            }
            self.report(next, reader.size());
            if next < reader.minimum() {
                tracing::warn!(from = next, to = reader.minimum(), "records were removed before they were sent");
            }
            let batch = RecordBatch::read(&reader, next.max(reader.minimum()), |entry| self.target.wants(entry));
            let batch = batch.map_err(|error| DeliveryFault::Log(error.to_string()))?;
            let is_new = self.target.wants_checkpoints() && batch.checkpoint != self.checkpoint;
            let is_last = batch.next >= reader.size();
            if !batch.records.is_empty() || is_new && is_last {
                self.deliver(&batch).await?;
                self.checkpoint.clone_from(&batch.checkpoint);
            }
            self.refusals = 0;
            if batch.next != next
                && let Some(cursor) = &mut self.cursor
            {
                cursor.advance(batch.next).map_err(|error| format!("its cursor cannot be written: {error}"))?;
            }
            self.report(batch.next, reader.size());
            if is_last {
                return Ok(());
            }
            // A sink that wants few of many records, or takes them at once, holds up no other.
            tokio::task::yield_now().await;
        }
    }

    /// Sends a batch. Of one that is refused for what is in it, the records that are to blame are found, and given up if the sink takes
    /// others of the batch, or took none for a while.
    async fn deliver(&mut self, batch: &RecordBatch) -> Result<(), DeliveryFault> {
        let status = match self.send(batch).await {
            Err(DeliveryFault::Refused(status)) => status,
            done => return done,
        };
        // Those that were refused.
        let (mut parts, mut refused, mut has_taken) = (vec![batch.clone()], Vec::new(), false);
        while let Some(part) = parts.pop() {
            if part.records.len() <= 1 {
                refused.extend(part.records.first().map(|(index, _)| *index));
                continue;
            }
            let (first, second) = part.split();
            for half in [first, second] {
                match self.send(&half).await {
                    Ok(()) => has_taken = true,
                    Err(DeliveryFault::Refused(_)) => parts.push(half),
                    error => return error,
                }
            }
        }
        if !has_taken && self.refusals < ATTEMPTS_MAX {
            return Err(DeliveryFault::Refused(status));
        }
        for index in &refused {
            tracing::error!(
                sink = self.name,
                index,
                status,
                "a sink has refused a record of the audit log, which is not sent to it again"
            );
        }
        self.progress.refused(self.number, refused.len() as u64);
        Ok(())
    }

    async fn send(&mut self, batch: &RecordBatch) -> Result<(), DeliveryFault> {
        let limit = self.limit;
        let sent = async {
            match self.target.transport.clone() {
                SinkTransport::SyslogStream { address, .. } => Ok(self.send_stream(&address, batch).await?),
                SinkTransport::SyslogUdp(address) => Ok(self.send_udp(&address, batch).await?),
                SinkTransport::SyslogUnix(path) => Ok(self.send_unix(&path, batch).await?),
                SinkTransport::Otlp(_) | SinkTransport::Webhook(_) => self.send_http(batch).await,
            }
        };
        timeout(limit, sent).await.unwrap_or_else(|_| Err(format!("not taken within {limit:?}").into()))
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

    async fn send_unix(&self, path: &Path, batch: &RecordBatch) -> Result<(), String> {
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

    async fn send_http(&self, batch: &RecordBatch) -> Result<(), DeliveryFault> {
        let (url, body) = match &self.target.transport {
            SinkTransport::Otlp(url) => (url, self.target.otlp(batch)),
            SinkTransport::Webhook(url) => (url, self.target.webhook(batch)),
            _ => return Ok(()),
        };
        let first = batch.records.first().map_or(batch.next, |(index, _)| *index);
        let id = format!("{}/{first}-{}", batch.origin, batch.next);
        let mut headers = Vec::new();
        if let Some(file) = &self.target.secret {
            let secret = read_secret(file).await?;
            let signature = webhook_signature(secret.trim_ascii(), unix_s(), &url.path, &id, &body);
            headers.push(("leafseal-signature", signature));
        }
        headers.push(("idempotency-key", id));
        let authorities = self.target.authorities.as_deref();
        let (status, _) =
            post(self.limit, PostedMessage { url, authorities, content_type: "application/json", headers, body })
                .await?;
        match status {
            200..300 => Ok(()),
            status if REFUSALS.contains(&status) => Err(DeliveryFault::Refused(status)),
            status => Err(format!("it answers with status {status}").into()),
        }
    }
}

/// Reads the secret of a webhook, on a thread that may wait: it is whatever file the setting names.
async fn read_secret(file: &Path) -> Result<Vec<u8>, String> {
    let path = file.to_owned();
    let read = tokio::task::spawn_blocking(move || {
        let mut secret = Vec::new();
        std::fs::File::open(&path)?.take(SECRET_SIZE_MAX + 1).read_to_end(&mut secret)?;
        Ok::<_, std::io::Error>(secret)
    });
    let secret = read.await.map_err(|error| error.to_string())?;
    let secret = secret.map_err(|error| format!("{}: {error}", file.display()))?;
    if secret.trim_ascii().is_empty() || secret.len() as u64 > SECRET_SIZE_MAX {
        return Err(format!("{} has no secret of at most {SECRET_SIZE_MAX} bytes", file.display()));
    }
    Ok(secret)
}

pub(super) fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
