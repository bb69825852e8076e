//! The cost model that determines the sizes of steps and parts. Figures are nanoseconds, rounded up from `docs/measurements.md`; on a
//! slower machine steps take proportionally longer.
//!
//! A worker yields between two steps: a step should take about 50 µs and must not take 200, whatever the request. A step processes up to
//! [`STEP_VALUES_MAX`] values with up to [`STEP_BYTES_MAX`] bytes and at most one key agreement in addition: 115 µs in the worst case and
//! nearly always half of it. Longer values, files, and bytes that are only copied between two values are processed in pieces of that size.
//! A public key's table is computed in pieces: one in each step with a key agreement for it, until it is complete, which may make a step 50
//! µs longer, a few times per key.

use std::time::Duration;

use leafseal_pool::is_inline;

/// Target time of a step without a key agreement.
const STEP_NS: u64 = 50_000;
/// Maximum time of a step.
const STEP_CEILING_NS: u64 = 200_000;
/// A small request, excluding its values: read, its caller and app found in the caches, its answer begun and passed on.
const REQUEST_NS: u64 = 1_500;
/// 1 KiB of a request's message read.
const READ_KIB_NS: u64 = 100;
/// A value encrypted or decrypted under a cached key, excluding its bytes.
const VALUE_NS: u64 = 120;
/// 1 KiB encrypted or decrypted under a cached key, with its base64; associated data takes less.
const KIB_NS: u64 = 300;
/// 1 KiB of a document scanned without a match.
const WALKED_KIB_NS: u64 = 1_000;
/// A key agreement, on the slower of the two curves.
const AGREEMENT_NS: u64 = 65_000;
/// As many key agreements with a recipient that has a table as it makes at a time, and the encryption of a value under each, on the slower
/// curve: two without SIMD lanes, up to eight with.
const TABLE_BATCH_NS: u64 = 48_000;

/// A piece of a recipient's table.
const TABLE_PIECE_NS: u64 = 60_000;

/// A key version tried on a small value: its key derived and set up, and one tag.
const TRIAL_NS: u64 = 1_500;
/// The hash of a small value.
const DIGEST_NS: u64 = 400;
/// SealingTarget time of the trials of a step, which come in addition to a key agreement.
const TRIALS_NS: u64 = 30_000;

/// Up to eight key agreements in SIMD lanes, for decryption.
const AGREEMENT_BATCH_NS: u64 = 95_000;

/// Key agreements in a step.
pub(crate) const STEP_AGREEMENTS_MAX: usize = 1;
/// Default number of values in a step: together with [`STEP_BYTES_MAX`] they fill it.
pub(crate) const STEP_VALUES_MAX: usize = 256;
/// Default bytes of values in a step.
pub(crate) const STEP_BYTES_MAX: usize = 64 << 10;

const _: () = assert!(
    STEP_VALUES_MAX as u64 * VALUE_NS + (STEP_BYTES_MAX as u64 >> 10) * KIB_NS <= STEP_NS,
    "a step of small values fits, and one of large values too"
);
const _: () = assert!((STEP_BYTES_MAX as u64 >> 11) * WALKED_KIB_NS <= STEP_NS, "a step that only walks fits");
const _: () = assert!(
    STEP_NS + STEP_AGREEMENTS_MAX as u64 * AGREEMENT_NS + TABLE_PIECE_NS <= STEP_CEILING_NS,
    "a full step with its key agreements and a piece of a table is not too long"
);

const _: () = assert!(
    STEP_NS + AGREEMENT_BATCH_NS + TRIALS_NS + (STEP_BYTES_MAX as u64 >> 10) * KIB_NS <= STEP_CEILING_NS,
    "a full step with a batch of agreements and trials, the last one of a large value, fits"
);
const _: () = assert!(TABLE_BATCH_NS <= STEP_NS, "a step of key agreements by tables fits");
const _: () = assert!(
    STEP_NS + TABLE_BATCH_NS <= STEP_CEILING_NS,
    "a full step in which a request's key and spare ones are made is not too long"
);

/// The counted work of a request whose message has `size` bytes, excluding its values.
pub fn request_work(size: usize) -> Duration {
    Duration::from_nanos(REQUEST_NS + ((size as u64 * READ_KIB_NS) >> 10))
}

/// The counted work of `count` values of `size` bytes in total under known keys, each authenticated with a context of `context_size` bytes.
pub fn values_work(count: u64, size: usize, context_size: usize) -> Duration {
    let bytes = size as u64 + count * context_size as u64;
    Duration::from_nanos(count * VALUE_NS + ((bytes * KIB_NS) >> 10))
}

/// The counted work of a document under known keys, all of whose values are selected, each authenticated with a context of `context_size`
/// bytes. Values are counted by what comes before each.
pub fn document_work(document: &[u8], context_size: usize) -> Duration {
    let values = 1 + document.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{' | b'\n')).count();
    let walk = Duration::from_nanos((document.len() as u64 * WALKED_KIB_NS) >> 10);
    walk + values_work(values as u64, document.len(), context_size)
}

/// Bytes that a step scans if it encrypts `step_bytes_max`: half, because scanning takes longer per byte.
pub(crate) fn walked_bytes_max(step_bytes_max: usize) -> usize {
    (step_bytes_max / 2).max(1)
}

/// The number of values that fit into a step if `values` of the same request have cost `agreements` key agreements so far.
pub(crate) fn values_in_step(values: u64, agreements: u64) -> usize {
    let each = VALUE_NS + AGREEMENT_NS * agreements / values.max(1);
    (STEP_NS / each).max(1) as usize
}

/// The rest of a step's budget for the search for the key version of values.
pub(crate) struct SearchBudget {
    agreements_max: u64,
    agreements: u64,
    trials_ns: u64,
}

impl Default for SearchBudget {
    fn default() -> Self {
        // An inline slice has none: its step ends at an unknown key, and a worker goes on.
        let agreements_max = if is_inline() { 0 } else { STEP_AGREEMENTS_MAX as u64 };
        Self { agreements_max, agreements: 0, trials_ns: TRIALS_NS }
    }
}

impl SearchBudget {
    /// Takes a key agreement, a batch of them in SIMD lanes, or a piece of a table, if there is one left.
    pub(crate) fn take_agreement(&mut self) -> bool {
        let is_left = self.agreements < self.agreements_max;
        self.agreements += u64::from(is_left);
        is_left
    }

    /// Returns an agreement that was taken and not made.
    pub(crate) fn return_agreement(&mut self) {
        self.agreements -= 1;
    }

    /// Whether there is time for another trial.
    pub(crate) fn allows_trial(&self) -> bool {
        self.trials_ns > 0
    }

    /// Takes the trial of a version on a value of `size` bytes.
    pub(crate) fn take_trial(&mut self, size: usize) {
        self.take(TRIAL_NS, size);
    }

    /// Takes the digest of a value of `size` bytes.
    pub(crate) fn take_digest(&mut self, size: usize) {
        self.take(DIGEST_NS, size);
    }

    fn take(&mut self, each: u64, size: usize) {
        self.trials_ns = self.trials_ns.saturating_sub(each + (size as u64 >> 10) * KIB_NS);
    }

    /// Key agreements that were taken.
    pub(crate) fn agreements(&self) -> u64 {
        self.agreements
    }
}
