//! Applies rules to the query of a request.

use std::sync::Arc;

use hyper::Uri;
use hyper::body::Bytes;
use hyper::http::uri::PathAndQuery;
use leafseal_document::form::Syntax;

use super::MessageRules;
use crate::body::buffer::BodyBuffer;
use crate::json_text::MemberNames;
use crate::refusal::Refusal;
use crate::rules::forms;
use crate::rules::forms::canonical::{CanonicalFields, Checks};
use crate::rules::overrides;

impl MessageRules<'_> {
    /// Applies the rules to the query. If they hide something in it, names are written in one spelling; other bytes outside of selected
    /// values stay unchanged.
    ///
    /// # Errors
    /// If the message must not be forwarded.
    pub(super) async fn query(&mut self, uri: &mut Uri) -> Result<(), Refusal> {
        let Some(query) = uri.query().filter(|query| !query.is_empty()) else { return Ok(()) };
        if self.guards_method && self.holds(query.as_bytes().to_vec(), overrides::method_fields()).await {
            return Err(Refusal::ambiguous_name(self.direction, overrides::ASKS_FOR_METHOD));
        }
        let actions = self.actions;
        let hidden = self.actions.hidden.clone();
        let guard = hidden.as_ref().map(|hidden| hidden.in_query.names(self.may_set)).filter(|names| !names.is_empty());
        if let Some(names) = guard
            && self.holds(query.as_bytes().to_vec(), names.clone()).await
        {
            let detail =
                "the query has a field that a rule hides in forms or in JSON, and many upstreams read both as one";
            return Err(Refusal::ambiguous_name(self.direction, detail));
        }
        let rules = actions.rules.iter().filter(|rule| !rule.selectors.query.is_empty());
        let before = query.as_bytes();
        let mut share = self.transforms.budget.share(self.client);
        share.grow(before.len())?;
        let mut after = BodyBuffer::of(before.to_vec(), share);
        if let Some(hidden) = hidden {
            // Where fields of forms are searched for texts, those of the query are, which many upstreams read as one. A request that sets
            // values may have them in a text: the variables of GraphQL.
            let texts = self.names_in_texts().filter(|_| self.may_set || !hidden.form.is_empty());
            if !hidden.query.is_empty() {
                let (names, checks) = (hidden.query.clone(), Checks { texts, ..Checks::default() });
                let canonical;
                (after, canonical) = self.canonical_fields(names, checks, Syntax::Query, after).await?;
                self.hidden_in_query = canonical.selected;
            } else if texts.is_some() {
                after = self.refuse_texts(texts, after).await?;
            }
        }
        for rule in rules {
            after = self.fields(rule, &rule.selectors.query, false, Syntax::Query, after).await?.0;
        }
        if after.as_ref() != before {
            *uri = with_query(uri.path(), after.as_ref())
                .ok_or_else(|| Refusal::too_large(self.direction, TARGET_SIZE_MAX))?;
        }
        Ok(())
    }
}

impl MessageRules<'_> {
    /// Refuses a query that rules leave as it is, or cookies written like one, if a field holds JSON with a hidden name.
    pub(super) async fn refuse_texts(
        &self,
        texts: Option<Arc<MemberNames>>,
        query: BodyBuffer,
    ) -> Result<BodyBuffer, Refusal> {
        let (checks, share) = (Checks { texts, ..Checks::default() }, query.share().another(query.len())?);
        let copy = BodyBuffer::of(query.as_ref().to_vec(), share);
        let limits = self.transforms.form.clone();
        let search = CanonicalFields::new(copy, Arc::default(), limits, checks, Syntax::Query);
        let cost = forms::cost(query.len(), true);
        match self.offload().run_in_slices(cost, search, CanonicalFields::step).await {
            // A query with too many fields to be searched may hold one as well.
            Err(fault) => Err(self.of_form(&fault)),
            Ok(_) => Ok(query),
        }
    }
}

/// Maximum length of a path with its query in the HTTP library.
const TARGET_SIZE_MAX: usize = u16::MAX as usize - 1;

/// Returns a target with this path and query; `None` if it is too long.
fn with_query(path: &str, query: &[u8]) -> Option<Uri> {
    let target = [path.as_bytes(), b"?", query].concat();
    if target.len() > TARGET_SIZE_MAX {
        return None;
    }
    PathAndQuery::from_maybe_shared(Bytes::from(target)).ok().map(Uri::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_takes_any_query_up_to_its_bound() {
        let query = "card=ev%3Aa%2B&x[]=%E9|";
        let uri = with_query("/a/%20", query.as_bytes()).unwrap();
        assert_eq!((uri.path(), uri.query()), ("/a/%20", Some(query)));
        assert!(with_query("/", &vec![b'a'; TARGET_SIZE_MAX - 2]).is_some());
        assert!(with_query("/", &vec![b'a'; TARGET_SIZE_MAX]).is_none());
    }
}
