//! Elements of a curve's field with the path that their arithmetic takes, so that formulas read as in the literature; and several of them
//! side by side, so that none waits for its own latency.

use std::marker::PhantomData;
use std::ops::{Add, Mul, Sub};

use super::curve::PrimeCurve;
use super::path::InstructionPath;
use super::words::{Words, select};

/// The operations that formulas need.
pub(super) trait ElementField: Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> {
    fn square(self) -> Self;

    #[inline(always)]
    fn double(self) -> Self {
        self + self
    }
}

/// An element of the field of `C`.
#[derive(Debug, Clone, Copy)]
pub(super) struct FieldElement<C, P> {
    words: Words,
    path: P,
    curve: PhantomData<C>,
}

impl<C: PrimeCurve, P: InstructionPath> FieldElement<C, P> {
    /// From the form that [`FieldElement::words`] gives.
    #[inline(always)]
    pub(super) fn new(path: P, words: Words) -> Self {
        Self { words, path, curve: PhantomData }
    }

    /// From a number below the prime.
    pub(super) fn from_number(path: P, number: &Words) -> Self {
        Self::new(path, C::from_number(path, number))
    }

    /// The number below the prime.
    pub(super) fn to_number(self) -> Words {
        C::to_number(self.path, &self.words)
    }

    /// The form that the curve keeps it in.
    #[inline(always)]
    pub(super) fn words(self) -> Words {
        self.words
    }

    /// One.
    #[inline(always)]
    pub(super) fn one(path: P) -> Self {
        Self::from_number(path, &[1, 0, 0, 0])
    }

    /// The inverse; zero for zero.
    pub(super) fn invert(self) -> Self {
        Self::new(self.path, C::invert(self.path, &self.words))
    }

    /// The negative where the mask is all ones, itself where it is zero.
    #[inline(always)]
    pub(super) fn negate_by(self, mask: u64) -> Self {
        let negative = C::subtract(&[0; 4], &self.words);
        Self::new(self.path, select(mask, self.words, negative))
    }
}

impl<C: PrimeCurve, P: InstructionPath> ElementField for FieldElement<C, P> {
    #[inline(always)]
    fn square(self) -> Self {
        Self::new(self.path, C::square(self.path, &self.words))
    }
}

impl<C: PrimeCurve, P: InstructionPath> Add for FieldElement<C, P> {
    type Output = Self;

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self::new(self.path, C::add(&self.words, &other.words))
    }
}

impl<C: PrimeCurve, P: InstructionPath> Sub for FieldElement<C, P> {
    type Output = Self;

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self::new(self.path, C::subtract(&self.words, &other.words))
    }
}

impl<C: PrimeCurve, P: InstructionPath> Mul for FieldElement<C, P> {
    type Output = Self;

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self::new(self.path, C::multiply(self.path, &self.words, &other.words))
    }
}

/// Independent elements: each step of a formula is computed for all of them before the next one, so that the CPU has a product of each in
/// flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct SideBySide<F, const N: usize>(pub(super) [F; N]);

impl<F: ElementField, const N: usize> ElementField for SideBySide<F, N> {
    #[inline(always)]
    fn square(self) -> Self {
        Self(self.0.map(F::square))
    }
}

impl<F: ElementField, const N: usize> Add for SideBySide<F, N> {
    type Output = Self;

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] + other.0[i]))
    }
}

impl<F: ElementField, const N: usize> Sub for SideBySide<F, N> {
    type Output = Self;

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] - other.0[i]))
    }
}

impl<F: ElementField, const N: usize> Mul for SideBySide<F, N> {
    type Output = Self;

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] * other.0[i]))
    }
}

/// Inverts all, none of which may be zero, for one inversion and three products each (Montgomery's trick). `products` is as long.
#[inline(always)]
pub(super) fn invert_all<C: PrimeCurve, P: InstructionPath>(
    elements: &mut [FieldElement<C, P>],
    products: &mut [FieldElement<C, P>],
) {
    let Some((first, rest)) = elements.split_first() else { return };
    products[0] = *first;
    for (i, element) in rest.iter().enumerate() {
        products[i + 1] = products[i] * *element;
    }
    let mut inverse = products[elements.len() - 1].invert();
    for i in (1..elements.len()).rev() {
        (elements[i], inverse) = (inverse * products[i - 1], inverse * elements[i]);
    }
    elements[0] = inverse;
}
