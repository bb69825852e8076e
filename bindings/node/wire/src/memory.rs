//! Buffers of Node over memory that this module allocated.

use napi::Env;
use napi::bindgen_prelude::BufferSlice;

use crate::fault::{Result, of_node};

/// Bytes up to this size are copied into Node's memory, which is cheaper than a Buffer with foreign memory.
const COPY_SIZE_MAX: usize = 4096;

/// Returns a Buffer of the bytes. Longer ones are handed over without a copy.
pub(crate) fn buffer<'env>(env: &'env Env, bytes: Vec<u8>) -> Result<BufferSlice<'env>> {
    let made = if bytes.len() <= COPY_SIZE_MAX {
        BufferSlice::copy_from(env, bytes)
    } else {
        BufferSlice::from_data(env, bytes)
    };
    made.map_err(|error| of_node(&error))
}
