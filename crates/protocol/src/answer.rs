//! Encodes the engine's side: responses and its notifications, straight into the outgoing buffer.
//!
//! A response with a list is a header, the elements by the functions of [`crate::write`], and for some a footer. If an answer fails
//! half-way, the caller removes it (`Vec::truncate`) and writes [`error`] instead.

use crate::error::ErrorObject;
use crate::field::Field;
use crate::method::{CONNECTION_ERROR, GOING_AWAY, GoingAway};
use crate::methods::{Health, Inspection};
use crate::query::QueryResult;
use crate::record::{RecordValue, WireRecord, write_map};
use crate::write::{self, OpenBinary};

/// Begins a successful response: the result, one value, has to follow.
pub fn begin(id: u32, out: &mut Vec<u8>) {
    write::array_header(4, out);
    write::unsigned(1, out);
    write::unsigned(u64::from(id), out);
    write::nil(out);
}

/// A failed response.
pub fn error(id: u32, error: &ErrorObject, out: &mut Vec<u8>) {
    write::array_header(4, out);
    write::unsigned(1, out);
    write::unsigned(u64::from(id), out);
    error_object(error, out);
    write::nil(out);
}

/// The notification before the engine closes a connection that cannot go on.
pub fn connection_error(error: &ErrorObject, out: &mut Vec<u8>) {
    write::array_header(3, out);
    write::unsigned(2, out);
    write::string(CONNECTION_ERROR, out);
    write::array_header(1, out);
    error_object(error, out);
}

/// The report of an answer. Fields that are empty, zero or absent are not written.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnswerReport<'a> {
    /// How many values each selector matched.
    pub matched: &'a [u64],
    /// How many of the values encrypted were envelopes already.
    pub resealed: u64,
    /// Number of envelopes that were skipped.
    pub skipped: u64,
    /// How many envelopes to a public key were resealed with a symmetric key.
    pub rewrapped: u64,
    /// How many of the values were sealed, or opened, with a symmetric key; the others have envelopes to a public key.
    pub symmetric: u64,
    /// Number of envelopes that failed to decrypt, if the request sets an action for them.
    pub failed: Option<u64>,
    /// The positions of the first of them.
    pub failures: Failures<'a>,
}

/// The positions of envelopes that failed to decrypt.
#[derive(Clone, Copy, Debug)]
pub enum Failures<'a> {
    /// Paths in a document.
    Paths(&'a [&'a str]),
    /// Indexes in a list.
    Indexes(&'a [u64]),
}

impl Default for Failures<'_> {
    fn default() -> Self {
        Failures::Indexes(&[])
    }
}

impl AnswerReport<'_> {
    /// Writes the fields; gives how many they are.
    fn write(&self, out: &mut Vec<u8>) -> u8 {
        let mut count = 0;
        if !self.matched.is_empty() {
            numbers_field(Field::Matched, self.matched, out);
            count += 1;
        }
        let numbers = [
            (Field::Resealed, self.resealed),
            (Field::Skipped, self.skipped),
            (Field::Rewrapped, self.rewrapped),
            (Field::Symmetric, self.symmetric),
        ];
        let numbers = numbers.into_iter().filter(|(_, number)| *number > 0);
        for (name, number) in numbers.chain(self.failed.map(|failed| (Field::Failed, failed))) {
            field(name, out);
            write::unsigned(number, out);
            count += 1;
        }
        match self.failures {
            Failures::Paths([]) | Failures::Indexes([]) => count,
            Failures::Paths(paths) => {
                strings_field(Field::Failures, paths, out);
                count + 1
            }
            Failures::Indexes(indexes) => {
                numbers_field(Field::Failures, indexes, out);
                count + 1
            }
        }
    }
}

fn numbers_field(name: Field, numbers: &[u64], out: &mut Vec<u8>) {
    field(name, out);
    write::array_header(numbers.len(), out);
    numbers.iter().for_each(|number| write::unsigned(*number, out));
}

/// The map of a result to which fields may be added at its end: it begins as one of few fields, whose header is one byte.
#[derive(Debug)]
struct OpenMap {
    header: usize,
}

impl OpenMap {
    fn begin(fields: usize, out: &mut Vec<u8>) -> Self {
        let header = out.len();
        write::map_header(fields, out);
        OpenMap { header }
    }

    /// Counts `more` fields, in the buffer in which the map was begun.
    fn add(self, more: u8, head: &mut [u8]) {
        head[self.header] += more;
    }
}

/// An answer to `encrypt` or `decrypt` that is being written.
#[must_use = "the answer is complete only after `finish`"]
#[derive(Debug)]
pub struct OpenValues {
    map: OpenMap,
}

impl OpenValues {
    /// Begins the answer: `count` values have to follow, each by [`write::scalar`] or a part of it.
    pub fn begin(id: u32, count: u32, out: &mut Vec<u8>) -> Self {
        begin(id, out);
        let map = OpenMap::begin(1, out);
        field(Field::Values, out);
        write::array_header(count as usize, out);
        OpenValues { map }
    }

    /// Ends the answer.
    pub fn finish(self, report: &AnswerReport<'_>, out: &mut Vec<u8>) {
        let more = report.write(out);
        self.map.add(more, out);
    }

    /// Ends an answer that began in `head` and continues in other buffers; appends the bytes after the values to `tail`.
    pub fn finish_at(self, report: &AnswerReport<'_>, head: &mut [u8], tail: &mut Vec<u8>) {
        let more = report.write(tail);
        self.map.add(more, head);
    }
}

/// The notification before the engine closes a connection in good order.
pub fn going_away(reason: GoingAway, out: &mut Vec<u8>) {
    write::array_header(3, out);
    write::unsigned(2, out);
    write::string(GOING_AWAY, out);
    write::array_header(1, out);
    write::string(reason.as_str(), out);
}

/// Begins the answer to `encrypt` and `decrypt`: `count` values have to follow, each by [`write::scalar`] or a part of it.
/// [`OpenValues`] does the same where there may be something to report.
pub fn begin_values(id: u32, count: u32, out: &mut Vec<u8>) {
    begin(id, out);
    write::map_header(1, out);
    field(Field::Values, out);
    write::array_header(count as usize, out);
}

/// An answer to `rewrap` that is being written.
#[must_use = "the answer is complete only after `finish`"]
#[derive(Debug)]
pub struct OpenRewrap {
    map: OpenMap,
}

impl OpenRewrap {
    /// Begins the answer: `count` strings have to follow.
    pub fn begin(id: u32, count: u32, out: &mut Vec<u8>) -> Self {
        begin(id, out);
        let map = OpenMap::begin(2, out);
        field(Field::Values, out);
        write::array_header(count as usize, out);
        OpenRewrap { map }
    }

    /// Ends the answer; `rewrapped` of the envelopes are new.
    pub fn finish(self, rewrapped: u64, report: &AnswerReport<'_>, out: &mut Vec<u8>) {
        end_counted(rewrapped, out);
        let more = report.write(out);
        self.map.add(more, out);
    }

    /// Ends an answer that began in `head` and continues in other buffers; appends the bytes after the values to `tail`.
    pub fn finish_at(self, rewrapped: u64, report: &AnswerReport<'_>, head: &mut [u8], tail: &mut Vec<u8>) {
        end_counted(rewrapped, tail);
        let more = report.write(tail);
        self.map.add(more, head);
    }
}

fn end_counted(count: u64, out: &mut Vec<u8>) {
    field(Field::Count, out);
    write::unsigned(count, out);
}

/// An answer to `encrypt_document` or `decrypt_document` that is being written.
#[must_use = "the answer is complete only after `finish`"]
#[derive(Debug)]
pub struct OpenDocument {
    map: OpenMap,
    document: OpenBinary,
}

impl OpenDocument {
    /// Begins the answer: the document is what is appended to `out` from now on.
    pub fn begin(id: u32, out: &mut Vec<u8>) -> Self {
        begin(id, out);
        let map = OpenMap::begin(2, out);
        field(Field::Document, out);
        OpenDocument { map, document: OpenBinary::begin(out) }
    }

    /// Ends the document and the answer; `count` fields were encrypted or decrypted.
    pub fn finish(self, count: u64, out: &mut Vec<u8>) {
        self.finish_with(count, &AnswerReport::default(), out);
    }

    /// The same with a report.
    pub fn finish_with(self, count: u64, report: &AnswerReport<'_>, out: &mut Vec<u8>) {
        self.document.finish(out);
        end_counted(count, out);
        let more = report.write(out);
        self.map.add(more, out);
    }

    /// Ends an answer whose document continues in other buffers: `end` is the total size of `head`, in which it began, and of the
    /// rest. Appends the bytes after the document to `tail`.
    pub fn finish_at(self, end: usize, count: u64, head: &mut [u8], tail: &mut Vec<u8>) {
        self.finish_at_with(end, count, &AnswerReport::default(), head, tail);
    }

    /// The same with a report.
    pub fn finish_at_with(
        self,
        end: usize,
        count: u64,
        report: &AnswerReport<'_>,
        head: &mut [u8],
        tail: &mut Vec<u8>,
    ) {
        self.document.finish_at(end, head);
        end_counted(count, tail);
        let more = report.write(tail);
        self.map.add(more, head);
    }
}

/// An answer to `encrypt_file` or `decrypt_file` that is being written.
#[must_use = "the answer is complete only after `finish`"]
#[derive(Debug)]
pub struct OpenFile {
    data: OpenBinary,
}

impl OpenFile {
    /// Begins the answer: the file's contents are what is appended to `out` from now on.
    pub fn begin(id: u32, out: &mut Vec<u8>) -> Self {
        begin(id, out);
        write::map_header(1, out);
        field(Field::Data, out);
        OpenFile { data: OpenBinary::begin(out) }
    }

    /// Ends the contents and the answer.
    pub fn finish(self, out: &mut [u8]) {
        self.data.finish(out);
    }
}

/// Begins the answer to `inspect`: `count` times [`inspected`] has to follow.
pub fn begin_inspect(id: u32, count: u32, out: &mut Vec<u8>) {
    begin_values(id, count, out);
}

/// One envelope of an answer to `inspect`. Facts that are not known are left out.
pub fn inspected(envelope: &Inspection, out: &mut Vec<u8>) {
    envelope.write(out);
}

/// An answer with the fields that have a value, for callers that have results by name.
pub fn given(id: u32, fields: &[(Field, Option<RecordValue<'_>>)], out: &mut Vec<u8>) {
    begin(id, out);
    write_map(fields, out);
}

/// The answer to a query.
pub fn result(id: u32, result: &impl QueryResult, out: &mut Vec<u8>) {
    begin(id, out);
    result.encode(out);
}

fn strings_field(name: Field, texts: &[&str], out: &mut Vec<u8>) {
    field(name, out);
    write::array_header(texts.len(), out);
    texts.iter().for_each(|text| write::string(text, out));
}

/// The answer to `health`.
pub fn health(id: u32, status: &str, out: &mut Vec<u8>) {
    result(id, &Health { status: status.to_owned() }, out);
}

fn error_object(error: &ErrorObject, out: &mut Vec<u8>) {
    let numbers =
        [(Field::Index, error.index), (Field::Offset, error.offset), (Field::RetryAfterMs, error.retry_after_ms)];
    write::map_header(3 + numbers.iter().filter(|(_, number)| number.is_some()).count(), out);
    string_field(Field::Code, error.code.as_str(), out);
    string_field(Field::Message, &error.message, out);
    string_field(Field::Retry, error.code.retry().as_str(), out);
    for (name, number) in numbers {
        if let Some(number) = number {
            field(name, out);
            write::unsigned(number, out);
        }
    }
}

fn field(field: Field, out: &mut Vec<u8>) {
    write::string(field.as_str(), out);
}

fn string_field(name: Field, text: &str, out: &mut Vec<u8>) {
    field(name, out);
    write::string(text, out);
}
