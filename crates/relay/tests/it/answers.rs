//! Answers that rules cannot read or do not change, conditions of requests, and envelopes in bodies that no rule reads.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::common::{Answer, Identity, Pieces, TestRelay, data};
use hyper::Version;
use hyper::body::{Bytes, Frame};
use hyper::header::{HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const VERSIONS: [Version; 2] = [Version::HTTP_11, Version::HTTP_2];

/// A request that the upstream received: its head in lower case, and its body.
#[derive(Clone, Debug)]
struct Seen {
    head: String,
    body: Vec<u8>,
}

/// An upstream with a fixed answer for each path, and a relay in front of it.
struct Fixture {
    seen: Arc<Mutex<Vec<Seen>>>,
    relay: TestRelay,
}

impl Fixture {
    async fn new(routes: &str, answers: &[(&str, &str)]) -> Fixture {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let answers: HashMap<String, String> =
            answers.iter().map(|&(path, answer)| (path.to_owned(), answer.to_owned())).collect();
        let (answers, seen) = (Arc::new(answers), Arc::<Mutex<Vec<Seen>>>::default());
        let all = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(answer(socket, Arc::clone(&answers), Arc::clone(&all)));
            }
        });
        Fixture { seen, relay: TestRelay::new(&origin, &Identity::new(), "", routes) }
    }

    async fn send(&self, version: Version, method: &str, path: &str, fields: &[(&'static str, &str)]) -> Answer {
        self.send_body(version, method, path, fields, Vec::new()).await
    }

    async fn send_body(
        &self,
        version: Version,
        method: &str,
        path: &str,
        fields: &[(&'static str, &str)],
        body: Vec<Frame<Bytes>>,
    ) -> Answer {
        let mut client = self.relay.client(version).await;
        let mut request = client.request(method, path, Pieces::of(body));
        request.headers_mut().remove("trailer");
        for &(name, value) in fields {
            request.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        Answer::whole(client.begin(request).await).await
    }

    /// The request that the upstream received last.
    fn last(&self) -> Seen {
        self.seen.lock().unwrap().last().expect("a request").clone()
    }
}

/// Answers one request. A `Content-Length` is added unless the answer has one.
async fn answer(mut socket: TcpStream, answers: Arc<HashMap<String, String>>, seen: Arc<Mutex<Vec<Seen>>>) {
    let mut bytes = Vec::new();
    let head_size = loop {
        if let Some(at) = bytes.windows(4).position(|it| it == b"\r\n\r\n") {
            break at + 4;
        }
        if socket.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_size]).to_ascii_lowercase();
    let size = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let is_chunked = head.contains("transfer-encoding: chunked");
    let is_whole = |bytes: &[u8]| match size {
        Some(size) => bytes.len() - head_size >= size,
        None => !is_chunked || bytes.ends_with(b"\r\n0\r\n\r\n"),
    };
    while !is_whole(&bytes) {
        assert!(socket.read_buf(&mut bytes).await.unwrap() > 0, "the request broke off");
    }
    let path = head.split(' ').nth(1).unwrap().to_owned();
    let is_head = head.starts_with("head ");
    seen.lock().unwrap().push(Seen { head, body: bytes[head_size..].to_vec() });
    let text = answers.get(&path).map_or("HTTP/1.1 200 OK\r\n\r\n", String::as_str);
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    // Characters stand for bytes.
    let body: Vec<u8> = if is_head { Vec::new() } else { body.chars().map(|it| it as u8).collect() };
    let has_length = head.to_ascii_lowercase().contains("content-length") || head.starts_with("HTTP/1.1 304");
    let length = if has_length { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    let head = format!("{head}\r\nconnection: close\r\n{length}\r\n");
    let _ = socket.write_all(&[head.as_bytes(), &body].concat()).await;
}

const REDACTS: &str = "[[inbound.route]]\npath = \"/r/**\"\nresponse = [{ action = \"redact\", json = [\"$.card\"] }, \
    { action = \"redact\", headers = [\"X-Card\"] }]\n[[inbound.route]]\npath = \"/**\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn status_and_header_of_an_answer_without_a_readable_body_are_forwarded() {
    let html = "content-type: text/html\r\ncontent-encoding: deflate\r\nx-card: 4111";
    let redirect = format!(
        "HTTP/1.1 302 Found\r\nlocation: /login?next=/r/302\r\nset-cookie: a=1\r\nset-cookie: b=2\r\nrefresh: 0; url=/login\r\n\
         link: </a>; rel=next\r\nalt-svc: h3=\":443\"\r\netag: \"v1\"\r\ncontent-digest: x\r\n{html}\r\n\r\n<a>4111</a>"
    );
    let unavailable = "HTTP/1.1 503 Unavailable\r\nretry-after: 7\r\ncontent-type: text/plain\r\n\r\n4111 later";
    let unauthorized =
        "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Basic realm=\"x\"\r\ncontent-type: text/plain\r\n\r\n4111";
    let malformed = "HTTP/1.1 500 Error\r\ncontent-type: application/json\r\n\r\n{\"card\":4111";
    let created = "HTTP/1.1 201 Created\r\nlocation: /r/7\r\ncontent-type: text/plain\r\n\r\n4111";
    let fixture = Fixture::new(
        REDACTS,
        &[
            ("/r/302", &redirect),
            ("/r/503", unavailable),
            ("/r/401", unauthorized),
            ("/r/500", malformed),
            ("/r/201", created),
            ("/r/404", "HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\n\r\n{\"card\":4111,\"code\":7}"),
            ("/r/empty", "HTTP/1.1 303 See Other\r\nlocation: /x\r\ncontent-type: text/html\r\n\r\n"),
            ("/r/200", "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<a>4111</a>"),
        ],
    )
    .await;
    for version in VERSIONS {
        for (path, status, code, kept) in [
            (
                "/r/302",
                302,
                "unsupported_media_type",
                &[("location", "/login?next=/r/302"), ("refresh", "0; url=/login")][..],
            ),
            ("/r/503", 503, "unsupported_media_type", &[("retry-after", "7")]),
            ("/r/401", 401, "unsupported_media_type", &[("www-authenticate", "Basic realm=\"x\"")]),
            ("/r/500", 500, "invalid_document", &[]),
            ("/r/201", 201, "unsupported_media_type", &[("location", "/r/7")]),
        ] {
            let answer = fixture.send(version, "GET", path, &[]).await;
            assert_eq!((answer.status.as_u16(), answer.body.len()), (status, 0), "{path}: {answer:?}");
            assert_eq!((answer.header("leafseal-withheld"), answer.header("content-length")), (code, "0"), "{path}");
            assert_eq!((answer.header("content-type"), answer.header("content-encoding")), ("", ""), "{path}");
            kept.iter().for_each(|(name, value)| assert_eq!(answer.header(name), *value, "{path}"));
            assert!(!format!("{:?}", answer.headers).contains("4111"), "{answer:?}");
        }
        let answer = fixture.send(version, "GET", "/r/302", &[]).await;
        assert_eq!(answer.headers.get_all("set-cookie").iter().count(), 2);
        assert_eq!((answer.header("x-card"), answer.header("link")), ("[redacted]", "</a>; rel=next"));
        assert_eq!((answer.header("alt-svc"), answer.header("content-digest"), answer.header("etag")), ("", "", ""));
        let answer = fixture.send(version, "GET", "/r/404", &[]).await;
        assert_eq!((answer.status.as_u16(), &*answer.body), (404, &b"{\"card\":\"[redacted]\",\"code\":7}"[..]));
        let answer = fixture.send(version, "GET", "/r/empty", &[]).await;
        assert_eq!((answer.status.as_u16(), answer.header("location")), (303, "/x"));
        assert_eq!(answer.header("leafseal-withheld"), "", "there was nothing to withhold");
        // Without its body a success would look like an empty page.
        assert_eq!(fixture.send(version, "GET", "/r/200", &[]).await.status.as_u16(), 502);
    }
    let line = fixture.relay.log.about("/r/503").await;
    assert_eq!((&line["status"], &line["withheld"]), (&503.into(), &"unsupported_media_type".into()), "{line}");
    let metric = |listener| {
        format!("leafseal_relay_withheld_bodies_total{{listener=\"{listener}\",code=\"unsupported_media_type\"}}")
    };
    assert_eq!(fixture.relay.metric(&metric("inbound-0")).await, 5.0);
}

/// A tag or digest of the upstream's would verify guesses of redacted values.
#[tokio::test(flavor = "multi_thread")]
async fn no_answer_of_redacting_rules_has_a_tag_or_digest_of_what_they_hide() {
    const MARKS: [&str; 7] =
        ["etag", "content-digest", "repr-digest", "digest", "content-md5", "x-amz-checksum-sha256", "x-goog-hash"];
    let marks = MARKS.map(|name| format!("{name}: {}\r\n", if name == "etag" { "\"v1\"" } else { "x" })).concat();
    let json = format!("content-type: application/json\r\n{marks}");
    let fixture = Fixture::new(
        REDACTS,
        &[
            ("/r/changed", &format!("HTTP/1.1 200 OK\r\n{json}\r\n{{\"card\":4111}}")),
            ("/r/same", &format!("HTTP/1.1 200 OK\r\n{json}\r\n{{\"name\":\"x\"}}")),
            ("/r/304", &format!("HTTP/1.1 304 Not Modified\r\n{marks}\r\n")),
            ("/r/204", &format!("HTTP/1.1 204 No Content\r\n{marks}\r\n")),
            ("/r/412", &format!("HTTP/1.1 412 Precondition Failed\r\n{marks}\r\n")),
            ("/r/302", &format!("HTTP/1.1 302 Found\r\ncontent-type: text/html\r\nlocation: /x\r\n{marks}\r\n4111")),
            ("/plain", &format!("HTTP/1.1 200 OK\r\n{json}\r\n{{\"card\":4111}}")),
        ],
    )
    .await;
    let found = |answer: &Answer| MARKS.map(|name| answer.header(name).to_owned()).concat();
    for version in VERSIONS {
        for (method, path, status) in [
            ("GET", "/r/changed", 200),
            ("HEAD", "/r/changed", 200),
            ("POST", "/r/changed", 200),
            ("GET", "/r/304", 304),
            ("DELETE", "/r/204", 204),
            ("PUT", "/r/412", 412),
            ("GET", "/r/302", 302),
        ] {
            let answer = fixture.send(version, method, path, &[("if-modified-since", "x")]).await;
            assert_eq!((answer.status.as_u16(), &*found(&answer)), (status, ""), "{method} {path}: {answer:?}");
        }
        let same = fixture.send(version, "GET", "/r/same", &[]).await;
        assert_eq!(found(&same), "\"v1\"xxxxxx", "nothing is hidden: {same:?}");
        // The answer to a PUT may say little, and its tag stands for the resource.
        let put = fixture.send(version, "PUT", "/r/same", &[]).await;
        assert_eq!(found(&put), "xx", "{put:?}");
        // A guessed tag is compared neither by the upstream nor by the relay.
        for (method, field) in
            [("GET", "if-none-match"), ("HEAD", "if-none-match"), ("PROPFIND", "if-none-match"), ("GET", "if-match")]
        {
            let answer = fixture.send(version, method, "/r/304", &[(field, "\"v1\"")]).await;
            assert_eq!(found(&answer), "");
            assert!(!fixture.last().head.contains(field), "{}", fixture.last().head);
        }
        fixture.send(version, "PUT", "/r/same", &[("if-match", "\"v1\"")]).await;
        assert!(fixture.last().head.contains("if-match: \"v1\"\r\n"), "{}", fixture.last().head);
        let plain = fixture.send(version, "HEAD", "/plain", &[]).await;
        assert_eq!(found(&plain), "\"v1\"xxxxxx", "no rule applies");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn weak_tags_of_the_relay_reach_the_upstream_as_it_made_them() {
    let routes = "[[inbound.route]]\npath = \"/r/**\"\nrequest = [{ action = \"redact\", json = [\"$.card\"] }]\n\
        [[inbound.route]]\npath = \"/**\"\n";
    let stored = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\netag: \"v1\"\r\n\r\n{}";
    let fixture = Fixture::new(routes, &[("/r/1", stored), ("/plain", stored)]).await;
    for version in VERSIONS {
        let body = |card: &'static [u8]| vec![data(b"{\"card\":"), data(card), data(b"}")];
        let json = [("content-type", "application/json")];
        let stored = fixture.send_body(version, "PUT", "/r/1", &json, body(b"4111")).await;
        assert_eq!(stored.header("etag"), "W/\"v1\"", "the client has sent another body: {stored:?}");
        let same = fixture.send_body(version, "PUT", "/r/1", &json, vec![data(b"{}")]).await;
        assert_eq!(same.header("etag"), "\"v1\"");
        for (path, field, value, received) in [
            ("/r/1", "if-none-match", "W/\"v1\"", "if-none-match: w/\"v1\", \"v1\"\r\n"),
            ("/r/1", "if-none-match", "\"v1\"", "if-none-match: \"v1\"\r\n"),
            ("/r/1", "if-none-match", "*", "if-none-match: *\r\n"),
            // Another route has the tags too.
            ("/plain", "if-match", "W/\"v1\"", "if-match: w/\"v1\", \"v1\"\r\n"),
            ("/plain", "if-range", "W/\"v1\"", "if-range: w/\"v1\"\r\n"),
        ] {
            fixture.send(version, "GET", path, &[(field, value)]).await;
            assert!(fixture.last().head.contains(received), "{}", fixture.last().head);
        }
    }
}

/// Bodies that no rule can read, of each status and kind.
#[tokio::test(flavor = "multi_thread")]
async fn answers_that_cannot_be_read_keep_what_they_say_without_a_body() {
    let truncated = {
        let mut coder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut coder, b"{\"card\":4111}").unwrap();
        let coded = coder.finish().unwrap();
        coded[..coded.len() - 6].iter().map(|&byte| char::from(byte)).collect::<String>()
    };
    let kinds: [(&str, &str, &str, &str); 6] = [
        ("html", "content-type: text/html", "<a>4111</a>", "unsupported_media_type"),
        ("charset", "content-type: application/json; charset=utf-7", "{\"card\":4111}", "unsupported_media_type"),
        ("lines", "content-type: application/x-ndjson", "{\"card\":4111}\n{\"card\":", "invalid_document"),
        ("none", "x-no: type", "4111", "unsupported_media_type"),
        ("deflate", "content-type: application/json\r\ncontent-encoding: deflate", "4111", "unsupported_media_type"),
        ("gzip", "content-type: application/json\r\ncontent-encoding: gzip", &truncated, "invalid_document"),
    ];
    let statuses = [
        ("301", "location: /new"),
        ("303", "location: /x"),
        ("307", "location: /y"),
        ("400", "x-why: size"),
        ("403", "x-why: no"),
        ("429", "retry-after: 7"),
        ("500", "x-why: fault"),
        ("503", "retry-after: 9"),
        ("201", "location: /r/7"),
        ("202", "location: /job"),
    ];
    let mut answers: Vec<(String, String)> = Vec::new();
    for (kind, fields, body, _) in kinds {
        for (status, field) in statuses {
            let answer = format!("HTTP/1.1 {status} X\r\n{field}\r\n{fields}\r\n\r\n{body}");
            answers.push((format!("/r/{kind}/{status}"), answer));
        }
        answers.push((format!("/r/{kind}/200"), format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n{body}")));
        answers.push((format!("/r/{kind}/304"), format!("HTTP/1.1 304 X\r\n{fields}\r\n\r\n")));
        answers.push((format!("/r/{kind}/204"), format!("HTTP/1.1 204 X\r\n{fields}\r\n\r\n")));
    }
    let answers: Vec<(&str, &str)> = answers.iter().map(|(path, answer)| (&**path, &**answer)).collect();
    let fixture = Fixture::new(REDACTS, &answers).await;
    for version in VERSIONS {
        for (kind, _, _, code) in kinds {
            for (status, field) in statuses {
                let path = format!("/r/{kind}/{status}");
                let answer = fixture.send(version, "GET", &path, &[]).await;
                let (name, value) = field.split_once(": ").unwrap();
                assert_eq!((answer.status.as_str(), answer.header(name)), (status, value), "{path}: {answer:?}");
                assert_eq!((answer.header("leafseal-withheld"), answer.body.len()), (code, 0), "{path}: {answer:?}");
                let head = fixture.send(version, "HEAD", &path, &[]).await;
                assert_eq!((head.status.as_str(), head.header(name)), (status, value), "HEAD {path}: {head:?}");
            }
            for (status, expected) in [("200", "502"), ("304", "304"), ("204", "204")] {
                let path = format!("/r/{kind}/{status}");
                let answer = fixture.send(version, "GET", &path, &[]).await;
                assert_eq!(answer.status.as_str(), expected, "{path}: {answer:?}");
                assert!(!String::from_utf8_lossy(&answer.body).contains("4111"), "{path}");
            }
            let head = fixture.send(version, "HEAD", &format!("/r/{kind}/200"), &[]).await;
            assert_eq!(head.status.as_u16(), 200, "{kind}: there is no body to hide");
        }
    }
}

/// Where servers could read the path as that of another route.
#[tokio::test(flavor = "multi_thread")]
async fn an_envelope_is_reported_where_rules_that_decrypt_are_left_out() {
    let rule = "request = [{ action = \"decrypt\", json = [\"$\"] }]";
    let fixture = Fixture::new(&format!("[[inbound.route]]\npath = \"/open/**\"\napp = \"a\"\n{rule}\n"), &[]).await;
    let (path, fields) = ("/open/..%2Fother", [("content-type", "application/json")]);
    let body = vec![data(b"{\"a\":\"ev:Tk9D:x:$\"}")];
    let answer = fixture.send_body(Version::HTTP_2, "POST", path, &fields, body).await;
    assert_eq!(answer.status.as_u16(), 200);
    let line = fixture.relay.log.about(path).await;
    assert_eq!(line["sealed_request_body"].as_str(), Some("envelope"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envelope_in_a_body_that_no_rule_reads_is_reported() {
    let rule = "request = [{ action = \"decrypt\", json = [\"$\"], form = [\"*\"] }]";
    let fixture = Fixture::new(&format!("[[inbound.route]]\npath = \"/**\"\napp = \"a\"\n{rule}\n"), &[]).await;
    let zipped = {
        let mut coder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut coder, b"number: ev:Tk9D:x:$").unwrap();
        Frame::data(Bytes::from(coder.finish().unwrap()))
    };
    let halves = vec![data(b"number: ev:"), data(b"Tk9D:x:$ and more")];
    let long = Frame::data(Bytes::from(vec![b'x'; (1 << 20) + 1]));
    for (path, fields, body, found) in [
        ("/text", &[("content-type", "text/plain")][..], halves, Some("envelope")),
        (
            "/odd",
            &[("content-type", "application/json; utf-8")],
            vec![data(b"{\"a\":\"ev:Tk9D:x:$\"}")],
            Some("envelope"),
        ),
        ("/gzip", &[("content-type", "text/plain"), ("content-encoding", "gzip")], vec![zipped], Some("envelope")),
        (
            "/deflate",
            &[("content-type", "text/plain"), ("content-encoding", "deflate")],
            vec![data(b"x")],
            Some("unreadable-coding"),
        ),
        ("/none", &[("content-type", "text/plain")], vec![data(b"a preview: nothing")], None),
        ("/long", &[("content-type", "text/plain")], vec![long], Some("beyond-limit")),
    ] {
        for version in VERSIONS {
            let path = format!("{path}-{version:?}").replace(['/', '.'], "");
            let path = format!("/{path}");
            let frames: Vec<Frame<Bytes>> =
                body.iter().map(|frame| Frame::data(frame.data_ref().unwrap().clone())).collect();
            let sent: Vec<Bytes> = frames.iter().map(|frame| frame.data_ref().unwrap().clone()).collect();
            let answer = fixture.send_body(version, "POST", &path, fields, frames).await;
            assert_eq!(answer.status.as_u16(), 200, "{path}");
            let line = fixture.relay.log.about(&path).await;
            assert_eq!(line["sealed_request_body"].as_str(), found, "{line}");
            let received = fixture.last().body;
            // The upstream keeps the framing between the pieces.
            let arrived =
                |piece: &Bytes| received.windows(piece.len().min(40)).any(|received| piece.starts_with(received));
            assert!(sent.iter().all(arrived), "{path}: {} bytes", received.len());
        }
    }
    for listener in ["inbound-0", "inbound-1"] {
        let sealed = format!("leafseal_relay_sealed_forwarded_total{{listener=\"{listener}\",place=\"request_body\"}}");
        assert_eq!(fixture.relay.metric(&sealed).await, 3.0);
        for reason in ["unreadable-coding", "beyond-limit"] {
            let sample = format!(
                "leafseal_relay_unsearched_bodies_total{{listener=\"{listener}\",place=\"request_body\",reason=\"{reason}\"}}"
            );
            assert_eq!(fixture.relay.metric(&sample).await, 1.0);
        }
    }
}
