//! Agreements of many private keys with one public key, by a table of its multiples: where it is not known which of an app's keys an
//! ephemeral key was made for, each must be tried.
//!
//! The table takes as long as some fifteen agreements by the library; each agreement by it takes a quarter of one, a tenth in SIMD lanes.

use std::ops::ControlFlow;

use leafseal_lanes::ec::{self, CurveScalar, FixedBase, FixedBaseWork, ProductPoint};

use crate::ec::{PrivateKey, PublicKey, SCALAR_SIZE, name_in_lanes};
use crate::ffi::stack::wipe_dead_stack;
use crate::lanes;
use crate::secret::Secret;

/// Agreements that a call of [`Peer::agree_each`] should make where no SIMD lanes multiply, so that it takes some 50 µs.
const BATCH_WITHOUT_LANES: usize = 4;

/// A public key with a table of its multiples, of [`crate::recipient::TABLE_SIZE`] bytes. Holds nothing secret.
#[derive(Debug)]
pub struct Peer {
    table: FixedBase,
    public: PublicKey,
}

/// A [`Peer`] whose table is in progress, in [`crate::recipient::TABLE_PIECES`] pieces of some 50 µs. May be left unfinished.
#[derive(Debug)]
pub struct PeerWork {
    table: FixedBaseWork,
    public: PublicKey,
}

impl PeerWork {
    /// Begins. `None` if the CPU's kernels are faulty or not in use.
    pub fn new(public: PublicKey) -> Option<Self> {
        let kernel = lanes::serving_curves()?;
        let (x, y) = public.coordinates();
        let table =
            FixedBaseWork::new(kernel, name_in_lanes(public.curve()), x, y).expect("a public key is on its curve");
        Some(Self { table, public })
    }

    /// Computes one piece. Returns the peer after the last piece, otherwise the remaining work.
    pub fn go_on(self) -> ControlFlow<Peer, Self> {
        let Self { table, public } = self;
        match table.go_on() {
            ControlFlow::Continue(table) => ControlFlow::Continue(Self { table, public }),
            ControlFlow::Break(table) => ControlFlow::Break(Peer { table, public }),
        }
    }
}

impl Peer {
    /// The number of private keys that a call of [`Peer::agree_each`] should have: those that SIMD lanes multiply side by side, or some 50
    /// µs of work.
    pub fn batch_size(&self) -> usize {
        let kernel = self.table.kernel();
        if kernel.has_lanes() { kernel.batch_size() } else { BATCH_WITHOUT_LANES }
    }

    /// The shared secret of each of `privates` with this key: equal to a loop of [`EcContext::agree`](crate::EcContext::agree). Constant
    /// time in the private keys.
    ///
    /// # Panics
    /// When one of them is on another curve.
    pub fn agree_each(&self, privates: &[&PrivateKey]) -> Vec<Secret<SCALAR_SIZE>> {
        let scalar = |private: &&PrivateKey| {
            assert_eq!(private.curve(), self.public.curve(), "keys of one curve");
            CurveScalar::new(name_in_lanes(private.curve()), private.scalar().expose())
                .expect("a private key is in range")
        };
        let scalars: Vec<CurveScalar> = privates.iter().map(scalar).collect();
        let mut products = vec![ProductPoint::default(); scalars.len()];
        ec::multiply(&[&self.table], &scalars, &mut products);
        wipe_dead_stack();
        products.iter().map(|product| Secret::from_bytes(&product.x)).collect()
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;
    use crate::ec::{Curve, EcContext};
    use crate::recipient::TABLE_PIECES;

    /// The smallest and the largest private key, and random ones.
    fn privates(curve: Curve, count: usize, rng: &mut StdRng) -> Vec<PrivateKey> {
        let order = match curve {
            Curve::P256 => "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632550",
            Curve::Secp256k1 => "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364140",
        };
        let largest: [u8; SCALAR_SIZE] = hex::decode(order).expect("hex").try_into().expect("32 bytes");
        let mut smallest = [0; SCALAR_SIZE];
        smallest[SCALAR_SIZE - 1] = 1;
        let edges = [smallest, largest]
            .map(|scalar| PrivateKey::from_scalar(curve, Secret::from_bytes(&scalar)).expect("in range"));
        let random = (0..count).map(|_| PrivateKey::generate(curve, rng));
        edges.into_iter().chain(random).take(count).collect()
    }

    #[test]
    fn agreements_by_a_table_equal_those_of_the_library() {
        let mut rng = StdRng::seed_from_u64(11);
        let context = EcContext::new(&mut rng);
        for curve in Curve::ALL {
            let public = context.public_key(&PrivateKey::generate(curve, &mut rng));
            let mut work = PeerWork::new(public).expect("every CPU has a kernel");
            let mut pieces = 1;
            let peer = loop {
                match work.go_on() {
                    ControlFlow::Continue(rest) => work = rest,
                    ControlFlow::Break(peer) => break peer,
                }
                pieces += 1;
            };
            assert_eq!(pieces, TABLE_PIECES);
            for count in [0, 1, 2, peer.batch_size(), 21] {
                let privates = privates(curve, count, &mut rng);
                let expected: Vec<_> = privates.iter().map(|private| context.agree(private, &public)).collect();
                assert!(peer.agree_each(&privates.iter().collect::<Vec<_>>()) == expected, "{curve:?}, {count}");
            }
        }
    }
}
