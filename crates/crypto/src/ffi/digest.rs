//! BoringSSL's MD5, SHA-1 and SHA-2 in pieces, on contexts without allocations.

use std::mem::MaybeUninit;
use std::os::raw::{c_int, c_void};

use boring_sys as bssl;

use super::wiped::Wiped;

/// A hash function of BoringSSL. `digest` receives the number of bytes that [`BoringDigest::finish`] documents.
pub(crate) trait Function {
    /// BoringSSL's context: plain integers and bytes.
    type Context: Copy;

    /// Bytes of a digest.
    const SIZE: usize;

    const INIT: unsafe extern "C" fn(*mut Self::Context) -> c_int;
    const UPDATE: unsafe extern "C" fn(*mut Self::Context, *const c_void, usize) -> c_int;
    const FINAL: unsafe extern "C" fn(*mut u8, *mut Self::Context) -> c_int;
}

macro_rules! functions {
    ($($name:ident, $context:ident, $size:literal, $init:ident, $update:ident, $last:ident;)*) => {$(
        pub(crate) enum $name {}

        impl Function for $name {
            type Context = bssl::$context;
            const SIZE: usize = $size;
            const INIT: unsafe extern "C" fn(*mut Self::Context) -> c_int = bssl::$init;
            const UPDATE: unsafe extern "C" fn(*mut Self::Context, *const c_void, usize) -> c_int = bssl::$update;
            const FINAL: unsafe extern "C" fn(*mut u8, *mut Self::Context) -> c_int = bssl::$last;
        }
    )*};
}

functions! {
    Md5, MD5_CTX, 16, MD5_Init, MD5_Update, MD5_Final;
    Sha1, SHA_CTX, 20, SHA1_Init, SHA1_Update, SHA1_Final;
    Sha224, SHA256_CTX, 28, SHA224_Init, SHA224_Update, SHA224_Final;
    Sha256, SHA256_CTX, 32, SHA256_Init, SHA256_Update, SHA256_Final;
    Sha384, SHA512_CTX, 48, SHA384_Init, SHA384_Update, SHA384_Final;
    Sha512, SHA512_CTX, 64, SHA512_Init, SHA512_Update, SHA512_Final;
    Sha512Part256, SHA512_CTX, 32, SHA512_256_Init, SHA512_256_Update, SHA512_256_Final;
}

/// A hash computation in progress. Wiped on drop.
pub(crate) struct BoringDigest<F: Function>(Wiped<F::Context>);

impl<F: Function> Clone for BoringDigest<F> {
    fn clone(&self) -> Self {
        Self(Wiped::new(*self.0))
    }
}

impl<F: Function> BoringDigest<F> {
    pub(crate) fn new() -> Self {
        let mut context = MaybeUninit::uninit();
        // SAFETY: Init writes the whole context.
        let context = unsafe {
            (F::INIT)(context.as_mut_ptr());
            context.assume_init()
        };
        Self(Wiped::new(context))
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        // SAFETY: the context is initialised, and the bytes are readable for their length.
        unsafe { (F::UPDATE)(&mut *self.0, bytes.as_ptr().cast(), bytes.len()) };
    }

    /// Writes the digest, which fills `digest`: [`Function::SIZE`] bytes.
    ///
    /// # Panics
    /// When `digest` has another length.
    pub(crate) fn finish(mut self, digest: &mut [u8]) {
        assert_eq!(digest.len(), F::SIZE);
        // SAFETY: the context is initialised and not used again, and the digest has the function's length.
        unsafe { (F::FINAL)(digest.as_mut_ptr(), &mut *self.0) };
    }
}

impl BoringDigest<Sha256> {
    /// The words of the hash value, after whole blocks.
    pub(crate) fn words(&self) -> [u32; 8] {
        let context: &bssl::SHA256_CTX = &self.0;
        context.h
    }

    /// A computation after `size` bytes, whole blocks, with these words.
    pub(crate) fn resume(words: &[u32; 8], size: u64) -> Self {
        let mut state = Self::new();
        let context: &mut bssl::SHA256_CTX = &mut state.0;
        context.h = *words;
        let bits = 8 * size;
        (context.Nl, context.Nh) = (bits as u32, (bits >> 32) as u32);
        state
    }
}

/// SHA-512/224 (FIPS 180-4, 5.3.6.1), which BoringSSL lacks: SHA-512 from another initial value, cut to 28 bytes.
pub(crate) fn sha512_part_224() -> BoringDigest<Sha512> {
    let mut state = BoringDigest::<Sha512>::new();
    let context: &mut bssl::SHA512_CTX = &mut state.0;
    context.h = [
        0x8c3d_37c8_1954_4da2,
        0x73e1_9966_89dc_d4d6,
        0x1dfa_b7ae_32ff_9c82,
        0x679d_d514_582f_9fcf,
        0x0f6d_2b69_7bd4_4da8,
        0x77e3_6f73_04c4_8942,
        0x3f9d_85a8_6a1d_36c8,
        0x1112_e6ad_91d6_92a1,
    ];
    state
}
