//! Times TLS 1.3 with client certificates over every TLS library that was considered, and counts memory.
//!
//! Both ends run in one thread over a stream in memory, so no kernel and no scheduler is measured, and both are of the
//! same library. Before anything is measured each library must have negotiated what the profile says and seen the
//! other side's certificate. Results: `docs/decisions/0002-tls.md`.

use std::rc::Rc;
use std::time::{Duration, Instant};

use leafseal_candidates::{Arguments, Contender, Effort, Row};

use crate::identity::{Identities, Profile};
use crate::peer::{Configure, Handshake, Library, Negotiated, Peer};
use crate::stream::Stream;

mod boring;
mod identity;
mod memory;
mod peer;
mod rustls;
mod s2n;
mod stream;

const LIBRARIES: &[Configure] = &[boring::configure, rustls::configure_ring, rustls::configure_aws_lc, s2n::configure];
/// Largest plaintext of a TLS 1.3 record (RFC 8446, section 5.1).
const RECORD_LEN: usize = 16 << 10;
/// A request or answer of one field with its frame.
const MESSAGE_LEN: usize = 200;
const MEMORY: &str = "memory of the server side of a connection, idle after 16 KiB each way";

fn main() {
    let arguments = Arguments::from_command_line();
    let effort = Effort { rounds: arguments.rounds, sample: Duration::from_millis(10) };
    let small = Rc::new(Identities::generate(Profile::Aes128P256));
    let large = Rc::new(Identities::generate(Profile::Aes256P384));
    for identities in [&small, &large] {
        libraries(identities).for_each(|library| check(library.as_ref(), identities));
    }
    arguments.run(
        vec![
            row("handshake, both sides, P-256", None, &small, handshake_both),
            row("handshake, server side, P-256", None, &small, handshake_server),
            row("16 KiB record sent and received, AES-128-GCM", Some(RECORD_LEN), &small, bulk),
            row("16 KiB record sent and received, AES-256-GCM", Some(RECORD_LEN), &large, bulk),
            row("round trip of 200 B, AES-128-GCM", None, &small, round_trip),
        ],
        effort,
    );
    if arguments.wants(MEMORY) {
        print_memory(&arguments, &small);
    }
}

fn print_memory(arguments: &Arguments, identities: &Identities) {
    let held: Vec<_> = libraries(identities).map(|l| (l.name(), memory::per_connection(l.as_ref()))).collect();
    if arguments.json {
        let results: Vec<_> = held.iter().map(|(l, b)| serde_json::json!({ "library": l, "bytes": b })).collect();
        println!("{}", serde_json::json!({ "operation": MEMORY, "results": results }));
        return;
    }
    println!("\n{MEMORY}");
    held.iter().for_each(|(library, bytes)| println!("  {library:<38} {bytes:>10} B"));
}

fn libraries(identities: &Identities) -> impl Iterator<Item = Box<dyn Library>> {
    LIBRARIES.iter().map(|configure| configure(identities))
}

fn row(
    label: &str,
    bytes: Option<usize>,
    identities: &Identities,
    contender: fn(Box<dyn Library>) -> Contender,
) -> Row {
    Row { label: label.to_owned(), bytes, contenders: libraries(identities).map(contender).collect() }
}

/// A connected pair, server first.
pub struct Pair {
    server: Box<dyn Peer>,
    client: Box<dyn Peer>,
    server_time: Duration,
}

/// Makes a connection, and returns how much of that time the server side took.
pub fn connect(library: &dyn Library) -> Pair {
    let (near, far) = Stream::pair();
    connect_over(library, near, far)
}

fn connect_over(library: &dyn Library, near: Stream, far: Stream) -> Pair {
    let start = Instant::now();
    let mut server = library.server(near);
    let mut server_time = start.elapsed();
    let mut client = library.client(far);
    // A handshake with client certificates takes the client two turns; more means that it does not get on.
    for _turn in 0..8 {
        let client_state = client.handshake();
        let start = Instant::now();
        let server_state = server.handshake();
        server_time += start.elapsed();
        if (client_state, server_state) == (Handshake::Complete, Handshake::Complete) {
            return Pair { server, client, server_time };
        }
    }
    panic!("{}: the handshake does not end", library.name())
}

/// Panics unless both ends negotiated what the profile says and authenticated each other.
fn check(library: &dyn Library, identities: &Identities) {
    let mut pair = connect(library);
    let expected = |certificate: &[u8]| Negotiated {
        aes_256: identities.profile == Profile::Aes256P384,
        tls_13: true,
        peer_certificate: certificate.to_vec(),
    };
    assert_eq!(pair.server.negotiated(), expected(&identities.client.certificate_der), "{}", library.name());
    assert_eq!(pair.client.negotiated(), expected(&identities.server.certificate_der), "{}", library.name());
    let message: Vec<u8> = (0..3 * RECORD_LEN).map(|i| (i % 251) as u8).collect();
    let mut received = vec![0; message.len()];
    pair.client.send(&message);
    pair.server.receive(&mut received);
    assert_eq!(received, message, "{}", library.name());
}

fn handshake_both(library: Box<dyn Library>) -> Contender {
    Contender::new(library.name(), move || connect(library.as_ref()))
}

fn handshake_server(library: Box<dyn Library>) -> Contender {
    Contender::self_timed(library.name(), move || connect(library.as_ref()).server_time)
}

fn bulk(library: Box<dyn Library>) -> Contender {
    let mut pair = connect(library.as_ref());
    let (record, mut buffer) = (vec![0x5a; RECORD_LEN], vec![0; RECORD_LEN]);
    Contender::new(library.name(), move || {
        pair.client.send(&record);
        pair.server.receive(&mut buffer);
    })
}

fn round_trip(library: Box<dyn Library>) -> Contender {
    let mut pair = connect(library.as_ref());
    let (message, mut buffer) = ([0x5a; MESSAGE_LEN], [0; MESSAGE_LEN]);
    Contender::new(library.name(), move || {
        pair.client.send(&message);
        pair.server.receive(&mut buffer);
        pair.server.send(&message);
        pair.client.receive(&mut buffer);
    })
}
