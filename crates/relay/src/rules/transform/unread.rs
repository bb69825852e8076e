//! Bodies of types and codings that no rule reads, and envelopes in bodies.

use hyper::header::CONTENT_TYPE;

use super::*;
use crate::body::envelopes::WholeSearch;

impl MessageRules<'_> {
    /// Whether the rules may change a body with this header, or refuse it. An answer without a body may lack the type.
    pub(crate) fn may_change(&self, headers: &HeaderMap) -> bool {
        let is_read =
            kind(self.actions, headers, self.actions.guard_forms()).is_some() && Coding::of(headers).is_some();
        is_read || !headers.contains_key(CONTENT_TYPE) || self.actions.mismatch == Mismatch::Refuse
    }

    /// A body of a type that no rule reads is forwarded only if it turns out to be empty.
    pub(super) async fn read_empty_body<B>(&self, mut body: B, what: &str) -> Result<Outcome<B>, Refusal>
    where
        B: Body<Data = Bytes, Error = BodyError> + Unpin,
    {
        use http_body_util::BodyExt;
        match body.frame().await {
            None => Ok(Outcome::Whole(Bytes::new())),
            Some(Ok(_)) => Err(Refusal::mismatch(self.direction, what)),
            Some(Err(error)) => Err(Refusal::of_body(self.direction, &error)),
        }
    }

    /// Reads a body that no rule reads, where rules only decrypt: it is forwarded unchanged if it holds no envelope.
    pub(super) async fn read_unsealed<B>(
        &self,
        headers: &mut HeaderMap,
        body: B,
        mismatch: &str,
    ) -> Result<Bytes, Refusal>
    where
        B: Body<Data = Bytes, Error = BodyError> + Unpin,
    {
        let coded = self.read(body).await?;
        if coded.is_empty() {
            return Ok(Bytes::new());
        }
        let coding = Coding::of(headers).ok_or_else(|| Refusal::mismatch(self.direction, mismatch))?;
        let searched = self.searched_for_method(headers)?;
        let (mut plain, coded) = self.decode(coding, coded).await?;
        if let Some(kind) = searched {
            plain = self.refuse_method(&kind, plain).await?;
        }
        let (plain, is_sealed) = self.search_whole(plain).await;
        if is_sealed {
            let detail = format!("it holds an envelope, and {mismatch}");
            return Err(Refusal::mismatch(self.direction, &detail));
        }
        let bytes = coded.unwrap_or(plain);
        validators::update_for_same_body(headers, bytes.len());
        Ok(Bytes::from_owner(bytes))
    }

    /// Searches a body for envelopes, as the rules leave it, where that is of interest.
    pub(super) async fn search(&mut self, body: BodyBuffer) -> BodyBuffer {
        if !self.searches {
            return body;
        }
        let (body, is_sealed) = self.search_whole(body).await;
        self.is_sealed = is_sealed;
        body
    }

    async fn search_whole(&self, body: BodyBuffer) -> (BodyBuffer, bool) {
        let cost = Cost::of_copy(body.len());
        self.offload().run_in_slices(cost, WholeSearch::new(body), WholeSearch::step).await
    }
}
