//! Fields by which a client has an upstream take another method or path than those of the request, and so another route than the relay did.

use std::sync::{Arc, LazyLock};

use hyper::Method;
use hyper::header::{HeaderMap, HeaderName};
use leafseal_document::CaseFold;
use leafseal_document::form::FieldNames;

use crate::hop_headers::folded;
use crate::refusal::{Direction, Refusal};

/// Header fields with another method.
const METHOD_HEADERS: [&str; 6] = [
    "x-http-method-override",
    "x-method-override",
    "x-http-method",
    "http-method-override",
    "x-rest-method",
    "x-tunneled-method",
];
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
/// Fields of forms and queries with another method (Rack, Laravel, Symfony, Spring; ASP.NET; Salesforce).
const METHOD_FIELDS: [&str; 3] = ["_method", "X-HTTP-Method-Override", "_HttpMethod"];
/// The member of a JSON document with another method (Laravel, Parse Server, Express).
pub(crate) const METHOD_MEMBER: &str = "_method";

/// Why a query, form or document with a method is refused.
pub(crate) const ASKS_FOR_METHOD: &str = "it has a field that asks for another method, with which the request would have another route: \
                                          send that method, or set overrides = \"pass\" if the upstream reads no such field";
/// Why a header field with a method is refused.
pub(crate) const HEADER_ASKS_FOR_METHOD: &str = "a header field asks for another method, with which the request would have another \
                                                 route: send that method, or set overrides = \"pass\" if the upstream reads no such field";
const UNCLEAR_METHOD: &str = "header fields ask for several methods, or for one that is no method: send one, or set overrides = \"pass\" \
                              if the upstream reads no such field";

/// The actions in one request for fields that ask for another method or path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OverrideChecks {
    /// Whether header fields with another path are removed.
    pub(crate) removes_paths: bool,
    /// Whether a query with another method is refused, and in a `POST` a body.
    pub(crate) guards_method: bool,
}

/// The method that header fields ask for. An empty one is none.
///
/// # Errors
/// If there are several, of which upstreams take the first or the last, or if the value is no method.
pub(crate) fn asked_method(headers: &HeaderMap) -> Result<Option<Method>, Refusal> {
    let fields = headers.iter().filter(|(name, _)| is_one_of(name, &METHOD_HEADERS));
    let elements = fields.flat_map(|(_, value)| value.as_bytes().split(|&byte| byte == b','));
    let mut methods = elements.map(<[u8]>::trim_ascii).filter(|text| !text.is_empty());
    let unclear = || Refusal::ambiguous_header(Direction::Request, UNCLEAR_METHOD);
    match (methods.next(), methods.next()) {
        (None, _) => Ok(None),
        (Some(only), None) => Method::from_bytes(only).map(Some).map_err(|_| unclear()),
        (Some(_), Some(_)) => Err(unclear()),
    }
}

/// Whether a header field may ask for another method.
pub(crate) fn has_method_header(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| is_one_of(name, &METHOD_HEADERS))
}

/// Whether upstreams take the method for `POST`; some ignore case.
pub(crate) fn is_post(method: &Method) -> bool {
    method.as_str().eq_ignore_ascii_case("post")
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
        LazyLock::new(|| Arc::new(FieldNames::new(METHOD_FIELDS).guarded(CaseFold::Refuse, &FieldNames::default())));
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
        assert!(may_name_method("_METHOD=put") && may_name_method("_meth%6fd=put") && !may_name_method("a=b"));
    }

    #[test]
    fn one_method_is_asked_for_in_any_punctuation() {
        let asked = |fields: &[(&str, &'static str)]| {
            let field = |(name, value): &(&str, &'static str)| {
                (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_static(value))
            };
            let headers: HeaderMap = fields.iter().map(field).collect();
            assert_eq!(has_method_header(&headers), fields.iter().any(|(name, _)| *name != "accept"));
            asked_method(&headers).map_err(|refusal| refusal.code.as_str())
        };
        let (put, unclear) = (Ok(Some(Method::PUT)), Err("ambiguous_header"));
        for name in ["X-HTTP-Method-Override", "x_method_override", "X-REST-Method", "X-Tunneled-Method"] {
            assert_eq!(asked(&[(name, " PUT")]), put, "{name}");
            assert_eq!(asked(&[(name, ", PUT ,")]), put, "{name}");
            assert_eq!(asked(&[(name, "")]), Ok(None), "{name}");
            assert_eq!(asked(&[(name, "PUT, PUT")]), unclear, "{name}");
            assert_eq!(asked(&[(name, "a b")]), unclear, "{name}");
        }
        assert_eq!(asked(&[("x-http-method", ""), ("x-rest-method", "PUT")]), put);
        assert_eq!(asked(&[("x-http-method", "PUT"), ("x-rest-method", "PUT")]), unclear);
        assert_eq!(asked(&[("accept", "PUT")]), Ok(None));
    }
}
