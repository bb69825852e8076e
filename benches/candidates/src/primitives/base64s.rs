//! base64 encoders. `vb64` is missing: it needs a nightly compiler.

use ::base64::Engine;
use base64_simd::AsOut;

use crate::operations::{BASE64_LENS, Case, Inputs, Operation};

pub fn cases(inputs: &'static Inputs) -> Vec<Case> {
    BASE64_LENS.iter().flat_map(|&len| encoders(inputs.plain(len))).collect()
}

fn encoders(input: &'static [u8]) -> [Case; 4] {
    let operation = Operation::Base64(input.len());
    [
        Case::new("base64-simd", operation, move |out| {
            let _ = base64_simd::STANDARD.encode(input, out.as_out());
        }),
        Case::new("base64", operation, move |out| {
            base64::prelude::BASE64_STANDARD.encode_slice(input, out).expect("room for the text");
        }),
        Case::new("base64-turbo", operation, move |out| {
            base64_turbo::STANDARD.encode_slice(input, out).expect("room for the text");
        }),
        Case::new("data-encoding", operation, move |out| data_encoding::BASE64.encode_mut(input, out)),
    ]
}
