//! The encryption of a value in pieces, for callers that must yield between them. The envelope equals that of the whole.

use leafseal_crypto::CryptoRng;
use leafseal_crypto::aead::SealStream;

use crate::base64::append_base64;
use crate::metadata::Metadata;
use crate::parts::{SUFFIX, ValueType};
use crate::seal::{KeySpent, SealingKey};

/// Bytes of base64's smallest group.
const GROUP_SIZE: usize = 3;

/// A value on its way into its envelope.
pub struct LongSealing {
    stream: SealStream,
    /// Encrypted bytes that are not written yet: between two pieces less than one group of base64.
    sealed: Vec<u8>,
}

impl SealingKey {
    /// Begins the envelope of a value. `metadata` must be given exactly when the profile has it. `rng` as for
    /// [`leafseal_crypto::NonceSequence::take`].
    ///
    /// # Errors
    /// [`KeySpent`].
    pub fn seal_long(
        &self,
        metadata: Option<&Metadata>,
        rng: &mut dyn CryptoRng,
        value_type: ValueType,
        out: &mut Vec<u8>,
    ) -> Result<LongSealing, KeySpent> {
        assert_eq!(metadata.is_some(), self.profile().version().has_metadata(), "metadata as the profile has it");
        let (nonce, stream) = self.stream(rng, value_type)?;
        self.write_head(value_type, &nonce, out);
        Ok(LongSealing::begin(stream, metadata, out))
    }
}

impl LongSealing {
    /// After everything before the ciphertext was written.
    pub(crate) fn begin(stream: SealStream, metadata: Option<&Metadata>, out: &mut Vec<u8>) -> Self {
        let mut sealing = Self { stream, sealed: Vec::new() };
        if let Some(metadata) = metadata {
            sealing.update(&metadata.encoded, out);
        }
        sealing
    }

    /// Seals the next piece of the text.
    pub fn update(&mut self, text: &[u8], out: &mut Vec<u8>) {
        let before = self.sealed.len();
        self.sealed.resize(before + text.len(), 0);
        self.stream.update(text, &mut self.sealed[before..]);
        let whole = self.sealed.len() / GROUP_SIZE * GROUP_SIZE;
        append_base64(&self.sealed[..whole], out);
        self.sealed.copy_within(whole.., 0);
        self.sealed.truncate(self.sealed.len() - whole);
    }

    /// Ends the envelope.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        self.sealed.extend_from_slice(&self.stream.finish());
        append_base64(&self.sealed, out);
        out.extend_from_slice(&SUFFIX);
    }
}
