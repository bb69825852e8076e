//! ECDSA on P-256 (FIPS 186-5, 6.4.1; SEC 1, 4.1.3): several signatures by one key share a walk over the generator's table and an
//! inversion modulo the order. Nonces and digests are the caller's.
//!
//! Constant time in the key and the nonces.

use super::curve::PrimeCurve as _;
use super::element::FieldElement;
use super::order;
use super::p256::P256;
use super::path::InstructionPath;
use super::point::Affine;
use super::portable::Portable;
use super::words::{Words, from_bytes, select, subtract, write_bytes};
use super::{CurveScalar, FixedBase, GROUP_POINTS_MAX, LaneCurve, ProductPoint, SCALAR_SIZE, multiply};
use crate::wipe::overwrite;

/// A signature: r and s, big-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature {
    /// r.
    pub r: [u8; SCALAR_SIZE],
    /// s.
    pub s: [u8; SCALAR_SIZE],
}

/// A private key. Wiped on drop.
pub struct SigningKey {
    /// In Montgomery form.
    private: Words,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

impl Drop for SigningKey {
    fn drop(&mut self) {
        overwrite(&mut self.private, 0);
    }
}

/// The inverses of nonces modulo the order, in Montgomery form. A single nonce reveals the key. Wiped on drop.
struct Inverses {
    numbers: [Words; GROUP_POINTS_MAX],
    products: [Words; GROUP_POINTS_MAX],
}

impl Inverses {
    fn new(nonces: &[CurveScalar]) -> Self {
        let mut inverses = Self { numbers: [[0; 4]; GROUP_POINTS_MAX], products: [[0; 4]; GROUP_POINTS_MAX] };
        for (number, nonce) in inverses.numbers.iter_mut().zip(nonces) {
            let negative = subtract(P256::ORDER, *nonce.odd.words()).0;
            *number = order::into_montgomery(&select(nonce.odd.negative(), *nonce.odd.words(), negative));
        }
        order::invert(&mut inverses.numbers[..nonces.len()], &mut inverses.products);
        inverses
    }
}

impl Drop for Inverses {
    fn drop(&mut self) {
        overwrite(&mut self.numbers, [0; 4]);
        overwrite(&mut self.products, [0; 4]);
    }
}

impl SigningKey {
    /// Accepts a big-endian scalar; `None` for zero and for values not below the order. Constant time except for that result.
    pub fn new(bytes: &[u8; SCALAR_SIZE]) -> Option<Self> {
        CurveScalar::new(LaneCurve::P256, bytes)?;
        Some(Self { private: order::into_montgomery(&from_bytes(bytes)) })
    }

    /// Signs each digest, of which longer ones are cut to their first 32 bytes, with the nonce of the same place. A nonce must be uniform,
    /// secret, and used for one digest only. `None` where r or s is zero, or where the multiplication was faulty (its result is not on
    /// the curve): sign again with another nonce.
    ///
    /// # Panics
    /// When there are more digests than nonces, or fewer, when a nonce is of another curve, or when `generator` is not the table of P-256's
    /// generator ([`FixedBase::generator`]); whether it is that of another point is not checked.
    pub fn sign(
        &self,
        generator: &FixedBase,
        nonces: &[CurveScalar],
        digests: &[[u8; SCALAR_SIZE]],
    ) -> Vec<Option<Signature>> {
        assert_eq!(nonces.len(), digests.len(), "a nonce for each digest");
        let groups = nonces.chunks(GROUP_POINTS_MAX).zip(digests.chunks(GROUP_POINTS_MAX));
        groups.flat_map(|(nonces, digests)| self.sign_group(generator, nonces, digests)).collect()
    }

    fn sign_group(
        &self,
        generator: &FixedBase,
        nonces: &[CurveScalar],
        digests: &[[u8; SCALAR_SIZE]],
    ) -> Vec<Option<Signature>> {
        let mut points: [ProductPoint; GROUP_POINTS_MAX] = Default::default();
        let points = &mut points[..nonces.len()];
        multiply(&[generator], nonces, points);
        let inverses = Inverses::new(nonces);
        let signature = |((point, inverse), digest): ((&ProductPoint, &Words), &[u8; SCALAR_SIZE])| {
            self.signature(Portable, point, inverse, digest)
        };
        points.iter().zip(&inverses.numbers).zip(digests).map(signature).collect()
    }

    /// The point must be on the curve. It is public, as is whether r or s is zero.
    fn signature(
        &self,
        path: impl InstructionPath,
        point: &ProductPoint,
        inverse: &Words,
        digest: &[u8; SCALAR_SIZE],
    ) -> Option<Signature> {
        let (x, y) = (from_bytes(&point.x), from_bytes(&point.y));
        Affine::<FieldElement<P256, _>>::from_numbers(path, &x, &y)?;
        let r = order::reduced(&x);
        let s = self.s(&r, inverse, digest);
        if r == [0; 4] || s == [0; 4] {
            return None;
        }
        let mut signature = Signature { r: [0; SCALAR_SIZE], s: [0; SCALAR_SIZE] };
        write_bytes(&r, &mut signature.r);
        write_bytes(&s, &mut signature.s);
        Some(signature)
    }

    /// k⁻¹·(e + r·d) modulo the order.
    fn s(&self, r: &Words, inverse: &Words, digest: &[u8; SCALAR_SIZE]) -> Words {
        let sum = order::sum(&order::reduced(&from_bytes(digest)), &order::product(r, &self.private));
        order::product(&sum, inverse)
    }
}

#[cfg(all(test, feature = "valgrind", target_arch = "x86_64"))]
mod constant_time {
    use super::super::scalar::Odd;
    use super::*;
    use crate::valgrind::{complaints, hide, reveal};

    /// Everything of a signature but the walk, which has a test of its own, with a secret key and secret nonces.
    #[test]
    fn time_of_signatures_does_not_depend_on_keys_and_nonces() {
        let mut private = [0x5b; SCALAR_SIZE];
        let nonces = [[0x17; SCALAR_SIZE], [0x2c; SCALAR_SIZE]];
        let (r, digest) = ([5, 6, 7, 8], [0x33; SCALAR_SIZE]);
        let mut s = [[0; 4]; 2];
        hide(&mut private);
        let count = complaints(|| {
            let scalars = nonces.map(|mut nonce| {
                hide(&mut nonce);
                CurveScalar { curve: LaneCurve::P256, odd: Odd::recode::<P256>(&nonce).0 }
            });
            let key = SigningKey { private: order::into_montgomery(&from_bytes(&private)) };
            let inverses = Inverses::new(&scalars);
            for (s, inverse) in s.iter_mut().zip(&inverses.numbers) {
                *s = key.s(&r, inverse, &digest);
            }
        });
        assert_eq!(count, 0);
        reveal(&mut s);
        assert!(s[0] != s[1]);
    }
}

#[cfg(test)]
mod tests {
    use p256::ecdsa::signature::hazmat::PrehashVerifier;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::super::Kernel;
    use super::super::words::from_hex;
    use super::*;

    fn kernels() -> impl Iterator<Item = Kernel> {
        Kernel::detect().into_iter().chain([Kernel::Model])
    }

    fn bytes(words: &Words) -> [u8; SCALAR_SIZE] {
        let mut bytes = [0; SCALAR_SIZE];
        write_bytes(words, &mut bytes);
        bytes
    }

    fn nonce(bytes: &[u8; SCALAR_SIZE]) -> CurveScalar {
        CurveScalar::new(LaneCurve::P256, bytes).expect("below the order")
    }

    fn verifies(private: &[u8; SCALAR_SIZE], digest: &[u8; SCALAR_SIZE], signature: &Signature) -> bool {
        let signer = p256::ecdsa::SigningKey::from_bytes(&(*private).into()).expect("below the order");
        let signature = p256::ecdsa::Signature::from_scalars(signature.r, signature.s).expect("in range");
        signer.verifying_key().verify_prehash(digest, &signature).is_ok()
    }

    /// RFC 6979, A.2.5, with SHA-256: messages "sample" and "test".
    #[test]
    fn known_answers() {
        let key = from_hex("c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721");
        let answers = [
            [
                "af2bdbe1aa9b6ec1e2ade1d694f41fc71a831d0268e9891562113d8a62add1bf",
                "a6e3c57dd01abe90086538398355dd4c3b17aa873382b0f24d6129493d8aad60",
                "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716",
                "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
            ],
            [
                "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
                "d16b6ae827f17175e040871a1c7ec3500192c4c92677336ec2537acaee0008e0",
                "f1abb023518351cd71d881567b1ea663ed3efcf6c5132b354f28d3b0b7d38367",
                "019f4113742a2b14bd25926b49c649155f267e60d3814b4c0cc84250e46f0083",
            ],
        ]
        .map(|answer| answer.map(|digits| bytes(&from_hex(digits))));
        let key = SigningKey::new(&bytes(&key)).expect("below the order");
        for kernel in kernels() {
            let generator = FixedBase::generator(kernel, LaneCurve::P256);
            let nonces = answers.map(|[_, k, ..]| nonce(&k));
            let signatures = key.sign(&generator, &nonces, &answers.map(|[digest, ..]| digest));
            let expected = answers.map(|[.., r, s]| Some(Signature { r, s }));
            assert_eq!(signatures, expected, "{}", kernel.name());
        }
    }

    /// Groups of all sizes, with keys, nonces and digests from both ends of their ranges.
    #[test]
    fn another_library_verifies() {
        let mut rng = StdRng::seed_from_u64(3);
        let minus_one = bytes(&subtract(P256::ORDER, [1, 0, 0, 0]).0);
        let one = bytes(&[1, 0, 0, 0]);
        for kernel in kernels() {
            let generator = FixedBase::generator(kernel, LaneCurve::P256);
            for count in [0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 33] {
                let mut number = |i: usize| match i % 5 {
                    0 => one,
                    1 => minus_one,
                    _ => {
                        let mut number: [u8; SCALAR_SIZE] = rng.random();
                        number[0] &= 0x7f;
                        number
                    }
                };
                let private = number(count);
                let nonces: Vec<[u8; SCALAR_SIZE]> = (0..count).map(&mut number).collect();
                let digests: Vec<[u8; SCALAR_SIZE]> =
                    (0..count).map(|i| if i % 7 == 0 { [0xff; SCALAR_SIZE] } else { number(i + 1) }).collect();
                let key = SigningKey::new(&private).expect("below the order");
                let signatures = key.sign(&generator, &nonces.iter().map(nonce).collect::<Vec<_>>(), &digests);
                assert_eq!(signatures.len(), count);
                for (signature, digest) in signatures.iter().zip(&digests) {
                    let signature = signature.as_ref().expect("r and s are not zero");
                    assert!(verifies(&private, digest, signature), "{} {count}", kernel.name());
                }
            }
        }
    }

    /// A product that is not on the curve, as a fault would leave it, gives no signature; nor does s = 0.
    #[test]
    fn faults_and_zeros_give_no_signature() {
        let generator = FixedBase::generator(Kernel::Portable, LaneCurve::P256);
        let key = SigningKey::new(&bytes(&[7, 0, 0, 0])).expect("below the order");
        let mut points = [ProductPoint::default()];
        multiply(&[&generator], &[nonce(&bytes(&[9, 0, 0, 0]))], &mut points);
        let inverses = Inverses::new(&[nonce(&bytes(&[9, 0, 0, 0]))]);
        let sign = |point: &ProductPoint, digest: &[u8; SCALAR_SIZE]| {
            key.signature(Portable, point, &inverses.numbers[0], digest)
        };
        assert!(sign(&points[0], &[1; SCALAR_SIZE]).is_some());
        for bit in 0..512 {
            let mut point = points[0].clone();
            let byte = if bit < 256 { &mut point.x[bit / 8] } else { &mut point.y[bit / 8 - 32] };
            *byte ^= 1 << (bit % 8);
            assert_eq!(sign(&point, &[1; SCALAR_SIZE]), None, "bit {bit}");
        }
        // e = −r·d.
        let product = order::product(&order::reduced(&from_bytes(&points[0].x)), &key.private);
        assert_eq!(sign(&points[0], &bytes(&subtract(P256::ORDER, product).0)), None);
        assert!(SigningKey::new(&[0; SCALAR_SIZE]).is_none() && SigningKey::new(&[0xff; SCALAR_SIZE]).is_none());
    }
}
