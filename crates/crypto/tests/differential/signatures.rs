//! RSA's signature primitive with random keys through the lanes and their model. A signature to the power of the public exponent is the
//! message representative and nothing else, which two libraries compute: BoringSSL and RustCrypto. Primes come in both orders, with small
//! and large exponents; representatives are random, at both ends, and multiples of a prime.

use boring::bn::{BigNum, BigNumContext, BigNumRef};
use leafseal_lanes::rsa::{Components, Kernel, RsaSigningKey};
use p256::elliptic_curve::bigint::modular::runtime_mod::{DynResidue, DynResidueParams};
use p256::elliptic_curve::bigint::{Encoding, U64, U2048, U3072, U4096};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const EXPONENTS: [u64; 5] = [3, 17, 65_537, 0xffff_fffb, 0xffff_ffff_ffff_ffc5];

/// A key and message representatives, as random as their seed.
pub(crate) struct Group {
    modulus: BigNum,
    public_exponent: u64,
    primes: [BigNum; 2],
    messages: Vec<BigNum>,
}

fn number(bytes: &[u8]) -> BigNum {
    BigNum::from_slice(bytes).expect("memory")
}

/// Computes with numbers of BoringSSL: the function gets the result's place and a context.
fn compute(
    operation: impl FnOnce(&mut BigNumRef, &mut BigNumContext) -> Result<(), boring::error::ErrorStack>,
) -> BigNum {
    let mut out = BigNum::new().expect("memory");
    operation(&mut out, &mut BigNumContext::new().expect("memory")).expect("a result");
    out
}

fn less(number: &BigNumRef, by: u32) -> BigNum {
    let by = BigNum::from_u32(by).expect("memory");
    compute(|out, _| out.checked_sub(number, &by))
}

fn less_one(number: &BigNumRef) -> BigNum {
    less(number, 1)
}

/// A prime of so many bytes with the two highest bits set, which the exponent does not divide when reduced by one.
fn prime(rng: &mut StdRng, size: usize, exponent: &BigNumRef) -> BigNum {
    loop {
        let mut bytes = vec![0; size];
        rng.fill(&mut bytes[..]);
        bytes[0] |= 0xc0;
        bytes[size - 1] |= 1;
        let candidate = number(&bytes);
        let mut context = BigNumContext::new().expect("memory");
        let is_prime = candidate.is_prime_fasttest(32, &mut context, true).expect("memory");
        if is_prime && compute(|out, context| out.gcd(&less_one(&candidate), exponent, context)).num_bits() == 1 {
            return candidate;
        }
    }
}

impl Group {
    /// Those of a seed, with a modulus of so many bytes. Making a key costs as much as some hundred signatures, some thousand for 4,096
    /// bits.
    pub(crate) fn new(size: usize, messages: usize, seed: u64) -> Self {
        let rng = &mut StdRng::seed_from_u64(seed);
        let public_exponent = EXPONENTS[rng.random_range(0..EXPONENTS.len())];
        let exponent = number(&public_exponent.to_be_bytes());
        let primes = [(); 2].map(|()| prime(rng, size / 2, &exponent));
        let modulus = compute(|out, context| out.checked_mul(&primes[0], &primes[1], context));
        let mut message = || match rng.random_range(0..8) {
            0 => BigNum::from_u32(rng.random_range(0..4)).expect("memory"),
            1 => less(&modulus, rng.random_range(1..4)),
            2 => {
                let factor = BigNum::from_u32(rng.random()).expect("memory");
                compute(|out, context| out.checked_mul(&primes[rng.random_range(0..2)], &factor, context))
            }
            _ => {
                let mut bytes = vec![0; size];
                rng.fill(&mut bytes[..]);
                compute(|out, context| out.nnmod(&number(&bytes), &modulus, context))
            }
        };
        let messages = (0..messages).map(|_| message()).collect();
        Self { modulus, public_exponent, primes, messages }
    }

    /// How many signatures.
    pub(crate) fn len(&self) -> u64 {
        self.messages.len() as u64
    }

    fn size(&self) -> usize {
        self.modulus.to_vec().len()
    }

    /// The first `count` signatures by each kernel, against both libraries; the difference, if any.
    pub(crate) fn check(&self, kernels: &[(Kernel, usize)]) -> Result<(), String> {
        for (kernel, count) in kernels {
            let key = self.key(*kernel);
            let padded = |message: &BigNum| message.to_vec_padded(self.size()).expect("below the modulus");
            let messages: Vec<Vec<u8>> = self.messages.iter().take(*count).map(padded).collect();
            let messages: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
            for (signature, message) in key.sign(&messages).into_iter().zip(messages) {
                let signature = signature.ok_or_else(|| format!("{key:?}: none of {}", hex::encode(message)))?;
                if self.powers(&signature).iter().any(|power| power != message) {
                    return Err(format!("{key:?}: {} differs", hex::encode(message)));
                }
            }
        }
        Ok(())
    }

    fn key(&self, kernel: Kernel) -> RsaSigningKey {
        let exponent = number(&self.public_exponent.to_be_bytes());
        let private =
            |prime: &BigNum| compute(|out, context| out.mod_inverse(&exponent, &less_one(prime), context)).to_vec();
        let [p, q] = &self.primes;
        let coefficient = compute(|out, context| out.mod_inverse(q, p, context));
        let components = Components {
            modulus: &self.modulus.to_vec(),
            public_exponent: &self.public_exponent.to_be_bytes(),
            prime_1: &p.to_vec(),
            prime_2: &q.to_vec(),
            exponent_1: &private(p),
            exponent_2: &private(q),
            coefficient: &coefficient.to_vec(),
        };
        RsaSigningKey::new(kernel, &components).expect("a supported key")
    }

    /// The message representative of a signature by BoringSSL and by RustCrypto.
    fn powers(&self, signature: &[u8]) -> [Vec<u8>; 2] {
        let exponent = number(&self.public_exponent.to_be_bytes());
        let power = compute(|out, context| out.mod_exp(&number(signature), &exponent, &self.modulus, context));
        [power.to_vec_padded(self.size()).expect("below the modulus"), self.power_by_rust_crypto(signature)]
    }

    fn power_by_rust_crypto(&self, signature: &[u8]) -> Vec<u8> {
        macro_rules! power {
            ($number:ident) => {{
                let parameters = DynResidueParams::new(&$number::from_be_slice(&self.modulus.to_vec()));
                let base = DynResidue::new(&$number::from_be_slice(signature), parameters);
                base.pow(&U64::from(self.public_exponent)).retrieve().to_be_bytes().to_vec()
            }};
        }
        match signature.len() {
            256 => power!(U2048),
            384 => power!(U3072),
            _ => power!(U4096),
        }
    }
}
