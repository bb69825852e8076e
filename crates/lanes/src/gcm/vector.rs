//! The operations that the algorithm needs of a register, which has several blocks of 16 bytes side by side. One file per instruction set
//! implements them.
//!
//! A value of a vector type can only be made with the token of its CPU, so that its other methods are safe to call. All are inlined into
//! functions that [`entries`] compiles for the CPU: calls would pass registers through memory.

/// Bytes of an AES block.
pub(super) const BLOCK_SIZE: usize = 16;

/// An AES block.
pub(super) type Block = [u8; BLOCK_SIZE];

/// The largest number of lanes of a vector. Arrays with an element for each lane have this length; a vector uses the first
/// [`Vector::LANES`].
pub(super) const LANES_MAX: usize = 4;

/// POLYVAL's polynomial without x^128: what [`Vector::double`] adds where a bit leaves.
pub(super) const POLYVAL_REST: Block = (0xc2 << 120 | 1_u128).to_le_bytes();

/// A register with a block in each of its [`Vector::LANES`] lanes.
pub(super) trait Vector: Copy {
    /// The token that proves the instructions.
    type Cpu: Copy;
    /// A vector of one lane on the same CPU.
    type Single: Vector<Cpu = Self::SingleCpu>;
    /// The token of [`Vector::Single`].
    type SingleCpu: Copy + From<Self::Cpu>;
    /// Number of blocks.
    const LANES: usize;
    /// Number of bytes.
    const SIZE: usize = Self::LANES * BLOCK_SIZE;

    /// Zero in every lane.
    fn zero(cpu: Self::Cpu) -> Self;
    /// The same block in every lane.
    fn broadcast(cpu: Self::Cpu, block: &Block) -> Self;
    /// The block of each lane, given as two little-endian halves, the lower first.
    fn from_halves(cpu: Self::Cpu, halves: [[u64; 2]; LANES_MAX]) -> Self;
    /// One nonce per lane, with zeros in place of the counter.
    fn gather_nonces(cpu: Self::Cpu, nonces: [&[u8; 12]; LANES_MAX]) -> Self;
    /// Consecutive blocks.
    fn load(cpu: Self::Cpu, blocks: &[Block]) -> Self;
    /// The reverse of [`Vector::load`].
    fn store(self, blocks: &mut [Block]);

    /// Reads the block of each lane.
    ///
    /// # Safety
    /// - Each of the first [`Vector::LANES`] pointers must be readable for a block.
    unsafe fn gather(cpu: Self::Cpu, blocks: [*const u8; LANES_MAX]) -> Self;
    /// Reads the first bytes of each lane's block; the others are zeros.
    ///
    /// # Safety
    /// - Each of the first [`Vector::LANES`] sizes must be from 1 to 16.
    /// - Each of their pointers must be readable for that many bytes.
    unsafe fn gather_short(cpu: Self::Cpu, blocks: [*const u8; LANES_MAX], sizes: [usize; LANES_MAX]) -> Self;
    /// Writes the block of each lane.
    ///
    /// # Safety
    /// - Each of the first [`Vector::LANES`] pointers must be writable for a block.
    unsafe fn scatter(self, blocks: [*mut u8; LANES_MAX]);
    /// Writes the first bytes of each lane's block.
    ///
    /// # Safety
    /// - Each of the first [`Vector::LANES`] sizes must be from 1 to 16.
    /// - Each of their pointers must be writable for that many bytes.
    unsafe fn scatter_short(self, blocks: [*mut u8; LANES_MAX], sizes: [usize; LANES_MAX]);
    /// The first bytes of each lane, whose number is from 1 to 16, followed by zeros.
    fn keep_short(self, sizes: [usize; LANES_MAX]) -> Self;

    /// Exclusive or: the sum in GF(2^128).
    fn xor(self, other: Self) -> Self;
    /// Sums of bytes, modulo 256.
    fn add_bytes(self, other: Self) -> Self;
    /// A middle round of AES (FIPS 197, 5.1): bytes substituted, rows shifted, columns mixed, the key added.
    fn aes_round(self, key: Self) -> Self;
    /// The last round of AES, which mixes no columns.
    fn aes_last_round(self, key: Self) -> Self;
    /// The bytes of each lane in reverse.
    fn reverse_bytes(self) -> Self;
    /// The halves of each lane swapped.
    fn swap_halves(self) -> Self;
    /// The bytes of each lane moved up by four places, zeros first.
    fn move_up(self) -> Self;
    /// The bytes of each lane moved down by four places, zeros last.
    fn move_down(self) -> Self;
    /// Word i of each lane is the sum (exclusive or) of words 0 to i.
    fn running_sum(self) -> Self;
    /// The last word of each lane in all its words.
    fn last_word(self) -> Self;
    /// The same with the bytes of the word rotated down by one place: `RotWord` (FIPS 197, 5.2).
    fn last_word_rotated(self) -> Self;
    /// Times x in POLYVAL's field (RFC 8452, 3). Constant time.
    fn double(self, cpu: Self::Cpu) -> Self;
    /// Carry-less product of the lower halves of each lane.
    fn multiply_low(self, other: Self) -> Self;
    /// Carry-less product of the upper halves of each lane.
    fn multiply_high(self, other: Self) -> Self;
    /// Bit i is set where lane i is zero. Constant time.
    fn zero_lanes(self) -> u8;
}

/// The functions that each set of instructions has, compiled for it: [`super::key::GcmKeyParts::fill`], [`super::run::run`] and those of
/// [`super::prefixes`].
macro_rules! entries {
    ($cpu:ident, $vector:ty) => {
        $crate::cpu::entry! {
            pub(super) fn expand(cpu: $cpu, key: &[u8], expanded: &mut GcmKeyParts) {
                expanded.fill::<$vector>(cpu, key);
            }
        }

        $crate::cpu::entry! {
            pub(super) fn seal(cpu: $cpu, key: &GcmKeyParts, items: &[SealItem<'_>], out: &mut [u8]) {
                run::<$vector, _>(cpu, key, items, out, &mut []);
            }
        }

        $crate::cpu::entry! {
            pub(super) fn open(cpu: $cpu, key: &GcmKeyParts, items: &[OpenItem<'_>], out: &mut [u8], opened: &mut [bool]) {
                run::<$vector, _>(cpu, key, items, out, opened);
            }
        }

        $crate::cpu::entry! {
            pub(super) fn expand_xaes(cpu: $cpu, key: &[u8; 32], expanded: &mut XaesKeyParts) {
                expanded.fill::<$vector>(cpu, key);
            }
        }

        $crate::cpu::entry! {
            pub(super) fn derive_prefix(cpu: $cpu, key: &XaesKeyParts, nonce: &XaesNonce, derived: &mut [u8; 32]) {
                prefixes::derive_prefix::<<$vector as Vector>::Single>(cpu.into(), key, nonce, derived);
            }
        }

        $crate::cpu::entry! {
            pub(super) fn seal_xaes(cpu: $cpu, key: &XaesKeyParts, items: &[XaesSealItem<'_>], out: &mut [u8]) {
                run_prefixes::<$vector, _>(cpu, key, items, out, &mut []);
            }
        }

        $crate::cpu::entry! {
            pub(super) fn open_xaes(
                cpu: $cpu,
                key: &XaesKeyParts,
                items: &[XaesOpenItem<'_>],
                out: &mut [u8],
                opened: &mut [bool],
            ) {
                run_prefixes::<$vector, _>(cpu, key, items, out, opened);
            }
        }
    };
}

pub(super) use entries;
