//! BoringSSL's HPKE (RFC 9180) with the KEM X-Wing.

use boring_sys as bssl;
use zeroize::Zeroizing;

use crate::types::hpke::{ENCAPSULATED_SIZE, PUBLIC_KEY_SIZE, SEED_SIZE, TAG_SIZE};

/// A context of one direction, wiped and freed on drop.
struct Context(*mut bssl::EVP_HPKE_CTX);

impl Context {
    fn new() -> Self {
        // SAFETY: allocates a context in its initial state, which may be freed at once.
        let context = unsafe { bssl::EVP_HPKE_CTX_new() };
        assert!(!context.is_null(), "HPKE contexts fail only without memory");
        Self(context)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by EVP_HPKE_CTX_new and freed once.
        unsafe { bssl::EVP_HPKE_CTX_free(self.0) }
    }
}

/// A private key, wiped and freed on drop.
struct PrivateKeyHandle(*mut bssl::EVP_HPKE_KEY);

impl PrivateKeyHandle {
    fn from_seed(seed: &[u8; SEED_SIZE]) -> Self {
        // SAFETY: allocates a key in its initial state, which may be freed at once.
        let key = Self(unsafe { bssl::EVP_HPKE_KEY_new() });
        assert!(!key.0.is_null(), "HPKE keys fail only without memory");
        // SAFETY: the key is in its initial state, the KEM is static, and the seed has the 32 bytes of an X-Wing private key.
        let done = unsafe { bssl::EVP_HPKE_KEY_init(key.0, bssl::EVP_hpke_xwing(), seed.as_ptr(), seed.len()) };
        assert_eq!(done, 1, "every seed of 32 bytes is an X-Wing private key");
        key
    }
}

impl Drop for PrivateKeyHandle {
    fn drop(&mut self) {
        // SAFETY: made by EVP_HPKE_KEY_new and freed once.
        unsafe { bssl::EVP_HPKE_KEY_free(self.0) }
    }
}

pub(crate) fn public_key(seed: &[u8; SEED_SIZE]) -> [u8; PUBLIC_KEY_SIZE] {
    let (key, mut public, mut size) = (PrivateKeyHandle::from_seed(seed), [0; PUBLIC_KEY_SIZE], 0);
    // SAFETY: the key is initialised, and the output has the room that is given.
    let done = unsafe { bssl::EVP_HPKE_KEY_public_key(key.0, public.as_mut_ptr(), &mut size, public.len()) };
    assert!(done == 1 && size == PUBLIC_KEY_SIZE, "an X-Wing public key has {PUBLIC_KEY_SIZE} bytes");
    public
}

/// The encapsulated key and the ciphertext; `None` for what is no public key.
pub(crate) fn seal(public: &[u8; PUBLIC_KEY_SIZE], info: &[u8], aad: &[u8], plaintext: &[u8]) -> Option<Vec<u8>> {
    let context = Context::new();
    let mut sealed = vec![0; ENCAPSULATED_SIZE + plaintext.len() + TAG_SIZE];
    let (encapsulated, ciphertext) = sealed.split_at_mut(ENCAPSULATED_SIZE);
    let (mut encapsulated_size, mut size) = (0, 0);
    // SAFETY: the context is in its initial state; the suite's parts are static; inputs are readable and outputs writable for the lengths
    // that are given (a dangling pointer with length 0 is never read); sealing follows only a setup that succeeded.
    let done = unsafe {
        bssl::EVP_HPKE_CTX_setup_sender(
            context.0,
            encapsulated.as_mut_ptr(),
            &mut encapsulated_size,
            encapsulated.len(),
            bssl::EVP_hpke_xwing(),
            bssl::EVP_hpke_hkdf_sha256(),
            bssl::EVP_hpke_aes_256_gcm(),
            public.as_ptr(),
            public.len(),
            info.as_ptr(),
            info.len(),
        ) == 1
            && bssl::EVP_HPKE_CTX_seal(
                context.0,
                ciphertext.as_mut_ptr(),
                &mut size,
                ciphertext.len(),
                plaintext.as_ptr(),
                plaintext.len(),
                aad.as_ptr(),
                aad.len(),
            ) == 1
    };
    if !done {
        super::clear_errors();
        return None;
    }
    assert!(encapsulated_size == ENCAPSULATED_SIZE && size == ciphertext.len(), "the suite's sizes are fixed");
    Some(sealed)
}

/// `None` for what was not sealed to this key with this info and associated data.
pub(crate) fn open(seed: &[u8; SEED_SIZE], info: &[u8], aad: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (encapsulated, ciphertext) = sealed.split_at_checked(ENCAPSULATED_SIZE)?;
    let mut plaintext = Zeroizing::new(vec![0; ciphertext.len()]);
    let (context, key, mut size) = (Context::new(), PrivateKeyHandle::from_seed(seed), 0);
    // SAFETY: as in `seal`; the key is initialised and outlives the calls.
    let done = unsafe {
        bssl::EVP_HPKE_CTX_setup_recipient(
            context.0,
            key.0,
            bssl::EVP_hpke_hkdf_sha256(),
            bssl::EVP_hpke_aes_256_gcm(),
            encapsulated.as_ptr(),
            encapsulated.len(),
            info.as_ptr(),
            info.len(),
        ) == 1
            && bssl::EVP_HPKE_CTX_open(
                context.0,
                plaintext.as_mut_ptr(),
                &mut size,
                plaintext.len(),
                ciphertext.as_ptr(),
                ciphertext.len(),
                aad.as_ptr(),
                aad.len(),
            ) == 1
    };
    if !done {
        super::clear_errors();
        return None;
    }
    plaintext.truncate(size);
    Some(plaintext)
}
