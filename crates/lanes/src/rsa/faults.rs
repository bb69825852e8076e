//! Tests that a fault of the hardware never yields a wrong signature: the model, with one lane flipped at a time.

use std::cell::Cell;
use std::collections::HashMap;

use super::sign::{SigningNumbers, sign};
use super::{BATCH_SIZE, Components};
use crate::u64x8::{LANES, Model, ModelCpu, SelectionTable, U64x8};

thread_local! {
    /// Multiplications until the fault, and the bit and the lane that it flips.
    static FAULT: Cell<Option<(u64, u32, usize)>> = const { Cell::new(None) };
    static MULTIPLICATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The model with a fault in one multiplication.
#[derive(Clone, Copy)]
struct Faulty(Model);

impl Faulty {
    fn count(self) -> Self {
        let count = MULTIPLICATIONS.get() + 1;
        MULTIPLICATIONS.set(count);
        match FAULT.get() {
            Some((at, bit, lane)) if at == count => {
                let mut lanes = self.0.to_lanes();
                lanes[lane] ^= 1 << bit;
                Self(Model::from_lanes(ModelCpu, &lanes))
            }
            _ => self,
        }
    }
}

impl U64x8 for Faulty {
    type Cpu = ModelCpu;
    type Mask = <Model as U64x8>::Mask;

    fn splat(cpu: ModelCpu, number: u64) -> Self {
        Self(Model::splat(cpu, number))
    }
    fn from_lanes(cpu: ModelCpu, lanes: &[u64; LANES]) -> Self {
        Self(Model::from_lanes(cpu, lanes))
    }
    fn to_lanes(self) -> [u64; LANES] {
        self.0.to_lanes()
    }
    fn add(self, other: Self) -> Self {
        Self(self.0.add(other.0))
    }
    fn sub(self, other: Self) -> Self {
        Self(self.0.sub(other.0))
    }
    fn and(self, other: Self) -> Self {
        Self(self.0.and(other.0))
    }
    fn or(self, other: Self) -> Self {
        Self(self.0.or(other.0))
    }
    fn xor(self, other: Self) -> Self {
        Self(self.0.xor(other.0))
    }
    fn shift_left(self, bits: u32) -> Self {
        Self(self.0.shift_left(bits))
    }
    fn shift_right(self, bits: u32) -> Self {
        Self(self.0.shift_right(bits))
    }
    fn shift_right_signed<const BITS: u32>(self) -> Self {
        Self(self.0.shift_right_signed::<BITS>())
    }
    fn add_product_low(self, a: Self, b: Self) -> Self {
        Self(self.0.add_product_low(a.0, b.0)).count()
    }
    fn add_product_high(self, a: Self, b: Self) -> Self {
        Self(self.0.add_product_high(a.0, b.0))
    }
    fn rotate_lanes<const COUNT: i32>(self) -> Self {
        Self(self.0.rotate_lanes::<COUNT>())
    }
    fn interleave_low(self, other: Self) -> Self {
        Self(self.0.interleave_low(other.0))
    }
    fn interleave_high(self, other: Self) -> Self {
        Self(self.0.interleave_high(other.0))
    }
    fn has_no_bits(self, bits: Self) -> Self::Mask {
        self.0.has_no_bits(bits.0)
    }
    fn mask(cpu: ModelCpu, lanes: u8) -> Self::Mask {
        Model::mask(cpu, lanes)
    }
    fn blend(self, mask: Self::Mask, other: Self) -> Self {
        Self(self.0.blend(mask, other.0))
    }
    fn look_up(self, table: &SelectionTable) -> Self {
        Self(self.0.look_up(table))
    }
}

/// A key's numbers by name.
pub(super) type NamedNumbers = HashMap<&'static str, Vec<u8>>;
/// A message representative and its signature.
pub(super) type Case = (Vec<u8>, Vec<u8>);

/// The numbers of the first key in `vectors/rsa`, and its signatures.
pub(super) fn vectors() -> (NamedNumbers, Vec<Case>) {
    let text = include_str!("../../../../vectors/rsa/primitive.rsp").trim_start();
    let (group, _) = text.split_once("\n[").expect("a second key");
    let (mut numbers, mut messages, mut signatures) = (HashMap::new(), Vec::new(), Vec::new());
    for (name, digits) in group.lines().skip(1).filter_map(|line| line.split_once(" = ")) {
        let digit = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).expect("ASCII"), 16).expect("hexadecimal");
        let bytes: Vec<u8> = digits.as_bytes().chunks(2).map(digit).collect();
        match name {
            "m" => messages.push(bytes),
            "s" => signatures.push(bytes),
            _ => _ = numbers.insert(name, bytes),
        }
    }
    (numbers, messages.into_iter().zip(signatures).collect())
}

pub(super) fn components(numbers: &NamedNumbers) -> Components<'_> {
    Components {
        modulus: &numbers["n"],
        public_exponent: &numbers["e"],
        prime_1: &numbers["p"],
        prime_2: &numbers["q"],
        exponent_1: &numbers["dP"],
        exponent_2: &numbers["dQ"],
        coefficient: &numbers["qInv"],
    }
}

/// Some hundred faults all over the computation, in every lane and at bits of all heights. A fault may be without effect: in a lane that
/// nothing uses, or in a bit that is not read. Then the signature is the right one.
#[test]
fn a_flipped_lane_never_yields_a_wrong_signature() {
    let (numbers, cases) = vectors();
    let key = SigningNumbers::new(&components(&numbers), 16).expect("a supported key");
    let cases = &cases[cases.len() - BATCH_SIZE..];
    let messages: Vec<&[u8]> = cases.iter().map(|(message, _)| message.as_slice()).collect();
    let outcome = || sign::<Faulty>(ModelCpu, &key, &messages);
    let is_right = |i: usize, found: &Option<Vec<u8>>| found.as_ref().is_none_or(|found| *found == cases[i].1);

    MULTIPLICATIONS.set(0);
    assert!(outcome().iter().zip(cases).all(|(found, (_, expected))| found.as_ref() == Some(expected)));
    let total = MULTIPLICATIONS.get();
    let mut refused = 0;
    for fault in 0..160 {
        // The first and the last multiplications too, which are conversions and the check itself.
        let at = 1 + (total - 1) * fault / 159;
        let (bit, lane) = (7 * fault as u32 % 60, fault as usize % LANES);
        FAULT.set(Some((at, bit, lane)));
        MULTIPLICATIONS.set(0);
        let found = outcome();
        for (i, found) in found.iter().enumerate() {
            assert!(is_right(i, found), "multiplication {at} of {total}, bit {bit}, lane {lane}, signature {i}");
            refused += u64::from(found.is_none());
        }
    }
    FAULT.set(None);
    assert!(refused > 100, "{refused} faults had an effect");
}
