//! Properties that hold for any bytes of a client: the fuzz target checks them, and an ordinary test replays its corpus.
//!
//! Not part of the crate's interface. Every function panics where a property does not hold.

use super::scanner::{FramingScanner, RefusedFraming, Scan, ScannerState};

/// Header fields that are parsed for the comparison; hyper itself parses 100.
const FIELDS_MAX: usize = 128;
/// Maximum length of a stream that is also scanned byte by byte: a head is scanned again with each piece.
const BYTE_BY_BYTE_MAX: usize = 4 << 10;

/// How a stream ended: bytes passed, and the state or the reason for refusing it.
type Ended = (usize, Result<ScannerState, RefusedFraming>);

/// Scans any bytes as a client's stream: the result does not depend on how they are split, and what passes has the framing that the HTTP
/// library sees. Returns the number of requests that the library parsed.
pub fn check_requests(bytes: &[u8]) -> usize {
    let whole = scan(bytes, usize::MAX);
    let pieces: &[usize] = if bytes.len() <= BYTE_BY_BYTE_MAX { &[1, 2, 5, 64] } else { &[997] };
    for &piece in pieces {
        // Which of several faults is reported depends on the bytes that have arrived when the first is found.
        let (passed, ended) = scan(bytes, piece);
        assert_eq!((passed, ended.ok()), (whole.0, whole.1.ok()), "in pieces of {piece}");
    }
    let mut library = LibraryReader { bytes: &bytes[..whole.0], at: 0, requests: 0 };
    let state = library.read();
    if let (Some(state), Ok(scanned)) = (state, whole.1) {
        assert_eq!((state, library.at), (scanned, whole.0), "framing");
    }
    library.requests
}

/// Scans in pieces of `piece` bytes; upgrades are refused.
fn scan(bytes: &[u8], piece: usize) -> Ended {
    let mut scanner = FramingScanner::new();
    let (mut passed, mut shown) = (0, 0);
    while shown < bytes.len() {
        shown = shown.saturating_add(piece).min(bytes.len());
        loop {
            match scanner.scan(&bytes[passed..shown]) {
                Scan::Passed(size) => passed += size,
                Scan::Refused(size, reason) => return (passed + size, Err(reason)),
            }
            if scanner.state != ScannerState::Undecided {
                break;
            }
            scanner.decide(false);
        }
    }
    (passed, Ok(scanner.state))
}

/// Reads a stream with the parser of the HTTP library and the length rules of RFC 9112, section 6.3.
struct LibraryReader<'b> {
    bytes: &'b [u8],
    at: usize,
    requests: usize,
}

impl<'b> LibraryReader<'b> {
    fn rest(&self) -> &'b [u8] {
        &self.bytes[self.at..]
    }

    /// Returns the state at the end of the stream; `None` if the library refuses it, which ends the connection.
    fn read(&mut self) -> Option<ScannerState> {
        loop {
            if self.rest().chunks(2).all(|pair| pair == b"\r\n") {
                self.at = self.bytes.len();
                return Some(ScannerState::Head);
            }
            let length = self.head()?;
            self.requests += 1;
            let state = match length {
                Some(length) => self.body(length),
                None => self.chunks()?,
            };
            if state != ScannerState::Head {
                return Some(state);
            }
        }
    }

    /// Returns the length of the body after a head; `None` inside for a chunked one.
    fn head(&mut self) -> Option<Option<u64>> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut fields);
        match request.parse(self.rest()).ok()? {
            httparse::Status::Complete(size) => self.at += size,
            httparse::Status::Partial => panic!("the scanner passed half a head"),
        }
        let values = |name: &str| {
            let fields = request.headers.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
            fields.map(|field| field.value).collect::<Vec<_>>()
        };
        match (values("transfer-encoding").as_slice(), values("content-length").as_slice()) {
            ([], []) => Some(Some(0)),
            ([coding], []) => {
                assert!(coding.eq_ignore_ascii_case(b"chunked") && request.version == Some(1));
                Some(None)
            }
            ([], [length]) => {
                let text = std::str::from_utf8(length).expect("digits");
                Some(Some(text.parse().expect("a length of at most 18 digits")))
            }
            both => panic!("two lengths passed: {both:?}"),
        }
    }

    fn body(&mut self, length: u64) -> ScannerState {
        let there = self.rest().len() as u64;
        if there < length {
            self.at = self.bytes.len();
            return ScannerState::Body(length - there);
        }
        self.at += usize::try_from(length).expect("no longer than what is there");
        ScannerState::Head
    }

    fn chunks(&mut self) -> Option<ScannerState> {
        loop {
            let size = match httparse::parse_chunk_size(self.rest()).ok()? {
                httparse::Status::Complete((line, size)) => {
                    self.at += line;
                    size
                }
                httparse::Status::Partial => {
                    assert_eq!(self.rest(), b"", "the scanner passed half a line");
                    return Some(ScannerState::ChunkLine);
                }
            };
            if size == 0 {
                return self.trailers();
            }
            if let ScannerState::Body(left) = self.body(size) {
                return Some(ScannerState::ChunkData(left));
            }
            match self.rest() {
                [] => return Some(ScannerState::ChunkEnd),
                [b'\r', b'\n', ..] => self.at += 2,
                other => panic!("no line end behind a chunk: {:?}", other.first()),
            }
        }
    }

    fn trailers(&mut self) -> Option<ScannerState> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        match httparse::parse_headers(self.rest(), &mut fields).ok()? {
            httparse::Status::Complete((size, _)) => {
                self.at += size;
                Some(ScannerState::Head)
            }
            httparse::Status::Partial => {
                assert!(self.rest().is_empty() || self.rest().ends_with(b"\r\n"), "the scanner passed half a line");
                self.at = self.bytes.len();
                Some(ScannerState::Trailers)
            }
        }
    }
}
