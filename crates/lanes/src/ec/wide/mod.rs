//! Products in eight lanes, over [`U64x8`]: one source for AVX-512 IFMA and for its model. Bounds of values are at the functions that keep
//! them; `docs/lanes-ifma.md` explains the steps.

mod field;
mod fixed;
mod p256;
mod point;
mod secp256k1;
pub(super) mod table;
mod variable;

pub(super) use fixed::multiply;
pub(super) use variable::agree;
