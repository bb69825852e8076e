//! AES-GCM (SP 800-38D, 7.1 and 7.2) over a group of messages with the same number of blocks, each in its own lane: blocks of the
//! same index are side by side in a vector, pass AES together, and use the same power of the hash key.
//!
//! ```text
//! push(group):     stream = AES of all counters of the group
//!                  complete the group before
//! complete(group): for each vector of messages, with `blocks` blocks each:
//!                    sum = 0; state = the hash after the associated data, for the first block (zero where `Common` has it)
//!                    for i in 1..=blocks:
//!                      output = input ⊕ stream[i]
//!                      sum += (reverse(ciphertext i) ⊕ state) · H^(blocks + 2 − i); state = 0
//!                    sum += lengths · H (or the contribution of `Common`, which has lengths and associated data)
//!                    tag = reverse(reduce(sum)) ⊕ stream[0]
//! ```
//!
//! A group is completed after the AES of the next one has been issued: neither depends on the other, and the CPU looks far enough ahead to
//! run both at once.

use std::mem::MaybeUninit;

use super::BLOCKS_MAX;
use super::cipher::encrypt;
use super::hash::absorb;
use super::key::GcmKeyParts;
use super::memory::VectorMemory;
use super::message::LaneMessage;
use super::product::Product;
use super::vector::{BLOCK_SIZE, Block, LANES_MAX, Vector};

/// Most messages of a group.
pub(super) const GROUP: usize = 8;
/// The increment of a counter block: 1 in its last byte (SP 800-38D, 6.2, big-endian).
pub(super) const ONE: Block = (1_u128 << 120).to_le_bytes();

const _: () = assert!(BLOCKS_MAX < u8::MAX as usize, "counters change in their last byte alone");

/// Room for the key stream of a group: [`group_size`] has fewer messages where they are longer.
type KeyStream = VectorMemory<{ (BLOCKS_MAX + 1) * LANES_MAX * BLOCK_SIZE }>;

/// Number of messages of `blocks` blocks that keep the AES units busy, a multiple of the lanes.
#[inline(always)]
pub(super) fn group_size<V: Vector>(blocks: usize) -> usize {
    match blocks {
        0 => GROUP,
        1 => GROUP.min(4 * V::LANES),
        2 | 3 => GROUP.min(2 * V::LANES),
        _ => V::LANES,
    }
}

/// A message and its output, with room for the text, and for the tag if it is to be sealed.
pub(super) struct MessageLane<'a, M> {
    pub(super) message: &'a M,
    pub(super) output: &'a mut [u8],
    /// The state of the hash after the associated data.
    pub(super) state: Block,
    /// Its place among the results.
    pub(super) index: usize,
}

/// The messages of a group.
pub(super) struct GroupLanes<'a, M, const SIZE: usize = GROUP> {
    lanes: [MaybeUninit<MessageLane<'a, M>>; SIZE],
    count: usize,
}

impl<'a, M, const SIZE: usize> GroupLanes<'a, M, SIZE> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self { lanes: [const { MaybeUninit::uninit() }; SIZE], count: 0 }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, lane: MessageLane<'a, M>) {
        self.lanes[self.count].write(lane);
        self.count += 1;
    }

    #[inline(always)]
    pub(super) fn get(&mut self) -> &mut [MessageLane<'a, M>] {
        // SAFETY: `push` has written the first `count` lanes.
        unsafe { self.lanes[..self.count].assume_init_mut() }
    }
}

/// The common values of messages of one length with the same associated data.
pub(super) struct Common<V> {
    size: usize,
    /// The contribution of associated data and lengths to the hash.
    ends: V,
}

impl<V: Vector> Common<V> {
    #[inline(always)]
    pub(super) fn new(cpu: V::Cpu, key: &GcmKeyParts, message: &impl LaneMessage) -> Self {
        let state = V::broadcast(cpu, &absorb::<V::Single>(cpu.into(), key, message.aad()));
        let lengths = V::from_halves(cpu, [message.lengths(); LANES_MAX]);
        let ends = Product::zero(cpu).add(state, key.power(cpu, message.blocks() + 1)).add(lengths, key.power(cpu, 1));
        Self { size: message.size(), ends: ends.reduce(cpu) }
    }
}

/// A group whose AES has been issued and one that is being put together.
pub(super) struct Pipeline<'w, 'a, V: Vector, M> {
    cpu: V::Cpu,
    key: &'w GcmKeyParts,
    opened: &'w mut [bool],
    groups: [GroupLanes<'a, M>; 2],
    streams: [KeyStream; 2],
    current: usize,
}

impl<'w, 'a, V: Vector, M: LaneMessage> Pipeline<'w, 'a, V, M> {
    #[inline(always)]
    pub(super) fn new(cpu: V::Cpu, key: &'w GcmKeyParts, opened: &'w mut [bool]) -> Self {
        let (groups, streams) = ([GroupLanes::new(), GroupLanes::new()], [KeyStream::new(), KeyStream::new()]);
        Self { cpu, key, opened, groups, streams, current: 0 }
    }

    /// The next group, empty.
    #[inline(always)]
    pub(super) fn begin(&mut self) -> &mut GroupLanes<'a, M> {
        let lanes = &mut self.groups[self.current];
        lanes.count = 0;
        lanes
    }

    /// Issues the AES of the group that was begun, whose messages have the same number of blocks, and completes the one before.
    #[inline(always)]
    pub(super) fn push(&mut self, common: Option<&Common<V>>) {
        let (cpu, lanes) = (self.cpu, &*self.groups[self.current].get());
        let columns = lanes[0].message.blocks() + 1;
        debug_assert!(
            lanes.iter().all(|lane| lane.message.blocks() + 1 == columns),
            "messages with the same number of blocks"
        );
        let one = V::broadcast(cpu, &ONE);
        let count = lanes.len().div_ceil(V::LANES) * columns;
        let mut stream = self.streams[self.current].fill::<V>(count);
        for lanes in lanes.chunks(V::LANES) {
            let mut counters = V::gather_nonces(cpu, spread(lanes, |lane| lane.message.nonce()));
            for _ in 0..columns {
                counters = counters.add_bytes(one);
                stream.push(counters);
            }
        }
        let stream = stream.finish();
        encrypt::<V>(cpu, self.key.round_keys(), stream);
        self.current ^= 1;
        self.complete(self.current, common);
    }

    /// Completes the last group.
    #[inline(always)]
    pub(super) fn finish(&mut self, common: Option<&Common<V>>) {
        self.complete(self.current ^ 1, common);
    }

    #[inline(always)]
    fn complete(&mut self, which: usize, common: Option<&Common<V>>) {
        let lanes = self.groups[which].get();
        let Some(first) = lanes.first() else { return };
        let columns = first.message.blocks() + 1;
        let stream = self.streams[which].filled::<V>(lanes.len().div_ceil(V::LANES) * columns);
        for (stream, lanes) in stream.chunks_exact(columns).zip(lanes.chunks_mut(V::LANES)) {
            let text = VectorText::new(lanes);
            let right = known(text.complete(self.cpu, self.key, stream, common));
            give_results(lanes, self.opened, right);
        }
    }
}

/// Writes which messages were opened, and wipes the text of the others.
#[inline(always)]
pub(super) fn give_results<M: LaneMessage>(lanes: &mut [MessageLane<'_, M>], opened: &mut [bool], right: u8) {
    if M::IS_SEALED {
        for (i, lane) in lanes.iter_mut().enumerate() {
            let is_right = right >> i & 1 != 0;
            opened[lane.index] = is_right;
            if !is_right {
                lane.output.fill(0);
            }
        }
    }
}

/// The messages of a vector. Lanes without a message repeat the first one: they read and write the same bytes.
pub(super) struct VectorText<'l, 'a, M> {
    lanes: &'l [MessageLane<'a, M>],
    pub(super) messages: [&'a M; LANES_MAX],
    inputs: [*const u8; LANES_MAX],
    outputs: [*mut u8; LANES_MAX],
    pub(super) sizes: [usize; LANES_MAX],
}

impl<'l, 'a, M: LaneMessage> VectorText<'l, 'a, M> {
    #[inline(always)]
    pub(super) fn new(lanes: &'l mut [MessageLane<'a, M>]) -> Self {
        let messages = spread(lanes, |lane| lane.message);
        Self {
            inputs: messages.map(|message| message.input().as_ptr()),
            outputs: spread_mut(lanes),
            sizes: messages.map(|message| message.size()),
            messages,
            lanes,
        }
    }

    /// Combines text and key stream and hashes the ciphertext. Writes the tags, or returns a bit for each that is correct.
    #[inline(always)]
    fn complete<V: Vector>(&self, cpu: V::Cpu, key: &GcmKeyParts, stream: &[V], common: Option<&Common<V>>) -> u8 {
        let [mask, stream @ ..] = stream else { unreachable!("a block for the tag") };
        let blocks = stream.len();
        let sizes = common.map_or(self.sizes, |common| [common.size; LANES_MAX]);
        let mut product = Product::zero(cpu);
        let mut state = V::zero(cpu);
        if common.is_none() {
            let lengths = V::from_halves(cpu, self.messages.map(|message| message.lengths()));
            product = product.add(lengths, key.power(cpu, 1));
            // SAFETY: each pointer is that of a block.
            state = unsafe { V::gather(cpu, spread(self.lanes, |lane| lane.state.as_ptr())) };
        }
        // Where sizes differ, so may the last blocks.
        let whole = if common.is_some() { sizes[0] / BLOCK_SIZE } else { blocks.saturating_sub(1) };
        let mut at = 0;
        for (stream, power) in stream[..whole].iter().zip(key.powers_down(blocks + 1)) {
            // SAFETY: blocks up to `whole` are whole in every message.
            let hashed = unsafe { self.whole_blocks(cpu, at, *stream) };
            product = product
                .add(hashed.reverse_bytes().xor(state), (V::broadcast(cpu, power.0), V::broadcast(cpu, power.1)));
            state = V::zero(cpu);
            at += BLOCK_SIZE;
        }
        if let Some(stream) = stream.get(whole) {
            // SAFETY: the last block has at least a byte in every message.
            let hashed = unsafe { self.last_blocks(cpu, at, *stream, sizes) };
            product = product.add(hashed.reverse_bytes().xor(state), key.power(cpu, 2));
        } else if blocks == 0 {
            product = product.add(state, key.power(cpu, 1));
        }
        let hash = common.map_or(V::zero(cpu), |common| common.ends).xor(product.reduce(cpu));
        self.finish(cpu, hash.reverse_bytes().xor(*mask), sizes)
    }

    /// Writes the tags, or returns a bit for each that is correct.
    #[inline(always)]
    pub(super) fn finish<V: Vector>(&self, cpu: V::Cpu, tags: V, sizes: [usize; LANES_MAX]) -> u8 {
        if M::IS_SEALED {
            // SAFETY: the input of a sealed message has a tag after the text.
            let expected = unsafe { V::gather(cpu, add(self.inputs, sizes)) };
            tags.xor(expected).zero_lanes()
        } else {
            // SAFETY: the output has room for the tag after the text.
            unsafe { tags.scatter(add_mut(self.outputs, sizes)) };
            0
        }
    }

    /// Combines the block of each message at byte `at` with the key stream. Returns the ciphertext.
    ///
    /// # Safety
    /// - The text of each message must have at least `at` + 16 bytes.
    #[inline(always)]
    pub(super) unsafe fn whole_blocks<V: Vector>(&self, cpu: V::Cpu, at: usize, stream: V) -> V {
        // SAFETY: the texts have a block there, and outputs are at least as long as texts.
        unsafe {
            let input = V::gather(cpu, add(self.inputs, [at; LANES_MAX]));
            let output = input.xor(stream);
            output.scatter(add_mut(self.outputs, [at; LANES_MAX]));
            if M::IS_SEALED { input } else { output }
        }
    }

    /// The same for the last block of each message, whole or not. The ciphertext is padded with zeros.
    ///
    /// # Safety
    /// - `sizes` must be those of the texts.
    /// - Each must be from `at` + 1 to `at` + 16.
    #[inline(always)]
    pub(super) unsafe fn last_blocks<V: Vector>(
        &self,
        cpu: V::Cpu,
        at: usize,
        stream: V,
        sizes: [usize; LANES_MAX],
    ) -> V {
        let [a, b, c, d] = sizes;
        let rest = [a - at, b - at, c - at, d - at];
        let outputs = add_mut(self.outputs, [at; LANES_MAX]);
        // SAFETY: each text has `rest` bytes there, from 1 to 16.
        let input = unsafe { V::gather_short(cpu, add(self.inputs, [at; LANES_MAX]), rest) };
        let output = input.xor(stream);
        if M::IS_SEALED {
            // SAFETY: outputs are as long as texts.
            unsafe { output.scatter_short(outputs, rest) };
            input
        } else {
            // SAFETY: the output has room for a tag after the text, which overwrites what this block writes there.
            unsafe { output.scatter(outputs) };
            output.keep_short(rest)
        }
    }
}

/// Which tags were correct is returned to the caller, and may be branched on.
#[inline(always)]
pub(super) fn known(right: u8) -> u8 {
    #[cfg(all(test, feature = "valgrind", target_arch = "x86_64"))]
    let right = {
        let mut right = right;
        crate::valgrind::reveal(&mut right);
        right
    };
    right
}

/// Applies a function to each lane, and to the first one in place of missing lanes.
#[inline(always)]
pub(super) fn spread<'l, 'a, M, T>(
    lanes: &'l [MessageLane<'a, M>],
    function: impl Fn(&'l MessageLane<'a, M>) -> T,
) -> [T; LANES_MAX] {
    let lane = |i| &lanes[if i < lanes.len() { i } else { 0 }];
    [function(lane(0)), function(lane(1)), function(lane(2)), function(lane(3))]
}

#[inline(always)]
fn spread_mut<M>(lanes: &mut [MessageLane<'_, M>]) -> [*mut u8; LANES_MAX] {
    let count = lanes.len();
    let mut lane = |i| lanes[if i < count { i } else { 0 }].output.as_mut_ptr();
    [lane(0), lane(1), lane(2), lane(3)]
}

#[inline(always)]
fn add([a, b, c, d]: [*const u8; LANES_MAX], [i, j, k, l]: [usize; LANES_MAX]) -> [*const u8; LANES_MAX] {
    [a.wrapping_add(i), b.wrapping_add(j), c.wrapping_add(k), d.wrapping_add(l)]
}

#[inline(always)]
fn add_mut([a, b, c, d]: [*mut u8; LANES_MAX], [i, j, k, l]: [usize; LANES_MAX]) -> [*mut u8; LANES_MAX] {
    [a.wrapping_add(i), b.wrapping_add(j), c.wrapping_add(k), d.wrapping_add(l)]
}
