//! Bodies that pass through without being read completely: searched for envelopes, without the trailers that rules hide.

pub(crate) mod trailers;
pub(crate) mod watched;
