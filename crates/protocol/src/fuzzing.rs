//! Properties of frames, for the fuzzer and for the test that replays its corpus.
//!
//! - The scanner gives the same answer as a slow recursive walk that shares no code with it.
//! - Fed in pieces, it gives the same answer as fed at once.
//! - No bytes make a decoder panic, scanned or not.
//! - What decodes encodes again, and decodes to the same.
//! - A first look at a request agrees with what decodes.

use crate::{
    ContentError, DecryptDocumentParams, DecryptFileParams, DecryptParams, DocumentResult, EncryptDocumentParams,
    EncryptFileParams, EncryptParams, FileResult, FrameError, FrameLimits, GoingAway, InspectOptions, InspectParams,
    InspectResult, Message, Method, Peek, Query, RawParams, RawValue, RawValues, Reported, RewrapParams, RewrapResult,
    Scalar, Scanner, Text, ValuesResult, answer, connection_error, decode_cancel, request, write,
};

/// Small, so that short inputs reach every limit.
const LIMITS: FrameLimits = FrameLimits { frame_size_max: 1 << 16, depth_max: 8, elements_max: 1 << 10 };

/// Checks every property on a stream of frames.
///
/// # Panics
/// When one does not hold.
pub fn check_frames(bytes: &[u8]) {
    let mut rest = bytes;
    loop {
        let scanned = Scanner::new(LIMITS).scan(rest);
        assert_eq!(scanned, slow_scan(rest), "the scanner agrees with the slow walk");
        check_pieces(rest, scanned);
        match scanned {
            Ok(Some(length)) => {
                check_message(&rest[..length]);
                rest = &rest[length..];
            }
            Ok(None) | Err(_) => break,
        }
    }
    check_unscanned(bytes);
}

/// Feeds `bytes` byte by byte, and in pieces whose sizes follow from the bytes.
fn check_pieces(bytes: &[u8], expected: Result<Option<usize>, FrameError>) {
    for piece_size_max in [1, 7, 256] {
        let mut scanner = Scanner::new(LIMITS);
        let mut shown = 0;
        let mut answer = scanner.scan(&[]);
        while answer == Ok(None) && shown < bytes.len() {
            let piece_size = 1 + usize::from(bytes[shown]) % piece_size_max;
            shown = bytes.len().min(shown + piece_size);
            answer = scanner.scan(&bytes[..shown]);
            assert!(scanner.frame_size_min() <= LIMITS.frame_size_max);
        }
        assert_eq!(answer, expected, "pieces of up to {piece_size_max} bytes make no difference");
    }
}

/// Bytes that no scanner has passed: anything but a panic.
fn check_unscanned(bytes: &[u8]) {
    for start in 0..bytes.len().min(16) {
        if let Ok(message) = Message::parse(&bytes[start..]) {
            visit(message);
        }
    }
    let _ = Message::parse_unscanned(bytes, LIMITS);
}

fn visit(message: Message<'_>) {
    match message {
        Message::Request { params, .. } => {
            check_peek(params);
            for method in Method::ALL {
                let _ = reencode_request(*method, params);
            }
        }
        Message::Response { result: Ok(result), .. } => {
            reencode_results(result, |_, _| {});
        }
        Message::Response { result: Err(error), .. } => {
            let _ = error.error();
        }
        Message::Notification { params, .. } => {
            let _ = (decode_cancel(params), connection_error(params), GoingAway::decode(params));
        }
    }
}

/// A first look agrees with the parameters as they are read.
fn check_peek(params: RawParams<'_>) {
    let peek = Peek::at(params);
    if let Ok(EncryptParams { options, .. }) = EncryptParams::decode(params) {
        assert!(peek.app.is_none_or(|app| app == options.app), "the app is the same");
        assert!(
            peek.deadline_ms.is_none_or(|deadline| Some(deadline) == options.deadline_ms),
            "the deadline is the same"
        );
    }
}

/// Whatever reads a message's content and, where it reads, writes the same content again.
type Reencoded = Result<Vec<u8>, ContentError>;

fn check_message(frame: &[u8]) {
    match Message::parse(frame) {
        Ok(Message::Request { params, .. }) => {
            check_peek(params);
            Method::ALL
                .iter()
                .for_each(|method| check_stable(reencode_request(*method, params), &params_again(*method)));
        }
        Ok(Message::Response { result: Ok(result), .. }) => {
            reencode_results(result, check_stable);
        }
        Ok(other) => visit(other),
        Err(_) => {}
    }
}

/// An encoded frame decodes to itself.
fn check_stable(written: Reencoded, again: &dyn Fn(&[u8]) -> Reencoded) {
    if let Ok(frame) = written {
        let limits = FrameLimits { frame_size_max: 1 << 20, ..LIMITS };
        assert_eq!(Scanner::new(limits).scan(&frame), Ok(Some(frame.len())), "what is written is one frame");
        assert_eq!(again(&frame), Ok(frame), "what is written reads as the same");
    }
}

fn params_again(method: Method) -> impl Fn(&[u8]) -> Reencoded {
    move |frame| match Message::parse(frame) {
        Ok(Message::Request { params, method: name, .. }) => {
            assert_eq!(Method::require(name), Ok(method));
            reencode_request(method, params)
        }
        other => panic!("a written request is a request, not {other:?}"),
    }
}

fn scalars(values: RawValues<'_>) -> Result<Vec<Scalar<'_>>, ContentError> {
    Ok(values.iter().collect::<Result<_, _>>()?)
}

fn strings(values: RawValues<'_>) -> Result<Vec<&str>, ContentError> {
    Ok(values.strings().map(|text| text.map(Text::as_str)).collect::<Result<_, _>>()?)
}

fn reencode_request(method: Method, params: RawParams<'_>) -> Reencoded {
    let mut out = Vec::new();
    match method {
        Method::Encrypt => {
            let params = EncryptParams::decode(params)?;
            request::encrypt(7, &params.options, scalars(params.values)?.into_iter(), &mut out);
        }
        Method::Decrypt => {
            let params = DecryptParams::decode(params)?;
            request::decrypt(7, &params.options, scalars(params.values)?.into_iter(), &mut out);
        }
        Method::EncryptDocument => {
            let params = EncryptDocumentParams::decode(params)?;
            let select = params.select.map(strings).transpose()?;
            request::encrypt_document(7, &params.options, select.as_deref(), params.document, &mut out);
        }
        Method::DecryptDocument => {
            let params = DecryptDocumentParams::decode(params)?;
            let select = params.select.map(strings).transpose()?;
            request::decrypt_document(7, &params.options, select.as_deref(), params.document, &mut out);
        }
        Method::EncryptFile => {
            let params = EncryptFileParams::decode(params)?;
            request::encrypt_file(7, &params.options, params.data, &mut out);
        }
        Method::DecryptFile => {
            let params = DecryptFileParams::decode(params)?;
            request::decrypt_file(7, &params.options, params.data, &mut out);
        }
        Method::Rewrap => {
            let params = RewrapParams::decode(params)?;
            request::rewrap(7, &params.options, strings(params.values)?.into_iter(), &mut out);
        }
        Method::Inspect => {
            let params = InspectParams::decode(params)?;
            let options = InspectOptions { app: params.app.unwrap_or_default(), ..params.options };
            request::inspect_with(7, &options, strings(params.values)?.into_iter(), &mut out);
        }
        query => {
            if let Some(query) = Query::decode(query, params)? {
                request::begin_params(7, query.method().as_str(), &mut out);
                query.write(&mut out);
            }
        }
    }
    Ok(out)
}

type Reencode = fn(RawValue<'_>) -> Reencoded;

/// One for each kind of result of methods of values; [`reencode_results`] adds those of queries.
const RESULTS: [Reencode; 5] = [reencode_values, reencode_document, reencode_file, reencode_rewrap, reencode_inspect];

/// The result read as that of any method, and written again.
fn reencode_results(result: RawValue<'_>, mut check: impl FnMut(Reencoded, &dyn Fn(&[u8]) -> Reencoded)) {
    for reencode in RESULTS {
        check(reencode(result), &|frame| reencode(result_of(frame)));
    }
    for query in Query::ALL {
        let reencode = |result: RawValue<'_>| {
            let mut out = Vec::new();
            answer::begin(7, &mut out);
            let method = Method::parse(query.method).expect("the name of a method");
            Query::rewrite_result(method, result, &mut out).map(|()| out)
        };
        check(reencode(result), &|frame| reencode(result_of(frame)));
    }
}

fn result_of(frame: &[u8]) -> RawValue<'_> {
    match Message::parse(frame) {
        Ok(Message::Response { id: 7, result: Ok(result) }) => result,
        other => panic!("a written response is a response, not {other:?}"),
    }
}

fn reencode_values(result: RawValue<'_>) -> Reencoded {
    let ValuesResult { values, report } = ValuesResult::decode(result)?;
    let (values, matched, failures) = (scalars(values)?, report.matched()?, report.failure_indexes()?);
    let mut out = Vec::new();
    let open = answer::OpenValues::begin(7, values.len() as u32, &mut out);
    values.iter().for_each(|value| write::scalar(value, &mut out));
    open.finish(&written(&report, &matched, answer::Failures::Indexes(&failures)), &mut out);
    Ok(out)
}

fn reencode_document(result: RawValue<'_>) -> Reencoded {
    let DocumentResult { document, count, report } = DocumentResult::decode(result)?;
    let (matched, failures) = (report.matched()?, report.failure_paths()?);
    let mut out = Vec::new();
    let open = answer::OpenDocument::begin(7, &mut out);
    out.extend_from_slice(document);
    open.finish_with(count, &written(&report, &matched, answer::Failures::Paths(&failures)), &mut out);
    Ok(out)
}

/// A report that was read, to be written again.
fn written<'a>(report: &Reported<'_>, matched: &'a [u64], failures: answer::Failures<'a>) -> answer::AnswerReport<'a> {
    let Reported { resealed, skipped, rewrapped, symmetric, failed, .. } = *report;
    answer::AnswerReport { matched, resealed, skipped, rewrapped, symmetric, failed, failures }
}

fn reencode_file(result: RawValue<'_>) -> Reencoded {
    let FileResult { data } = FileResult::decode(result)?;
    let mut out = Vec::new();
    let open = answer::OpenFile::begin(7, &mut out);
    out.extend_from_slice(data);
    open.finish(&mut out);
    Ok(out)
}

fn reencode_rewrap(result: RawValue<'_>) -> Reencoded {
    let RewrapResult { values, count, .. } = RewrapResult::decode(result)?;
    let values = strings(values)?;
    let mut out = Vec::new();
    let answer = answer::OpenRewrap::begin(7, values.len() as u32, &mut out);
    values.iter().for_each(|value| write::string(value, &mut out));
    answer.finish(count, &answer::AnswerReport::default(), &mut out);
    Ok(out)
}

fn reencode_inspect(result: RawValue<'_>) -> Reencoded {
    let envelopes: Vec<_> = InspectResult::decode(result)?.iter().collect::<Result<_, _>>()?;
    let mut out = Vec::new();
    answer::begin_inspect(7, envelopes.len() as u32, &mut out);
    envelopes.iter().for_each(|envelope| answer::inspected(envelope, &mut out));
    Ok(out)
}

/// The expected result of the scanner, by a recursive walk over the specification's table of formats.
fn slow_scan(bytes: &[u8]) -> Result<Option<usize>, FrameError> {
    slow_value(bytes, 0, 0, 0)
}

/// The end of the value at `at`, inside `depth` containers, with at least `owed` further values after it.
fn slow_value(bytes: &[u8], at: usize, depth: usize, owed: u64) -> Result<Option<usize>, FrameError> {
    let Some(format) = slow_format(bytes, at)? else {
        return Ok(None);
    };
    let head_end = at + format.head_size;
    let size_min = head_end as u64 + format.payload + format.values + owed;
    if size_min > LIMITS.frame_size_max as u64 {
        return Err(FrameError::TooLarge { offset: at, size_min, limit: LIMITS.frame_size_max });
    }
    if let Some(count) = format.container {
        if count > LIMITS.elements_max {
            return Err(FrameError::TooManyElements { offset: at, count, limit: LIMITS.elements_max });
        }
        if depth == LIMITS.depth_max {
            return Err(FrameError::TooDeep { offset: at, limit: LIMITS.depth_max });
        }
    }
    let mut end = head_end + format.payload as usize;
    if end > bytes.len() {
        return Ok(None);
    }
    for left in (0..format.values).rev() {
        match slow_value(bytes, end, depth + 1, owed + left)? {
            Some(next) => end = next,
            None => return Ok(None),
        }
    }
    Ok(Some(end))
}

/// A row of the specification's table: sizes in bytes, counts of values inside.
struct Format {
    head_size: usize,
    payload: u64,
    values: u64,
    container: Option<u32>,
}

fn slow_format(bytes: &[u8], at: usize) -> Result<Option<Format>, FrameError> {
    let Some(marker) = bytes.get(at).copied() else {
        return Ok(None);
    };
    // How many bytes of length, or of plain content, follow the marker.
    let (length_size, content_size) = match marker {
        0xc1 => return Err(FrameError::ReservedMarker { offset: at }),
        0xc4 | 0xc7 | 0xd9 => (1, 0),
        0xc5 | 0xc8 | 0xda | 0xdc | 0xde => (2, 0),
        0xc6 | 0xc9 | 0xdb | 0xdd | 0xdf => (4, 0),
        0xcc | 0xd0 => (0, 1),
        0xcd | 0xd1 => (0, 2),
        0xca | 0xce | 0xd2 => (0, 4),
        0xcb | 0xcf | 0xd3 => (0, 8),
        _ => (0, 0),
    };
    let type_size = usize::from(matches!(marker, 0xc7..=0xc9 | 0xd4..=0xd8));
    let head_size = 1 + length_size + content_size + type_size;
    let Some(head) = bytes.get(at..at + head_size) else {
        return Ok(None);
    };
    let length = head[1..1 + length_size].iter().fold(0u32, |length, byte| length << 8 | u32::from(*byte));
    let plain = Format { head_size, payload: 0, values: 0, container: None };
    let array = |count: u32| Format { values: u64::from(count), container: Some(count), ..plain };
    let map = |count: u32| Format { values: 2 * u64::from(count), container: Some(count), ..plain };
    let payload = |size: u32| Format { payload: u64::from(size), ..plain };
    Ok(Some(match marker {
        0x80..=0x8f => map(u32::from(marker) - 0x80),
        0x90..=0x9f => array(u32::from(marker) - 0x90),
        0xa0..=0xbf => payload(u32::from(marker) - 0xa0),
        0xc4..=0xc9 | 0xd9..=0xdb => payload(length),
        0xd4..=0xd8 => payload([1, 2, 4, 8, 16][usize::from(marker - 0xd4)]),
        0xdc | 0xdd => array(length),
        0xde | 0xdf => map(length),
        _ => plain,
    }))
}
