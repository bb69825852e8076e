//! The compression function by its definition (FIPS 180-4, 6.2.2).

use super::{BLOCK_SIZE, CONSTANTS, ROUNDS, Sha256Words};

pub(super) fn compress_pair(states: [&mut Sha256Words; 2], blocks: [&[[u8; BLOCK_SIZE]]; 2]) {
    for (state, blocks) in states.into_iter().zip(blocks) {
        blocks.iter().for_each(|block| compress(state, block));
    }
}

fn compress(state: &mut Sha256Words, block: &[u8; BLOCK_SIZE]) {
    let mut schedule = [0_u32; ROUNDS];
    for (word, bytes) in schedule.iter_mut().zip(block.as_chunks().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    for t in 16..ROUNDS {
        let (w2, w15) = (schedule[t - 2], schedule[t - 15]);
        let sigma_1 = w2.rotate_right(17) ^ w2.rotate_right(19) ^ w2 >> 10;
        let sigma_0 = w15.rotate_right(7) ^ w15.rotate_right(18) ^ w15 >> 3;
        schedule[t] = sigma_1.wrapping_add(schedule[t - 7]).wrapping_add(sigma_0).wrapping_add(schedule[t - 16]);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (word, constant) in schedule.iter().zip(CONSTANTS) {
        let sum_1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let t1 = [sum_1, e & f ^ !e & g, constant, *word].into_iter().fold(h, u32::wrapping_add);
        let sum_0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let t2 = sum_0.wrapping_add(a & b ^ a & c ^ b & c);
        (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(t1), c, b, a, t1.wrapping_add(t2));
    }
    for (word, sum) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(sum);
    }
}
