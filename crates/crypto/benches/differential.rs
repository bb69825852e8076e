//! Random messages through every kernel of the lanes against two libraries, BoringSSL and RustCrypto: lengths from 0 to 300 and around
//! the greatest, associated data from 0 to 100 bytes, shared and own, groups around the widths of the kernels, one length and mixed;
//! opened again with some of them damaged.
//!
//! `cargo bench -p fieldseal-crypto --bench differential -- [MESSAGES [SEED]]`. Any difference ends it with the seed of its group.

use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use aes_gcm::aead::{Aead, KeyInit, Payload};
use fieldseal_crypto::aead::{AeadAlgorithm, AeadKey, Nonce, OpenItem, SealItem, TAG_SIZE};
use fieldseal_crypto::{DecryptFailed, Lanes};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

const MESSAGES: u64 = 1_000_000;
const SIZE_MAX: usize = 300;
const AAD_MAX: usize = 100;

/// Messages of one call, as random as their seed.
struct Group {
    algorithm: AeadAlgorithm,
    key: Vec<u8>,
    aads: Vec<Vec<u8>>,
    messages: Vec<Message>,
}

struct Message {
    nonce: Nonce,
    aad: usize,
    text: Vec<u8>,
    /// The bit of its sealed form that is flipped before it is opened.
    damage: Option<usize>,
}

fn bytes(rng: &mut StdRng, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    rng.fill_bytes(&mut bytes);
    bytes
}

impl Group {
    fn new(seed: u64) -> Self {
        let rng = &mut StdRng::seed_from_u64(seed);
        let algorithm = if rng.random() { AeadAlgorithm::Aes128Gcm } else { AeadAlgorithm::Aes256Gcm };
        let key = bytes(rng, algorithm.key_size());
        let counts = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65];
        let count = counts[rng.random_range(0..counts.len())];
        let aads = (0..if rng.random() { 1 } else { rng.random_range(1..=count) })
            .map(|_| rng.random_range(0..=AAD_MAX))
            .collect::<Vec<usize>>();
        let aads: Vec<Vec<u8>> = aads.into_iter().map(|size| bytes(rng, size)).collect();
        let most = [16, 48, 100, SIZE_MAX, 513][rng.random_range(0..5)];
        let alike = rng.random_bool(0.4).then(|| rng.random_range(0..=most));
        let messages = (0..count)
            .map(|_| {
                let size = alike.unwrap_or_else(|| rng.random_range(0..=most));
                Message {
                    nonce: Nonce(rng.random()),
                    aad: rng.random_range(0..aads.len()),
                    text: bytes(rng, size),
                    damage: rng.random_bool(0.1).then(|| rng.random_range(0..8 * (size + TAG_SIZE))),
                }
            })
            .collect();
        Self { algorithm, key, aads, messages }
    }

    fn seal_items(&self) -> Vec<SealItem<'_>> {
        let item = |m: &'_ Message| (m.nonce, m.aad);
        self.messages
            .iter()
            .map(|message| {
                let (nonce, aad) = item(message);
                SealItem { nonce, aad: &self.aads[aad], plaintext: &message.text }
            })
            .collect()
    }

    fn rust_crypto(&self) -> Vec<u8> {
        let seal = |item: &SealItem<'_>| {
            let payload = Payload { msg: item.plaintext, aad: item.aad };
            match self.algorithm {
                AeadAlgorithm::Aes128Gcm => aes_gcm::Aes128Gcm::new_from_slice(&self.key)
                    .expect("length")
                    .encrypt(&item.nonce.0.into(), payload),
                _ => aes_gcm::Aes256Gcm::new_from_slice(&self.key)
                    .expect("length")
                    .encrypt(&item.nonce.0.into(), payload),
            }
            .expect("seals")
        };
        self.seal_items().iter().flat_map(seal).collect()
    }

    /// What differs, if anything.
    fn check(&self, kernels: &[Lanes]) -> Result<(), String> {
        let key = |lanes| AeadKey::with_lanes(lanes, self.algorithm, &self.key).expect("available");
        let items = self.seal_items();
        let library = key(Lanes::Portable);
        let mut expected = vec![0; items.iter().map(|item| item.plaintext.len() + TAG_SIZE).sum()];
        library.seal_many(&items, &mut expected);
        if expected != self.rust_crypto() {
            return Err("the libraries differ".to_owned());
        }
        let mut damaged = expected.clone();
        let mut rest = damaged.as_mut_slice();
        let mut open_items = Vec::with_capacity(items.len());
        for (item, message) in items.iter().zip(&self.messages) {
            let (sealed, after) = rest.split_at_mut(item.plaintext.len() + TAG_SIZE);
            message.damage.into_iter().for_each(|bit| sealed[bit / 8] ^= 1 << (bit % 8));
            open_items.push(OpenItem { nonce: item.nonce, aad: item.aad, sealed });
            rest = after;
        }
        let mut plain = Vec::new();
        for message in &self.messages {
            let text = message.text.iter().map(|&byte| if message.damage.is_some() { 0 } else { byte });
            plain.extend(text);
        }
        for &lanes in kernels {
            let key = key(lanes);
            let mut sealed = vec![0x55; expected.len()];
            key.seal_many(&items, &mut sealed);
            if sealed != expected {
                return Err(format!("{} seals otherwise", lanes.name()));
            }
            let mut opened = vec![0x55; plain.len()];
            let mut results = vec![Ok(()); items.len()];
            key.open_many(&open_items, &mut opened, &mut results);
            let right = self.messages.iter().map(|m| if m.damage.is_some() { Err(DecryptFailed) } else { Ok(()) });
            if opened != plain || !results.iter().copied().eq(right) {
                return Err(format!("{} opens otherwise", lanes.name()));
            }
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let wanted = numbers.first().copied().unwrap_or(MESSAGES);
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    let first = numbers.get(1).copied().unwrap_or_else(now);
    let choice = |lanes: &Lanes| AeadKey::with_lanes(*lanes, AeadAlgorithm::Aes128Gcm, &[0; 16]).is_ok();
    let kernels: Vec<Lanes> = Lanes::ALL.into_iter().filter(choice).collect();
    let names: Vec<&str> = kernels.iter().map(|lanes| lanes.name()).collect();
    println!("{wanted} messages through {}, seed {first}", names.join(", "));
    let start = Instant::now();
    let (mut done, mut seed) = (0, first);
    while done < wanted {
        let group = Group::new(seed);
        if let Err(difference) = group.check(&kernels) {
            println!("seed {seed}: {difference}");
            return ExitCode::FAILURE;
        }
        done += group.messages.len() as u64;
        seed = seed.wrapping_add(1);
    }
    println!("{done} messages agree, in {:.0} s; next seed {seed}", start.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}
