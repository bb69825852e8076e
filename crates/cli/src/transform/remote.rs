//! Runs a job on a running engine, over mTLS.

use std::path::PathBuf;
use std::sync::Arc;

use leafseal_client::{
    Client, ClientError, ClientSettings, ClientTls, DecryptFileOptions, Document, EncryptFileOptions, ErrorCode,
    ErrorKind, RewrapOptions,
};
use leafseal_engine::{Curve, DocumentLimits, Keying, check_document};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::{TransformBackend, TransformJob, TransformReport, ValueOperation, is_blank};
use crate::arguments::ConnectArguments;
use crate::context::RunContext;
use crate::envelopes;
use crate::failure::{CommandFailure, CommandOutcome, Exit};
use crate::input::LineBlock;
use crate::progress::TerminalProgress;

/// Envelopes per rewrap request: each costs a key agreement, so that a request stays well below its timeout.
const REWRAP_BATCH_SIZE: usize = 1000;

/// A client and its runtime.
pub(crate) struct RemoteEngine {
    /// The client.
    pub client: Client,
    /// The runtime of its futures.
    pub runtime: Runtime,
}

/// Connects to the engine at `address` with the certificates that the arguments select.
pub(crate) fn connect(
    context: &RunContext,
    address: &str,
    arguments: &ConnectArguments,
) -> CommandOutcome<RemoteEngine> {
    let settings = client_settings(context, address, arguments)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| CommandFailure::internal(format!("no threads: {error}")))?;
    let client = runtime.block_on(Client::connect(settings)).map_err(|error| {
        let failure = CommandFailure::from(error);
        if failure.message.contains(address) { failure } else { failure.at(address) }
    })?;
    Ok(RemoteEngine { client, runtime })
}

/// The connection settings for the engine at `address`.
pub(crate) fn client_settings(
    context: &RunContext,
    address: &str,
    arguments: &ConnectArguments,
) -> CommandOutcome<ClientSettings> {
    let (certificate, key) = client_files(context, arguments)?;
    let authority = arguments.ca.clone().unwrap_or_else(|| context.certificates().join("ca.pem"));
    let tls = ClientTls::from_files(&authority, &certificate, &key).map_err(CommandFailure::from)?;
    Ok(context.config().client(address, arguments.server_name.as_deref(), tls))
}

/// The certificate and key to present: those specified, or those of the specified client, or of the only client in the folder.
fn client_files(context: &RunContext, arguments: &ConnectArguments) -> CommandOutcome<(PathBuf, PathBuf)> {
    if let (Some(certificate), Some(key)) = (&arguments.cert, &arguments.key) {
        return Ok((certificate.clone(), key.clone()));
    }
    let folder = context.certificates();
    let name = match &arguments.client {
        Some(name) => name.clone(),
        None => {
            let mut names = crate::certificates::client_certificates(&folder)?;
            let advice = "choose one with --client NAME, or name files with --cert and --key";
            match (names.pop(), names.is_empty()) {
                (Some(name), true) => name,
                (None, _) => {
                    let message = format!("no client certificate in {}", folder.display());
                    return Err(CommandFailure::usage(message)
                        .advise("create one with leafseal certs issue, or name files with --cert and --key"));
                }
                (Some(_), false) => {
                    let message = format!("several client certificates in {}", folder.display());
                    return Err(CommandFailure::usage(message).advise(advice));
                }
            }
        }
    };
    Ok((folder.join(format!("{name}.pem")), folder.join(format!("{name}.key"))))
}

/// An engine that runs elsewhere.
pub(crate) struct Remote {
    connection: RemoteEngine,
    job: Arc<TransformJob>,
    /// Bounds of documents that are checked here.
    limits: DocumentLimits,
}

impl Remote {
    /// Refuses options that a running engine does not support.
    pub(crate) fn new(connection: RemoteEngine, job: TransformJob, limits: DocumentLimits) -> CommandOutcome<Self> {
        if job.operation == ValueOperation::Rewrap && !(job.select.is_empty() && job.other_case().is_none()) {
            return Err(CommandFailure::usage(
                "rewrap does not support --select and --other-case with --connect, where it re-encrypts every envelope: omit \
                 one of them",
            ));
        }
        let is_bound = |options: &RewrapOptions<'_>| options.context_select.is_some() || options.bind.is_some();
        if job.operation == ValueOperation::Rewrap && is_bound(&job.rewrap_options()) {
            return Err(CommandFailure::usage(
                "rewrap does not support --context-select and --bind with --connect, where it sends envelopes alone: run it on a \
                 machine with the keystore",
            ));
        }
        Ok(Self { connection, job: Arc::new(job), limits })
    }

    /// Rewraps the envelopes in `json`, one or more documents, and appends the result to `out`. Returns how many are new, and the
    /// offsets of those that failed to decrypt, as far as known.
    fn rewrap(&self, json: &[u8], progress: &TerminalProgress, out: &mut Vec<u8>) -> Result<RewrapDone, ClientErrorAt> {
        let found = envelopes::in_json(json);
        let options = self.job.rewrap_options();
        let (mut copied, mut done) = (0, RewrapDone::default());
        for batch in found.chunks(REWRAP_BATCH_SIZE) {
            let offset = |index: u64| {
                let found = usize::try_from(index).ok().and_then(|index| batch.get(index));
                found.map(|(range, _)| range.start - 1)
            };
            // Text that is not UTF-8 is not an envelope: it is sent as an empty text, which the engine refuses.
            let texts: Vec<&str> = batch.iter().map(|(_, text)| std::str::from_utf8(text).unwrap_or("")).collect();
            let call = self.connection.client.rewrap(&options, &texts);
            let rewrapped = self.connection.runtime.block_on(call).map_err(|error| {
                let offset = error.index.and_then(offset);
                ClientErrorAt { error, offset }
            })?;
            done.count += rewrapped.count;
            done.failed += rewrapped.report.failed;
            done.failures.extend(rewrapped.failures.iter().copied().filter_map(offset));
            let pairs = batch.iter().zip(&rewrapped.envelopes);
            // Unchanged values keep their spelling, such as `\\/` for `/`.
            for ((range, _), envelope) in pairs.filter(|((_, text), envelope)| envelope.as_bytes() != &**text) {
                out.extend_from_slice(&json[copied..range.start]);
                out.extend_from_slice(envelope.as_bytes());
                copied = range.end;
            }
            progress.set(copied as u64);
        }
        out.extend_from_slice(&json[copied..]);
        Ok(done)
    }

    fn rewrap_lines(&self, block: &LineBlock, out: &mut Vec<u8>) -> CommandOutcome<TransformReport> {
        let at_line = |failure: CommandFailure, number: u64| failure.at(format_args!("line {number}"));
        for (number, line, _) in block.lines().filter(|(_, line, _)| !is_blank(line)) {
            check_document(line, &self.limits).map_err(|error| at_line(error.into(), number))?;
        }
        let line_of = |offset: usize| {
            block.first_line + block.text[..offset].iter().filter(|&&byte| byte == b'\n').count() as u64
        };
        let done = self.rewrap(&block.text, &TerminalProgress::bytes("", None), out).map_err(
            |ClientErrorAt { error, offset }| {
                out.clear();
                at_line(ClientError { index: None, ..error }.into(), line_of(offset.unwrap_or(0)))
            },
        )?;
        Ok(done.report(|offset| format!("line {}", line_of(offset))))
    }

    fn spawn_line(&self, line: &[u8]) -> JoinHandle<Result<Document, ClientError>> {
        let (client, job, line) = (self.connection.client.clone(), Arc::clone(&self.job), line.to_vec());
        self.connection.runtime.spawn(async move { call(&client, &job, &line).await })
    }
}

/// The result of rewrapping the envelopes of a text.
#[derive(Default)]
struct RewrapDone {
    count: u64,
    failed: u64,
    /// The offsets of the first that failed to decrypt.
    failures: Vec<usize>,
}

impl RewrapDone {
    fn report(self, place: impl Fn(usize) -> String) -> TransformReport {
        let Self { count, failed, failures } = self;
        TransformReport {
            count,
            failed,
            failures: failures.into_iter().map(place).collect(),
            ..TransformReport::default()
        }
    }
}

/// An error and the byte of the document that it concerns.
struct ClientErrorAt {
    error: ClientError,
    offset: Option<usize>,
}

impl TransformBackend for Remote {
    fn document(&self, document: Vec<u8>, progress: &TerminalProgress) -> CommandOutcome<(Vec<u8>, TransformReport)> {
        let RemoteEngine { client, runtime } = &self.connection;
        if self.job.operation == ValueOperation::Rewrap {
            check_document(&document, &self.limits)?;
            let mut out = Vec::with_capacity(document.len());
            let done = self.rewrap(&document, progress, &mut out).map_err(|ClientErrorAt { error, offset }| {
                let offset = offset.map(|offset| offset as u64);
                CommandFailure::from(ClientError { index: None, offset, ..error })
            })?;
            return Ok((out, done.report(|offset| format!("byte {offset}"))));
        }
        let done = runtime.block_on(call(client, &self.job, &document))?;
        let report = TransformReport::from(&done);
        Ok((done.json, report))
    }

    fn lines(&self, block: &LineBlock, out: &mut Vec<u8>) -> CommandOutcome<TransformReport> {
        if self.job.operation == ValueOperation::Rewrap {
            return self.rewrap_lines(block, out);
        }
        let start = |(number, line, line_break)| {
            let call = (!is_blank(line)).then(|| self.spawn_line(line));
            (number, line, line_break, call)
        };
        let lines: Vec<_> = block.lines().map(start).collect();
        let mut calls = lines.into_iter();
        let mut report = TransformReport::default();
        while let Some((number, line, line_break, call)) = calls.next() {
            match call {
                None => out.extend_from_slice(line),
                Some(call) => {
                    let done = self.connection.runtime.block_on(call).unwrap_or_else(|_| Err(ended()));
                    let done = done.map_err(CommandFailure::from).and_then(|document| {
                        let of_line = TransformReport::from(&document);
                        self.job.check(&of_line).map(|()| (document, of_line))
                    });
                    match done {
                        Ok((document, of_line)) => {
                            out.extend_from_slice(&document.json);
                            // Each line has no more paths than the engine's limit; the total is limited where reports are added up.
                            report.add(of_line.at_line(number), usize::MAX);
                        }
                        Err(failure) => {
                            // Dropping a handle would let its call continue; results after a failure are not needed.
                            calls.filter_map(|(.., call)| call).for_each(|call| call.abort());
                            return Err(failure.at(format_args!("line {number}")));
                        }
                    }
                }
            }
            out.extend_from_slice(line_break);
        }
        Ok(report)
    }

    fn file(&self, content: Vec<u8>) -> CommandOutcome<Vec<u8>> {
        let RemoteEngine { client, runtime } = &self.connection;
        let TransformJob { app, options, operation, .. } = &*self.job;
        let done = match operation {
            ValueOperation::Encrypt => {
                runtime.block_on(client.encrypt_file(&EncryptFileOptions::of(app, options), &content))
            }
            ValueOperation::Decrypt => {
                runtime.block_on(client.decrypt_file(&DecryptFileOptions::of(app, options), &content))
            }
            ValueOperation::Rewrap => unreachable!("the command line has no rewrap of files"),
        };
        Ok(done?)
    }
}

async fn call(client: &Client, job: &TransformJob, document: &[u8]) -> Result<Document, ClientError> {
    let select: Vec<&str> = job.select.iter().map(String::as_str).collect();
    let select = (!select.is_empty()).then_some(select.as_slice());
    match job.operation {
        ValueOperation::Encrypt => client.encrypt_document(&job.encrypt_options(), select, document).await,
        ValueOperation::Decrypt => client.decrypt_document(&job.decrypt_options(), select, document).await,
        ValueOperation::Rewrap => unreachable!("done with lists of envelopes"),
    }
}

fn ended() -> ClientError {
    ClientError {
        kind: ErrorKind::Protocol,
        retry: leafseal_client::Retry::Never,
        message: "a call ended before it was answered".to_owned(),
        index: None,
        offset: None,
        retry_after: None,
    }
}

/// The protocol's curve.
pub(crate) fn curve_on_the_wire(curve: Curve) -> leafseal_client::Curve {
    match curve {
        Curve::P256 => leafseal_client::Curve::R1,
        Curve::Secp256k1 => leafseal_client::Curve::K1,
    }
}

/// The protocol's keying.
pub(crate) fn keying_on_the_wire(keying: Keying) -> leafseal_client::Keying {
    match keying {
        Keying::Field => leafseal_client::Keying::Field,
        Keying::Request => leafseal_client::Keying::Request,
        Keying::Session => leafseal_client::Keying::Session,
    }
}

impl From<ClientError> for CommandFailure {
    fn from(error: ClientError) -> Self {
        let mut message = without_number(&error.message);
        if let Some(index) = error.index.filter(|_| !message.contains("selector ")) {
            message.push_str(&format!(" (value {index})"));
        }
        if let Some(offset) = error.offset.filter(|_| !message.contains("byte ")) {
            message.push_str(&format!(" (at byte {offset})"));
        }
        let advice = match error.kind {
            ErrorKind::Connect => ": is the engine running there? leafseal dev or leafseal serve starts one",
            ErrorKind::Timeout => ": try again, or raise client.request_timeout",
            ErrorKind::ConnectionLost { .. } | ErrorKind::GoingAway => {
                ": nothing was written; run the command again once the engine is back"
            }
            ErrorKind::RequestTooLarge => ": raise client.frame_size_max, and server.frame_size_max at the engine",
            ErrorKind::Engine(ErrorCode::Overloaded | ErrorCode::Unavailable | ErrorCode::AuditUnavailable) => {
                ": try again in a moment"
            }
            _ => "",
        };
        Self { exit: Exit::of(error.code()), message: message + advice }
    }
}

/// Removes `(os error N)` from a message.
fn without_number(message: &str) -> String {
    let Some((before, after)) = message.split_once(" (os error ") else { return message.to_owned() };
    let after = after.split_once(')').map_or("", |(_, after)| after);
    format!("{before}{after}")
}
