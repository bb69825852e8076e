//! The events of each connection of a seed, and their positions in its bytes.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// How bad the network is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// Slow, in pieces, and sometimes somebody repeats a connection; but every byte arrives.
    Dull,
    /// Connections break in every way, but what arrives of them is what was sent.
    Rough,
    /// Connections break in every way.
    Foul,
}

/// How a new connection is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Welcome {
    Forward,
    /// Accepted, and nothing more.
    Silence,
    Reset,
}

/// From a byte of one direction on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Delay(Duration),
    /// Pieces of at most this many bytes, with a pause after each.
    Pieces {
        size: usize,
        pause: Duration,
    },
    /// One bit of the next byte is another.
    Flip,
    /// At most this many of the last bytes come again.
    Repeat(usize),
    /// The direction ends, the other continues.
    HalfClose,
    Close,
    Reset,
    /// Bytes are dropped, including the end of the stream, and nobody notices.
    Lose,
    /// Nothing is taken any more, and nobody learns of it.
    Stall,
}

#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Bytes of the direction before it.
    pub at: u64,
    pub fault: Fault,
}

/// Byte by byte, but not for long: each is a call of the system on every side.
const BYTES: Fault = Fault::Pieces { size: 1, pause: Duration::ZERO };
const BYTES_MAX: u64 = 5_000;
/// As it comes.
const WHOLE: Fault = Fault::Pieces { size: usize::MAX, pause: Duration::ZERO };

#[derive(Clone, Debug)]
pub struct Plan {
    pub welcome: Welcome,
    pub to_server: Vec<Event>,
    pub to_client: Vec<Event>,
    /// When the client has sent that many bytes, they are sent again on a connection of their own.
    pub replay_at: Option<u64>,
}

impl Plan {
    pub fn fair() -> Plan {
        Plan { welcome: Welcome::Forward, to_server: Vec::new(), to_client: Vec::new(), replay_at: None }
    }

    /// The plan of a seed's connection of that number.
    pub fn of(seed: u64, weather: Weather, connection: u64) -> Plan {
        let mut random = StdRng::seed_from_u64(seed.wrapping_mul(0x1_0000_0001).wrapping_add(connection));
        let welcome = match random.random_range(0..100) {
            0..6 if weather != Weather::Dull => Welcome::Silence,
            6..12 if weather != Weather::Dull => Welcome::Reset,
            _ => Welcome::Forward,
        };
        let mut plan = Plan { welcome, ..Plan::fair() };
        for direction in [&mut plan.to_server, &mut plan.to_client] {
            for _ in 0..random.random_range(0..4) {
                let (at, fault) = (place(&mut random), harmless(&mut random));
                direction.push(Event { at, fault });
                if fault == BYTES {
                    direction.push(Event { at: at + BYTES_MAX, fault: WHOLE });
                }
            }
        }
        if weather != Weather::Dull && random.random_bool(0.8) {
            let event = Event { at: place(&mut random), fault: harmful(&mut random, weather) };
            if random.random() { &mut plan.to_server } else { &mut plan.to_client }.push(event);
        }
        plan.to_server.sort_by_key(|event| event.at);
        plan.to_client.sort_by_key(|event| event.at);
        plan.replay_at = random.random_bool(0.3).then(|| place(&mut random));
        plan
    }
}

/// Half of all positions are in the handshake (some 3 KB each way) and shortly after it, the others anywhere in large messages.
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

fn harmful(random: &mut StdRng, weather: Weather) -> Fault {
    let kinds = if weather == Weather::Foul { 8 } else { 6 };
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
