//! The faults of each connection of a seed, and their positions in its bytes.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// The quality of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetworkQuality {
    /// Slow and fragmented, with occasional replays, but every byte arrives.
    Slow,
    /// Connections break in every way, but what arrives is what was sent.
    Lossy,
    /// Connections break in every way, and bytes are corrupted.
    Corrupting,
}

/// How a new connection is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acceptance {
    Forward,
    /// Accepted, but never served.
    Unserved,
    Reset,
}

/// A fault, from some byte of one direction on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Delay(Duration),
    /// Forwards pieces of at most this many bytes, with a pause after each.
    Pieces {
        size: usize,
        pause: Duration,
    },
    /// Flips one bit of the next byte.
    Flip,
    /// Repeats at most this many of the last bytes.
    Repeat(usize),
    /// Ends the direction; the other continues.
    HalfClose,
    Close,
    Reset,
    /// Drops all bytes, including the end of the stream; neither side notices.
    Lose,
    /// Stops reading; neither side notices.
    Stall,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    /// The position in the bytes of the direction.
    pub at: u64,
    pub fault: Fault,
}

/// Byte by byte, but not for long: each byte is a system call on every side.
const BYTES: Fault = Fault::Pieces { size: 1, pause: Duration::ZERO };
const BYTES_MAX: u64 = 5_000;
/// Unchanged.
const WHOLE: Fault = Fault::Pieces { size: usize::MAX, pause: Duration::ZERO };

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub acceptance: Acceptance,
    pub to_server: Vec<Event>,
    pub to_client: Vec<Event>,
    /// When the client has sent this many bytes, they are replayed on a connection of their own.
    pub replay_at: Option<u64>,
}

impl Plan {
    pub(crate) fn fair() -> Plan {
        Plan { acceptance: Acceptance::Forward, to_server: Vec::new(), to_client: Vec::new(), replay_at: None }
    }

    /// The plan of the connection with this number.
    pub(crate) fn of(seed: u64, quality: NetworkQuality, connection: u64) -> Plan {
        let mut random = StdRng::seed_from_u64(seed.wrapping_mul(0x1_0000_0001).wrapping_add(connection));
        let acceptance = match random.random_range(0..100) {
            0..6 if quality != NetworkQuality::Slow => Acceptance::Unserved,
            6..12 if quality != NetworkQuality::Slow => Acceptance::Reset,
            _ => Acceptance::Forward,
        };
        let mut plan = Plan { acceptance, ..Plan::fair() };
        for direction in [&mut plan.to_server, &mut plan.to_client] {
            for _ in 0..random.random_range(0..4) {
                let (at, fault) = (place(&mut random), harmless(&mut random));
                direction.push(Event { at, fault });
                if fault == BYTES {
                    direction.push(Event { at: at + BYTES_MAX, fault: WHOLE });
                }
            }
        }
        if quality != NetworkQuality::Slow && random.random_bool(0.8) {
            let event = Event { at: place(&mut random), fault: harmful(&mut random, quality) };
            if random.random() { &mut plan.to_server } else { &mut plan.to_client }.push(event);
        }
        plan.to_server.sort_by_key(|event| event.at);
        plan.to_client.sort_by_key(|event| event.at);
        plan.replay_at = random.random_bool(0.3).then(|| place(&mut random));
        plan
    }
}

/// Half of all positions are in or shortly after the handshake (about 3 KB each way), the others anywhere in large messages.
fn place(random: &mut StdRng) -> u64 {
    if random.random() { random.random_range(0..8_000) } else { random.random_range(0..200_000) }
}

fn harmless(random: &mut StdRng) -> Fault {
    let milliseconds = |random: &mut StdRng, max| Duration::from_millis(random.random_range(0..max));
    match random.random_range(0..4) {
        0 => Fault::Delay(milliseconds(random, 60)),
        1 => BYTES,
        2 => Fault::Pieces { size: random.random_range(1..2_000), pause: Duration::ZERO },
        _ => Fault::Pieces { size: random.random_range(2_000..20_000), pause: milliseconds(random, 5) },
    }
}

fn harmful(random: &mut StdRng, quality: NetworkQuality) -> Fault {
    let kinds = if quality == NetworkQuality::Corrupting { 8 } else { 6 };
    match random.random_range(0..kinds) {
        0 => Fault::HalfClose,
        1 => Fault::Close,
        2 | 3 => Fault::Reset,
        4 => Fault::Lose,
        5 => Fault::Stall,
        6 => Fault::Flip,
        _ => Fault::Repeat(random.random_range(1..5_000)),
    }
}
