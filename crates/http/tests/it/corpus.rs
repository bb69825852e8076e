//! Replays the fuzzer's corpus of client streams and the smuggling corpus, and keeps the fuzzer's seeds.
//!
//! `LEAFSEAL_UPDATE=1` regenerates the seeds.

use std::fs;
use std::path::{Path, PathBuf};

use leafseal_http::fuzzing;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Valid streams with every kind of framing, and the number of their requests.
fn good() -> Vec<(&'static str, usize, String)> {
    let post = |fields: &str, body: &str| format!("POST /a HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n{body}");
    let chunked = |body: &str| post("Transfer-Encoding: chunked", body);
    let get = "GET /a?b=c HTTP/1.1\r\nHost: a.example:8443\r\nAccept: */*\r\n\r\n";
    let two_bodies = post("Content-Length: 3", "abc") + &chunked("2\r\nab\r\n0\r\n\r\n");
    vec![
        ("get", 1, get.to_owned()),
        ("pipelined", 3, format!("{get}\r\n{two_bodies}")),
        ("length", 1, post("X: \u{e9}\t\r\ncontent-length:  3 ", "abc")),
        ("length_unfinished", 1, post("Content-Length: 100", "abc")),
        ("version_10", 2, "GET / HTTP/1.0\r\n\r\nPOST / HTTP/1.0\r\nContent-Length: 1\r\n\r\na".to_owned()),
        ("chunks", 2, chunked("3\r\nabc\r\n00A;x=\"y\";z\r\n0123456789\r\n0\r\n\r\n") + get),
        ("chunks_unfinished", 1, chunked("3\r\nabc\r\n0F\r\nab")),
        ("trailers", 2, chunked("1\r\na\r\n0\r\nX-Sum: 1\r\nX-B: \r\n\r\n") + get),
        ("trailers_unfinished", 1, chunked("0\r\nX-Sum: 1\r\nX-B")),
        ("connect", 2, format!("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n{get}")),
        ("upgrade", 2, post("Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 1", "a") + get),
        ("absolute", 1, "GET http://a.example/b HTTP/1.1\r\nHost: A.example\r\n\r\n".to_owned()),
        ("options", 1, "OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n".to_owned()),
        ("head_unfinished", 1, format!("{get}GET / HTTP/1.1\r\nHost: a\r")),
    ]
}

/// Streams that are refused before the end of their first request.
fn refused() -> Vec<(&'static str, String)> {
    let post = |fields: &str, body: &str| format!("POST /a HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n{body}");
    vec![
        ("both_lengths", post("Content-Length: 1\r\nTransfer-Encoding: chunked", "0\r\n\r\n")),
        ("two_lengths", post("Content-Length: 1\r\nContent-Length: 2", "ab")),
        ("bare_line_ends", "GET / HTTP/1.1\nHost: a\n\n".to_owned()),
        ("folded", post("X: a\r\n b", "")),
        ("chunk_lf", post("Transfer-Encoding: chunked", "1\na\n0\n\n")),
        ("chunk_sign", post("Transfer-Encoding: chunked", "+1\r\na\r\n0\r\n\r\n")),
        ("trailer_length", post("Transfer-Encoding: chunked", "0\r\nContent-Length: 1\r\n\r\na")),
        ("hosts", "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        ("http2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned()),
    ]
}

fn replay(folder: &Path) -> usize {
    let files = fs::read_dir(folder).expect("the folder is there").map(|entry| entry.expect("an entry").path());
    files
        .inspect(|path| {
            fuzzing::check_requests(&fs::read(path).expect("a file"));
        })
        .count()
}

#[test]
fn the_corpus_holds_the_seeds_and_every_property() {
    let corpus = root().join("fuzz/corpus/requests");
    let good = good();
    let all = good.iter().map(|(name, _, text)| (*name, text)).collect::<Vec<_>>();
    for (name, text) in all.into_iter().chain(refused().iter().map(|(name, text)| (*name, text))) {
        let path = corpus.join(name);
        if std::env::var_os("LEAFSEAL_UPDATE").is_some() {
            fs::create_dir_all(&corpus).expect("the corpus can be made");
            fs::write(&path, text).expect("the seed can be written");
        }
        let stored = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(stored, text.as_bytes(), "{name} is as the code writes it; LEAFSEAL_UPDATE=1 renews it");
    }
    assert!(replay(&corpus) >= good.len() + refused().len());
    assert!(replay(&root().join("vectors/http-smuggling")) > 50);
}

/// The premise of the comparison: the library parses the valid requests, and none of the refused ones.
#[test]
fn the_library_reads_every_request_that_passes() {
    for (name, requests, text) in good() {
        assert_eq!(fuzzing::check_requests(text.as_bytes()), requests, "{name}");
    }
    for (name, text) in refused() {
        assert!(fuzzing::check_requests(text.as_bytes()) <= 1, "{name}");
    }
}

/// A small version of the fuzzer: each seed with each byte changed, and cut off.
#[test]
fn changed_seeds_hold_every_property() {
    for (_, _, text) in good() {
        for at in 0..text.len() {
            fuzzing::check_requests(&text.as_bytes()[..at]);
            for value in *b"\r\n\0 :;0fX" {
                let mut changed = text.clone().into_bytes();
                changed[at] = value;
                fuzzing::check_requests(&changed);
            }
        }
    }
}
