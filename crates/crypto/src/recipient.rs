//! Encapsulation: fresh ephemeral keys and their shared secrets with one recipient (the KEM half of ECIES, SEC 1, 5.1.3).
//!
//! Each is a product of a fresh scalar with the generator and one with the recipient's key. Both points are known before, so that tables of
//! their multiples make them two to four times as fast as a library: the generator's for the whole process, the recipient's in a
//! [`Recipient`].

use std::ops::ControlFlow;
use std::sync::OnceLock;

use leafseal_lanes::ec::{self, CurveScalar, FixedBase, FixedBaseWork, ProductPoint};
use rand_core::CryptoRng;

use crate::ec::{Curve, EcContext, PrivateKey, PublicKey, SCALAR_SIZE, name_in_lanes};
use crate::ffi::fork_barrier::init;
use crate::lanes;
use crate::secret::Secret;

/// Bytes of a recipient's table.
pub const TABLE_SIZE: usize = ec::TABLE_SIZE;
/// Number of pieces in which it is computed.
pub const TABLE_PIECES: usize = ec::TABLE_PIECES;

/// An ephemeral public key and the X coordinate that its owner and the recipient share.
pub struct Encapsulation {
    /// Goes into the message.
    pub ephemeral: PublicKey,
    /// The raw shared X coordinate: input to a key derivation, rarely a key.
    pub shared: Secret<SCALAR_SIZE>,
}

/// A public key that messages go to.
#[derive(Debug)]
pub struct Recipient {
    public: PublicKey,
    tables: Option<RecipientTables>,
}

/// Tables of the two points that an ephemeral scalar is multiplied with.
#[derive(Debug)]
struct RecipientTables {
    generator: &'static FixedBase,
    recipient: FixedBase,
}

impl RecipientTables {
    /// Draws as a loop of single keys would.
    fn encapsulate(&self, curve: Curve, count: usize, rng: &mut dyn CryptoRng) -> Vec<Encapsulation> {
        let scalars: Vec<CurveScalar> = (0..count).map(|_| scalar(curve, rng)).collect();
        let mut products = vec![ProductPoint::default(); 2 * count];
        ec::multiply(&[self.generator, &self.recipient], &scalars, &mut products);
        let (pairs, _) = products.as_chunks::<2>();
        let encapsulation = |[ephemeral, shared]: &[ProductPoint; 2]| Encapsulation {
            ephemeral: PublicKey::from_coordinates(curve, &ephemeral.x, &ephemeral.y),
            shared: Secret::from_bytes(&shared.x),
        };
        pairs.iter().map(encapsulation).collect()
    }
}

impl From<PublicKey> for Recipient {
    /// Without a table of its own: for a few messages.
    fn from(public: PublicKey) -> Self {
        Self { public, tables: None }
    }
}

impl Recipient {
    /// With a table of [`TABLE_SIZE`] bytes, which takes less than a millisecond to compute and pays off after some twenty
    /// messages. Callers with other work use a [`RecipientWork`].
    pub fn with_table(public: PublicKey) -> Self {
        let Some(mut work) = RecipientWork::new(public) else { return Self::from(public) };
        loop {
            match work.go_on() {
                ControlFlow::Continue(rest) => work = rest,
                ControlFlow::Break(recipient) => return recipient,
            }
        }
    }

    /// The key.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Whether it has a table of its own. None has one if the CPU's kernels are faulty.
    pub fn has_table(&self) -> bool {
        self.tables.is_some()
    }

    /// Encapsulations that a call of [`Recipient::encapsulate_many`] should make for the lowest cost of each: 8 where SIMD lanes multiply,
    /// 2 with other tables, 1 without a table. With lanes, half of that costs the same.
    pub fn batch_size(&self) -> usize {
        self.tables.as_ref().map_or(1, |tables| tables.recipient.kernel().batch_size())
    }

    /// A fresh ephemeral key and its shared secret with the recipient. The private key is wiped before this returns.
    pub fn encapsulate(&self, context: &EcContext, rng: &mut dyn CryptoRng) -> Encapsulation {
        self.encapsulate_many(context, 1, rng).pop().expect("one")
    }

    /// `count` independent encapsulations: equal to a loop of [`Recipient::encapsulate`].
    pub fn encapsulate_many(&self, context: &EcContext, count: usize, rng: &mut dyn CryptoRng) -> Vec<Encapsulation> {
        match &self.tables {
            Some(tables) => tables.encapsulate(self.public.curve(), count, rng),
            None => (0..count).map(|_| by_library(context, &self.public, rng)).collect(),
        }
    }
}

/// A recipient whose table is in progress, in [`TABLE_PIECES`] pieces of some 50 µs. Holds nothing secret, and may be left unfinished.
#[derive(Debug)]
pub struct RecipientWork {
    public: PublicKey,
    kernel: ec::Kernel,
    table: FixedBaseWork,
}

impl RecipientWork {
    /// Begins. `None` if the CPU's kernels are faulty. Calls [`prepare_tables`] first, if that was not called before.
    pub fn new(public: PublicKey) -> Option<Self> {
        let kernel = lanes::serving_curves()?;
        generator(kernel, public.curve());
        let (x, y) = public.coordinates();
        let table =
            FixedBaseWork::new(kernel, name_in_lanes(public.curve()), x, y).expect("a public key is on its curve");
        Some(Self { public, kernel, table })
    }

    /// Computes one piece. Returns the recipient with its table after the last piece, otherwise the remaining work.
    pub fn go_on(self) -> ControlFlow<Recipient, Self> {
        let Self { public, kernel, table } = self;
        match table.go_on() {
            ControlFlow::Continue(table) => ControlFlow::Continue(Self { public, kernel, table }),
            ControlFlow::Break(recipient) => {
                let tables = RecipientTables { generator: generator(kernel, public.curve()), recipient };
                ControlFlow::Break(Recipient { public, tables: Some(tables) })
            }
        }
    }
}

/// Prepares the common parts of tables: the kernel, which must compute the known answers, and the generators' tables. Takes some
/// milliseconds once in a process. The first [`RecipientWork`] does the same if this was not called.
pub fn prepare_tables() {
    if let Some(kernel) = lanes::serving_curves() {
        Curve::ALL.into_iter().for_each(|curve| _ = generator(kernel, curve));
    }
}

fn by_library(context: &EcContext, recipient: &PublicKey, rng: &mut dyn CryptoRng) -> Encapsulation {
    let private = PrivateKey::generate(recipient.curve(), rng);
    Encapsulation { ephemeral: context.public_key(&private), shared: context.agree(&private, recipient) }
}

/// A uniform scalar by rejection, as [`PrivateKey::generate`] draws it.
fn scalar(of: Curve, rng: &mut dyn CryptoRng) -> CurveScalar {
    loop {
        let drawn = Secret::<SCALAR_SIZE>::random(rng);
        if let Some(scalar) = CurveScalar::new(name_in_lanes(of), drawn.expose()) {
            return scalar;
        }
    }
}

/// The generator's table, computed on first use.
pub(crate) fn generator(kernel: ec::Kernel, of: Curve) -> &'static FixedBase {
    static P256: OnceLock<FixedBase> = OnceLock::new();
    static SECP256K1: OnceLock<FixedBase> = OnceLock::new();
    let table = match of {
        Curve::P256 => &P256,
        Curve::Secp256k1 => &SECP256K1,
    };
    init(table, || FixedBase::generator(kernel, name_in_lanes(of)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    fn fixture(curve: Curve, seed: u64) -> (EcContext, PrivateKey, Recipient) {
        let mut rng = StdRng::seed_from_u64(seed);
        let context = EcContext::new(&mut rng);
        let private = PrivateKey::generate(curve, &mut rng);
        let recipient = Recipient::with_table(context.public_key(&private));
        (context, private, recipient)
    }

    /// Ephemeral scalars as they are given, one after the other.
    struct Given(Vec<[u8; SCALAR_SIZE]>);

    impl rand_core::TryRng for Given {
        type Error = std::convert::Infallible;

        fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
            unreachable!("scalars are drawn as bytes")
        }

        fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
            unreachable!("scalars are drawn as bytes")
        }

        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
            bytes.copy_from_slice(&self.0.remove(0));
            Ok(())
        }
    }

    impl rand_core::TryCryptoRng for Given {}

    fn order(curve: Curve) -> [u8; SCALAR_SIZE] {
        let order = match curve {
            Curve::P256 => "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551",
            Curve::Secp256k1 => "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141",
        };
        hex::decode(order).expect("hex").try_into().expect("32 bytes")
    }

    fn is_equal(a: &[Encapsulation], b: &[Encapsulation]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.ephemeral == b.ephemeral && a.shared == b.shared)
    }

    /// The same scalars through the tables and through BoringSSL or libsecp256k1.
    fn check(curve: Curve, scalars: &[[u8; SCALAR_SIZE]]) {
        let (context, _, recipient) = fixture(curve, 5);
        assert!(recipient.has_table());
        let count = scalars.len();
        let many = recipient.encapsulate_many(&context, count, &mut Given(scalars.to_vec()));
        let library = Recipient::from(*recipient.public());
        assert!(!library.has_table());
        let expected = library.encapsulate_many(&context, count, &mut Given(scalars.to_vec()));
        assert!(is_equal(&many, &expected), "{curve:?}");
    }

    #[test]
    fn edge_scalars_equal_the_library() {
        for curve in Curve::ALL {
            let order = order(curve);
            let small = (1..100).map(|small| {
                let mut scalar = [0; SCALAR_SIZE];
                scalar[SCALAR_SIZE - 1] = small;
                scalar
            });
            // The order ends with 0x51 or 0x41.
            let near = (1..=0x41).map(|less| {
                let mut scalar = order;
                scalar[SCALAR_SIZE - 1] -= less;
                scalar
            });
            check(curve, &small.chain(near).collect::<Vec<_>>());
        }
    }

    #[test]
    fn draws_out_of_range_are_rejected_as_by_the_library() {
        for curve in Curve::ALL {
            let refused = [[0; SCALAR_SIZE], order(curve), [0xff; SCALAR_SIZE]];
            let draws = [refused[0], [1; 32], refused[1], refused[2], [2; 32], [3; 32]];
            let (context, _, recipient) = fixture(curve, 6);
            let with_refused = recipient.encapsulate_many(&context, 3, &mut Given(draws.to_vec()));
            let without = recipient.encapsulate_many(&context, 3, &mut Given(vec![[1; 32], [2; 32], [3; 32]]));
            assert!(is_equal(&with_refused, &without));
        }
    }

    #[test]
    fn many_equal_a_loop_and_a_library() {
        for curve in Curve::ALL {
            let (context, _, recipient) = fixture(curve, 7);
            let library = Recipient::from(*recipient.public());
            for count in [0, 1, 2, 7, 8, 9, 16, 17] {
                let rng = || StdRng::seed_from_u64(count as u64);
                let many = recipient.encapsulate_many(&context, count, &mut rng());
                let mut looped = rng();
                let single: Vec<Encapsulation> =
                    (0..count).map(|_| recipient.encapsulate(&context, &mut looped)).collect();
                assert!(is_equal(&many, &single), "{count}");
                assert!(is_equal(&many, &library.encapsulate_many(&context, count, &mut rng())), "{count}");
            }
        }
    }

    /// A table in pieces equals the table at once: the results for the same scalars are equal. Before its last piece there is no table.
    #[test]
    fn a_table_in_pieces_serves_as_one_at_once() {
        for curve in Curve::ALL {
            let (context, _, at_once) = fixture(curve, 9);
            let mut work = RecipientWork::new(*at_once.public()).expect("a kernel");
            for _ in 1..TABLE_PIECES {
                work = work.go_on().continue_value().expect("not the last piece");
            }
            let in_pieces = work.go_on().break_value().expect("the last piece");
            assert!(in_pieces.has_table() && in_pieces.public() == at_once.public());
            let [one, other] =
                [&in_pieces, &at_once].map(|r| r.encapsulate_many(&context, 19, &mut StdRng::seed_from_u64(12)));
            assert!(is_equal(&one, &other));
        }
    }

    #[test]
    fn encapsulations_are_fresh_and_shared() {
        for curve in Curve::ALL {
            let (context, private, recipient) = fixture(curve, 8);
            for recipient in [Recipient::from(*recipient.public()), recipient] {
                let many = recipient.encapsulate_many(&context, 5, &mut StdRng::seed_from_u64(11));
                for (i, one) in many.iter().enumerate() {
                    assert_eq!(context.agree(&private, &one.ephemeral), one.shared);
                    assert!(many[..i].iter().all(|other| other.ephemeral != one.ephemeral));
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn random_scalars_equal_the_library(scalars: [[u8; SCALAR_SIZE]; 9]) {
            // Below both orders and not zero.
            let scalars = scalars.map(|mut scalar| {
                scalar[0] &= 0x7f;
                scalar[SCALAR_SIZE - 1] |= 1;
                scalar
            });
            Curve::ALL.into_iter().for_each(|curve| check(curve, &scalars));
        }
    }
}
