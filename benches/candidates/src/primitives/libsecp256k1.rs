//! libsecp256k1 through `secp256k1-sys`, with the context as it is and with it blinded again before every use, as the
//! crate `secp256k1` does.

use std::ffi::{c_int, c_uchar, c_void};
use std::ptr::{NonNull, null_mut};

use secp256k1_sys as k1;

use crate::operations::{Case, CurveInput, Inputs, Operation};

/// Whether the context's blinding changes before each operation.
#[derive(Clone, Copy)]
enum Blinding {
    Once,
    EveryCall,
}

impl Blinding {
    fn library(self) -> &'static str {
        match self {
            Self::Once => "libsecp256k1, context blinded once",
            Self::EveryCall => "libsecp256k1, blinded at every call",
        }
    }
}

pub fn cases(inputs: &'static Inputs) -> Vec<Case> {
    let curve = &inputs.secp256k1;
    let mut cases = vec![ecdh(curve)];
    cases.extend([Blinding::Once, Blinding::EveryCall].map(|blinding| public_key(curve, blinding)));
    cases
}

/// A context that stays with the program, blinded with a fixed seed.
fn context() -> NonNull<k1::Context> {
    // SAFETY: the flags are those of a signing context; the seed is 32 bytes.
    unsafe {
        let context = k1::secp256k1_context_create(k1::SECP256K1_START_SIGN | k1::SECP256K1_START_VERIFY);
        assert_eq!(k1::secp256k1_context_randomize(context, [0x33u8; 32].as_ptr()), 1);
        context
    }
}

fn public_key(curve: &'static CurveInput, blinding: Blinding) -> Case {
    let context = context();
    Case::new(blinding.library(), Operation::Secp256k1PublicKey, move |out| {
        let (uncompressed, mut written) = (k1::SECP256K1_SER_UNCOMPRESSED, out.len());
        // SAFETY: seed and scalar are 32 bytes, the output 65; nothing else uses the context.
        let ok = unsafe {
            if let Blinding::EveryCall = blinding {
                assert_eq!(k1::secp256k1_context_randomize(context, curve.scalar.as_ptr()), 1);
            }
            let mut point = k1::PublicKey::new();
            let context = context.as_ptr();
            k1::secp256k1_ec_pubkey_create(context, &mut point, curve.scalar.as_ptr())
                & k1::secp256k1_ec_pubkey_serialize(context, out.as_mut_ptr(), &mut written, &point, uncompressed)
        };
        assert!(ok == 1 && written == out.len());
    })
}

/// Gives out X unhashed.
///
/// # Safety
/// `x` and `output` must be valid for 32 bytes, as libsecp256k1 promises and its caller here ensures.
unsafe extern "C" fn copy_x(output: *mut c_uchar, x: *const c_uchar, _y: *const c_uchar, _data: *mut c_void) -> c_int {
    // SAFETY: see above.
    unsafe { std::ptr::copy_nonoverlapping(x, output, 32) };
    1
}

/// The context's blinding plays no part here: it protects multiplications of the base point only.
fn ecdh(curve: &'static CurveInput) -> Case {
    let context = context();
    let (scalar, peer) = (&curve.scalar, &curve.peer_compressed);
    Case::new("libsecp256k1", Operation::Secp256k1Ecdh, move |out| {
        assert_eq!(out.len(), 32);
        let context = context.as_ptr();
        // SAFETY: the scalar is 32 bytes, as is the output; the peer's pointer goes with its length.
        let ok = unsafe {
            let mut point = k1::PublicKey::new();
            k1::secp256k1_ec_pubkey_parse(context, &mut point, peer.as_ptr(), peer.len())
                & k1::secp256k1_ecdh(context, out.as_mut_ptr(), &point, scalar.as_ptr(), Some(copy_x), null_mut())
        };
        assert_eq!(ok, 1);
    })
}
