//! Properties that hold for any bytes as a coded body: the fuzz target checks them, and an ordinary test replays its corpus.
//!
//! Not part of the crate's interface. Every function panics where a property does not hold.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::{Coding, DecodeBounds, DecodeError, Decoding, Encoding};
use crate::body::buffer::{BodyBudget, BodyBuffer, Usage};
use crate::config::Limits;

/// Memory that decoding may charge, for any body.
const ROOM_SIZE: usize = 32 << 20;
/// Maximum size of a decoded body.
const SIZE_MAX: usize = 1 << 20;
const EXPANSION_MAX: usize = 20;
const EXPANSION_FREE: usize = 4 << 10;
/// Steps that may make no progress; every other step reads or writes a byte.
const STEPS_FREE: usize = 16;

/// Maximum memory of [`check_coding`] besides its input: what it charges, and what libraries allocate uncharged.
pub const MEMORY_MAX: usize = ROOM_SIZE + (16 << 20);

/// Treats any bytes as a coded body, whose first byte selects the coding: it is decoded within every limit, or refused. Returns which.
pub fn check_coding(bytes: &[u8]) -> bool {
    let Some((&first, coded)) = bytes.split_first() else { return false };
    let coding = [Coding::Gzip, Coding::Brotli, Coding::Zstd][usize::from(first) % 3];
    let bounds = DecodeBounds { size_max: SIZE_MAX, expansion_max: EXPANSION_MAX, expansion_free: EXPANSION_FREE };
    let budget = budget(ROOM_SIZE);
    let decoded = decode(coding, coded, bounds, &budget);
    check_room(&budget, ROOM_SIZE);
    // With little memory the result is the same, or a refusal for lack of memory.
    let little = self::budget(64 << 10);
    match (decode(coding, coded, bounds, &little), &decoded) {
        (Err(DecodeError::NoRoom(_)), _) => {}
        (with_little, decoded) => assert_eq!(with_little, *decoded, "room changes nothing but whether there is room"),
    }
    check_room(&little, 64 << 10);
    let Ok(plain) = decoded else { return false };
    assert!(plain.len() <= SIZE_MAX && plain.len() <= EXPANSION_FREE.max(coded.len() * EXPANSION_MAX));
    let again = encode(coding, &plain);
    let free = DecodeBounds { expansion_max: usize::MAX, ..bounds };
    assert!(
        decode(coding, &again, free, &self::budget(ROOM_SIZE)).as_ref() == Ok(&plain),
        "coded again it is the same"
    );
    true
}

/// Encodes a body.
pub(crate) fn encode(coding: Coding, plain: &[u8]) -> Vec<u8> {
    if coding == Coding::Identity {
        return plain.to_vec();
    }
    let mut buffer = BodyBuffer::new(budget(usize::MAX).share(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    buffer.extend(plain).expect("there is room");
    let mut encoding = Encoding::new(coding, buffer).expect("libraries are there");
    for _ in 0..=plain.len().div_ceil(super::PIECE_SIZE) {
        match encoding.step() {
            ControlFlow::Continue(next) => encoding = next,
            ControlFlow::Break(coded) => return coded.expect("a buffer takes everything"),
        }
    }
    panic!("more steps than pieces");
}

fn budget(size: usize) -> Arc<BodyBudget> {
    BodyBudget::new(&Limits { bodies_size_max: size, client_bodies_size_max: size, ..Limits::default() })
}

fn check_room(budget: &BodyBudget, size: usize) {
    let Usage { held, most, .. } = budget.usage();
    assert!(held == 0 && most <= size, "{held} bytes are still held, {most} were");
}

fn decode(
    coding: Coding,
    coded: &[u8],
    bounds: DecodeBounds,
    budget: &Arc<BodyBudget>,
) -> Result<Vec<u8>, DecodeError> {
    let mut buffer = BodyBuffer::new(budget.share(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    buffer.extend(coded)?;
    let mut decoding = Decoding::new(coding, buffer, bounds)?;
    for _ in 0..coded.len() + SIZE_MAX + STEPS_FREE {
        match decoding.step() {
            ControlFlow::Continue(next) => decoding = next,
            ControlFlow::Break(decoded) => return decoded.map(|buffer| buffer.into_parts().0),
        }
    }
    panic!("more steps than bytes");
}
