//! BoringSSL's AES in counter mode, ChaCha20 and Poly1305, on contexts without allocations.

use std::mem::MaybeUninit;

use boring_sys as bssl;

use super::wiped::Wiped;

/// Bytes of a block of AES.
pub(crate) const BLOCK_SIZE: usize = 16;

/// Output of a cipher: apart from its input, or in its place.
pub(crate) enum CipherText<'a> {
    /// Input and output of the same length.
    Separate(&'a [u8], &'a mut [u8]),
    /// Replaced by the output.
    InPlace(&'a mut [u8]),
}

impl CipherText<'_> {
    /// The input, the output and their common length. Both pointers are equal, or the ranges do not overlap.
    pub(crate) fn pointers(self) -> (*const u8, *mut u8, usize) {
        match self {
            CipherText::Separate(input, output) => {
                assert_eq!(input.len(), output.len());
                (input.as_ptr(), output.as_mut_ptr(), input.len())
            }
            CipherText::InPlace(bytes) => (bytes.as_ptr(), bytes.as_mut_ptr(), bytes.len()),
        }
    }
}

impl<'a> CipherText<'a> {
    /// The input.
    pub(crate) fn input(&self) -> &[u8] {
        match self {
            CipherText::Separate(input, _) => input,
            CipherText::InPlace(bytes) => bytes,
        }
    }

    /// The output, once the input has been read.
    pub(crate) fn output(self) -> &'a mut [u8] {
        match self {
            CipherText::Separate(_, output) => output,
            CipherText::InPlace(bytes) => bytes,
        }
    }

    /// The same text for a shorter time.
    pub(crate) fn reborrow(&mut self) -> CipherText<'_> {
        match self {
            CipherText::Separate(input, output) => CipherText::Separate(input, output),
            CipherText::InPlace(bytes) => CipherText::InPlace(bytes),
        }
    }

    /// Every byte by one of the mask, which is at least as long.
    pub(crate) fn xor(self, mask: &[u8]) {
        if let CipherText::Separate(input, output) = self {
            output.copy_from_slice(input);
            return CipherText::InPlace(output).xor(mask);
        }
        self.output().iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
    }

    /// The first `size` bytes, and the others if there are any.
    pub(crate) fn split_at(self, size: u64) -> (CipherText<'a>, Option<CipherText<'a>>) {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        match self {
            CipherText::Separate(input, output) if size < input.len() => {
                let (input, input_rest) = input.split_at(size);
                let (output, output_rest) = output.split_at_mut(size);
                (CipherText::Separate(input, output), Some(CipherText::Separate(input_rest, output_rest)))
            }
            CipherText::InPlace(bytes) if size < bytes.len() => {
                let (bytes, rest) = bytes.split_at_mut(size);
                (CipherText::InPlace(bytes), Some(CipherText::InPlace(rest)))
            }
            whole => (whole, None),
        }
    }
}

/// An expanded key of AES for encryption. Wiped on drop.
pub(crate) struct AesKey(Wiped<bssl::AES_KEY>);

impl AesKey {
    /// `key` has 16, 24 or 32 bytes.
    pub(crate) fn new(key: &[u8]) -> Self {
        let mut expanded = MaybeUninit::<bssl::AES_KEY>::zeroed();
        // SAFETY: `key` is readable for its length, which the call checks; all zeros is a valid value of the structure.
        let (status, expanded) = unsafe {
            let status = bssl::AES_set_encrypt_key(key.as_ptr(), 8 * key.len() as u32, expanded.as_mut_ptr());
            (status, expanded.assume_init())
        };
        assert_eq!(status, 0, "a key of 16, 24 or 32 bytes");
        Self(Wiped::new(expanded))
    }

    /// One block.
    pub(crate) fn encrypt(&self, block: &[u8; BLOCK_SIZE]) -> [u8; BLOCK_SIZE] {
        let mut out = [0; BLOCK_SIZE];
        // SAFETY: input and output have a block's length, and the key is expanded.
        unsafe { bssl::AES_encrypt(block.as_ptr(), out.as_mut_ptr(), &*self.0) };
        out
    }

    /// Counter mode. `counter` and `used` (the bytes taken of the key stream's block in `rest`) advance.
    pub(crate) fn ctr(
        &self,
        counter: &mut [u8; BLOCK_SIZE],
        rest: &mut [u8; BLOCK_SIZE],
        used: &mut u32,
        text: CipherText<'_>,
    ) {
        assert!(*used < BLOCK_SIZE as u32);
        let (input, output, size) = text.pointers();
        // SAFETY: both ranges have that size and are equal or apart; counter and rest have a block's length, and `used` is below it
        // (aes.h, AES_ctr128_encrypt).
        unsafe {
            bssl::AES_ctr128_encrypt(input, output, size, &*self.0, counter.as_mut_ptr(), rest.as_mut_ptr(), used);
        }
    }
}

/// ChaCha20 (RFC 8439, 2.4) from block `counter`, which must not pass 2^32 - 1 within the text.
pub(crate) fn chacha20(key: &[u8; 32], nonce: &[u8; 12], counter: u32, text: CipherText<'_>) {
    let (input, output, size) = text.pointers();
    // SAFETY: both ranges have that size and are equal or apart; key and nonce have their lengths.
    unsafe { bssl::CRYPTO_chacha_20(output, input, size, key.as_ptr(), nonce.as_ptr(), counter) };
}

/// Poly1305 (RFC 8439, 2.5) in pieces. Wiped on drop.
pub(crate) struct BoringPoly1305(Box<Wiped<Aligned>>);

/// BoringSSL aligns within the state; an alignment of its own keeps it valid when it is moved.
#[repr(C, align(64))]
struct Aligned(bssl::poly1305_state);

impl BoringPoly1305 {
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        let mut state = Box::new(Wiped::new(Aligned([0; 512])));
        // SAFETY: the state is exclusively borrowed and the key has its length.
        unsafe { bssl::CRYPTO_poly1305_init(&mut state.0, key.as_ptr()) };
        Self(state)
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        // SAFETY: the state is initialised and the bytes are readable for their length.
        unsafe { bssl::CRYPTO_poly1305_update(&mut self.0.0, bytes.as_ptr(), bytes.len()) };
    }

    pub(crate) fn finish(mut self) -> [u8; 16] {
        let mut tag = [0; 16];
        // SAFETY: the state is initialised and not used again; the tag has its length.
        unsafe { bssl::CRYPTO_poly1305_finish(&mut self.0.0, tag.as_mut_ptr()) };
        tag
    }
}
