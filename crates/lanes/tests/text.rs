//! Base64 kernels: every kernel of this CPU against the `base64` crate, over all lengths, and every byte at every place.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use leafseal_lanes::gcm::NONCE_SIZE;
use leafseal_lanes::text::{
    HEAD_SIZE_MAX, Kernel, MIDDLE_SIZE_MAX, NONCE_TEXT_SIZE, SEALED_SIZE_MIN, TextFrame, decoded_size, encoded_size,
};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

const SIZE_MAX: usize = 300;
/// The content around a piece of memory that must not be touched.
const AROUND: u8 = 0x55;

fn random_bytes(rng: &mut StdRng, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    rng.fill_bytes(&mut bytes);
    bytes
}

/// Encodes into the middle of a buffer whose rest must stay as it is, at any alignment.
fn encode(kernel: Kernel, bytes: &[u8], before: usize) -> Vec<u8> {
    let size = encoded_size(bytes.len());
    let mut out = vec![AROUND; before + size + 64];
    kernel.encode(bytes, &mut out[before..before + size]);
    inner(out, before, size)
}

fn decode(kernel: Kernel, text: &[u8], before: usize) -> Option<Vec<u8>> {
    let size = decoded_size(text.len())?;
    let mut out = vec![AROUND; before + size + 64];
    let is_right = kernel.decode(text, &mut out[before..before + size]);
    let bytes = inner(out, before, size);
    is_right.then_some(bytes)
}

fn inner(out: Vec<u8>, before: usize, size: usize) -> Vec<u8> {
    let around = out[..before].iter().chain(&out[before + size..]);
    assert!(around.into_iter().all(|&byte| byte == AROUND), "writes nothing beside its room");
    out[before..before + size].to_vec()
}

/// Reads from the very end of an allocation, so that tools detect a load beyond it.
fn at_the_end(bytes: &[u8]) -> Box<[u8]> {
    bytes.into()
}

#[test]
fn equals_another_library_at_every_length() {
    let seed = 0x7465_7874;
    println!("seed {seed:#x}");
    let mut rng = StdRng::seed_from_u64(seed);
    for kernel in Kernel::detect() {
        for size in (0..=SIZE_MAX).chain([1023, 1024, 1025, 65_537]) {
            for before in [0, 1, 63] {
                let bytes = at_the_end(&random_bytes(&mut rng, size));
                let text = STANDARD_NO_PAD.encode(&bytes).into_bytes();
                assert!(encode(kernel, &bytes, before) == text, "{}: {size} bytes", kernel.name());
                let decoded = decode(kernel, &at_the_end(&text), before);
                assert!(decoded.as_deref() == Some(&*bytes), "{}: {size} bytes", kernel.name());
            }
        }
    }
}

/// Texts of every length, with and without invalid characters: the same are decoded and refused as by the library.
#[test]
fn is_as_strict_as_another_library() {
    let mut rng = StdRng::seed_from_u64(5);
    let alphabet: Vec<u8> = (0..64).map(|value| STANDARD_NO_PAD.encode([value << 2]).into_bytes()[0]).collect();
    let (mut taken, mut refused) = (0, 0);
    for kernel in Kernel::detect() {
        for size in (0..=SIZE_MAX).filter(|&size| decoded_size(size).is_some()) {
            for faults in [0, 0, 0, 0, 1, 2] {
                let mut text: Vec<u8> = (0..size).map(|_| alphabet[rng.random_range(0..64)]).collect();
                for _ in 0..faults.min(size) {
                    let place = rng.random_range(0..size);
                    text[place] = rng.random();
                }
                let expected = STANDARD_NO_PAD.decode(&text).ok();
                if expected.is_some() {
                    taken += 1
                } else {
                    refused += 1
                }
                assert_eq!(decode(kernel, &text, 1), expected, "{}: {}", kernel.name(), text.escape_ascii());
            }
        }
    }
    assert!(taken > 500 && refused > 500, "both happen: {taken} taken, {refused} refused");
}

/// Every byte at every place of texts of every length up to more than two steps of the widest kernel.
#[test]
fn every_byte_at_every_place() {
    for kernel in Kernel::detect() {
        for size in (2..=140).filter(|&size| decoded_size(size).is_some()) {
            let good = STANDARD_NO_PAD.encode(vec![0xa5; decoded_size(size).expect("a length")]).into_bytes();
            let mut text = good.clone();
            let mut out = vec![0; decoded_size(size).expect("a length")];
            for place in 0..size {
                for byte in 0..=255 {
                    text[place] = byte;
                    // Only the last characters have bits that no byte has.
                    let expected = if place + 4 > size {
                        STANDARD_NO_PAD.decode(&text).is_ok()
                    } else {
                        byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')
                    };
                    let is_right = kernel.decode(&text, &mut out);
                    assert_eq!(is_right, expected, "{}: {byte:#x} at {place} of {size}", kernel.name());
                    if let Ok(text) = text.as_slice().try_into() {
                        let mut nonce = [AROUND; NONCE_SIZE];
                        assert_eq!(kernel.decode_nonce(text, &mut nonce), is_right);
                        assert!(!is_right || nonce == *out);
                    }
                }
                text[place] = good[place];
            }
        }
    }
}

/// A frame of every shape around values of every length, after existing content, with and without spare capacity.
#[test]
fn frames_are_written_whole() {
    let mut rng = StdRng::seed_from_u64(9);
    for kernel in Kernel::detect() {
        for size in SEALED_SIZE_MIN..=SIZE_MAX {
            let head = random_bytes(&mut rng, size % (HEAD_SIZE_MAX + 1));
            let middle = random_bytes(&mut rng, MIDDLE_SIZE_MAX - size % 24);
            let frame = TextFrame::new(&head, &middle, *b":$");
            let nonce: [u8; NONCE_SIZE] = rng.random();
            let sealed = random_bytes(&mut rng, size);
            let text = [
                &head,
                STANDARD_NO_PAD.encode(nonce).as_bytes(),
                &middle,
                STANDARD_NO_PAD.encode(&sealed).as_bytes(),
                b":$",
            ]
            .concat();
            assert_eq!(frame.text_size(size), text.len());
            let mut out = vec![AROUND; size % 3];
            if size % 2 == 0 {
                // Exactly as much as the text needs, without slack.
                out.reserve_exact(text.len());
                let place = out.as_ptr();
                kernel.append(&frame, &nonce, &sealed, &mut out);
                assert_eq!(out.as_ptr(), place, "not moved");
            } else {
                kernel.append(&frame, &nonce, &sealed, &mut out);
            }
            let (before, appended) = out.split_at(size % 3);
            assert!(before.iter().all(|&byte| byte == AROUND) && appended == text, "{}: {size}", kernel.name());
            assert_eq!([frame.head(), frame.middle(), frame.tail()], [&head[..], &middle[..], b":$"]);
        }
    }
}

#[test]
fn sizes_are_those_of_the_library() {
    for size in 0..=SIZE_MAX {
        assert_eq!(encoded_size(size), STANDARD_NO_PAD.encode(vec![0; size]).len());
        assert_eq!(decoded_size(encoded_size(size)), Some(size));
        assert_eq!(decoded_size(4 * size + 1), None);
    }
    assert_eq!(NONCE_TEXT_SIZE, encoded_size(NONCE_SIZE));
}

#[test]
#[should_panic(expected = "room for exactly this text")]
fn room_for_a_text_must_fit() {
    Kernel::detect()[0].encode(&[1, 2, 3], &mut [0; 5]);
}

#[test]
#[should_panic(expected = "room for exactly these bytes")]
fn room_for_bytes_must_fit() {
    let _ = Kernel::detect()[0].decode(b"AAAAA", &mut [0; 3]);
}

#[test]
#[should_panic(expected = "a rest as long as a middle")]
fn a_frame_that_would_reach_too_far_is_refused() {
    let _: TextFrame = TextFrame::new(b"head", b"short", *b":$");
}
