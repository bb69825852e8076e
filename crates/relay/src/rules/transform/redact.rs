//! Redaction of the selected values of a JSON document.

use super::*;

/// Why a document could not be redacted.
#[derive(Debug)]
pub(super) enum RedactFault {
    Document(DocumentError),
    /// A selector matched nothing, and the rule requires a match of each.
    Unmatched,
    NoRoom(Refusal),
}

impl From<DocumentError> for RedactFault {
    fn from(error: DocumentError) -> Self {
        RedactFault::Document(error)
    }
}

impl From<Refusal> for RedactFault {
    fn from(refusal: Refusal) -> Self {
        RedactFault::NoRoom(refusal)
    }
}

/// Replaces the selected values of the document; also returns their number.
pub(super) fn redact_json(
    document: &Buffer,
    selection: &Selection,
    replacement: &str,
    is_strict: bool,
) -> Result<(Buffer, u64), RedactFault> {
    const MATCHES_MAX: usize = 1024;
    let mut token = Vec::new();
    escape_into(replacement, &mut token);
    let bytes = document.as_ref();
    let mut walker = Walker::new(bytes, selection, Purpose::Encrypt, &DocumentLimits::default())?;
    let mut out = Buffer::with_capacity(bytes.len(), document.share())?;
    let (mut copied, mut count) = (0, 0);
    let mut matches = Vec::new();
    loop {
        let progress = walker.next_batch(&mut matches, MATCHES_MAX, usize::MAX)?;
        for found in matches.drain(..) {
            out.extend(&bytes[copied..found.start])?;
            out.extend(&token)?;
            copied = found.end;
            count += 1;
        }
        if progress == Progress::Done && is_strict && walker.matched().contains(&0) {
            return Err(RedactFault::Unmatched);
        }
        if progress == Progress::Done {
            out.extend(&bytes[copied..])?;
            return Ok((out, count));
        }
    }
}
