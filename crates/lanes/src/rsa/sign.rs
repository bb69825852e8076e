//! RSA's signature primitive by the Chinese remainder theorem, four signatures side by side: lane 2i computes modulo the first prime p,
//! lane 2i + 1 modulo the second prime q.
//!
//! ```text
//! m = the message representative modulo p or q
//! table = m^0, m^1, … m^15
//! power = 1
//! for each window of four bits of the exponent, from the highest:
//!   power = power^16 · table[window]                 the look-up reads the whole table
//! s₁, s₂ = power in lanes 2i and 2i + 1
//! signature = s₂ + q · ((s₁ − s₂) · q⁻¹ mod p)       (RFC 8017, 5.1.2)
//! return it only if signature^e mod n is the representative
//! ```
//!
//! Constant time in the primes, the exponents and the message representatives: windows of a fixed width, look-ups that read the whole
//! table, and no branch on a value. Needs no blinding for that reason.

use super::montgomery::{BLOCK, BLOCK_BITS, LaneNumber, Lanes, Modulus, StoredModulus, StoredNumber};
use super::{BATCH_SIZE, Components, words};
use crate::u64x8::{LANES, U64x8};
use crate::wipe::overwrite;

/// Bits of a window of the exponents.
const WINDOW: usize = 4;
/// Powers of the base in a table.
const ENTRIES: usize = 1 << WINDOW;
/// Windows of a word.
const WORD_WINDOWS: usize = 64 / WINDOW;

/// The numbers of a key, as lanes use them. Wiped on drop.
pub(super) struct SigningNumbers {
    primes: StoredModulus,
    /// R² and R³ modulo the primes.
    squares: StoredNumber,
    cubes: StoredNumber,
    /// The second prime's inverse modulo the first; zero in the lanes of the second.
    coefficient: StoredNumber,
    /// Twice the first prime; zero in the lanes of the second.
    twice: StoredNumber,
    /// Words of the two exponents, in their lanes.
    exponents: Vec<Lanes>,
    modulus: StoredModulus,
    /// R² modulo the modulus, with the R of its length.
    modulus_square: StoredNumber,
    numbers: KeyNumbers,
}

/// Numbers of a key in words.
struct KeyNumbers {
    prime_words: usize,
    prime_blocks: usize,
    modulus: Vec<u64>,
    public_exponent: u64,
    primes: [Vec<u64>; 2],
}

impl Drop for SigningNumbers {
    fn drop(&mut self) {
        overwrite(&mut self.exponents, Lanes([0; LANES]));
        self.numbers.primes.iter_mut().for_each(|prime| overwrite(prime, 0));
    }
}

/// The same number in the lanes of the first prime and another in those of the second.
fn alternate([first, second]: [&[u64]; 2]) -> [&[u64]; LANES] {
    std::array::from_fn(|lane| if lane % 2 == 0 { first } else { second })
}

impl SigningNumbers {
    /// `None` where the numbers do not have the lengths of the key, the highest or lowest bit of a prime is not set, or the public exponent
    /// is even or too large. Whether they belong together shows in the first signature's check.
    pub(super) fn new(components: &Components<'_>, prime_words: usize) -> Option<Self> {
        // 1,024 bits in four blocks, 1,536 in six, 2,048 in eight.
        let prime_blocks = prime_words / 4;
        let modulus = words::from_bytes(components.modulus, 2 * prime_words)?;
        let read = |bytes: &[u8]| words::from_bytes(bytes, prime_words);
        let primes = [read(components.prime_1)?, read(components.prime_2)?];
        let public_exponent = words::from_bytes(components.public_exponent, 1)?[0];
        let is_full = |number: &Vec<u64>| number[0] & 1 == 1 && number[number.len() - 1] >> 63 == 1;
        if !primes.iter().chain([&modulus]).all(is_full) || public_exponent & 1 == 0 || public_exponent < 3 {
            return None;
        }
        let mut exponents = [read(components.exponent_1)?, read(components.exponent_2)?];
        let mut coefficient = read(components.coefficient)?;
        let mut twice = words::multiply_add(&[2], &primes[0], &[]);
        let power = |times: usize| {
            let mut powers =
                primes.each_ref().map(|prime| words::power_of_two(times * prime_blocks * BLOCK_BITS, prime));
            let stored = StoredNumber::new(alternate([&powers[0], &powers[1]]), prime_blocks);
            powers.iter_mut().for_each(|power| overwrite(power, 0));
            stored
        };
        let first_only = |number: &[u64]| StoredNumber::new(alternate([number, &[]]), prime_blocks);
        let modulus_square = words::power_of_two(2 * 2 * prime_blocks * BLOCK_BITS, &modulus);
        let key = Self {
            primes: StoredModulus::new(alternate([&primes[0], &primes[1]]), prime_blocks),
            squares: power(2),
            cubes: power(3),
            coefficient: first_only(&coefficient),
            twice: first_only(&twice),
            exponents: (0..prime_words).map(|i| Lanes(std::array::from_fn(|lane| exponents[lane % 2][i]))).collect(),
            modulus: StoredModulus::new([&modulus; LANES], 2 * prime_blocks),
            modulus_square: StoredNumber::new([&modulus_square; LANES], 2 * prime_blocks),
            numbers: KeyNumbers { prime_words, prime_blocks, modulus, public_exponent, primes },
        };
        exponents.iter_mut().chain([&mut coefficient, &mut twice]).for_each(|secret| overwrite(secret, 0));
        Some(key)
    }

    /// Marks every secret of the key for Valgrind.
    #[cfg(all(test, feature = "valgrind", target_arch = "x86_64"))]
    pub(super) fn hide(&mut self) {
        use crate::valgrind::hide;
        self.primes.hide();
        for number in [&mut self.squares, &mut self.cubes, &mut self.coefficient, &mut self.twice] {
            number.hide();
        }
        hide(&mut self.exponents[..]);
        self.numbers.primes.iter_mut().for_each(|prime| hide(&mut prime[..]));
    }

    /// Bytes of the modulus.
    pub(super) fn size(&self) -> usize {
        16 * self.numbers.prime_words
    }
}

/// Working memory of a batch. Wiped on drop.
struct SigningMemory<V: U64x8> {
    powers: Vec<LaneNumber<V>>,
    power: LaneNumber<V>,
    selected: LaneNumber<V>,
    /// Room for the next power.
    next: LaneNumber<V>,
    zero: V,
}

impl<V: U64x8> SigningMemory<V> {
    #[inline(always)]
    fn new(cpu: V::Cpu, blocks: usize) -> Self {
        let zero = V::splat(cpu, 0);
        let number = vec![[zero; BLOCK]; blocks];
        let powers = (0..ENTRIES).map(|_| number.clone()).collect();
        Self { powers, power: number.clone(), selected: number.clone(), next: number, zero }
    }
}

impl<V: U64x8> Drop for SigningMemory<V> {
    #[inline(always)]
    fn drop(&mut self) {
        let zero = [self.zero; BLOCK];
        for number in self.powers.iter_mut().chain([&mut self.power, &mut self.selected, &mut self.next]) {
            overwrite(number, zero);
        }
    }
}

/// Signs up to [`BATCH_SIZE`] message representatives, each as long as the modulus in bytes. `None` where a representative is not below
/// the modulus, or where the signature's check fails.
#[inline(always)]
pub(super) fn sign<V: U64x8>(
    cpu: V::Cpu,
    key: &SigningNumbers,
    representatives: &[&[u8]],
) -> [Option<Vec<u8>>; BATCH_SIZE] {
    let count = 2 * key.numbers.prime_words;
    let mut messages: [Vec<u64>; BATCH_SIZE] = std::array::from_fn(|_| vec![0; count]);
    let mut is_message = [false; BATCH_SIZE];
    for (i, bytes) in representatives.iter().enumerate() {
        let number = words::from_bytes(bytes, count).filter(|number| words::is_below(number, &key.numbers.modulus));
        if let Some(number) = number {
            (messages[i], is_message[i]) = (number, true);
        }
    }
    let signatures = private_powers::<V>(cpu, key, &messages);
    let checked = public_powers::<V>(cpu, key, &signatures);
    std::array::from_fn(|i| {
        let is_right = is_message[i] && checked[i] == messages[i];
        is_right.then(|| words::to_bytes(&signatures[i]))
    })
}

/// The signatures, not checked.
#[inline(always)]
pub(super) fn private_powers<V: U64x8>(
    cpu: V::Cpu,
    key: &SigningNumbers,
    messages: &[Vec<u64>; BATCH_SIZE],
) -> [Vec<u64>; BATCH_SIZE] {
    let mut primes = Modulus::<V>::load(cpu, &key.primes);
    let mut work = SigningMemory::<V>::new(cpu, key.numbers.prime_blocks);
    // R, which stands for 1.
    primes.multiply(&key.squares.load(cpu), &primes.one(), &mut work.powers[0]);
    work.powers[1] = to_montgomery(cpu, key, &mut primes, messages);
    for i in 2..ENTRIES {
        let (known, next) = work.powers.split_at_mut(i);
        primes.multiply(&known[i - 1], &known[1], &mut next[0]);
    }
    work.power.copy_from_slice(&work.powers[0]);
    for window in (0..WORD_WINDOWS * key.exponents.len()).rev() {
        for _ in 0..WINDOW {
            primes.square(&work.power, &mut work.next);
            std::mem::swap(&mut work.power, &mut work.next);
        }
        let word = V::from_lanes(cpu, &key.exponents[window / WORD_WINDOWS].0);
        let digit = word.shift_right((window % WORD_WINDOWS * WINDOW) as u32).and(V::splat(cpu, ENTRIES as u64 - 1));
        select(cpu, &work.powers, digit, &mut work.selected);
        primes.multiply(&work.power, &work.selected, &mut work.next);
        std::mem::swap(&mut work.power, &mut work.next);
    }
    combine(cpu, key, &mut primes, &mut work)
}

/// The representatives modulo the primes, times R. As a representative has twice the length of a prime: its upper part times R² more than
/// its lower part.
#[inline(always)]
fn to_montgomery<V: U64x8>(
    cpu: V::Cpu,
    key: &SigningNumbers,
    primes: &mut Modulus<V>,
    messages: &[Vec<u64>; BATCH_SIZE],
) -> LaneNumber<V> {
    let blocks = key.numbers.prime_blocks;
    let lanes: [&[u64]; LANES] = std::array::from_fn(|lane| &messages[lane / 2][..]);
    let all = StoredNumber::new(lanes, 2 * blocks).load::<V>(cpu);
    let (low, high) = all.split_at(blocks);
    let (mut sum, mut product) = (primes.zero(), primes.zero());
    primes.multiply(&low.to_vec(), &key.squares.load(cpu), &mut sum);
    primes.multiply(&high.to_vec(), &key.cubes.load(cpu), &mut product);
    for (sum, product) in sum.as_flattened_mut().iter_mut().zip(product.as_flattened()) {
        *sum = sum.add(*product);
    }
    primes.normalise(&mut sum);
    sum
}

/// Sets `selected` to the power that each lane's digit selects. Reads all.
#[inline(always)]
fn select<V: U64x8>(cpu: V::Cpu, powers: &[LaneNumber<V>], digit: V, selected: &mut LaneNumber<V>) {
    let ones = V::splat(cpu, !0);
    let mut masks = [V::mask(cpu, 0); ENTRIES];
    for (i, mask) in masks.iter_mut().enumerate() {
        *mask = digit.xor(V::splat(cpu, i as u64)).has_no_bits(ones);
    }
    for (i, selected) in selected.iter_mut().enumerate() {
        let mut block = powers[0][i];
        for (power, mask) in powers.iter().zip(&masks).skip(1) {
            for (limb, other) in block.iter_mut().zip(&power[i]) {
                *limb = limb.blend(*mask, *other);
            }
        }
        *selected = block;
    }
}

/// From the powers modulo both primes to those modulo their product: s₂ + q·((s₁ − s₂)·q⁻¹ mod p), RFC 8017, 5.1.2.
#[inline(always)]
fn combine<V: U64x8>(
    cpu: V::Cpu,
    key: &SigningNumbers,
    primes: &mut Modulus<V>,
    work: &mut SigningMemory<V>,
) -> [Vec<u64>; BATCH_SIZE] {
    let KeyNumbers { prime_words, ref modulus, primes: [ref first, ref second], .. } = key.numbers;
    // At most the primes. Where a power is the prime itself instead of zero, its part of the difference is that as well.
    primes.multiply(&work.power, &primes.one(), &mut work.next);
    let stored = StoredNumber::of(&work.next);
    let mut seconds: [Vec<u64>; BATCH_SIZE] = std::array::from_fn(|i| stored.words(2 * i + 1, prime_words));
    // Twice the first prime is more than the second, so that the differences are not negative in its lanes.
    let even = V::mask(cpu, 0b0101_0101);
    work.power = key.twice.load(cpu);
    let SigningMemory { power: differences, next: powers, zero, .. } = &mut *work;
    for (difference, power) in differences.as_flattened_mut().iter_mut().zip(powers.as_flattened()) {
        *difference = zero.blend(even, difference.add(*power).sub(power.rotate_lanes::<1>()));
    }
    primes.normalise(&mut work.power);
    primes.multiply(&key.coefficient.load(cpu), &key.squares.load(cpu), &mut work.selected);
    primes.multiply(&work.power, &work.selected, &mut work.next);
    let stored = StoredNumber::of(&work.next);
    std::array::from_fn(|i| {
        // One word more, as a result may exceed the prime by a 2^14th of it.
        let mut factor = stored.words(2 * i, prime_words + 1);
        words::reduce_once(&mut factor, first);
        let mut signature = words::multiply_add(second, &factor[..prime_words], &seconds[i]);
        words::reduce_once(&mut signature, modulus);
        overwrite(&mut factor, 0);
        overwrite(&mut seconds[i], 0);
        signature
    })
}

/// The verification primitive, in the first lanes. The exponent is public.
#[inline(always)]
fn public_powers<V: U64x8>(
    cpu: V::Cpu,
    key: &SigningNumbers,
    signatures: &[Vec<u64>; BATCH_SIZE],
) -> [Vec<u64>; BATCH_SIZE] {
    let KeyNumbers { prime_words, prime_blocks, ref modulus, public_exponent, .. } = key.numbers;
    let mut moduli = Modulus::<V>::load(cpu, &key.modulus);
    let lanes: [&[u64]; LANES] = std::array::from_fn(|lane| &signatures[lane % BATCH_SIZE][..]);
    let (mut base, mut power, mut next) = (moduli.zero(), moduli.zero(), moduli.zero());
    let signatures = StoredNumber::new(lanes, 2 * prime_blocks).load(cpu);
    moduli.multiply(&signatures, &key.modulus_square.load(cpu), &mut base);
    power.copy_from_slice(&base);
    for bit in (0..public_exponent.ilog2()).rev() {
        moduli.square(&power, &mut next);
        std::mem::swap(&mut power, &mut next);
        if public_exponent >> bit & 1 == 1 {
            moduli.multiply(&power, &base, &mut next);
            std::mem::swap(&mut power, &mut next);
        }
    }
    moduli.multiply(&power, &moduli.one(), &mut next);
    let results = StoredNumber::of(&next);
    std::array::from_fn(|i| {
        let mut result = results.words(i, 2 * prime_words);
        words::reduce_once(&mut result, modulus);
        result
    })
}
