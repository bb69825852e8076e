//! GHASH (SP 800-38D, 6.4) by powers of the hash key H. Its definition is a product and a reduction for each block:
//!
//! ```text
//! state = (state ⊕ block) · H
//! ```
//!
//! Written out for n blocks, the products do not depend on each other, and one reduction is enough:
//!
//! ```text
//! state = (state ⊕ block 1) · H^n ⊕ block 2 · H^(n − 1) ⊕ … ⊕ block n · H
//! ```

use super::key::GcmKeyParts;
use super::product::Product;
use super::vector::{BLOCK_SIZE, Block, LANES_MAX, Vector};

/// GHASH's state after `data`, padded with zeros, from the state zero; reversed.
#[inline(always)]
pub(super) fn absorb<V: Vector>(cpu: V::Cpu, key: &GcmKeyParts, data: &[u8]) -> Block {
    let mut state = V::zero(cpu);
    for segment in data.chunks(key.known() * BLOCK_SIZE) {
        let mut product = Product::zero(cpu);
        let mut exponent = segment.len().div_ceil(BLOCK_SIZE);
        for block in segment.chunks(BLOCK_SIZE) {
            // SAFETY: the pointer and length of a chunk, which has from 1 to 16 bytes.
            let block = unsafe { V::gather_short(cpu, [block.as_ptr(); LANES_MAX], [block.len(); LANES_MAX]) };
            product = product.add(block.reverse_bytes().xor(state), key.power(cpu, exponent));
            state = V::zero(cpu);
            exponent -= 1;
        }
        state = product.reduce(cpu);
    }
    let mut blocks = [[0; BLOCK_SIZE]; LANES_MAX];
    state.store(&mut blocks);
    blocks[0]
}
