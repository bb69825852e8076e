//! Codings against bodies that try to exhaust memory or time.

use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;

use hyper::header::HeaderValue;
use leafseal_errors::ErrorCode;

use super::fuzzing::encode;
use super::*;
use crate::body::buffer::{BodyBudget, Usage};
use crate::config::Limits;

const CODED: [Coding; 3] = [Coding::Gzip, Coding::Brotli, Coding::Zstd];
const ROOM_SIZE: usize = 256 << 20;

fn budget(size: usize) -> Arc<BodyBudget> {
    BodyBudget::new(&Limits { bodies_size_max: size, client_bodies_size_max: size, ..Limits::default() })
}

fn bounds(size_max: usize) -> DecodeBounds {
    DecodeBounds { size_max, expansion_max: 1000, expansion_free: 1 << 20 }
}

fn decode_in(
    budget: &Arc<BodyBudget>,
    coding: Coding,
    coded: &[u8],
    bounds: DecodeBounds,
) -> Result<Vec<u8>, DecodeError> {
    let mut buffer = BodyBuffer::new(budget.share(IpAddr::from([127, 0, 0, 1])));
    buffer.extend(coded)?;
    let mut decoding = Decoding::new(coding, buffer, bounds)?;
    loop {
        match decoding.step() {
            ControlFlow::Continue(next) => decoding = next,
            ControlFlow::Break(decoded) => return decoded.map(|buffer| buffer.into_parts().0),
        }
    }
}

fn decode(coding: Coding, coded: &[u8], bounds: DecodeBounds) -> Result<Vec<u8>, DecodeError> {
    let budget = budget(ROOM_SIZE);
    let decoded = decode_in(&budget, coding, coded, bounds);
    assert_eq!(budget.usage().held, 0, "the whole budget is free again");
    decoded
}

#[test]
fn coded_bodies_are_decoded_within_their_limit() {
    let plain: Vec<u8> = (0..100_000_u32).map(|number| (number / 7 % 251) as u8).collect();
    for coding in CODED {
        let coded = encode(coding, &plain);
        assert!(coded.len() < plain.len() / 4, "{coding:?}");
        assert!(decode(coding, &coded, bounds(plain.len())).unwrap() == plain, "{coding:?}");
        assert_eq!(decode(coding, &coded, bounds(plain.len() - 1)), Err(DecodeError::TooLarge), "{coding:?}");
        for cut in [0, 1, 5, coded.len() / 2, coded.len() - 5, coded.len() - 1] {
            assert_eq!(decode(coding, &coded[..cut], bounds(plain.len())), Err(DecodeError::Malformed), "{coding:?}");
        }
        let longer = [coded.as_slice(), b"more"].concat();
        assert_eq!(decode(coding, &longer, bounds(plain.len())), Err(DecodeError::Malformed), "{coding:?} longer");
    }
    assert_eq!(encode(Coding::Identity, &plain), plain);
}

#[test]
fn several_parts_are_one_body() {
    let (one, other) = (b"{\"a\":".repeat(9000), b"1}".repeat(9000));
    for coding in [Coding::Gzip, Coding::Zstd] {
        let coded = [encode(coding, &one), encode(coding, b""), encode(coding, &other)];
        let decoded = decode(coding, &coded.concat(), bounds(1 << 20)).unwrap();
        assert!(decoded == [one.as_slice(), &other].concat(), "{coding:?}");
    }
    let skipped = [&[0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3][..], &encode(Coding::Zstd, b"x")].concat();
    assert_eq!(decode(Coding::Zstd, &skipped, bounds(1)).unwrap(), b"x");
}

#[test]
fn gzip_headers_are_read() {
    let plain = b"{\"card\":1}";
    let deflated = encode(Coding::Gzip, plain)[10..].to_vec();
    let with = |header: &[u8]| decode(Coding::Gzip, &[header, &deflated].concat(), bounds(100));
    assert_eq!(with(b"\x1f\x8b\x08\x0c\0\0\0\0\0\x03\x02\0xyname\0").unwrap(), plain);
    assert_eq!(with(b"\x1f\x8b\x08\x18\0\0\0\0\0\x03name\0comment\0").unwrap(), plain);
    let mut check = flate2::Crc::new();
    check.update(b"\x1f\x8b\x08\x02\0\0\0\0\0\x03");
    let check = (check.sum() as u16).to_le_bytes();
    assert_eq!(with(&[b"\x1f\x8b\x08\x02\0\0\0\0\0\x03", &check[..]].concat()).unwrap(), plain);
    for wrong in [
        &b"\x1f\x8b\x08\x02\0\0\0\0\0\x03\0\0"[..],
        b"\x1f\x8b\x07\0\0\0\0\0\0\x03",
        b"\x1f\x8b\x08\x20\0\0\0\0\0\x03",
        b"\x1f\x8c\x08\0\0\0\0\0\0\x03",
    ] {
        assert_eq!(with(wrong), Err(DecodeError::Malformed), "{wrong:?}");
    }
    let mut endless = b"\x1f\x8b\x08\x08\0\0\0\0\0\x03".to_vec();
    endless.resize(1 << 20, b'n');
    assert_eq!(decode(Coding::Gzip, &endless, bounds(100)), Err(DecodeError::Malformed));
}

/// Sixteen bytes that require a window of a gigabyte.
#[test]
fn a_window_beyond_the_http_limit_is_refused_before_allocation() {
    let brotli: [u8; 16] =
        [0x11, 0x1e, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    let mut zstd = ::zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    zstd.set_parameter(::zstd::zstd_safe::CParameter::WindowLog(24)).unwrap();
    zstd.write_all(b"small").unwrap();
    let zstd = zstd.finish().unwrap();
    for (coding, coded) in [(Coding::Brotli, &brotli[..]), (Coding::Zstd, &zstd)] {
        let budget = budget(ROOM_SIZE);
        assert_eq!(decode_in(&budget, coding, coded, bounds(1 << 20)), Err(DecodeError::Window), "{coding:?}");
        let Usage { held, most, .. } = budget.usage();
        assert!(held == 0 && most < 1 << 20, "{coding:?}: {most}");
    }
    for log in [10, 23] {
        let mut zstd = ::zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        zstd.set_parameter(::zstd::zstd_safe::CParameter::WindowLog(log)).unwrap();
        zstd.write_all(b"small").unwrap();
        assert_eq!(decode(Coding::Zstd, &zstd.finish().unwrap(), bounds(1 << 20)).unwrap(), b"small");
    }
}

/// The libraries' own memory is charged, and memory beyond the limit is not allocated.
#[test]
fn the_memory_of_a_decoder_is_charged() {
    let plain: Vec<u8> = (0..12_000_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut brotli = ::brotli::CompressorWriter::new(Vec::new(), PIECE_SIZE, 1, 24);
    brotli.write_all(&plain).unwrap();
    let brotli = brotli.into_inner();
    let budget = budget(ROOM_SIZE);
    assert!(decode_in(&budget, Coding::Brotli, &brotli, bounds(plain.len())).unwrap() == plain);
    assert!(
        budget.usage().most > brotli.len() + plain.len() + (16 << 20),
        "the window is 16 MiB: {}",
        budget.usage().most
    );
    let small = self::budget(brotli.len() + (12 << 20));
    match decode_in(&small, Coding::Brotli, &brotli, bounds(plain.len())) {
        Err(DecodeError::NoRoom(refusal)) => assert_eq!(refusal.code, ErrorCode::RelayOverloaded),
        other => panic!("{:?}", other.map(|plain| plain.len())),
    }
    assert_eq!(small.usage().held, 0);
    for log in [10, 17, 20, 23] {
        let mut coder = ::zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        coder.set_parameter(::zstd::zstd_safe::CParameter::WindowLog(log)).unwrap();
        coder.write_all(&plain).unwrap();
        let coded = coder.finish().unwrap();
        let mut decoder = Zstd::new(self::budget(ROOM_SIZE).share(IpAddr::from([127, 0, 0, 1])));
        let (mut at, mut out) = (0, vec![0; PIECE_SIZE]);
        while at < coded.len() {
            at += decoder.step(&coded[at..], &mut out).unwrap().read;
            let (memory, charged) = decoder.memory();
            assert!(memory <= charged + Zstd::MEMORY_MIN, "{memory} bytes, charged {charged}, window 2^{log}");
        }
    }
}

#[test]
fn expansion_is_bounded_as_a_ratio_and_in_all() {
    let zeros = vec![b'0'; 8 << 20];
    for coding in CODED {
        let coded = encode(coding, &zeros);
        assert!(coded.len() < 10_000, "{coding:?}: {}", coded.len());
        let bounds = |expansion_max, expansion_free| DecodeBounds { size_max: 64 << 20, expansion_max, expansion_free };
        assert_eq!(decode(coding, &coded, bounds(100, 1 << 20)), Err(DecodeError::Expands), "{coding:?}");
        assert!(decode(coding, &coded, bounds(100, 8 << 20)).is_ok(), "{coding:?}: small enough in all");
        assert!(decode(coding, &coded, bounds(1_000_000, 1)).is_ok(), "{coding:?}: within the ratio");
        let budget = budget(2 << 20);
        let refused = decode_in(&budget, coding, &coded, bounds(100_000, 1));
        assert!(matches!(refused, Err(DecodeError::NoRoom(_))), "{coding:?}: {:?}", refused.map(|plain| plain.len()));
        assert!(budget.usage().most <= 2 << 20, "charged before it is taken");
    }
}

#[test]
fn parts_that_take_more_than_their_size_are_bounded() {
    let empty = encode(Coding::Gzip, b"");
    assert!(decode(Coding::Gzip, &empty.repeat(4096), bounds(1)).unwrap().is_empty());
    assert_eq!(decode(Coding::Gzip, &empty.repeat(4097), bounds(1)), Err(DecodeError::Costly));
}

#[test]
fn codings_by_name() {
    for (value, coding) in [
        ("gzip", Some(Coding::Gzip)),
        (" BR ", Some(Coding::Brotli)),
        ("zstd", Some(Coding::Zstd)),
        ("identity", Some(Coding::Identity)),
        ("deflate", None),
        ("gzip, br", None),
    ] {
        let headers: HeaderMap = [(CONTENT_ENCODING, HeaderValue::from_static(value))].into_iter().collect();
        assert_eq!(Coding::of(&headers), coding, "{value}");
    }
    assert_eq!(Coding::of(&HeaderMap::new()), Some(Coding::Identity));
}
