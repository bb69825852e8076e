//! The media types of the bodies that a route takes, and the `Content-Type` that the relay writes for them.
//!
//! Frameworks search the header's value for words, or read parameters that others ignore. Where a rule hides something, a body is taken
//! only under an exact type whose documents are what the selectors are meant for, and the header is written from what the relay has read.

use std::fmt;

use hyper::header::HeaderValue;
use leafseal_config::settings;
use leafseal_document::form::MediaType;
use leafseal_http::JSON_LINES_TYPES;

/// The types that JSON selectors read where a rule hides something: documents that are the resource itself. A merge patch (RFC 7396)
/// has the shape of the resource; other types may describe changes, lists or parts, and must be listed.
const JSON_TYPES: [&str; 4] =
    ["application/json", "text/json", "application/merge-patch+json", "application/problem+json"];
/// The type of a JSON Patch (RFC 6902).
pub(crate) const PATCH_TYPE: &str = "application/json-patch+json";
pub(crate) const URLENCODED_TYPE: &str = "application/x-www-form-urlencoded";
pub(crate) const MULTIPART_TYPE: &str = "multipart/form-data";
/// Types that hold something else than one document or form.
const UNREADABLE: [&str; 2] = ["application/json-seq", "application/geo+json-seq"];

settings! {
    /// How a rule's selectors apply to the operations of a JSON Patch (RFC 6902).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Patches {
        /// A body that is or holds such a patch is refused, whatever its type.
        Refuse = "refuse",
        /// The paths of operations are compared with the selectors, which must consist of names and wildcards.
        Operations = "operations",
        /// Such a body is a document like any other.
        Document = "document",
    }
}

settings! {
    /// What becomes of a body with a JSON text inside, in a string or in a field of a form, in which a member has the name of a hidden
    /// value.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Embedded {
        /// It is refused: an upstream that parses the text reads these values.
        Refuse = "refuse",
        /// It passes.
        Pass = "pass",
    }
}

settings! {
    /// What becomes of a request with a value in its query, cookies or form that upstreams read as one which rules hide in JSON, or in a
    /// JSON document as one which they hide in forms or the query.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum OtherSources {
        /// The request is refused, unless its method is safe and it has no body.
        Refuse = "refuse",
        /// It passes.
        Pass = "pass",
    }
}

/// The exact types that a route lists; none if it lists nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MediaTypes {
    listed: Vec<Box<str>>,
}

/// The kinds of bodies that types stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TypeKind {
    Json,
    JsonLines,
    Urlencoded,
    Multipart,
}

/// Why a type cannot be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TypeError {
    /// Not `type/subtype`.
    #[error("must be an exact media type without parameters, such as \"application/vnd.api+json\"")]
    Malformed,
    /// A body of parts other than a form, or of several documents.
    #[error(
        "rules do not read bodies of this type: remove it, and set request_mismatch = \"pass\" if they may pass unread"
    )]
    Unreadable,
}

impl MediaTypes {
    /// No list.
    pub(crate) const NONE: MediaTypes = MediaTypes { listed: Vec::new() };

    pub(crate) fn new(listed: Vec<Box<str>>) -> Self {
        MediaTypes { listed }
    }

    /// Parses one listed type.
    ///
    /// # Errors
    /// If rules cannot read bodies of that type.
    pub(crate) fn parse_one(text: &str) -> Result<Box<str>, TypeError> {
        let media = MediaType::parse(text.as_bytes()).ok_or(TypeError::Malformed)?;
        if media.essence.len() != text.trim().len() {
            return Err(TypeError::Malformed);
        }
        let has_parts = media.essence.starts_with("multipart/") && !media.is_multipart();
        if has_parts || UNREADABLE.contains(&&*media.essence) {
            return Err(TypeError::Unreadable);
        }
        Ok(media.essence.into())
    }

    /// Whether the route lists types.
    pub(crate) fn is_listed(&self) -> bool {
        !self.listed.is_empty()
    }

    pub(crate) fn lists(&self, essence: &str) -> bool {
        self.listed.iter().any(|listed| **listed == *essence)
    }

    /// The listed types.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.listed.iter().map(|listed| &**listed)
    }

    /// Whether a body of this type is taken. Without a list: any type that rules read or, if `must_hide`, only those whose documents the
    /// selectors are meant for.
    pub(crate) fn take(&self, media: &MediaType, must_hide: bool, patches: Patches) -> bool {
        let essence = &*media.essence;
        if self.is_listed() {
            return self.lists(essence);
        }
        let is_patch = patches != Patches::Refuse && essence == PATCH_TYPE;
        let is_document = self.kind(media) == Some(TypeKind::Json);
        !must_hide || !is_document || is_patch || JSON_TYPES.contains(&essence)
    }

    /// How a body of this type is read, if it is taken: any listed type that is no form's is JSON.
    pub(crate) fn kind(&self, media: &MediaType) -> Option<TypeKind> {
        if media.is_urlencoded() {
            Some(TypeKind::Urlencoded)
        } else if media.is_multipart() {
            Some(TypeKind::Multipart)
        } else if JSON_LINES_TYPES.contains(&&*media.essence) {
            Some(TypeKind::JsonLines)
        } else {
            (media.is_json() || self.lists(&media.essence)).then_some(TypeKind::Json)
        }
    }
}

impl TypeKind {
    /// The kind of a listed type.
    pub(crate) fn of_listed(essence: &str) -> TypeKind {
        match essence {
            URLENCODED_TYPE => TypeKind::Urlencoded,
            MULTIPART_TYPE => TypeKind::Multipart,
            lines if JSON_LINES_TYPES.contains(&lines) => TypeKind::JsonLines,
            _ => TypeKind::Json,
        }
    }
}

/// `Content-Type` as the relay writes it for a body that it has read: the type in lower case, the boundary of a form of parts and, for
/// forms of clients that state their charset, `utf-8`, the only one that is read. Servers take other charsets for forms without one.
pub(crate) fn canonical(media: &MediaType) -> Option<HeaderValue> {
    let is_form = media.is_urlencoded() || media.is_multipart();
    let mut text = media.essence.clone();
    if let Some(boundary) = media.boundary.as_deref().filter(|_| media.is_multipart()) {
        text.push_str(&format!("; boundary={}", Quoted(boundary)));
    }
    if is_form && media.charset.is_some() {
        text.push_str("; charset=utf-8");
    }
    HeaderValue::from_str(&text).ok()
}

/// A parameter's value: in quotation marks only where it is no token, as some servers keep the marks.
struct Quoted<'v>(&'v str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_tchar = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        match self.0.bytes().all(is_tchar) {
            true => f.write_str(self.0),
            // Boundaries contain neither quotation marks nor backslashes.
            false => write!(f, "\"{}\"", self.0),
        }
    }
}

/// Whether a reader that searches the value of `Content-Type` for a word could take the body for another kind than that of its type.
pub(crate) fn is_misleading(value: &[u8], kind: Option<TypeKind>) -> bool {
    let names = |word| names(value, word);
    (names("json") && !matches!(kind, Some(TypeKind::Json | TypeKind::JsonLines)))
        || (names("urlencoded") && kind != Some(TypeKind::Urlencoded))
        || (names("multipart") && kind != Some(TypeKind::Multipart))
}

/// Whether such a reader could take the body for JSON.
pub(crate) fn names_json(value: &[u8]) -> bool {
    names(value, "json")
}

fn names(value: &[u8], word: &str) -> bool {
    memchr::memmem::find(&value.to_ascii_lowercase(), word.as_bytes()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn media(text: &str) -> MediaType {
        MediaType::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_type_is_written_without_the_words_of_the_client() {
        for (given, written) in [
            ("Application/JSON; charset=UTF-8; a=\"urlencoded\"", "application/json"),
            ("application/x-www-form-urlencoded; a=\"json\"", "application/x-www-form-urlencoded"),
            (
                "application/x-www-form-urlencoded;json=1;charset=us-ascii",
                "application/x-www-form-urlencoded; charset=utf-8",
            ),
            ("multipart/form-data; x=1; boundary=\"a\"", "multipart/form-data; boundary=a"),
            ("multipart/form-data; boundary=\"a:b\"", "multipart/form-data; boundary=\"a:b\""),
        ] {
            let canonical = canonical(&media(given)).unwrap();
            assert_eq!(canonical, written);
            assert_eq!(MediaType::parse(canonical.as_bytes()).unwrap().boundary, media(given).boundary, "{given}");
        }
    }

    #[test]
    fn only_documents_that_selectors_are_meant_for_are_taken_by_default() {
        let none = MediaTypes::default();
        let listed = MediaTypes::new(vec!["application/vnd.api+json".into(), "application/x-amz-json-1.1".into()]);
        for (text, by_default, is_listed) in [
            ("application/json", true, false),
            ("application/merge-patch+json", true, false),
            ("application/json-patch+json", false, false),
            ("application/scim+json", false, false),
            ("application/x-ndjson", true, false),
            ("application/stream+json", true, false),
            ("application/vnd.api+json", false, true),
            ("application/x-www-form-urlencoded", true, false),
        ] {
            assert_eq!(none.take(&media(text), true, Patches::Refuse), by_default, "{text}");
            assert_eq!(listed.take(&media(text), true, Patches::Refuse), is_listed, "{text}");
            assert!(none.take(&media(text), false, Patches::Refuse), "{text}");
        }
        assert!(none.take(&media("application/json-patch+json"), true, Patches::Operations));
        assert_eq!(listed.kind(&media("application/x-amz-json-1.1")), Some(TypeKind::Json));
        assert_eq!(none.kind(&media("application/x-amz-json-1.1")), None);
        for lines in JSON_LINES_TYPES {
            assert_eq!(none.kind(&media(lines)), Some(TypeKind::JsonLines), "{lines}");
            assert_eq!(TypeKind::of_listed(lines), TypeKind::JsonLines, "{lines}");
            assert!(none.take(&media(lines), true, Patches::Refuse), "{lines}");
        }
    }

    #[test]
    fn a_listed_type_is_exact() {
        assert_eq!(MediaTypes::parse_one("Application/Vnd.Api+JSON").as_deref(), Ok("application/vnd.api+json"));
        for text in ["application/json; charset=utf-8", "json", "*/*x y", ""] {
            assert_eq!(MediaTypes::parse_one(text), Err(TypeError::Malformed), "{text}");
        }
        for text in ["multipart/mixed", "application/json-seq"] {
            assert_eq!(MediaTypes::parse_one(text), Err(TypeError::Unreadable), "{text}");
        }
    }
}
