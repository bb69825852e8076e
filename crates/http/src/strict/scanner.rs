//! The scanner: finds where requests begin and end in a stream of bytes, and refuses streams on which parsers could disagree.

use thiserror::Error;

/// Maximum length of the line that begins a chunk, including its extensions.
const CHUNK_LINE_MAX: usize = 256;
/// Maximum size of the extensions of all chunks of a body.
const CHUNK_EXTENSIONS_MAX: usize = 16 << 10;
/// Maximum digits of a length: more than any message needs, without overflow of 64 bits.
const LENGTH_DIGITS_MAX: usize = 18;
/// Maximum digits of a chunk's length.
const CHUNK_DIGITS_MAX: usize = 15;

/// Why a stream was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum RefusedFraming {
    #[error("a bare CR or LF, or a NUL, in a header")]
    LineEnd,
    #[error("a malformed request line")]
    RequestLine,
    #[error("a folded header line")]
    FoldedLine,
    #[error("a malformed header field")]
    HeaderField,
    #[error("Content-Length together with Transfer-Encoding")]
    BothLengths,
    #[error("a malformed or repeated Content-Length")]
    ContentLength,
    #[error("a Transfer-Encoding other than chunked")]
    TransferEncoding,
    #[error("no Host, or more than one, or another than in the request line")]
    Host,
    #[error("a malformed chunk")]
    Chunk,
    #[error("a malformed trailer")]
    Trailer,
}

/// The scanner's position in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScannerState {
    /// Between messages, or in an incomplete header.
    Head,
    /// In a body, with this many bytes to come.
    Body(u64),
    /// At the line that begins a chunk.
    ChunkLine,
    /// In a chunk, with this many bytes and a line end to come.
    ChunkData(u64),
    /// At the line end after a chunk.
    ChunkEnd,
    /// In the trailers.
    Trailers,
    /// After a request to switch protocols; the following bytes belong to that protocol or are the next request.
    Undecided,
    /// In another protocol.
    Foreign,
}

/// The result of scanning some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scan {
    /// This many bytes are valid; the rest needs more bytes to decide.
    Passed(usize),
    /// This many bytes are valid; the stream is refused at the next.
    Refused(usize, RefusedFraming),
}

/// Tracks the framing of requests.
#[derive(Debug)]
pub(super) struct FramingScanner {
    pub(super) state: ScannerState,
    extensions: usize,
    /// The state after the body of the current request.
    next: ScannerState,
}

/// The framing that a header defines for what follows it.
struct Framing {
    length: Option<u64>,
    is_chunked: bool,
    is_upgrade: bool,
}

impl FramingScanner {
    pub(super) fn new() -> Self {
        FramingScanner { state: ScannerState::Head, extensions: 0, next: ScannerState::Head }
    }

    /// Scans `bytes`, which begin where the last scan stopped. Bytes that were not passed must be scanned again, followed by new ones.
    pub(super) fn scan(&mut self, bytes: &[u8]) -> Scan {
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            if rest.is_empty() {
                return Scan::Passed(at);
            }
            match self.step(rest) {
                Ok(0) => return Scan::Passed(at),
                Ok(passed) => at += passed,
                Err(refused) => return Scan::Refused(at, refused),
            }
        }
    }

    /// Sets whether the switch to another protocol was accepted.
    pub(super) fn decide(&mut self, is_taken: bool) {
        if self.state == ScannerState::Undecided {
            self.state = if is_taken { ScannerState::Foreign } else { ScannerState::Head };
        }
    }

    /// Scans a piece of `bytes` and returns its size; 0 if more bytes are needed.
    fn step(&mut self, bytes: &[u8]) -> Result<usize, RefusedFraming> {
        match self.state {
            ScannerState::Head => self.head(bytes),
            ScannerState::Body(left) => {
                let taken = take(left, bytes);
                let left = left - taken as u64;
                self.state = if left == 0 { self.next } else { ScannerState::Body(left) };
                Ok(taken)
            }
            ScannerState::ChunkLine => self.chunk_line(bytes),
            ScannerState::ChunkData(left) => {
                let taken = take(left, bytes);
                let left = left - taken as u64;
                self.state = if left == 0 { ScannerState::ChunkEnd } else { ScannerState::ChunkData(left) };
                Ok(taken)
            }
            ScannerState::ChunkEnd => match bytes {
                [b'\r', b'\n', ..] => {
                    self.state = ScannerState::ChunkLine;
                    Ok(2)
                }
                [b'\r'] => Ok(0),
                _ => Err(RefusedFraming::Chunk),
            },
            ScannerState::Trailers => self.trailer(bytes),
            ScannerState::Undecided => Ok(0),
            ScannerState::Foreign => Ok(bytes.len()),
        }
    }

    fn head(&mut self, bytes: &[u8]) -> Result<usize, RefusedFraming> {
        // RFC 9112, section 2.2: an empty line before a request is ignored.
        if let Some(rest) = bytes.strip_prefix(b"\r\n") {
            return if rest.is_empty() { Ok(0) } else { Ok(2) };
        }
        let Some(end) = memchr::memmem::find(bytes, b"\r\n\r\n") else {
            // Otherwise a head with bare line ends would be awaited until the timeout.
            return match memchr::memmem::find(bytes, b"\n\n").or_else(|| memchr::memmem::find(bytes, b"\n\r\n")) {
                Some(_) => Err(RefusedFraming::LineEnd),
                None => Ok(0),
            };
        };
        let framing = read_head(&bytes[..end])?;
        self.next = if framing.is_upgrade { ScannerState::Undecided } else { ScannerState::Head };
        self.extensions = 0;
        self.state = match framing {
            Framing { is_chunked: true, .. } => ScannerState::ChunkLine,
            Framing { length: Some(length @ 1..), .. } => ScannerState::Body(length),
            _ => self.next,
        };
        Ok(end + 4)
    }

    fn chunk_line(&mut self, bytes: &[u8]) -> Result<usize, RefusedFraming> {
        let shown = &bytes[..bytes.len().min(CHUNK_LINE_MAX)];
        let Some(end) = memchr::memchr(b'\n', shown) else {
            return if shown.len() == CHUNK_LINE_MAX { Err(RefusedFraming::Chunk) } else { Ok(0) };
        };
        let line = shown[..end].strip_suffix(b"\r").ok_or(RefusedFraming::Chunk)?;
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        if !(1..=CHUNK_DIGITS_MAX).contains(&digits) {
            return Err(RefusedFraming::Chunk);
        }
        let extensions = &line[digits..];
        let is_extension = extensions.is_empty() || extensions[0] == b';';
        if !is_extension || extensions.iter().any(|&byte| is_control(byte)) {
            return Err(RefusedFraming::Chunk);
        }
        self.extensions += extensions.len();
        if self.extensions > CHUNK_EXTENSIONS_MAX {
            return Err(RefusedFraming::Chunk);
        }
        let hex = |size: u64, byte: &u8| size << 4 | u64::from(char::from(*byte).to_digit(16).unwrap_or(0));
        let size = line[..digits].iter().fold(0, hex);
        self.state = if size == 0 { ScannerState::Trailers } else { ScannerState::ChunkData(size) };
        Ok(end + 1)
    }

    fn trailer(&mut self, bytes: &[u8]) -> Result<usize, RefusedFraming> {
        let Some(end) = memchr::memchr(b'\n', bytes) else { return Ok(0) };
        let line = bytes[..end].strip_suffix(b"\r").ok_or(RefusedFraming::Trailer)?;
        if line.is_empty() {
            self.state = self.next;
            return Ok(end + 1);
        }
        let (name, _) = read_field(line).map_err(|_| RefusedFraming::Trailer)?;
        let forbidden: [&[u8]; 4] = [b"content-length", b"transfer-encoding", b"host", b"trailer"];
        if forbidden.iter().any(|forbidden| name.eq_ignore_ascii_case(forbidden)) {
            return Err(RefusedFraming::Trailer);
        }
        Ok(end + 1)
    }
}

fn take(left: u64, bytes: &[u8]) -> usize {
    usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()))
}

/// Whether it is a control character that no header or chunk line may contain.
fn is_control(byte: u8) -> bool {
    (byte < 0x20 && byte != b'\t') || byte == 0x7f
}

fn is_token(text: &[u8]) -> bool {
    let is_tchar = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(is_tchar)
}

/// Name and value of a header line.
fn read_field(line: &[u8]) -> Result<(&[u8], &[u8]), RefusedFraming> {
    if matches!(line.first(), Some(b' ' | b'\t')) {
        return Err(RefusedFraming::FoldedLine);
    }
    let colon = memchr::memchr(b':', line).ok_or(RefusedFraming::HeaderField)?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    if !is_token(name) || value.iter().any(|&byte| is_control(byte)) {
        return Err(RefusedFraming::HeaderField);
    }
    Ok((name, value.trim_ascii()))
}

/// Parses a head without the empty line at its end.
fn read_head(head: &[u8]) -> Result<Framing, RefusedFraming> {
    let mut framing = Framing { length: None, is_chunked: false, is_upgrade: false };
    let mut hosts: [Option<&[u8]>; 2] = [None, None];
    let mut lines = HeaderLines { rest: Some(head) };
    let first = lines.next().ok_or(RefusedFraming::RequestLine)??;
    let line = RequestLine::read(first)?;
    framing.is_upgrade = line.method == b"CONNECT";
    for fields in lines {
        let (name, value) = read_field(fields?)?;
        // Most names differ in length from those checked here.
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => match &mut hosts {
                [first @ None, _] => *first = Some(value),
                [_, second] => *second = Some(value),
            },
            7 if name.eq_ignore_ascii_case(b"upgrade") => framing.is_upgrade = true,
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let is_number = (1..=LENGTH_DIGITS_MAX).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
                if !is_number || framing.length.is_some() {
                    return Err(RefusedFraming::ContentLength);
                }
                framing.length = Some(value.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')));
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                if !value.eq_ignore_ascii_case(b"chunked") || framing.is_chunked || !line.is_11 {
                    return Err(RefusedFraming::TransferEncoding);
                }
                framing.is_chunked = true;
            }
            // CGI gateways treat these as equal.
            14 | 17
                if name.eq_ignore_ascii_case(b"content_length") || name.eq_ignore_ascii_case(b"transfer_encoding") =>
            {
                return Err(RefusedFraming::HeaderField);
            }
            _ => {}
        }
    }
    if framing.is_chunked && framing.length.is_some() {
        return Err(RefusedFraming::BothLengths);
    }
    line.check_host(hosts)?;
    Ok(framing)
}

/// Lines that end in CRLF, with no other CR, LF or NUL in them.
struct HeaderLines<'h> {
    rest: Option<&'h [u8]>,
}

impl<'h> Iterator for HeaderLines<'h> {
    type Item = Result<&'h [u8], RefusedFraming>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take()?;
        let line = match memchr::memchr3(b'\r', b'\n', 0, rest) {
            None => rest,
            Some(at) => {
                let Some(tail) = rest[at..].strip_prefix(b"\r\n") else {
                    return Some(Err(RefusedFraming::LineEnd));
                };
                self.rest = Some(tail);
                &rest[..at]
            }
        };
        Some(Ok(line))
    }
}

struct RequestLine<'h> {
    method: &'h [u8],
    target: &'h [u8],
    is_11: bool,
}

impl<'h> RequestLine<'h> {
    fn read(line: &'h [u8]) -> Result<Self, RefusedFraming> {
        let mut parts = line.split(|&byte| byte == b' ');
        let (Some(method), Some(target), Some(version), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(RefusedFraming::RequestLine);
        };
        let is_11 = version == b"HTTP/1.1";
        let is_target = !target.is_empty() && target.iter().all(u8::is_ascii_graphic) && !target.contains(&b'#');
        let is_form = match target {
            [b'/', ..] => method != b"CONNECT",
            b"*" => method == b"OPTIONS",
            _ if method == b"CONNECT" => memchr::memchr(b'/', target).is_none(),
            _ => memchr::memmem::find(target, b"://").is_some(),
        };
        if !is_token(method) || !is_target || !is_form || !(is_11 || version == b"HTTP/1.0") {
            return Err(RefusedFraming::RequestLine);
        }
        Ok(RequestLine { method, target, is_11 })
    }

    fn check_host(&self, hosts: [Option<&[u8]>; 2]) -> Result<(), RefusedFraming> {
        let host = match hosts {
            [_, Some(_)] => return Err(RefusedFraming::Host),
            [Some(host), None] => host,
            [None, None] if self.is_11 => return Err(RefusedFraming::Host),
            [None, None] => return Ok(()),
        };
        let is_host = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~:[]%!$&'()*+;=".contains(byte);
        if !host.iter().all(is_host) {
            return Err(RefusedFraming::Host);
        }
        if self.method == b"CONNECT" {
            return Ok(());
        }
        // RFC 9112, section 3.2.2: the request line decides; a parser that reads only the field would see another host.
        if let Some(at) = memchr::memmem::find(self.target, b"://").filter(|_| self.target[0] != b'/') {
            let rest = &self.target[at + 3..];
            let end = rest.iter().position(|byte| b"/?".contains(byte)).unwrap_or(rest.len());
            if !rest[..end].eq_ignore_ascii_case(host) {
                return Err(RefusedFraming::Host);
            }
        }
        Ok(())
    }
}
