//! What a value is bound to beside its key. It is authenticated and not stored: without it the value does not open.
//!
//! ```text
//! associated data = version's label (4) ‖ flags (1) ‖ key id (16) ‖ count (1) ‖ count × (kind (1) ‖ length (4, big-endian) ‖ bytes)
//! of a file       = "%EVENC" ‖ 4 ‖ key id (16) ‖ count (1) ‖ …
//! ```

use std::sync::Arc;

use leafseal_crypto::symmetric::SymmetricKeyId;
use thiserror::Error;

use crate::versions::SymmetricVersion;

/// Before the key id, instead of a version's label and flags. A root has a key for files alone, so that no other text is under it.
const FILE_LABEL: &[u8] = b"%EVENC\x04";
/// Bytes of the longest context.
pub const CONTEXT_SIZE_MAX: usize = 1 << 10;

/// A part of a [`Binding`]. The numbers are those of the associated data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BindingPart {
    /// The caller's context: unescaped UTF-8, an integer as decimal text.
    Context = 1,
    /// The normalized path of the value, each index as `[*]`.
    Path = 2,
    /// The normalized path with its indices.
    IndexedPath = 3,
}

/// A context that is empty or too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a context has 1 to {CONTEXT_SIZE_MAX} bytes")]
pub struct InvalidContext;

/// Bytes of the longest path. A document has paths as long as its names: with the path of each of its values, a long name before many
/// values would take the square of the document's size.
pub const PATH_SIZE_MAX: usize = 4 << 10;

/// A path that is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the path of a bound value has at most {PATH_SIZE_MAX} bytes")]
pub struct PathTooLong;

/// What a value is bound to; nothing by default.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Binding {
    /// Count and parts, as they are authenticated.
    encoded: Vec<u8>,
}

impl Default for Binding {
    fn default() -> Self {
        Self { encoded: vec![0] }
    }
}

impl Binding {
    /// Bound to nothing but the context.
    ///
    /// # Errors
    /// [`InvalidContext`].
    pub fn context(context: &str) -> Result<Self, InvalidContext> {
        Self::default().with_context(context)
    }

    /// Bound to the context as well.
    ///
    /// # Errors
    /// [`InvalidContext`].
    pub fn with_context(mut self, context: &str) -> Result<Self, InvalidContext> {
        if !(1..=CONTEXT_SIZE_MAX).contains(&context.len()) {
            return Err(InvalidContext);
        }
        self.push(BindingPart::Context, context.as_bytes());
        Ok(self)
    }

    /// Bound to the path as well: of that kind.
    ///
    /// # Errors
    /// [`PathTooLong`].
    ///
    /// # Panics
    /// With [`BindingPart::Context`].
    pub fn with_path(mut self, kind: BindingPart, path: &str) -> Result<Self, PathTooLong> {
        assert_ne!(kind, BindingPart::Context, "a path");
        if path.len() > PATH_SIZE_MAX {
            return Err(PathTooLong);
        }
        self.push(kind, path.as_bytes());
        Ok(self)
    }

    /// Bytes that it adds to the associated data.
    pub fn size(&self) -> usize {
        self.encoded.len()
    }

    fn push(&mut self, kind: BindingPart, bytes: &[u8]) {
        self.encoded[0] += 1;
        self.encoded.push(kind as u8);
        self.encoded.extend_from_slice(&u32::try_from(bytes.len()).expect("below 4 GiB").to_be_bytes());
        self.encoded.extend_from_slice(bytes);
    }

    /// Whether the value is bound to nothing.
    pub fn is_empty(&self) -> bool {
        self.encoded[0] == 0
    }

    /// The associated data of a file.
    pub(crate) fn of_file(&self, key_id: SymmetricKeyId) -> Vec<u8> {
        [FILE_LABEL, &key_id.0, &self.encoded].concat()
    }

    /// Appends the associated data.
    pub(crate) fn write(&self, version: SymmetricVersion, flags: u8, key_id: SymmetricKeyId, out: &mut Vec<u8>) {
        out.extend_from_slice(version.text().as_bytes());
        out.push(flags);
        out.extend_from_slice(&key_id.0);
        out.extend_from_slice(&self.encoded);
    }
}

/// What each of some values is bound to.
#[derive(Debug, Clone, Copy)]
pub enum Bindings<'b> {
    /// All to the same.
    One(&'b Binding),
    /// Each to its own, in the order of the values. Neighbours that share one cost as little as under [`Bindings::One`].
    Each(&'b [Arc<Binding>]),
}

impl<'b> Bindings<'b> {
    /// What the value at `index` is bound to.
    ///
    /// # Panics
    /// Without one for it.
    pub fn at(self, index: usize) -> &'b Binding {
        match self {
            Self::One(binding) => binding,
            Self::Each(bindings) => &bindings[index],
        }
    }

    /// Those of the values from `first` on.
    ///
    /// # Panics
    /// With fewer than `first`.
    #[must_use]
    pub fn from(self, first: usize) -> Self {
        match self {
            Self::One(binding) => Self::One(binding),
            Self::Each(bindings) => Self::Each(&bindings[first..]),
        }
    }
}
