//! SHA-256's compression function (FIPS 180-4, 6.2.2) on two messages side by side. The rounds of one message depend on each other: each
//! takes four cycles, and the CPU's unit is busy for two of them.
//!
//! Padding and single messages are left to a library. Timing depends only on lengths. `sha_ni` describes the steps.

mod known_answers;
#[cfg(any(test, feature = "model"))]
mod portable;
#[cfg(target_arch = "x86_64")]
mod sha_ni;

use crate::cpu::kernel;

/// Bytes of a block.
pub const BLOCK_SIZE: usize = 64;

/// The words of a hash value.
pub type Sha256Words = [u32; 8];

/// The state before the first block (FIPS 180-4, 5.3.3).
pub const INITIAL: Sha256Words =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// Rounds of a block.
const ROUNDS: usize = 64;

/// FIPS 180-4, 4.2.2.
#[rustfmt::skip]
const CONSTANTS: [u32; ROUNDS] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
];

kernel!(
    /// The SHA extensions of x86-64.
    ShaNi = "sha-ni",
    /// The definition. Slow: for tests on any CPU, and never detected.
    Model
);

impl Kernel {
    /// Whether the kernel computes the known answers on this CPU. Takes microseconds.
    pub fn is_right(self) -> bool {
        known_answers::are_given(self)
    }

    /// Takes as many blocks of each message as both have; returns their number.
    pub fn compress_pair(self, states: [&mut Sha256Words; 2], messages: [&[u8]; 2]) -> usize {
        let [front, back] = messages.map(|message| message.as_chunks::<BLOCK_SIZE>().0);
        let count = front.len().min(back.len());
        let blocks = [&front[..count], &back[..count]];
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::ShaNi(cpu) => sha_ni::compress_pair(cpu, states, blocks),
            #[cfg(any(test, feature = "model"))]
            Self::Model => portable::compress_pair(states, blocks),
        }
        count
    }
}
