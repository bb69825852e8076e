//! Calls on a remote engine through the client. A list is one request; a column is several, of which some are in flight at a time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use leafseal_client::{Answer, Client, Document};
use leafseal_protocol::request as wire;
use leafseal_protocol::{ContentError, ErrorCode, Scalar, ValuesResult};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use crate::arrow::Column;
use crate::contexts::ContextsFrom;
use crate::fault::CallFault;
use crate::options::CallDirection;
use crate::values::{ListSource, ValueList};
use crate::work::{CallWork, Done, Input, WorkOutput, WorkReport};

/// Limits of one request for a part of a column: values, and bytes of their texts.
const PART_VALUES_MAX: usize = 10_000;
const PART_BYTES_MAX: usize = 4 << 20;
/// Largest encoded head of a string, and largest encoded number.
const TEXT_HEAD_MAX: usize = 5;
const NUMBER_MAX: usize = 9;
/// Requests of one column in flight.
const PARTS_IN_FLIGHT: usize = 4;
/// Documents of one column in flight.
const DOCUMENTS_IN_FLIGHT: usize = 32;

/// How much later than its time limit a call ends here: the engine's own refusal, which says more, should arrive first.
const REFUSAL_TIME: Duration = Duration::from_millis(250);

/// Runs a call. Dropping the future cancels its requests.
pub(crate) async fn run(client: Client, work: Arc<CallWork>) -> Result<Done, CallFault> {
    let deadline = work.options().timeout.and_then(|time| Instant::now().checked_add(time));
    let running = RemoteCall { client, work, deadline }.run();
    match deadline {
        Some(deadline) => {
            timeout_at(deadline + REFUSAL_TIME, running).await.unwrap_or_else(|_| Err(CallFault::deadline()))
        }
        None => running.await,
    }
}

/// A call on its way, which may need several requests.
#[derive(Clone)]
struct RemoteCall {
    client: Client,
    work: Arc<CallWork>,
    /// The end of the time limit, of all requests together.
    deadline: Option<Instant>,
}

impl RemoteCall {
    /// The rest of the time limit, in milliseconds, for the next request.
    fn left_ms(&self) -> Result<Option<u32>, CallFault> {
        let Some(deadline) = self.deadline else { return Ok(None) };
        let left = deadline.checked_duration_since(Instant::now()).ok_or_else(CallFault::deadline)?;
        Ok(Some(u32::try_from(left.as_millis()).unwrap_or(u32::MAX).max(1)))
    }

    async fn run(self) -> Result<Done, CallFault> {
        match &self.work.input {
            Input::List(values) => {
                let (answer, report) =
                    request(&self, &Range::new(values, self.work.contexts(0), 0, values.len())).await?;
                Ok(Done { output: WorkOutput::Answer(answer), report })
            }
            Input::Columns(columns) => {
                let (mut lists, mut report, mut first) = (Vec::with_capacity(columns.len()), WorkReport::default(), 0);
                for (index, chunk) in columns.iter().enumerate() {
                    let (list, of_column) = column(&self, index, first).await.map_err(|fault| fault.shifted(first))?;
                    report.add(&of_column, first as u64);
                    first += chunk.len();
                    lists.push(list);
                }
                Ok(Done { output: WorkOutput::Columns(lists), report })
            }
            Input::Document(json) => document(&self, json).await,
            Input::Documents(columns) => {
                let (mut lists, mut first) = (Vec::with_capacity(columns.len()), 0);
                for (index, chunk) in columns.iter().enumerate() {
                    lists.push(documents(&self, index, first).await?);
                    first += chunk.len();
                }
                Ok(Done { output: WorkOutput::Columns(lists), report: WorkReport::default() })
            }
            Input::Envelopes(envelopes) => {
                let envelopes: Vec<&str> = envelopes.iter().map(String::as_str).collect();
                let inspected = self.client.inspect_with(&self.work.options().wire_inspect(), &envelopes).await?;
                Ok(Done { output: WorkOutput::Inspected(inspected), report: WorkReport::default() })
            }
            Input::Ready => {
                self.client.health().await?;
                Ok(Done { output: WorkOutput::Ready, report: WorkReport::default() })
            }
        }
    }
}

/// A range of a list.
struct Range<'a, S> {
    source: &'a S,
    /// The context of each of its values, if they have one each.
    contexts: Option<Vec<&'a str>>,
    start: usize,
    end: usize,
}

impl<'a, S: ListSource> Range<'a, S> {
    /// The values from `start` to `end` of a list that has these contexts.
    fn new(source: &'a S, contexts: Option<ContextsFrom<'a>>, start: usize, end: usize) -> Self {
        let contexts = contexts.map(|contexts| contexts.texts(start, end - start));
        Self { source, contexts, start, end }
    }

    fn scalars(&self) -> impl ExactSizeIterator<Item = Scalar<'a>> + use<'a, S> {
        let source = self.source;
        (self.start..self.end).map(move |index| source.scalar(index))
    }

    /// Bytes that the values and their contexts take in a request, at most.
    fn encoded_size_max(&self) -> usize {
        let sizes = self.scalars().map(|scalar| match scalar {
            Scalar::Str(text) => TEXT_HEAD_MAX + text.as_bytes().len(),
            _ => NUMBER_MAX,
        });
        let contexts = self.contexts.iter().flatten().map(|context| TEXT_HEAD_MAX + context.len());
        sizes.chain(contexts).sum()
    }
}

/// Makes a request for a range; returns the answer, which has as many values.
async fn request<S: ListSource>(call: &RemoteCall, range: &Range<'_, S>) -> Result<(Answer, WorkReport), CallFault> {
    let (options, left_ms) = (call.work.options(), call.left_ms()?);
    let answer = match call.work.direction {
        CallDirection::Encrypt => {
            let options = options.wire_encrypt()?;
            let encode = |id, deadline_ms, out: &mut Vec<u8>| {
                let options = leafseal_client::EncryptOptions { deadline_ms, ..options };
                out.reserve(range.encoded_size_max());
                match &range.contexts {
                    None => wire::encrypt(id, &options, range.scalars(), out),
                    Some(contexts) => wire::encrypt_bound(id, &options, contexts, range.scalars(), out),
                }
            };
            call.client.call_raw(left_ms, encode).await?
        }
        CallDirection::Decrypt => {
            let options = options.wire_decrypt()?;
            let encode = |id, deadline_ms, out: &mut Vec<u8>| {
                let options = leafseal_client::DecryptOptions { deadline_ms, ..options };
                out.reserve(range.encoded_size_max());
                match &range.contexts {
                    None => wire::decrypt(id, &options, range.scalars(), out),
                    Some(contexts) => wire::decrypt_bound(id, &options, contexts, range.scalars(), out),
                }
            };
            call.client.call_raw(left_ms, encode).await?
        }
    };
    let read = || -> Result<_, ContentError> {
        let ValuesResult { values, report } = ValuesResult::decode(answer.result())?;
        let failed_indexes = report.failure_indexes()?;
        let (resealed, skipped, symmetric) = (report.resealed, report.skipped, report.symmetric);
        let (rewrapped, failed) = (report.rewrapped, report.failed.unwrap_or(0));
        Ok((
            values.count(),
            WorkReport { resealed, skipped, rewrapped, symmetric, failed, failed_indexes, ..WorkReport::default() },
        ))
    };
    let (count, report) = read().map_err(|error| unreadable(&error.to_string()))?;
    match count as usize == range.end - range.start {
        true => Ok((answer, report)),
        false => Err(unreadable("it has another number of values than the request")),
    }
}

/// The values of an answer.
pub(crate) fn values(answer: &Answer) -> Result<AnswerValues<'_>, CallFault> {
    let result = ValuesResult::decode(answer.result()).map_err(|error| unreadable(&error.to_string()))?;
    Ok(AnswerValues { left: result.values.count() as usize, values: result.values.iter() })
}

/// Reads the values of an answer in place.
pub(crate) struct AnswerValues<'a> {
    values: leafseal_protocol::Values<'a>,
    left: usize,
}

impl<'a> AnswerValues<'a> {
    /// The number of values that are left.
    pub(crate) fn len(&self) -> usize {
        self.left
    }

    /// The next value, of which there must be one.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Scalar<'a>, CallFault> {
        self.left = self.left.saturating_sub(1);
        match self.values.next() {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => Err(unreadable(&error.to_string())),
            None => Err(unreadable("a value is missing")),
        }
    }
}

/// A range of a list as a list of its own.
async fn list<S: ListSource>(call: &RemoteCall, range: Range<'_, S>) -> Result<(ValueList, WorkReport), CallFault> {
    let (answer, report) = request(call, &range).await?;
    let mut values = values(&answer)?;
    let mut list = ValueList::with_capacity(values.len());
    while values.len() > 0 {
        list.push(&values.next()?)?;
    }
    Ok((list, report))
}

fn unreadable(why: &str) -> CallFault {
    CallFault::new(ErrorCode::ProtocolError, format!("the engine's answer cannot be read: {why}"))
}

/// Processes a chunk of a column that begins with value `first`, in parts.
async fn column(call: &RemoteCall, index: usize, first: usize) -> Result<(ValueList, WorkReport), CallFault> {
    let Input::Columns(columns) = &call.work.input else { unreachable!("called for columns") };
    let size = columns[index].len();
    let mut running: VecDeque<(usize, AbortOnDropHandle<_>)> = VecDeque::new();
    let (mut next, mut whole, mut report) = (0, ValueList::default(), WorkReport::default());
    while next < size || !running.is_empty() {
        if next < size && running.len() < PARTS_IN_FLIGHT {
            let end = part_end(&columns[index], call.work.contexts(first), next);
            let (call, start) = (call.clone(), next);
            let part = tokio::spawn(async move {
                let Input::Columns(columns) = &call.work.input else { unreachable!("called for columns") };
                list(&call, Range::new(&columns[index], call.work.contexts(first), start, end)).await
            });
            running.push_back((start, AbortOnDropHandle::new(part)));
            next = end;
            continue;
        }
        let Some((start, part)) = running.pop_front() else { break };
        let ended = part.await.map_err(|_| CallFault::new(ErrorCode::Internal, "a part ended early"))?;
        let (list, of_part) = ended.map_err(|fault| fault.shifted(start))?;
        whole.append(list);
        report.add(&of_part, start as u64);
    }
    Ok((whole, report))
}

fn part_end(column: &Column, contexts: Option<ContextsFrom<'_>>, start: usize) -> usize {
    let (mut end, mut bytes) = (start, 0);
    while end < column.len() && end - start < PART_VALUES_MAX && bytes < PART_BYTES_MAX {
        if let Scalar::Str(text) = column.scalar(end) {
            bytes += text.as_bytes().len();
        }
        bytes += contexts.map_or(0, |contexts| contexts.get(end).len());
        end += 1;
    }
    end
}

/// Processes the documents of a chunk that begins with row `first`, each a request of its own.
async fn documents(call: &RemoteCall, index: usize, first: usize) -> Result<ValueList, CallFault> {
    let Input::Documents(columns) = &call.work.input else { unreachable!("called for documents") };
    let column = &columns[index];
    let mut running: VecDeque<Option<AbortOnDropHandle<_>>> = VecDeque::new();
    let (mut next, mut list) = (0, ValueList::with_capacity(column.len()));
    for row in 0..column.len() {
        while next < column.len() && running.len() < DOCUMENTS_IN_FLIGHT {
            let is_text = matches!(column.scalar(next), Scalar::Str(_));
            let (call, of_task) = (call.clone(), next);
            let task = is_text.then(|| {
                AbortOnDropHandle::new(tokio::spawn(async move {
                    let Input::Documents(columns) = &call.work.input else { unreachable!("called for documents") };
                    let Scalar::Str(json) = columns[index].scalar(of_task) else { unreachable!("a text") };
                    let context = call.work.contexts(first).map(|contexts| contexts.get(of_task));
                    rewritten(&call, json.as_bytes(), context).await
                }))
            });
            running.push_back(task);
            next += 1;
        }
        let Some(Some(task)) = running.pop_front() else {
            list.push(&Scalar::Nil)?;
            continue;
        };
        let internal = |_| CallFault::new(ErrorCode::Internal, "a document ended early");
        let document = task.await.map_err(internal)?.map_err(|fault| fault.in_row(first + row))?;
        let text = std::str::from_utf8(&document.json).map_err(|error| unreadable(&error.to_string()))?;
        list.push_text(text)?;
    }
    Ok(list)
}

async fn document(call: &RemoteCall, json: &[u8]) -> Result<Done, CallFault> {
    let document = rewritten(call, json, None).await?;
    let report = WorkReport {
        count: Some(document.count),
        matched: document.report.matched,
        resealed: document.report.resealed,
        skipped: document.report.skipped,
        rewrapped: document.report.rewrapped,
        symmetric: document.report.symmetric,
        failed: document.report.failed,
        failed_paths: document.failures,
        failed_indexes: Vec::new(),
    };
    Ok(Done { output: WorkOutput::Document(document.json), report })
}

/// The document that the engine makes of `json`, which may have a context of its own.
async fn rewritten(call: &RemoteCall, json: &[u8], context: Option<&str>) -> Result<Document, CallFault> {
    let (options, deadline_ms) = (call.work.options(), call.left_ms()?);
    let select: Option<Vec<&str>> = options.select.as_ref().map(|select| select.iter().map(String::as_str).collect());
    let select = select.as_deref();
    Ok(match call.work.direction {
        CallDirection::Encrypt => {
            let options = options.wire_encrypt()?;
            let context = context.or(options.context);
            let options = leafseal_client::EncryptOptions { deadline_ms, context, ..options };
            call.client.encrypt_document(&options, select, json).await?
        }
        CallDirection::Decrypt => {
            let options = options.wire_decrypt()?;
            let context = context.or(options.context);
            let options = leafseal_client::DecryptOptions { deadline_ms, context, ..options };
            call.client.decrypt_document(&options, select, json).await?
        }
    })
}
