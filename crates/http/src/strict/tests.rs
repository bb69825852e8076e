//! Tests the scanner with a corpus, and compares its results for streams that are split anywhere.

use proptest::prelude::*;

use super::scanner::{FramingScanner, RefusedFraming, Scan, ScannerState};

/// Scans a whole stream in pieces of this size; returns the bytes passed and how it ended.
fn scan(bytes: &[u8], piece: usize) -> (usize, Result<ScannerState, RefusedFraming>) {
    let mut scanner = FramingScanner::new();
    let (mut passed, mut shown) = (0, 0);
    while shown < bytes.len() {
        shown = (shown + piece).min(bytes.len());
        match scanner.scan(&bytes[passed..shown]) {
            Scan::Passed(size) => passed += size,
            Scan::Refused(size, reason) => return (passed + size, Err(reason)),
        }
    }
    (passed, Ok(scanner.state))
}

#[test]
fn requests_are_followed_to_their_ends() {
    let stream = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n\
        POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc\
        POST /y HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=\"y\"\r\nabc\r\n0A\r\n0123456789\r\n0\r\nX: y\r\n\r\n\
        \r\nGET http://a/z HTTP/1.1\r\nhost: a\r\n\r\n";
    for piece in [1, 2, 7, stream.len()] {
        assert_eq!(scan(stream, piece), (stream.len(), Ok(ScannerState::Head)), "in pieces of {piece}");
    }
    let half = b"POST / HTTP/1.0\r\nContent-Length: 10\r\n\r\nabc";
    assert_eq!(scan(half, 5), (half.len(), Ok(ScannerState::Body(7))));
    let connect = b"CONNECT a:443 HTTP/1.0\r\n\r\n\x16\x03";
    assert_eq!(scan(connect, 100), (connect.len() - 2, Ok(ScannerState::Undecided)));
}

#[test]
fn ambiguous_framing_is_refused() {
    use RefusedFraming::*;
    let with = |field: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n");
    let chunked = |body: &str| format!("{}{body}", with("Transfer-Encoding: chunked"));
    for (stream, reason) in [
        (with("Content-Length: 1\r\nTransfer-Encoding: chunked"), BothLengths),
        (with("Transfer-Encoding: chunked\r\nContent-Length: 1"), BothLengths),
        (with("Content-Length: 1\r\nContent-Length: 1"), ContentLength),
        (with("Content-Length: 1\r\nContent-Length: 2"), ContentLength),
        (with("Content-Length: 1, 1"), ContentLength),
        (with("Content-Length: +1"), ContentLength),
        (with("Content-Length: 0x1"), ContentLength),
        (with("Content-Length:"), ContentLength),
        (with("Content-Length: 99999999999999999999"), ContentLength),
        (with("Content-Length : 1"), HeaderField),
        (with("Content_Length: 1"), HeaderField),
        (with("Transfer_Encoding: chunked"), HeaderField),
        (with("Transfer-Encoding: gzip, chunked"), TransferEncoding),
        (with("Transfer-Encoding: chunked, identity"), TransferEncoding),
        (with("Transfer-Encoding: xchunked"), TransferEncoding),
        (with("Transfer-Encoding: \"chunked\""), TransferEncoding),
        (with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"), TransferEncoding),
        (with("Transfer-Encoding: \x0bchunked"), HeaderField),
        (with("X: a\r\n b"), FoldedLine),
        (with(" X: a"), FoldedLine),
        (with("no colon"), HeaderField),
        (with(": empty"), HeaderField),
        (with("X: a\nY: b"), LineEnd),
        (with("X: a\rY: b"), LineEnd),
        (with("X: \0"), LineEnd),
        (with("Host: b"), Host),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), Host),
        ("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n".to_owned(), Host),
        ("GET / HTTP/1.1\r\nHost: a@b\r\n\r\n".to_owned(), Host),
        ("GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), Host),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), RequestLine),
        ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n".to_owned(), RequestLine),
        ("GET /\r\nHost: a\r\n\r\n".to_owned(), RequestLine),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n".to_owned(), RequestLine),
        ("GET / http/1.1\r\nHost: a\r\n\r\n".to_owned(), RequestLine),
        ("G(T / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), RequestLine),
        ("GET x HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), RequestLine),
        ("GET /#x HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), RequestLine),
        ("GET / HTTP/1.1\nHost: a\n\n".to_owned(), LineEnd),
        ("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(), TransferEncoding),
        (chunked("x\r\n"), Chunk),
        (chunked("-1\r\n"), Chunk),
        (chunked("0x1\r\n"), Chunk),
        (chunked(" 1\r\n"), Chunk),
        (chunked("1 \r\n"), Chunk),
        (chunked("1\n"), Chunk),
        (chunked("1\r\nab\r\n"), Chunk),
        (chunked("1\r\na\n"), Chunk),
        (chunked("10000000000000000\r\n"), Chunk),
        (chunked(&format!("1;{}\r\n", "x".repeat(300))), Chunk),
        (chunked("0\r\nContent-Length: 1\r\n\r\n"), Trailer),
        (chunked("0\r\nX\r\n\r\n"), Trailer),
        (chunked("0\r\n X: y\r\n\r\n"), Trailer),
        (chunked("0\nX: y\n\n"), Chunk),
    ] {
        let (_, ended) = scan(stream.as_bytes(), usize::MAX / 2);
        assert_eq!(ended, Err(reason), "{stream:?}");
        let (_, ended) = scan(stream.as_bytes(), 1);
        assert_eq!(ended, Err(reason), "byte by byte: {stream:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn pieces_do_not_matter(
        bytes in "(GET / HTTP/1.1\r\n|POST /a HTTP/1.1\r\n|Host: a\r\n|Content-Length: [0-9]{1,2}\r\n|\
            Transfer-Encoding: chunked\r\n|\r\n|X: y\r\n|[0-4]\r\n|abc|0\r\n|\r|\n| ){0,14}",
        piece in 1_usize..9,
    ) {
        // Which of several faults is reported depends on the bytes that have arrived when the first is found.
        let kind = |(passed, ended): (usize, Result<ScannerState, RefusedFraming>)| (passed, ended.ok());
        let whole = kind(scan(bytes.as_bytes(), usize::MAX / 2));
        prop_assert_eq!(kind(scan(bytes.as_bytes(), piece)), whole);
    }
}
