//! OpenSSL 3, the shared library of the system, opened at run time and left out of the table where there is none.
//! Linked in the ordinary way its symbols would collide with BoringSSL's.

use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::operations::{AEAD_LENS, Case, CurveInput, HMAC_LEN, Inputs, Operation, SHA256_LENS, TAG_LEN};

const OPENSSL: &str = "OpenSSL 3 (system)";
const SHARED_LIBRARY: &str = "libcrypto.so.3";
const NID_P256: c_int = 415;
const NID_SECP256K1: c_int = 714;
const GET_TAG: c_int = 0x10;
const SET_TAG: c_int = 0x11;
const UNCOMPRESSED: c_int = 4;

/// Declares the table of functions: each field is the symbol of the same name.
macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        #[allow(non_snake_case)]
        struct Functions { $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)* }

        impl Functions {
            fn load() -> Option<&'static Self> {
                // SAFETY: the library's constructors only set up its own state; it is local, so it takes over no symbol.
                let library = unsafe { Library::open(Some(SHARED_LIBRARY), RTLD_NOW | RTLD_LOCAL) }.ok()?;
                // SAFETY: the types are those of the OpenSSL 3 manual pages. The library is leaked, so they stay valid.
                let functions = unsafe { Self { $($name: *library.get(stringify!($name).as_bytes()).ok()?,)* } };
                std::mem::forget(library);
                Some(Box::leak(Box::new(functions)))
            }
        }
    };
}

type Ptr = *mut c_void;

functions! {
    EVP_CIPHER_CTX_new: fn() -> Ptr;
    EVP_aes_256_gcm: fn() -> Ptr;
    EVP_CipherInit_ex: fn(Ptr, Ptr, Ptr, *const u8, *const u8, c_int) -> c_int;
    EVP_CipherUpdate: fn(Ptr, *mut u8, *mut c_int, *const u8, c_int) -> c_int;
    EVP_CipherFinal_ex: fn(Ptr, *mut u8, *mut c_int) -> c_int;
    EVP_CIPHER_CTX_ctrl: fn(Ptr, c_int, c_int, *mut u8) -> c_int;
    SHA256: fn(*const u8, usize, *mut u8) -> *mut u8;
    EVP_sha256: fn() -> Ptr;
    HMAC: fn(Ptr, *const u8, c_int, *const u8, usize, *mut u8, *mut u32) -> *mut u8;
    EC_GROUP_new_by_curve_name: fn(c_int) -> Ptr;
    EC_POINT_new: fn(Ptr) -> Ptr;
    EC_POINT_mul: fn(Ptr, Ptr, Ptr, Ptr, Ptr, Ptr) -> c_int;
    EC_POINT_point2oct: fn(Ptr, Ptr, c_int, *mut u8, usize, Ptr) -> usize;
    EC_POINT_oct2point: fn(Ptr, Ptr, *const u8, usize, Ptr) -> c_int;
    EC_KEY_new_by_curve_name: fn(c_int) -> Ptr;
    EC_KEY_set_private_key: fn(Ptr, Ptr) -> c_int;
    ECDH_compute_key: fn(*mut u8, usize, Ptr, Ptr, *const c_void) -> c_int;
    BN_bin2bn: fn(*const u8, c_int, Ptr) -> Ptr;
    BN_CTX_new: fn() -> Ptr;
}

pub fn cases(inputs: &'static Inputs) -> Vec<Case> {
    let Some(openssl) = Functions::load() else {
        eprintln!("{SHARED_LIBRARY} is not there: no figures for OpenSSL");
        return Vec::new();
    };
    let mut cases = Vec::new();
    for &len in AEAD_LENS {
        cases.push(seal(openssl, inputs, len));
        cases.push(open(openssl, inputs, len));
    }
    cases.extend(SHA256_LENS.iter().map(|&len| sha256(openssl, inputs.plain(len))));
    cases.push(hmac(openssl, inputs));
    cases.push(public_key(openssl, &inputs.p256, NID_P256, Operation::P256PublicKey));
    cases.push(public_key(openssl, &inputs.secp256k1, NID_SECP256K1, Operation::Secp256k1PublicKey));
    let (p256, k1) = (&inputs.p256, &inputs.secp256k1);
    cases.push(ecdh(openssl, p256.scalar, &p256.peer_uncompressed, NID_P256, Operation::P256Ecdh));
    cases.push(ecdh(openssl, p256.scalar, &p256.peer_compressed, NID_P256, Operation::P256EcdhCompressed));
    cases.push(ecdh(openssl, k1.scalar, &k1.peer_compressed, NID_SECP256K1, Operation::Secp256k1Ecdh));
    cases
}

/// A context with the key expanded once; each message then sets only its nonce.
fn context(openssl: &Functions, key: &[u8; 32], encrypt: c_int) -> Ptr {
    // SAFETY: the key is 32 bytes, which is what AES-256-GCM takes; no nonce is given yet.
    unsafe {
        let context = (openssl.EVP_CIPHER_CTX_new)();
        let cipher = (openssl.EVP_aes_256_gcm)();
        assert_eq!((openssl.EVP_CipherInit_ex)(context, cipher, null_mut(), key.as_ptr(), null(), encrypt), 1);
        context
    }
}

fn seal(openssl: &'static Functions, inputs: &'static Inputs, len: usize) -> Case {
    let (context, plain) = (context(openssl, &inputs.key, 1), inputs.plain(len));
    Case::new(OPENSSL, Operation::Seal(len), move |out| {
        let (aad, mut written) = (&inputs.aad, 0);
        let (body, tag) = out.split_at_mut(len);
        // SAFETY: every pointer goes with its slice's length; the context belongs to this case alone.
        let ok = unsafe {
            (openssl.EVP_CipherInit_ex)(context, null_mut(), null_mut(), null(), inputs.nonce.as_ptr(), 1)
                & (openssl.EVP_CipherUpdate)(context, null_mut(), &mut written, aad.as_ptr(), aad.len() as c_int)
                & (openssl.EVP_CipherUpdate)(context, body.as_mut_ptr(), &mut written, plain.as_ptr(), len as c_int)
                & (openssl.EVP_CipherFinal_ex)(context, tag.as_mut_ptr(), &mut written)
                & (openssl.EVP_CIPHER_CTX_ctrl)(context, GET_TAG, TAG_LEN as c_int, tag.as_mut_ptr())
        };
        assert_eq!(ok, 1);
    })
}

fn open(openssl: &'static Functions, inputs: &'static Inputs, len: usize) -> Case {
    let (context, mut sealed) = (context(openssl, &inputs.key, 0), inputs.sealed(len));
    let mut rest = [0u8; 16];
    Case::new(OPENSSL, Operation::Open(len), move |out| {
        let (aad, mut written) = (&inputs.aad, 0);
        let (body, tag) = sealed.split_at_mut(len);
        // SAFETY: every pointer goes with its slice's length; the context belongs to this case alone.
        let ok = unsafe {
            (openssl.EVP_CipherInit_ex)(context, null_mut(), null_mut(), null(), inputs.nonce.as_ptr(), 0)
                & (openssl.EVP_CipherUpdate)(context, null_mut(), &mut written, aad.as_ptr(), aad.len() as c_int)
                & (openssl.EVP_CipherUpdate)(context, out.as_mut_ptr(), &mut written, body.as_ptr(), len as c_int)
                & (openssl.EVP_CIPHER_CTX_ctrl)(context, SET_TAG, TAG_LEN as c_int, tag.as_mut_ptr())
                & (openssl.EVP_CipherFinal_ex)(context, rest.as_mut_ptr(), &mut written)
        };
        assert_eq!(ok, 1);
    })
}

fn sha256(openssl: &'static Functions, input: &'static [u8]) -> Case {
    Case::new(OPENSSL, Operation::Sha256(input.len()), move |out| {
        // SAFETY: the output holds the 32 bytes of a digest.
        unsafe { (openssl.SHA256)(input.as_ptr(), input.len(), out.as_mut_ptr()) };
    })
}

fn hmac(openssl: &'static Functions, inputs: &'static Inputs) -> Case {
    let input = inputs.plain(HMAC_LEN);
    Case::new(OPENSSL, Operation::HmacSha256(HMAC_LEN), move |out| {
        let (key, key_len) = (inputs.key.as_ptr(), inputs.key.len() as c_int);
        let (data, data_len) = (input.as_ptr(), input.len());
        // SAFETY: the output holds the 32 bytes of a tag; its length is not asked for.
        let tag = unsafe {
            let digest = (openssl.EVP_sha256)();
            (openssl.HMAC)(digest, key, key_len, data, data_len, out.as_mut_ptr(), null_mut())
        };
        assert!(!tag.is_null());
    })
}

fn public_key(openssl: &'static Functions, curve: &'static CurveInput, nid: c_int, operation: Operation) -> Case {
    // SAFETY: allocations that stay with the program.
    let (group, point, workspace) = unsafe {
        let group = (openssl.EC_GROUP_new_by_curve_name)(nid);
        (group, (openssl.EC_POINT_new)(group), (openssl.BN_CTX_new)())
    };
    let mut scalar = null_mut();
    Case::new(OPENSSL, operation, move |out| {
        // SAFETY: the scalar is 32 bytes; the output holds an uncompressed point; all objects are of this group.
        let written = unsafe {
            scalar = (openssl.BN_bin2bn)(curve.scalar.as_ptr(), 32, scalar);
            assert_eq!((openssl.EC_POINT_mul)(group, point, scalar, null_mut(), null_mut(), workspace), 1);
            (openssl.EC_POINT_point2oct)(group, point, UNCOMPRESSED, out.as_mut_ptr(), out.len(), workspace)
        };
        assert_eq!(written, out.len());
    })
}

fn ecdh(openssl: &'static Functions, scalar: [u8; 32], peer: &'static [u8], nid: c_int, operation: Operation) -> Case {
    // SAFETY: allocations that stay with the program; the scalar is 32 bytes and below the order.
    let (group, key, point, workspace) = unsafe {
        let group = (openssl.EC_GROUP_new_by_curve_name)(nid);
        let key = (openssl.EC_KEY_new_by_curve_name)(nid);
        let number = (openssl.BN_bin2bn)(scalar.as_ptr(), 32, null_mut());
        assert_eq!((openssl.EC_KEY_set_private_key)(key, number), 1);
        (group, key, (openssl.EC_POINT_new)(group), (openssl.BN_CTX_new)())
    };
    Case::new(OPENSSL, operation, move |out| {
        // SAFETY: every pointer goes with its slice's length; all objects are of this group.
        let written = unsafe {
            assert_eq!((openssl.EC_POINT_oct2point)(group, point, peer.as_ptr(), peer.len(), workspace), 1);
            (openssl.ECDH_compute_key)(out.as_mut_ptr(), out.len(), point, key, null())
        };
        assert_eq!(written as usize, out.len());
    })
}
