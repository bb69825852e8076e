//! Processes all messages of a call: groups those with the same number of blocks, and returns results in the order of the call.

use super::group::{Common, MessageLane, Pipeline, group_size};
use super::hash::absorb;
use super::key::GcmKeyParts;
use super::message::LaneMessage;
use super::vector::{BLOCK_SIZE, Block, Vector};
use super::{BLOCKS_MAX, MESSAGE_SIZE_MAX};

/// Messages that are considered together for grouping.
pub(super) const BATCH: usize = 32;

/// Slices of associated data whose states are kept during a call: those of an envelope's key.
const STATES: usize = 4;

/// Encrypts or decrypts every message. `out` receives the outputs in order. `opened[i]` is whether the tag of message i was
/// correct; if it was not, the output is zeros. For encryption, `opened` is empty.
#[inline(always)]
pub(super) fn run<'a, V: Vector, M: LaneMessage>(
    cpu: V::Cpu,
    key: &GcmKeyParts,
    items: &'a [M],
    out: &'a mut [u8],
    opened: &mut [bool],
) {
    let Some(first) = items.first() else { return };
    let (size, aad) = (first.size(), first.aad());
    let (mut output_size, mut is_uniform) = (0, true);
    for item in items {
        assert!(item.size() <= MESSAGE_SIZE_MAX, "a short message");
        output_size += item.size() + M::TAG_OUT;
        is_uniform &= item.size() == size && std::ptr::eq(item.aad(), aad);
    }
    assert_eq!(out.len(), output_size, "room for exactly these messages");
    assert!(!M::IS_SEALED || opened.len() == items.len(), "a result for each message");
    if is_uniform {
        uniform::<V, M>(cpu, key, items, out, opened);
    } else {
        mixed::<V, M>(cpu, key, items, out, opened);
    }
}

/// Messages of one length with the same associated data.
#[inline(always)]
fn uniform<'a, V: Vector, M: LaneMessage>(
    cpu: V::Cpu,
    key: &GcmKeyParts,
    items: &'a [M],
    mut out: &'a mut [u8],
    opened: &mut [bool],
) {
    let common = Common::new(cpu, key, &items[0]);
    let mut pipeline: Pipeline<'_, 'a, V, M> = Pipeline::new(cpu, key, opened);
    let mut index = 0;
    for group in items.chunks(group_size::<V>(items[0].blocks())) {
        let lanes = pipeline.begin();
        for message in group {
            let (output, rest) = out.split_at_mut(items[0].size() + M::TAG_OUT);
            out = rest;
            lanes.push(MessageLane { message, output, state: [0; BLOCK_SIZE], index });
            index += 1;
        }
        pipeline.push(Some(&common));
    }
    pipeline.finish(Some(&common));
}

/// Any messages.
#[inline(always)]
fn mixed<'a, V: Vector, M: LaneMessage>(
    cpu: V::Cpu,
    key: &GcmKeyParts,
    items: &'a [M],
    mut out: &'a mut [u8],
    opened: &mut [bool],
) {
    let mut states = AssociatedStates::new();
    let mut pipeline: Pipeline<'_, 'a, V, M> = Pipeline::new(cpu, key, opened);
    for (b, batch) in items.chunks(BATCH).enumerate() {
        let mut outputs = [const { None }; BATCH];
        for (output, item) in outputs.iter_mut().zip(batch) {
            let (this, rest) = out.split_at_mut(item.size() + M::TAG_OUT);
            (*output, out) = (Some(this), rest);
        }
        let order = by_blocks(batch);
        let mut left = &order[..batch.len()];
        while let Some((&first, others)) = left.split_first() {
            let blocks = batch[usize::from(first)].blocks();
            let alike = |&&i: &&u8| batch[usize::from(i)].blocks() == blocks;
            let count = 1 + others.iter().take(group_size::<V>(blocks) - 1).take_while(alike).count();
            let lanes = pipeline.begin();
            for &i in &left[..count] {
                let i = usize::from(i);
                let state = states.get::<V::Single>(cpu.into(), key, batch[i].aad());
                lanes.push(MessageLane {
                    message: &batch[i],
                    output: outputs[i].take().expect("each message is taken once"),
                    state,
                    index: b * BATCH + i,
                });
            }
            left = &left[count..];
            pipeline.push(None);
        }
    }
    pipeline.finish(None);
}

/// Places of a batch by number of blocks, sorted by counting.
#[inline(always)]
pub(super) fn by_blocks<M: LaneMessage>(batch: &[M]) -> [u8; BATCH] {
    let mut ends = [0_u8; BLOCKS_MAX + 1];
    batch.iter().for_each(|item| ends[item.blocks()] += 1);
    let mut sum = 0;
    for end in &mut ends {
        sum += *end;
        *end = sum;
    }
    let mut order = [0; BATCH];
    for (i, item) in batch.iter().enumerate() {
        let end = &mut ends[item.blocks()];
        *end -= 1;
        order[usize::from(*end)] = i as u8;
    }
    order
}

/// States after associated data that messages of one call share, identified by its address.
struct AssociatedStates<'a> {
    kept: [(&'a [u8], Block); STATES],
    next: usize,
}

impl<'a> AssociatedStates<'a> {
    #[inline(always)]
    fn new() -> Self {
        Self { kept: [(&[], [0; BLOCK_SIZE]); STATES], next: 0 }
    }

    #[inline(always)]
    fn get<V: Vector>(&mut self, cpu: V::Cpu, key: &GcmKeyParts, aad: &'a [u8]) -> Block {
        for (kept, state) in &self.kept {
            if std::ptr::eq(*kept, aad) {
                return *state;
            }
        }
        let state = absorb::<V>(cpu, key, aad);
        self.kept[self.next] = (aad, state);
        self.next = (self.next + 1) % STATES;
        state
    }
}
