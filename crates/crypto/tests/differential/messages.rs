//! Random messages through kernels of the lanes against two libraries, BoringSSL and RustCrypto: lengths from 0 to 300 and around the
//! greatest, associated data from 0 to 100 bytes, shared and own, groups around the widths of the kernels, one length and mixed; opened
//! again with some of them damaged.

use aes_gcm::aead::{Aead, KeyInit, Payload};
use leafseal_crypto::aead::{AeadAlgorithm, AeadKey, Nonce, OpenItem, SealItem, TAG_SIZE};
use leafseal_crypto::{DecryptFailed, Implementations};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

const SIZE_MAX: usize = 300;
const AAD_MAX: usize = 100;

/// The kernels of this CPU, and the library's loop.
pub(crate) fn kernels() -> Vec<Implementations> {
    let is_here = |lanes: &Implementations| AeadKey::with_lanes(*lanes, AeadAlgorithm::Aes128Gcm, &[0; 16]).is_ok();
    Implementations::ALL.into_iter().filter(|lanes| !matches!(lanes, Implementations::Auto)).filter(is_here).collect()
}

/// Seals with RustCrypto.
fn rust_crypto<A: KeyInit + Aead<NonceSize = aes_gcm::aead::consts::U12>>(
    key: &[u8],
    items: &[SealItem<'_>],
) -> Vec<u8> {
    let Ok(key) = A::new_from_slice(key) else { panic!("a key of the algorithm's length") };
    let seal = |item: &SealItem<'_>| {
        let payload = Payload { msg: item.plaintext, aad: item.aad };
        key.encrypt(&item.nonce.0.into(), payload).expect("seals")
    };
    items.iter().flat_map(seal).collect()
}

/// Messages of one call, as random as their seed.
pub(crate) struct Group {
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
    /// Those of a seed.
    pub(crate) fn new(seed: u64) -> Self {
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

    fn by_rust_crypto(&self, items: &[SealItem<'_>]) -> Vec<u8> {
        match self.algorithm {
            AeadAlgorithm::Aes128Gcm => rust_crypto::<aes_gcm::Aes128Gcm>(&self.key, items),
            _ => rust_crypto::<aes_gcm::Aes256Gcm>(&self.key, items),
        }
    }

    /// How many messages.
    pub(crate) fn len(&self) -> u64 {
        self.messages.len() as u64
    }

    /// The difference, if any.
    pub(crate) fn check(&self, kernels: &[Implementations]) -> Result<(), String> {
        let key = |lanes| AeadKey::with_lanes(lanes, self.algorithm, &self.key).expect("available");
        let items = self.seal_items();
        let library = key(Implementations::Portable);
        let mut expected = vec![0; items.iter().map(|item| item.plaintext.len() + TAG_SIZE).sum()];
        library.seal_many(&items, &mut expected);
        if expected != self.by_rust_crypto(&items) {
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
