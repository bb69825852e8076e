//! Applies rules to header fields.

use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue};

use super::*;
use crate::stream::trailers::is_taken_for;

impl MessageRules<'_> {
    /// Applies the rules to the header only.
    ///
    /// # Errors
    /// If the message must not be forwarded.
    pub(crate) async fn headers(&mut self, headers: &mut HeaderMap) -> Result<(), Refusal> {
        let actions = self.actions;
        if let Some(name) = lookalike_header(actions, headers) {
            let detail =
                format!("software that takes _ for - reads header {name} as one that a rule hides or selects by");
            return Err(Refusal::ambiguous_header(self.direction, detail));
        }
        for rule in &actions.rules {
            for name in &rule.selectors.headers {
                self.header(rule, name, headers).await?;
            }
        }
        Ok(())
    }

    async fn header(&mut self, rule: &Rule, name: &HeaderName, headers: &mut HeaderMap) -> Result<(), Refusal> {
        let mut texts = Vec::new();
        for value in headers.get_all(name) {
            match std::str::from_utf8(value.as_bytes()) {
                Ok(text) => texts.push(text.to_owned()),
                Err(_) => return Err(Refusal::unreadable(self.direction, format_args!("header {name} is not UTF-8"))),
            }
        }
        if texts.is_empty() {
            return Ok(());
        }
        let mut share = self.transforms.budget.share(self.client);
        let texts = self.texts(rule, name.as_str(), Arc::new(texts), &mut share).await?;
        headers.remove(name);
        for text in texts.iter() {
            let value = HeaderValue::from_bytes(text.as_bytes());
            let value = value.map_err(|_| {
                Refusal::unreadable(self.direction, format_args!("header {name} cannot hold its value"))
            })?;
            headers.append(name.clone(), value);
        }
        Ok(())
    }
}

/// Returns a header field that no rule names, but that common software (CGI, WSGI) reads as one that a rule hides, or as one that
/// determines how a body with hidden values is parsed.
pub(super) fn lookalike_header<'h>(actions: &Actions, headers: &'h HeaderMap) -> Option<&'h HeaderName> {
    // Another type or coding would change the meaning of a body in which something is hidden.
    let of_bodies: &[HeaderName] = match actions.rules.iter().any(Rule::hides_in_bodies) {
        true => &[CONTENT_TYPE, CONTENT_ENCODING],
        false => &[],
    };
    let hidden = || actions.hidden_headers().chain(of_bodies);
    hidden().next()?;
    let is_twin = |name: &&HeaderName| {
        hidden().all(|chosen| chosen != *name) && hidden().any(|chosen| is_taken_for(chosen, name))
    };
    headers.keys().find(is_twin)
}
