//! The steps over registers of 16 bytes, for every set of instructions that has such registers. A step is 12 bytes or 16 characters.
//!
//! ```text
//! encode_short(bytes):  pad the bytes with zeros to a block, encode it, write the characters that the bytes need
//! decode_short(text):   pad the text with `A`, whose value is zero, decode it, write the bytes that the text has;
//!                       it is base64 if the bits after these bytes are zero
//! ```

/// Implements [`Steps`](super::steps::Steps) over the functions of the same file: `load`, `store`, `from_halves`, `halves`,
/// `encode_block` and `decode_block`, called by `with_token!`.
macro_rules! block_steps {
    ($cpu:ty, $steps:ty) => {
        impl Base64Steps for $steps {
            type Cpu = $cpu;
            const BYTES: usize = 12;

            // SAFETY: the trait states what the caller must guarantee.
            #[inline(always)]
            unsafe fn encode_step(cpu: $cpu, bytes: *const u8, out: *mut u8) {
                // SAFETY: a step is as long as a nonce and its text; both ranges are the caller's and do not overlap.
                unsafe { Self::encode_nonce(cpu, &*bytes.cast(), &mut *out.cast::<NonceText>()) }
            }

            // SAFETY: the trait states what the caller must guarantee.
            #[inline(always)]
            unsafe fn encode_short(_: $cpu, bytes: *const u8, size: usize, out: *mut u8) {
                // SAFETY: `bytes` is readable for `size` bytes, from 1 to 11.
                let bytes = unsafe { short::load(bytes, size) };
                let text = with_token!(halves(encode_block(from_halves(bytes))));
                // SAFETY: `out` is writable for the encoded size, from 2 to 15.
                unsafe { short::store(text, out, encoded_size(size)) }
            }

            #[inline(always)]
            fn encode_nonce(_: $cpu, nonce: &[u8; NONCE_SIZE], out: &mut NonceText) {
                let (front, back) = nonce.split_at(8);
                let front = u64::from_le_bytes(front.try_into().expect("8 bytes"));
                let back = u32::from_le_bytes(back.try_into().expect("4 bytes"));
                with_token!(store(encode_block(from_halves([front, back.into()])), out));
            }

            #[inline(always)]
            fn decode_nonce(_: $cpu, text: &[u8; NONCE_TEXT_SIZE], out: &mut [u8; NONCE_SIZE]) -> bool {
                let (bytes, is_right) = with_token!(decode_block(load(text)));
                let [front, back] = with_token!(halves(bytes));
                out[..8].copy_from_slice(&front.to_le_bytes());
                out[8..].copy_from_slice(&(back as u32).to_le_bytes());
                is_right
            }

            // SAFETY: the trait states what the caller must guarantee.
            #[inline(always)]
            unsafe fn decode_step(cpu: $cpu, text: *const u8, out: *mut u8) -> bool {
                // SAFETY: a step is as long as a nonce and its text; both ranges are the caller's and do not overlap.
                unsafe { Self::decode_nonce(cpu, &*text.cast(), &mut *out.cast()) }
            }

            // SAFETY: the trait states what the caller must guarantee.
            #[inline(always)]
            unsafe fn decode_short(_: $cpu, text: *const u8, size: usize, out: *mut u8) -> bool {
                // SAFETY: `text` is readable for `size` bytes, from 2 to 15.
                let [low, high] = unsafe { short::load(text, size) };
                // `A` has the value zero.
                let [kept_low, kept_high] = short::mask_halves(size);
                let all = u64::from_ne_bytes([b'A'; 8]);
                let padded = [low | all & !kept_low, high | all & !kept_high];
                let (bytes, is_right) = with_token!(decode_block(from_halves(padded)));
                let [low, high] = with_token!(halves(bytes));
                let count = decoded_size(size).unwrap_or(0);
                // SAFETY: `out` is writable for the decoded size, from 1 to 11.
                unsafe { short::store([low, high], out, count) }
                // Bits without a byte must be zero.
                let [kept_low, kept_high] = short::mask_halves(count);
                is_right && low & !kept_low | high & !kept_high == 0
            }
        }
    };
}

pub(super) use block_steps;
