//! The definition of a curve y² = x³ + a·x + b: its numbers, and arithmetic in its field.

use super::inversion::Modulus;
use super::path::InstructionPath;
use super::words::Words;

/// A curve of prime order. The functions take and give elements of the field in the form that the curve keeps them in, and are constant
/// time.
pub(super) trait PrimeCurve: Copy + 'static {
    /// The number of elements of the field.
    const PRIME: Words;
    /// The number of points of the group.
    const ORDER: Words;
    /// a.
    const A: Words;
    /// b.
    const B: Words;
    /// x and y of the generator.
    const GENERATOR: [Words; 2];

    fn multiply(path: impl InstructionPath, a: &Words, b: &Words) -> Words;
    fn square(path: impl InstructionPath, a: &Words) -> Words;
    fn add(a: &Words, b: &Words) -> Words;
    fn subtract(a: &Words, b: &Words) -> Words;
    /// From a number below the prime.
    fn from_number(path: impl InstructionPath, number: &Words) -> Words;
    /// To the number below the prime.
    fn to_number(path: impl InstructionPath, element: &Words) -> Words;

    /// The inverse; zero for zero.
    fn invert(path: impl InstructionPath, element: &Words) -> Words {
        let inverse = const { Modulus::new(Self::PRIME) }.invert(&Self::to_number(path, element));
        Self::from_number(path, &inverse)
    }
}
