//! Parts of documents, for RPC and the API: each worker processes a stretch of a document that the request owns.

use std::sync::Arc;

use leafseal_engine::{DocumentPart, DocumentWork, PlannedPart, Progress, Rewriter};
use leafseal_protocol::ErrorObject;

use super::convert;
use crate::work::{PartStep, PlannedRequest, RequestPart};

/// Owns the bytes of a document while it is processed.
pub(crate) trait OwnsDocument: Send + Sync + 'static {
    /// The document, the same on each call.
    fn document(&self) -> &[u8];
}

/// A part of a document, for one worker.
struct PartOfDocument<D, R: Rewriter> {
    owner: Arc<D>,
    part: DocumentPart<R>,
}

/// Plans the next part.
pub(crate) fn next_part<D, R>(owner: &Arc<D>, work: &mut DocumentWork<R>) -> Result<PlannedRequest, ErrorObject>
where
    D: OwnsDocument,
    R: Rewriter + Send + 'static,
{
    let part = match work.next_part(owner.document()).map_err(convert::error)? {
        PlannedPart::Part(part) => part,
        PlannedPart::Walked => return Ok(PlannedRequest::Nothing),
        PlannedPart::All => return Ok(PlannedRequest::None),
    };
    let part = Box::new(PartOfDocument { owner: Arc::clone(owner), part });
    Ok(if work.is_planned() { PlannedRequest::Last(part) } else { PlannedRequest::Part(part) })
}

impl<D: OwnsDocument, R: Rewriter + Send> RequestPart for PartOfDocument<D, R> {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<PartStep, ErrorObject> {
        let progress = self.part.step(self.owner.document(), out).map_err(convert::error)?;
        Ok(if progress == Progress::More { PartStep::More } else { PartStep::Done })
    }

    fn fields(&self) -> u64 {
        self.part.count()
    }
}
