//! Bounds on the work that a body causes, for any bytes: the fuzz target checks them, and an ordinary test replays its corpus. Work is
//! counted in steps, never in time.
//!
//! Not part of the crate's interface. Every function panics where a bound does not hold.

mod documents;

use std::net::Ipv4Addr;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use leafseal_document::form::{
    FieldNames, FieldReader, FormError, FormLimits, PartReader, Syntax, WantedFields, find_fields,
};
use leafseal_document::{CaseFold, DocumentLimits, Selection, WalkProgress};

use super::other_readings::ReadingSearch;
use super::redact::Redaction;
use crate::body::buffer::{BodyBudget, BodyBuffer, Joining};
use crate::body::coding::fuzzing::encode;
use crate::body::coding::{Coding, DecodeBounds, Decoding};
use crate::body::envelopes::WholeSearch;
use crate::config::Limits;
use crate::rules::forms::canonical::{CanonicalFields, CanonicalParts, Checks};
use crate::rules::forms::{ReadMultipart, ReadUrlencoded, WriteMultipart, WriteUrlencoded};

/// Memory that the work may charge.
const ROOM_SIZE: usize = 256 << 20;
/// Calls that any work may take.
const CALLS_FREE: usize = 8;
/// Bytes that a call handles at least while it reads a name of the maximum size or writes, unless it ends a stage.
const CALL_SIZE_MIN: usize = 8 << 10;
/// Maximum size of a name in these checks.
const NAME_SIZE_MAX: usize = 1 << 10;

/// Treats any bytes as a body, whose first byte selects the work and whose second line names the fields, separated by `,`: every piece of
/// offloaded work takes no more steps than its bound for a body of this size, and no more in one call than a slice has room for.
pub fn check_steps(bytes: &[u8]) {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let mut lines = rest.splitn(2, |&byte| byte == b'\n');
    let (Some(names), Some(body)) = (lines.next(), lines.next()) else { return };
    let names = String::from_utf8_lossy(names).into_owned();
    let names = FieldNames::new(names.split(',').filter(|name| !name.is_empty()));
    let guarded = Arc::new(names.clone().guarded(CaseFold::Refuse, &names));
    match first.wrapping_sub(b'A') % 9 {
        0 => check_fields(body, &Arc::new(names), &guarded),
        1 => check_parts(body, &Arc::new(names), &guarded),
        2 => check_redaction(body),
        3 => check_decoding(body),
        4 => check_encoding(body),
        5 => documents::check_patch(body),
        6 => documents::check_texts(body, &names),
        7 => {
            documents::check_names(body);
            documents::check_members(body);
        }
        _ => check_copies(body),
    }
}

fn limits() -> FormLimits {
    FormLimits { fields_max: 10_000, name_size_max: NAME_SIZE_MAX, part_header_size_max: 2 * NAME_SIZE_MAX }
}

fn buffer(bytes: &[u8]) -> BodyBuffer {
    let limits = Limits { bodies_size_max: ROOM_SIZE, client_bodies_size_max: ROOM_SIZE, ..Limits::default() };
    let mut buffer = BodyBuffer::new(BodyBudget::new(&limits).share(Ipv4Addr::LOCALHOST.into()));
    buffer.extend(bytes).expect("there is room");
    buffer
}

/// Runs work to its end; returns the result and the number of calls.
fn drive<S, T>(mut state: S, step: impl Fn(S) -> ControlFlow<T, S>) -> (T, usize) {
    let mut calls = 0;
    loop {
        calls += 1;
        match step(state) {
            ControlFlow::Continue(next) => state = next,
            ControlFlow::Break(done) => return (done, calls),
        }
    }
}

/// Work on this many bytes, each read `readings` times at most, takes few calls.
fn check_calls(calls: usize, size: usize, readings: u64, what: &str) {
    let calls_max = CALLS_FREE + size * readings as usize / CALL_SIZE_MIN;
    assert!(calls <= calls_max, "{what}: {calls} calls for {size} bytes, more than {calls_max}");
}

/// Follows a reader: its steps in total and in each call are bounded.
fn check_reader(
    size: usize,
    per_byte: u64,
    mut read: impl FnMut() -> (Result<WalkProgress, FormError>, u64),
) -> Result<(), FormError> {
    let mut before = 0;
    loop {
        let (progress, steps) = read();
        // A call ends after 64 KiB of steps, and with the name or window that it has begun.
        let call_max = (64 << 10) + (64 << 10) + per_byte * 4 * NAME_SIZE_MAX as u64;
        assert!(steps - before <= call_max, "{} steps in one call", steps - before);
        assert!(steps <= per_byte * (size as u64 + 128), "{steps} steps for {size} bytes");
        before = steps;
        match progress {
            Ok(WalkProgress::More) => {}
            Ok(WalkProgress::Done) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

fn check_fields(body: &[u8], names: &Arc<FieldNames>, guarded: &Arc<FieldNames>) {
    for (names, wanted) in [
        (names, WantedFields::Selected),
        (guarded, WantedFields::Selected),
        (guarded, WantedFields::All),
        (guarded, WantedFields::Any),
    ] {
        let mut reader = FieldReader::new(Arc::clone(names), limits(), wanted);
        // Whether the form is refused makes no difference.
        let _ = check_reader(body.len(), FieldReader::STEPS_PER_BYTE, || (reader.read(body), reader.steps()));
    }
    let readings = FieldReader::STEPS_PER_BYTE;
    let search = ReadingSearch::new(body.to_vec(), Arc::clone(guarded), limits());
    let ((_, is_held), calls) = drive(search, ReadingSearch::step);
    check_calls(calls, body.len(), readings, "search");
    for syntax in [Syntax::Form, Syntax::Query] {
        let canonical = CanonicalFields::new(buffer(body), Arc::clone(guarded), limits(), Checks::default(), syntax);
        let (written, calls) = drive(canonical, CanonicalFields::step);
        check_calls(calls, body.len(), readings + 6, "canonical form");
        if let Ok(written) = written {
            check_canonical_fields(body, &written.bytes, guarded, syntax);
            assert!(is_held || written.selected.is_empty(), "what is selected is found by any reader");
        }
    }
    let (form, calls) = drive(ReadUrlencoded::new(buffer(body), Arc::clone(names), limits()), ReadUrlencoded::step);
    check_calls(calls, body.len(), readings + 4, "form");
    let Ok(form) = form else { return };
    let texts = Arc::new(form.texts.iter().map(|text| format!("{text}x")).collect::<Vec<_>>());
    let written_max = form.written_size_max(&texts);
    let (written, calls) = drive(WriteUrlencoded::new(form, texts, Syntax::Form), WriteUrlencoded::step);
    check_calls(calls, body.len() + written_max, 4, "written form");
    assert!(written.expect("it is written").len() <= written_max);
}

/// Written again, a canonical form stays as it is, has the same selected values, and only names of one spelling.
fn check_canonical_fields(body: &[u8], written: &[u8], names: &Arc<FieldNames>, syntax: Syntax) {
    let again = CanonicalFields::new(buffer(written), Arc::clone(names), limits(), Checks::default(), syntax);
    let (again, _) = drive(again, CanonicalFields::step);
    assert_eq!(again.expect("it was accepted").bytes, written, "a canonical form is one");
    let values = |bytes: &[u8]| -> Vec<Vec<u8>> {
        let found = find_fields(bytes, names, &limits()).expect("it was accepted");
        let decoded = |range: Range<usize>| {
            let mut out = Vec::new();
            Syntax::decode(&bytes[range.clone()], range.len(), &mut out);
            out
        };
        found.into_iter().map(decoded).collect()
    };
    assert_eq!(values(body), values(written));
    let names = written.split(|&byte| byte == b'&').map(|field| field.split(|&byte| byte == b'=').next());
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"*-._~+%".contains(byte);
    assert!(names.flatten().all(|name| name.iter().all(is_plain)) && !written.contains(&b';'));
}

fn check_parts(body: &[u8], names: &Arc<FieldNames>, guarded: &Arc<FieldNames>) {
    let readings = PartReader::STEPS_PER_BYTE;
    for (names, wanted) in
        [(names, WantedFields::Selected), (guarded, WantedFields::Selected), (guarded, WantedFields::All)]
    {
        let mut reader = PartReader::new("B", Arc::clone(names), limits(), wanted).expect("a boundary");
        let _ = check_reader(body.len(), readings, || (reader.read(body), reader.steps()));
    }
    let canonical = |body: &[u8]| {
        let names = Arc::clone(guarded);
        let reading = CanonicalParts::new(buffer(body), "B".to_owned(), names, limits(), Checks::default());
        drive(reading.expect("a boundary"), CanonicalParts::step)
    };
    let (written, calls) = canonical(body);
    check_calls(calls, body.len(), readings + 6, "canonical parts");
    if let Ok(written) = written {
        let again = canonical(&written.bytes).0.expect("it was accepted");
        assert_eq!(again.bytes, written.bytes, "a canonical form is one");
    }
    let reading = ReadMultipart::new(buffer(body), "B".to_owned(), Arc::clone(names), limits(), None);
    let (form, calls) = drive(reading.expect("a boundary"), ReadMultipart::step);
    check_calls(calls, body.len(), readings + 4, "parts");
    let Ok(form) = form else { return };
    let texts = Arc::new(form.texts.iter().map(|text| format!("{text}x")).collect::<Vec<_>>());
    let files = form.files().1.len();
    let size = body.len() + texts.iter().map(String::len).sum::<usize>();
    let (written, calls) = drive(WriteMultipart::new(form, texts, vec![None; files]), WriteMultipart::step);
    check_calls(calls, size, 4, "written parts");
    assert!(written.is_err() || written.is_ok_and(|written| written.len() <= size));
}

fn check_redaction(body: &[u8]) {
    let limits = DocumentLimits { filter_steps_max: 1 << 20, ..DocumentLimits::default() };
    for selector in ["$..a", "$[-1:]", "$[?@.a == 1]"] {
        let selection = Selection::parse(&[selector], &limits).expect("a selector");
        let Ok(redaction) = Redaction::new(buffer(body), &selection, "x", (false, false)) else { return };
        let (_, calls) = drive(redaction, Redaction::step);
        // Each call replaces a thousand values or reads 64 KiB, in at most four passes.
        check_calls(calls, body.len(), 4, selector);
    }
}

/// A body in pieces, and the search for envelopes in a whole one.
fn check_copies(body: &[u8]) {
    let pieces: Vec<Vec<u8>> = body.chunks(256 << 10).map(<[u8]>::to_vec).collect();
    let count = pieces.len();
    let share = buffer(body).share().another(body.len()).expect("there is room");
    let (joined, calls) = drive(Joining::new(pieces, share, body.len()).expect("there is room"), Joining::step);
    assert!(calls == count + 1 && joined.is_ok_and(|joined| joined.as_ref() == body));
    let (_, calls) = drive(WholeSearch::new(buffer(body)), WholeSearch::step);
    assert!(calls <= 1 + body.len() / (64 << 10), "{calls} calls to search {} bytes", body.len());
}

fn check_decoding(body: &[u8]) {
    const SIZE_MAX: usize = 1 << 20;
    let bounds = DecodeBounds { size_max: SIZE_MAX, expansion_max: 100, expansion_free: SIZE_MAX };
    for coding in [Coding::Gzip, Coding::Brotli, Coding::Zstd] {
        let decoding = Decoding::new(coding, buffer(body), bounds).expect("there is room");
        let (decoded, calls) = drive(decoding, Decoding::step);
        let size = decoded.map_or(SIZE_MAX, |plain| plain.len());
        // The shortest frame has eight bytes and takes two calls; every other call fills its output or takes all its input.
        assert!(
            calls <= CALLS_FREE + body.len() / 4 + size / (16 << 10),
            "{coding:?}: {calls} calls for {} bytes",
            body.len()
        );
    }
}

fn check_encoding(body: &[u8]) {
    for coding in [Coding::Gzip, Coding::Brotli, Coding::Zstd] {
        // It counts the calls.
        let coded = encode(coding, body);
        assert!(coded.len() <= body.len() + body.len() / 8 + 128, "{coding:?}: {} bytes", coded.len());
    }
}
