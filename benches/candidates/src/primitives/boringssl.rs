//! BoringSSL through `boring-sys`: AEAD contexts, the older EVP cipher interface, hashes and P-256. It has no secp256k1.

use std::ffi::c_int;
use std::ptr::{null, null_mut};

use boring_sys as bssl;

use crate::operations::{AEAD_LENS, Case, CurveInput, HMAC_LEN, Inputs, Operation, SHA256_LENS, TAG_LEN};

const AEAD: &str = "BoringSSL EVP_AEAD";
const CIPHER: &str = "BoringSSL EVP_CIPHER";
const HASH: &str = "BoringSSL";
const POINT: &str = "BoringSSL";

pub fn cases(inputs: &'static Inputs) -> Vec<Case> {
    let mut cases = Vec::new();
    for &len in AEAD_LENS {
        cases.push(seal_aead(inputs, len));
        cases.push(open_aead(inputs, len));
        cases.push(seal_cipher(inputs, len));
        cases.push(open_cipher(inputs, len));
    }
    cases.extend(SHA256_LENS.iter().map(|&len| sha256(inputs.plain(len))));
    cases.push(hmac(inputs));
    cases.push(public_key(&inputs.p256));
    cases.push(ecdh(&inputs.p256, Operation::P256Ecdh));
    cases.push(ecdh(&inputs.p256, Operation::P256EcdhCompressed));
    cases
}

/// Leaks a context: it lives as long as the case, which lives as long as the program.
fn aead_context(key: &[u8; 32]) -> *const bssl::EVP_AEAD_CTX {
    // SAFETY: the key is 32 bytes, which is what AES-256-GCM takes.
    let context = unsafe { bssl::EVP_AEAD_CTX_new(bssl::EVP_aead_aes_256_gcm(), key.as_ptr(), key.len(), TAG_LEN) };
    assert!(!context.is_null());
    context
}

fn seal_aead(inputs: &'static Inputs, len: usize) -> Case {
    let (context, plain) = (aead_context(&inputs.key), inputs.plain(len));
    Case::new(AEAD, Operation::Seal(len), move |out| {
        let mut written = 0;
        let (nonce, aad) = (&inputs.nonce, &inputs.aad);
        // SAFETY: every pointer goes with its slice's length; the context is alive and only read.
        let ok = unsafe {
            bssl::EVP_AEAD_CTX_seal(
                context,
                out.as_mut_ptr(),
                &mut written,
                out.len(),
                nonce.as_ptr(),
                nonce.len(),
                plain.as_ptr(),
                plain.len(),
                aad.as_ptr(),
                aad.len(),
            )
        };
        assert!(ok == 1 && written == out.len());
    })
}

fn open_aead(inputs: &'static Inputs, len: usize) -> Case {
    let (context, sealed) = (aead_context(&inputs.key), inputs.sealed(len));
    Case::new(AEAD, Operation::Open(len), move |out| {
        let mut written = 0;
        let (nonce, aad) = (&inputs.nonce, &inputs.aad);
        // SAFETY: every pointer goes with its slice's length; the context is alive and only read.
        let ok = unsafe {
            bssl::EVP_AEAD_CTX_open(
                context,
                out.as_mut_ptr(),
                &mut written,
                out.len(),
                nonce.as_ptr(),
                nonce.len(),
                sealed.as_ptr(),
                sealed.len(),
                aad.as_ptr(),
                aad.len(),
            )
        };
        assert!(ok == 1 && written == out.len());
    })
}

/// A context with the key expanded once; each message then sets only its nonce.
fn cipher_context(key: &[u8; 32], encrypt: c_int) -> *mut bssl::EVP_CIPHER_CTX {
    // SAFETY: the key is 32 bytes, which is what AES-256-GCM takes; no nonce is given yet.
    unsafe {
        let context = bssl::EVP_CIPHER_CTX_new();
        let cipher = bssl::EVP_aes_256_gcm();
        assert_eq!(bssl::EVP_CipherInit_ex(context, cipher, null_mut(), key.as_ptr(), null(), encrypt), 1);
        context
    }
}

fn seal_cipher(inputs: &'static Inputs, len: usize) -> Case {
    let (context, plain) = (cipher_context(&inputs.key, 1), inputs.plain(len));
    Case::new(CIPHER, Operation::Seal(len), move |out| {
        let (aad, mut written) = (&inputs.aad, 0);
        let (body, tag) = out.split_at_mut(len);
        // SAFETY: every pointer goes with its slice's length; the context belongs to this case alone.
        let ok = unsafe {
            bssl::EVP_EncryptInit_ex(context, null(), null_mut(), null(), inputs.nonce.as_ptr())
                & bssl::EVP_EncryptUpdate(context, null_mut(), &mut written, aad.as_ptr(), aad.len() as c_int)
                & bssl::EVP_EncryptUpdate(context, body.as_mut_ptr(), &mut written, plain.as_ptr(), len as c_int)
                & bssl::EVP_EncryptFinal_ex(context, null_mut(), &mut written)
                & bssl::EVP_CIPHER_CTX_ctrl(
                    context,
                    bssl::EVP_CTRL_AEAD_GET_TAG,
                    TAG_LEN as c_int,
                    tag.as_mut_ptr().cast(),
                )
        };
        assert_eq!(ok, 1);
    })
}

fn open_cipher(inputs: &'static Inputs, len: usize) -> Case {
    let (context, mut sealed) = (cipher_context(&inputs.key, 0), inputs.sealed(len));
    Case::new(CIPHER, Operation::Open(len), move |out| {
        let (aad, mut written) = (&inputs.aad, 0);
        let (body, tag) = sealed.split_at_mut(len);
        // SAFETY: every pointer goes with its slice's length; the context belongs to this case alone.
        let ok = unsafe {
            bssl::EVP_DecryptInit_ex(context, null(), null_mut(), null(), inputs.nonce.as_ptr())
                & bssl::EVP_DecryptUpdate(context, null_mut(), &mut written, aad.as_ptr(), aad.len() as c_int)
                & bssl::EVP_DecryptUpdate(context, out.as_mut_ptr(), &mut written, body.as_ptr(), len as c_int)
                & bssl::EVP_CIPHER_CTX_ctrl(
                    context,
                    bssl::EVP_CTRL_AEAD_SET_TAG,
                    TAG_LEN as c_int,
                    tag.as_mut_ptr().cast(),
                )
                & bssl::EVP_DecryptFinal_ex(context, null_mut(), &mut written)
        };
        assert_eq!(ok, 1);
    })
}

fn sha256(input: &'static [u8]) -> Case {
    Case::new(HASH, Operation::Sha256(input.len()), move |out| {
        // SAFETY: the output holds the 32 bytes of a digest.
        unsafe { bssl::SHA256(input.as_ptr(), input.len(), out.as_mut_ptr()) };
    })
}

fn hmac(inputs: &'static Inputs) -> Case {
    let input = inputs.plain(HMAC_LEN);
    Case::new(HASH, Operation::HmacSha256(HMAC_LEN), move |out| {
        let key = &inputs.key;
        // SAFETY: the output holds the 32 bytes of a tag; its length is not asked for.
        let tag = unsafe {
            let (data, len) = (input.as_ptr().cast(), input.len());
            bssl::HMAC(bssl::EVP_sha256(), key.as_ptr().cast(), key.len(), data, len, out.as_mut_ptr(), null_mut())
        };
        assert!(!tag.is_null());
    })
}

fn public_key(curve: &'static CurveInput) -> Case {
    // SAFETY: allocations that stay with the program.
    let (group, scalar, point, workspace) = unsafe {
        let group = bssl::EC_group_p256();
        (group, bssl::BN_new(), bssl::EC_POINT_new(group), bssl::BN_CTX_new())
    };
    Case::new(POINT, Operation::P256PublicKey, move |out| {
        let form = bssl::point_conversion_form_t::POINT_CONVERSION_UNCOMPRESSED;
        // SAFETY: the scalar is 32 bytes; the output holds an uncompressed point; all objects are of this group.
        let ok = unsafe {
            bssl::BN_bin2bn(curve.scalar.as_ptr(), curve.scalar.len(), scalar);
            bssl::EC_POINT_mul(group, point, scalar, null(), null(), workspace) == 1
                && bssl::EC_POINT_point2oct(group, point, form, out.as_mut_ptr(), out.len(), workspace) == out.len()
        };
        assert!(ok);
    })
}

fn ecdh(curve: &'static CurveInput, operation: Operation) -> Case {
    let peer: &[u8] = match operation {
        Operation::P256Ecdh => &curve.peer_uncompressed,
        _ => &curve.peer_compressed,
    };
    // SAFETY: allocations that stay with the program; the scalar is 32 bytes and below the order.
    let (group, key, point, workspace) = unsafe {
        let (group, key) = (bssl::EC_group_p256(), bssl::EC_KEY_new());
        assert_eq!(bssl::EC_KEY_set_group(key, group), 1);
        assert_eq!(bssl::EC_KEY_oct2priv(key, curve.scalar.as_ptr(), curve.scalar.len()), 1);
        (group, key, bssl::EC_POINT_new(group), bssl::BN_CTX_new())
    };
    Case::new(POINT, operation, move |out| {
        // SAFETY: every pointer goes with its slice's length; all objects are of this group.
        let ok = unsafe {
            bssl::EC_POINT_oct2point(group, point, peer.as_ptr(), peer.len(), workspace) == 1
                && bssl::ECDH_compute_key(out.as_mut_ptr().cast(), out.len(), point, key, None) == out.len() as c_int
        };
        assert!(ok);
    })
}
