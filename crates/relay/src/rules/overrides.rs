//! Fields by which a client has an upstream take another method or path than those of the request, and so another route than the relay did.

use std::sync::{Arc, LazyLock};

use hyper::Method;
use hyper::header::{HeaderMap, HeaderName};
use leafseal_document::OtherCase as NameCase;
use leafseal_document::form::FieldNames;

use crate::hop_headers::folded;

/// Header fields with another method.
const METHOD_HEADERS: [&str; 4] =
    ["x-http-method-override", "x-method-override", "x-http-method", "http-method-override"];
/// Header fields with another path, or a part of one.
const PATH_HEADERS: [&str; 15] = [
    "x-original-url",
    "x-original-uri",
    "x-original-path",
    "x-rewrite-url",
    "x-override-url",
    "x-forwarded-path",
    "x-forwarded-prefix",
    "x-forwarded-uri",
    "x-forwarded-url",
    "x-envoy-original-path",
    "x-waws-unencoded-url",
    "x-script-name",
    "x-path-info",
    // gunicorn takes these for variables of CGI.
    "script-name",
    "path-info",
];
/// Fields of forms and queries with another method (Rack, Laravel, Symfony, Spring; ASP.NET).
const METHOD_FIELDS: [&str; 2] = ["_method", "X-HTTP-Method-Override"];

/// The refusal of a form or query with a method.
pub(crate) const ASKS_FOR_METHOD: &str = "it has a field that asks for another method, with which the request would have another route: \
                                          send that method, or set overrides = \"pass\" if the upstream reads no such field";

/// What is done in one request about fields that ask for another method or path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OverrideChecks {
    /// Whether header fields with another path are removed.
    pub(crate) removes_paths: bool,
    /// Whether a form or query with another method is refused.
    pub(crate) guards_method: bool,
}

/// The methods that header fields ask for; `None` for a value that is none.
pub(crate) fn methods_in(headers: &HeaderMap) -> impl Iterator<Item = Option<Method>> {
    let fields = headers.iter().filter(|(name, _)| is_one_of(name, &METHOD_HEADERS));
    fields.flat_map(|(_, value)| {
        value.as_bytes().split(|&byte| byte == b',').map(|text| Method::from_bytes(text.trim_ascii()).ok())
    })
}

/// Removes the header fields with another path.
pub(crate) fn remove_paths(headers: &mut HeaderMap) {
    // Usually there is none of them.
    let names: Vec<HeaderName> = headers.keys().filter(|name| is_one_of(name, &PATH_HEADERS)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// Whether a name is one of these, also with `_` or other punctuation for `-`.
fn is_one_of(name: &HeaderName, these: &[&str]) -> bool {
    these.iter().any(|one| one.len() == name.as_str().len() && folded(name).eq(one.bytes()))
}

/// Whether a query may have a field with a method, by its letters.
pub(crate) fn may_name_method(query: &str) -> bool {
    query.contains('%') || query.to_ascii_lowercase().contains("method")
}

/// The fields of forms and queries with a method.
pub(crate) fn method_fields() -> Arc<FieldNames> {
    static FIELDS: LazyLock<Arc<FieldNames>> =
        LazyLock::new(|| Arc::new(FieldNames::new(METHOD_FIELDS).guarded(NameCase::Refuse, &FieldNames::default())));
    Arc::clone(&FIELDS)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn fields_are_found_in_any_punctuation() {
        let mut headers = HeaderMap::new();
        for name in
            ["X-Original-URL", "x_rewrite_url", "X-Forwarded-Prefix", "X-Originals-URL", "SCRIPT_NAME", "accept"]
        {
            headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_static("/cards"));
        }
        remove_paths(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["accept", "x-originals-url"]);
        for (name, value) in [("X-HTTP-Method-Override", "PUT, a b"), ("x_method_override", " DELETE")] {
            headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_static(value));
        }
        assert_eq!(methods_in(&headers).collect::<Vec<_>>(), [Some(Method::PUT), None, Some(Method::DELETE)]);
        assert!(may_name_method("_METHOD=put") && may_name_method("_meth%6fd=put") && !may_name_method("a=b"));
    }
}
