//! XAES-256-GCM over messages of many prefixes, with one message in each lane: keys are derived and expanded side by side, and each lane
//! has round keys and a hash key of its own.
//!
//! ```text
//! key:    K1 = double(AES(key, 0))                                the subkey of CMAC (SP 800-38B, 6.1)
//! call:   messages with an equal prefix in a row, if they are many: derive their key once, then `run`
//!         all others, in groups with the same number of blocks of text, up to 4 vectors:
//!           key of a lane = AES(key, K1 ⊕ (0, 1, 'X', 0, prefix)) ‖ AES(key, K1 ⊕ (0, 2, 'X', 0, prefix))
//!           expand it                                                               schedule
//!           AES of 0, suffix ‖ 1, suffix ‖ 2, … in each lane: the hash key H, the mask of the tag, the key stream
//!           state = 0; for each block of associated data, of ciphertext, and the lengths:
//!             state = (state ⊕ block) · H                                           product
//!           tag = state ⊕ mask                                                      written, or compared in every lane
//! ```
//!
//! Powers of H do not pay for one short message: each costs as much as a step. The steps of up to 4 vectors run at once. Lanes with less
//! associated data than others begin with blocks of zeros, which leave the state zero.

use super::cipher::{encrypt, encrypt_with};
use super::group::{GroupLanes, MessageLane, ONE, VectorText, give_results, known, spread};
use super::key::{GcmKeyParts, ROUNDS_MAX};
use super::memory::VectorMemory;
use super::message::XaesMessage;
use super::product::Product;
use super::run::{BATCH, by_blocks, run};
use super::schedule::{encrypt_256, expand_256};
use super::vector::{BLOCK_SIZE, Block, LANES_MAX, Vector};
use super::{BLOCKS_MAX, MESSAGE_SIZE_MAX, XaesNonce};
use crate::wipe::wipe;

/// Most vectors of a group.
const VECTORS_MAX: usize = 4;
/// Most messages of a group.
const LANES: usize = VECTORS_MAX * LANES_MAX;
/// Round keys of AES-256.
const ROUND_KEYS: usize = ROUNDS_MAX + 1;
/// Columns of a lane besides those of its text: the hash key and the mask of the tag.
const EXTRA: usize = 2;

/// Messages with an equal prefix in a row from which one expansion, with powers of the hash key, takes less time than side by side.
#[inline(always)]
fn run_min<V: Vector>() -> usize {
    match V::LANES {
        1 => 5,
        2 => 7,
        _ => 10,
    }
}

type RoundKeys = VectorMemory<{ ROUND_KEYS * VECTORS_MAX * LANES_MAX * BLOCK_SIZE }>;
/// [`group_vectors`] has fewer vectors where texts are longer.
type KeyStream = VectorMemory<{ (BLOCKS_MAX + EXTRA) * LANES_MAX * BLOCK_SIZE }>;

/// Vectors of a group whose messages have `blocks` blocks of text: enough to hide latencies, no more than there are registers for short
/// texts (32 of 512 bits, or 16), or than the key stream has room for.
#[inline(always)]
fn group_vectors<V: Vector>(blocks: usize) -> usize {
    match blocks {
        0..=4 if V::LANES == LANES_MAX => 4,
        0..=14 => 2,
        _ => 1,
    }
}

const _: () = assert!(4 * (4 + EXTRA) <= BLOCKS_MAX + EXTRA && 2 * (14 + EXTRA) <= BLOCKS_MAX + EXTRA);

/// An expanded key of XAES-256-GCM: the round keys of AES-256, of which the first two are the key itself, and K1. Wiped on drop.
#[repr(C, align(64))]
pub struct XaesKeyParts {
    blocks: [Block; ROUND_KEYS + 1],
}

impl XaesKeyParts {
    /// Zeros.
    pub fn zero() -> Self {
        Self { blocks: [[0; BLOCK_SIZE]; ROUND_KEYS + 1] }
    }

    /// The bytes, to be kept elsewhere. The caller must not print them.
    pub fn bytes(&self) -> &[[u8; 2 * BLOCK_SIZE]] {
        self.blocks.as_flattened().as_chunks().0
    }

    /// The bytes, writable.
    pub fn bytes_mut(&mut self) -> &mut [[u8; 2 * BLOCK_SIZE]] {
        self.blocks.as_flattened_mut().as_chunks_mut().0
    }

    #[inline(always)]
    pub(super) fn fill<V: Vector>(&mut self, cpu: V::Cpu, key: &[u8; 32]) {
        let single = cpu.into();
        let load = |half: &Block| V::Single::broadcast(single, half);
        let (halves, _) = key.as_chunks();
        let halves = [[load(&halves[0])], [load(&halves[1])]];
        expand_256(single, halves, |i, [key]| key.store(&mut self.blocks[i..]));
        let (round_keys, subkey) = self.blocks.split_at_mut(ROUND_KEYS);
        let mut zero = [V::Single::zero(single)];
        encrypt(single, round_keys, &mut zero);
        zero[0].store(subkey);
        subkey[0] = double(u128::from_be_bytes(subkey[0])).to_be_bytes();
    }

    #[inline(always)]
    fn round_keys(&self) -> &[Block] {
        &self.blocks[..ROUND_KEYS]
    }

    /// K1 ⊕ (0, counter, 'X', 0, …): what a prefix is added to.
    #[inline(always)]
    fn message<V: Vector>(&self, cpu: V::Cpu, counter: u8) -> V {
        let mut label = [0; BLOCK_SIZE];
        (label[1], label[2]) = (counter, b'X');
        V::broadcast(cpu, &self.blocks[ROUND_KEYS]).xor(V::broadcast(cpu, &label))
    }

    /// The keys of one prefix in each lane.
    #[inline(always)]
    fn derive<V: Vector, const N: usize>(&self, cpu: V::Cpu, prefixes: [V; N]) -> [[V; N]; 2] {
        let mut keys = [[V::zero(cpu); N]; 2];
        for (counter, keys) in (1..).zip(&mut keys) {
            let message = self.message::<V>(cpu, counter);
            for i in 0..N {
                keys[i] = prefixes[i].xor(message);
            }
        }
        encrypt(cpu, self.round_keys(), keys.as_flattened_mut());
        keys
    }
}

impl Drop for XaesKeyParts {
    fn drop(&mut self) {
        wipe(self.blocks.as_flattened_mut());
    }
}

/// Times x, in CMAC's field (SP 800-38B, 6.1). Constant time.
fn double(bits: u128) -> u128 {
    bits << 1 ^ 0x87 & (bits >> 127).wrapping_neg()
}

/// The prefixes of nonces, after four bytes of zeros.
#[inline(always)]
fn gather_prefixes<V: Vector>(cpu: V::Cpu, nonces: [&[u8; 24]; LANES_MAX]) -> V {
    // SAFETY: the first 16 bytes of a nonce are readable.
    unsafe { V::gather(cpu, nonces.map(|nonce| nonce.as_ptr())) }.move_up()
}

/// Their suffixes, before four bytes of zeros.
#[inline(always)]
fn gather_suffixes<V: Vector>(cpu: V::Cpu, nonces: [&[u8; 24]; LANES_MAX]) -> V {
    // SAFETY: the last 16 bytes of a nonce are readable.
    unsafe { V::gather(cpu, nonces.map(|nonce| nonce[24 - BLOCK_SIZE..].as_ptr())) }.move_down()
}

/// The key of AES-256-GCM of a prefix.
#[inline(always)]
pub(super) fn derive_prefix<V: Vector>(cpu: V::Cpu, key: &XaesKeyParts, nonce: &XaesNonce, derived: &mut [u8; 32]) {
    let prefix = gather_prefixes::<V>(cpu, [&nonce.0; LANES_MAX]);
    let [[first], [second]] = key.derive(cpu, [prefix]);
    let (halves, _) = derived.as_chunks_mut();
    first.store(&mut halves[..1]);
    second.store(&mut halves[1..]);
}

/// Encrypts or decrypts every message. `out` receives the outputs in order. `opened[i]` is whether the tag of message i was
/// correct; if it was not, the output is zeros. For encryption, `opened` is empty.
#[inline(always)]
pub(super) fn run_prefixes<'a, V: Vector, M: XaesMessage>(
    cpu: V::Cpu,
    key: &XaesKeyParts,
    mut items: &'a [M],
    mut out: &'a mut [u8],
    mut opened: &mut [bool],
) {
    assert!(!M::IS_SEALED || opened.len() == items.len(), "a result for each message");
    while !items.is_empty() {
        let (mut count, mut size) = run_length(items);
        let is_run = count >= run_min::<V>();
        while !is_run && count < items.len() {
            let (next, next_size) = run_length(&items[count..]);
            if next >= run_min::<V>() {
                break;
            }
            (count, size) = (count + next, size + next_size);
        }
        let (some, rest) = items.split_at(count);
        let (output, after) = out.split_at_mut_checked(size).expect(ROOM);
        let (results, others) = opened.split_at_mut(if M::IS_SEALED { count } else { 0 });
        if is_run {
            one_prefix::<V, M>(cpu, key, some, output, results);
        } else {
            SideBySide::<V>::new(cpu, key, results).run(some, output);
        }
        (items, out, opened) = (rest, after, others);
    }
    assert!(out.is_empty(), "{ROOM}");
}

const ROOM: &str = "room for exactly these messages";

/// How many messages in front have an equal prefix, and the bytes of their outputs together.
#[inline(always)]
fn run_length<M: XaesMessage>(items: &[M]) -> (usize, usize) {
    let prefix = |item: &M| {
        let [a @ .., e, f, g, h] = *item.xaes_nonce().prefix();
        (u64::from_le_bytes(a), u32::from_le_bytes([e, f, g, h]))
    };
    let (first, mut count, mut size) = (prefix(&items[0]), 0, 0);
    for item in items {
        if prefix(item) != first {
            break;
        }
        assert!(item.size() <= MESSAGE_SIZE_MAX, "a short message");
        (count, size) = (count + 1, size + item.size() + M::TAG_OUT);
    }
    (count, size)
}

/// Messages with an equal prefix: AES-256-GCM under its key.
#[inline(always)]
fn one_prefix<'a, V: Vector, M: XaesMessage>(
    cpu: V::Cpu,
    key: &XaesKeyParts,
    items: &'a [M],
    out: &'a mut [u8],
    opened: &mut [bool],
) {
    let single = cpu.into();
    let prefix = gather_prefixes::<V::Single>(single, [&items[0].xaes_nonce().0; LANES_MAX]);
    let [[first], [second]] = key.derive(single, [prefix]);
    let blocks = items.iter().map(|item| item.blocks()).max().unwrap_or(0);
    let mut expanded = GcmKeyParts::zero();
    expanded.fill_256::<V>(cpu, [first, second], blocks + 1);
    run::<V, M>(cpu, &expanded, items, out, opened);
}

/// What messages of one length with the same slice of associated data have in common.
struct Shared<'a, V> {
    aad: &'a [u8],
    size: usize,
    lengths: V,
}

impl<'a, V: Vector> Shared<'a, V> {
    /// None if messages differ.
    #[inline(always)]
    fn new<M: XaesMessage>(cpu: V::Cpu, items: &'a [M]) -> Option<Self> {
        let first = items.first()?;
        let (size, aad) = (first.size(), first.aad());
        let is_alike = |item: &M| item.size() == size && std::ptr::eq(item.aad(), aad);
        let lengths = V::from_halves(cpu, [first.lengths(); LANES_MAX]);
        items.iter().all(is_alike).then_some(Self { aad, size, lengths })
    }
}

/// Messages of prefixes of their own.
struct SideBySide<'w, V: Vector> {
    cpu: V::Cpu,
    key: &'w XaesKeyParts,
    opened: &'w mut [bool],
    memory: OwnKeyMemory,
}

/// Working memory of a group.
struct OwnKeyMemory {
    round_keys: RoundKeys,
    stream: KeyStream,
}

impl<'w, V: Vector> SideBySide<'w, V> {
    #[inline(always)]
    fn new(cpu: V::Cpu, key: &'w XaesKeyParts, opened: &'w mut [bool]) -> Self {
        Self { cpu, key, opened, memory: OwnKeyMemory { round_keys: RoundKeys::new(), stream: KeyStream::new() } }
    }

    #[inline(always)]
    fn run<'a, M: XaesMessage>(&mut self, items: &'a [M], mut out: &'a mut [u8]) {
        let shared = Shared::<V>::new(self.cpu, items);
        for (b, batch) in items.chunks(BATCH).enumerate() {
            let mut outputs = [const { None }; BATCH];
            for (output, item) in outputs.iter_mut().zip(batch) {
                let (this, rest) = out.split_at_mut(item.size() + M::TAG_OUT);
                (*output, out) = (Some(this), rest);
            }
            let order = if shared.is_some() { std::array::from_fn(|i| i as u8) } else { by_blocks(batch) };
            let mut left = &order[..batch.len()];
            while let Some((&first, others)) = left.split_first() {
                let blocks = batch[usize::from(first)].blocks();
                let alike = |&&i: &&u8| batch[usize::from(i)].blocks() == blocks;
                let most = group_vectors::<V>(blocks) * V::LANES;
                let count = 1 + others.iter().take(most - 1).take_while(alike).count();
                let mut lanes = GroupLanes::<M, LANES>::new();
                for &i in &left[..count] {
                    let i = usize::from(i);
                    lanes.push(MessageLane {
                        message: &batch[i],
                        output: outputs[i].take().expect("each message is taken once"),
                        state: [0; BLOCK_SIZE],
                        index: b * BATCH + i,
                    });
                }
                left = &left[count..];
                self.group(lanes.get(), shared.as_ref());
            }
        }
    }

    /// Messages with the same number of blocks of text.
    #[inline(always)]
    fn group<M: XaesMessage>(&mut self, lanes: &mut [MessageLane<'_, M>], shared: Option<&Shared<'_, V>>) {
        let mut rest = lanes;
        while !rest.is_empty() {
            let vectors = rest.len().div_ceil(V::LANES);
            // Three are two and one, so that there is less code. Narrower registers have no groups of four.
            let count = if vectors >= VECTORS_MAX && V::LANES == LANES_MAX { VECTORS_MAX } else { vectors.min(2) };
            let (some, after) = rest.split_at_mut(rest.len().min(count * V::LANES));
            match count {
                1 => self.vectors::<M, 1>(some, shared),
                2 => self.vectors::<M, 2>(some, shared),
                _ if V::LANES == LANES_MAX => self.vectors::<M, VECTORS_MAX>(some, shared),
                _ => unreachable!("at most two"),
            }
            rest = after;
        }
    }

    /// Messages with the same number of blocks of text in `N` vectors.
    #[inline(always)]
    fn vectors<M: XaesMessage, const N: usize>(
        &mut self,
        lanes: &mut [MessageLane<'_, M>],
        shared: Option<&Shared<'_, V>>,
    ) {
        let cpu = self.cpu;
        let columns = lanes[0].message.blocks() + EXTRA;
        let nonces: [_; N] =
            std::array::from_fn(|v| spread(part::<V, M>(lanes, v), |lane| &lane.message.xaes_nonce().0));
        let mut prefixes = [V::zero(cpu); N];
        for v in 0..N {
            prefixes[v] = gather_prefixes(cpu, nonces[v]);
        }
        let derived = self.key.derive(cpu, prefixes);
        let stream = match columns {
            3 => self.memory.short_stream::<V, N, 3>(cpu, derived, nonces),
            4 => self.memory.short_stream::<V, N, 4>(cpu, derived, nonces),
            _ => self.memory.long_stream::<V, N>(cpu, derived, nonces, columns),
        };
        let mut powers = [(V::zero(cpu), V::zero(cpu)); N];
        for (stream, power) in stream.chunks_exact(columns).zip(&mut powers) {
            let hash_key = stream[0].reverse_bytes().double(cpu);
            *power = (hash_key, hash_key.xor(hash_key.swap_halves()));
        }
        let states = absorb_each::<V, M, N>(cpu, lanes, shared, &powers);
        for (v, lanes) in lanes.chunks_mut(V::LANES).enumerate() {
            let stream = &stream[v * columns + 1..][..columns - 1];
            let right = known(VectorText::new(lanes).complete_own(cpu, (states[v], powers[v]), stream, shared));
            give_results(lanes, self.opened, right);
        }
    }
}

impl OwnKeyMemory {
    /// For each vector the AES of 0 and of the counters, `C` blocks in each lane.
    #[inline(always)]
    fn short_stream<V: Vector, const N: usize, const C: usize>(
        &mut self,
        cpu: V::Cpu,
        derived: [[V; N]; 2],
        nonces: [[&[u8; 24]; LANES_MAX]; N],
    ) -> &[V] {
        let one = V::broadcast(cpu, &ONE);
        let mut blocks = [[V::zero(cpu); C]; N];
        for (blocks, nonces) in blocks.iter_mut().zip(nonces) {
            let mut counters = gather_suffixes::<V>(cpu, nonces);
            for block in &mut blocks[1..] {
                counters = counters.add_bytes(one);
                *block = counters;
            }
        }
        encrypt_256(cpu, derived, &mut blocks);
        let mut stream = self.stream.fill::<V>(C * N);
        for blocks in &blocks {
            for block in blocks {
                stream.push(*block);
            }
        }
        stream.finish()
    }

    /// The same for any number of blocks, with round keys that are stored.
    #[inline(always)]
    fn long_stream<V: Vector, const N: usize>(
        &mut self,
        cpu: V::Cpu,
        derived: [[V; N]; 2],
        nonces: [[&[u8; 24]; LANES_MAX]; N],
        columns: usize,
    ) -> &[V] {
        let mut round_keys = self.round_keys.fill::<V>(ROUND_KEYS * N);
        expand_256(cpu, derived, |_, keys| {
            for key in keys {
                round_keys.push(*key);
            }
        });
        let (round_keys, _) = round_keys.finish().as_chunks::<N>();
        let one = V::broadcast(cpu, &ONE);
        let mut stream = self.stream.fill::<V>(columns * N);
        for nonces in nonces {
            let mut counters = gather_suffixes::<V>(cpu, nonces);
            stream.push(V::zero(cpu));
            for _ in 1..columns {
                counters = counters.add_bytes(one);
                stream.push(counters);
            }
        }
        let stream = stream.finish();
        for (v, stream) in stream.chunks_exact_mut(columns).enumerate() {
            encrypt_with(cpu, round_keys, v, stream);
        }
        stream
    }
}

/// The lanes of vector `v`.
#[inline(always)]
fn part<'l, 'a, V: Vector, M>(lanes: &'l [MessageLane<'a, M>], v: usize) -> &'l [MessageLane<'a, M>] {
    &lanes[v * V::LANES..lanes.len().min((v + 1) * V::LANES)]
}

/// A step of GHASH.
#[inline(always)]
fn step<V: Vector>(cpu: V::Cpu, state: V, block: V, power: (V, V)) -> V {
    Product::zero(cpu).add(block.xor(state), power).reduce(cpu)
}

/// The states of the hash after associated data, in each lane under its own key.
#[inline(always)]
fn absorb_each<V: Vector, M: XaesMessage, const N: usize>(
    cpu: V::Cpu,
    lanes: &[MessageLane<'_, M>],
    shared: Option<&Shared<'_, V>>,
    powers: &[(V, V); N],
) -> [V; N] {
    let mut states = [V::zero(cpu); N];
    if let Some(shared) = shared {
        for block in shared.aad.chunks(BLOCK_SIZE) {
            // SAFETY: the pointer and length of a chunk, which has from 1 to 16 bytes.
            let block = unsafe { V::gather_short(cpu, [block.as_ptr(); LANES_MAX], [block.len(); LANES_MAX]) };
            let block = block.reverse_bytes();
            for (state, power) in states.iter_mut().zip(powers) {
                *state = step(cpu, *state, block, *power);
            }
        }
        return states;
    }
    let blocks = lanes.iter().map(|lane| lane.message.aad().len().div_ceil(BLOCK_SIZE)).max().unwrap_or(0);
    for left in (1..=blocks).rev() {
        for (v, (state, power)) in states.iter_mut().zip(powers).enumerate() {
            let places = spread(part::<V, M>(lanes, v), |lane| aad_block(lane.message.aad(), left));
            let sizes = places.map(|block| block.len());
            let pointers = places.map(|block| block.as_ptr());
            // SAFETY: pointers and lengths of slices; `aad_block` returns 16 bytes, or for the last block from 1 to 16.
            let block =
                unsafe { if left == 1 { V::gather_short(cpu, pointers, sizes) } else { V::gather(cpu, pointers) } };
            *state = step(cpu, *state, block.reverse_bytes(), *power);
        }
    }
    states
}

/// The block of associated data that is `left` blocks before the end, zeros if there is none.
#[inline(always)]
fn aad_block(aad: &[u8], left: usize) -> &[u8] {
    const ZEROS: Block = [0; BLOCK_SIZE];
    let blocks = aad.len().div_ceil(BLOCK_SIZE);
    match blocks.checked_sub(left) {
        Some(i) => &aad[i * BLOCK_SIZE..aad.len().min((i + 1) * BLOCK_SIZE)],
        None => &ZEROS,
    }
}

impl<M: XaesMessage> VectorText<'_, '_, M> {
    /// Combines text and key stream, and hashes the ciphertext with a hash key of each lane's own. Writes the tags, or returns a bit for
    /// each that is correct.
    #[inline(always)]
    fn complete_own<V: Vector>(
        &self,
        cpu: V::Cpu,
        (mut state, power): (V, (V, V)),
        stream: &[V],
        shared: Option<&Shared<'_, V>>,
    ) -> u8 {
        let [mask, stream @ ..] = stream else { unreachable!("a block for the tag") };
        let sizes = shared.map_or(self.sizes, |shared| [shared.size; LANES_MAX]);
        // Where sizes differ, so may the last blocks.
        let whole = if shared.is_some() { sizes[0] / BLOCK_SIZE } else { stream.len().saturating_sub(1) };
        let mut at = 0;
        for stream in &stream[..whole] {
            // SAFETY: blocks up to `whole` are whole in every message.
            let hashed = unsafe { self.whole_blocks(cpu, at, *stream) };
            state = step(cpu, state, hashed.reverse_bytes(), power);
            at += BLOCK_SIZE;
        }
        if let Some(stream) = stream.get(whole) {
            // SAFETY: the last block has at least a byte in every message.
            let hashed = unsafe { self.last_blocks(cpu, at, *stream, sizes) };
            state = step(cpu, state, hashed.reverse_bytes(), power);
        }
        let lengths = match shared {
            Some(shared) => shared.lengths,
            None => V::from_halves(cpu, self.messages.map(|message| message.lengths())),
        };
        let tags = step(cpu, state, lengths, power).reverse_bytes().xor(*mask);
        self.finish(cpu, tags, sizes)
    }
}
