//! The base64 of an envelope's parts, by the kernel for this CPU.

use leafseal_crypto::text_kernel;
use leafseal_lanes::text::encoded_size;

/// Appends the base64 of `bytes`, without padding.
pub(crate) fn append_base64(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + encoded_size(bytes.len()), 0);
    text_kernel().encode(bytes, &mut out[start..]);
}
