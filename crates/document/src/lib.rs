//! Finds the values of a JSON document that are to be encrypted or decrypted, in one pass over its bytes; and those of forms ([`form`]).
//!
//! A [`Selection`] defines the selected values, in JSONPath (RFC 9535). A [`Walker`] scans a document (RFC 8259) and returns the
//! selected scalars as byte ranges, in batches and in slices of bounded work. The caller writes the output: the bytes between two
//! matches unchanged, a replacement for each match. Unselected bytes therefore stay unchanged: white space, order, duplicate names,
//! the text of numbers.
//!
//! The whole document is validated on the way: a successful walk has read one well-formed JSON value in valid UTF-8. The crate
//! contains no crypto, does no I/O and starts no threads. It writes nothing into a document by itself.
//!
//! ```
//! use leafseal_document::{DocumentLimits, WalkProgress, Purpose, Selection, Walker};
//!
//! let document = br#"{"card": "4242", "amount": 12.50}"#;
//! let limits = DocumentLimits::default();
//! let selection = Selection::parse(&["$.card"], &limits)?;
//! let mut walker = Walker::new(document, &selection, Purpose::Encrypt, &limits)?;
//! let mut matches = Vec::new();
//! while walker.next_batch(&mut matches, 1024, 64 << 10)? == WalkProgress::More {}
//! assert_eq!(&document[matches[0].start..matches[0].end], br#""4242""#);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod chunks;
mod encoding;
mod error;
mod fold;
pub mod form;
#[doc(hidden)]
pub mod fuzzing;
mod limits;
mod lines;
mod machine;
mod match_paths;
mod names;
mod nodes;
mod patch;
mod path;
mod scan;
mod selector;
mod text;
mod tracker;
mod tree;
mod walker;

pub use encoding::{BYTE_ORDER_MARK, OtherEncoding};
pub use error::{
    DocumentError, DocumentErrorKind, Expected, SelectorError, SelectorErrorKind, TextError, TextErrorKind,
};
pub use fold::{CaseFold, folded, folded_char};
pub use limits::{DEPTH_CEILING, DOCUMENT_SIZE_CEILING, DocumentLimits};
pub use lines::{LineFinder, NextLine};
pub use match_paths::{MatchPaths, PathWriter};
pub use names::{CanonicalNames, NameWalk};
pub use nodes::{SelectedNode, Strategy, select};
pub use patch::{POINTER_SIZE_MAX, PatchShape, PatchWalk, ShapeWalk};
pub use path::PATH_SIZE_MAX;
pub use selector::{ContextSelector, FieldPath, Selection, SelectionBuilder};
pub use text::{escape_into, escape_piece, escaped_size, is_number, unescape, unescape_piece};
pub use walker::{DocumentWalk, Match, MatchContext, Purpose, ScalarKind, VISIT_BYTES, WalkProgress, Walker};
