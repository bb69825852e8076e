//! ChaCha20 and Poly1305: the kernel of this CPU and the model against RustCrypto, in place and apart, and Poly1305 in pieces.

use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
use leafseal_lanes::chacha::{BLOCK_SIZE, Kernel, Poly1305, SIZE_MIN};
use poly1305::universal_hash::KeyInit;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

/// Bytes of sixteen blocks of ChaCha20, which the kernel computes together.
const GROUP_SIZE: usize = 16 * BLOCK_SIZE;

fn kernels() -> impl Iterator<Item = Kernel> {
    Kernel::detect().into_iter().chain([Kernel::Model])
}

fn sizes() -> impl Iterator<Item = usize> {
    let near = [64, 128, 256, SIZE_MIN, 768, GROUP_SIZE, 2 * GROUP_SIZE, 5 * GROUP_SIZE, 16 << 10];
    (0..=34).chain(near.into_iter().flat_map(|size| [size - 17, size - 1, size, size + 1, size + 16]))
}

fn random(rng: &mut StdRng, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    rng.fill_bytes(&mut bytes);
    bytes
}

#[test]
fn kernels_give_the_known_answer() {
    assert!(kernels().all(Kernel::is_right));
}

#[test]
fn chacha20_equals_another_implementation() {
    let mut rng = StdRng::seed_from_u64(1);
    for size in sizes() {
        let (key, nonce): ([u8; 32], [u8; 12]) = (rng.random(), rng.random());
        let text = random(&mut rng, size);
        for counter in [0, 1, rng.random::<u32>() >> 1] {
            let mut expected = text.clone();
            let mut cipher = chacha20::ChaCha20::new(&key.into(), &nonce.into());
            cipher.seek(u64::from(counter) * BLOCK_SIZE as u64);
            cipher.apply_keystream(&mut expected);
            for kernel in kernels() {
                let (mut apart, mut in_place) = (vec![0x55; size], text.clone());
                kernel.chacha20(&key, &nonce, counter, &text, &mut apart);
                kernel.chacha20_in_place(&key, &nonce, counter, &mut in_place);
                assert!(apart == expected && in_place == expected, "{}, {size} bytes from {counter}", kernel.name());
            }
        }
    }
}

/// Blocks before and after the last of the counter, each alone by the model.
#[test]
fn the_counter_wraps_without_a_carry() {
    let (key, nonce) = ([7; 32], [9; 12]);
    let start = u32::MAX - 20;
    let mut expected = vec![0; 40 * BLOCK_SIZE];
    for (i, block) in expected.chunks_mut(BLOCK_SIZE).enumerate() {
        Kernel::Model.chacha20_in_place(&key, &nonce, start.wrapping_add(i as u32), block);
    }
    for kernel in kernels() {
        let mut stream = vec![0; expected.len()];
        kernel.chacha20_in_place(&key, &nonce, start, &mut stream);
        assert!(stream == expected, "{}", kernel.name());
    }
}

#[test]
#[should_panic(expected = "texts of one length")]
fn texts_of_two_lengths_are_refused() {
    Kernel::Model.chacha20(&[0; 32], &[0; 12], 0, &[0; 2], &mut [0; 3]);
}

fn expected_tag(key: &[u8; 32], text: &[u8]) -> [u8; 16] {
    poly1305::Poly1305::new(&(*key).into()).compute_unpadded(text).into()
}

/// The tag of a text in random pieces, empty ones included.
fn tag(kernel: Kernel, key: &[u8; 32], mut text: &[u8], rng: &mut StdRng) -> [u8; 16] {
    let mut mac = Poly1305::new(kernel, key);
    let size_max = [20, 700, usize::MAX][rng.random_range(0..3)];
    while !text.is_empty() {
        let piece = rng.random_range(0..=text.len().min(size_max));
        mac.update(&text[..piece]);
        text = &text[piece..];
    }
    mac.finish()
}

#[test]
fn poly1305_equals_another_implementation() {
    let mut rng = StdRng::seed_from_u64(2);
    for size in sizes() {
        for _ in 0..20 {
            let (key, text): ([u8; 32], _) = (rng.random(), random(&mut rng, size));
            for kernel in kernels() {
                assert_eq!(tag(kernel, &key, &text, &mut rng), expected_tag(&key, &text), "{}, {size}", kernel.name());
            }
        }
    }
}

/// Keys and texts at the edges of limbs and of the modulus, as in RFC 8439, A.3, for all sizes.
#[test]
fn poly1305_carries_everywhere() {
    const BYTES: [[u8; 16]; 6] = [
        [0; 16],
        [0xff; 16],
        [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        [0xfb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        [0xff, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    ];
    let mut rng = StdRng::seed_from_u64(3);
    for size in sizes() {
        for (r, s) in BYTES.iter().flat_map(|r| BYTES.map(|s| (r, s))) {
            let key: [u8; 32] = [*r, s].concat().try_into().expect("two halves");
            let is_one_kind = rng.random();
            let kind = rng.random_range(0..BYTES.len());
            let mut block = || if is_one_kind { BYTES[kind] } else { BYTES[rng.random_range(0..BYTES.len())] };
            let mut text: Vec<u8> = (0..size.div_ceil(16)).flat_map(|_| block()).collect();
            text.truncate(size);
            for kernel in kernels() {
                let mut rng = StdRng::seed_from_u64(size as u64);
                assert_eq!(tag(kernel, &key, &text, &mut rng), expected_tag(&key, &text), "{}, {size}", kernel.name());
            }
        }
    }
}
