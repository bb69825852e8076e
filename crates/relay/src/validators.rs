//! Validators and digests of messages whose bodies rules change (RFC 9110, sections 8.8 and 13; RFC 9530).
//!
//! A body that a rule changed has other bytes than the upstream's representation, so its entity tag becomes weak and its digests are
//! removed. Answers without that body (`HEAD`, 304, 204) get the same tag. Clients send the weak tag back in conditions; the upstream
//! compares the tag that it made, so the relay adds the strong tag beside each weak one.
//!
//! A tag may be a digest of the body, with which short values that a rule redacts can be found by trying. Where rules redact, the tag is
//! therefore removed, and safe requests have no conditions on tags, which would compare a guessed one.

use std::collections::HashSet;

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

/// Fields that depend on the body's bytes: invalid once these change.
const OF_BYTES: [HeaderName; 10] = [
    header::ACCEPT_RANGES,
    header::CONTENT_LENGTH,
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("repr-digest"),
    header::TRAILER,
    HeaderName::from_static("x-goog-hash"),
    HeaderName::from_static("x-ms-blob-content-md5"),
    HeaderName::from_static("x-ms-content-crc64"),
];
/// Digests of the resource as the upstream has it, whatever the answer's content is.
const OF_RESOURCE: [HeaderName; 6] = [
    header::ETAG,
    HeaderName::from_static("digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("x-goog-hash"),
    HeaderName::from_static("x-ms-blob-content-md5"),
    HeaderName::from_static("x-ms-content-crc64"),
];
/// A part of the names of further ones (`x-amz-checksum-sha256`, `x-oss-hash-crc64ecma`, `x-bz-content-sha1`).
const DIGEST_WORDS: [&str; 6] = ["checksum", "crc32", "crc64", "md5", "sha1", "sha256"];
/// A suffix of further ones (`docker-content-digest`, `x-linked-etag`).
const DIGEST_ENDINGS: [&str; 3] = ["-digest", "-hash", "-etag"];
/// A field of signed requests, whose value need not be a digest (Signature Version 4 of AWS).
const OF_SIGNATURE: &str = "x-amz-content-sha256";
/// Conditions by entity tag. `If-Range` is not among them: a part of the upstream's bytes does not complete a changed body.
const CONDITIONS: [HeaderName; 2] = [header::IF_MATCH, header::IF_NONE_MATCH];
const WEAK: &[u8] = b"W/";

/// An entity tag of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EntityTag<'v> {
    is_weak: bool,
    /// With its quotation marks.
    opaque: &'v [u8],
}

/// The tags in `If-None-Match`, as the client sent them.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownTags(Vec<HeaderValue>);

impl KnownTags {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        KnownTags(headers.get_all(header::IF_NONE_MATCH).iter().cloned().collect())
    }

    /// Whether the client has a body under this strong tag, and none under its weak form: no rule changed that body.
    fn has_unchanged(&self, tag: &HeaderValue) -> bool {
        let tags: Option<Vec<Vec<EntityTag<'_>>>> = self.0.iter().map(|value| entity_tags(value.as_bytes())).collect();
        let tags = tags.unwrap_or_default().concat();
        let has = |is_weak| tags.contains(&EntityTag { is_weak, opaque: tag.as_bytes() });
        has(false) && !has(true)
    }
}

/// Adds to each weak tag of the conditions the strong tag that the upstream may have made. A malformed field stays as it is.
pub(crate) fn restore_conditions(headers: &mut HeaderMap) {
    for name in &CONDITIONS {
        if !headers.contains_key(name) {
            continue;
        }
        let lines: Vec<HeaderValue> = headers.get_all(name).iter().map(restored).collect();
        headers.remove(name);
        for line in lines {
            headers.append(name, line);
        }
    }
}

fn restored(line: &HeaderValue) -> HeaderValue {
    let Some(tags) = entity_tags(line.as_bytes()) else { return line.clone() };
    let mut strong: HashSet<&[u8]> = tags.iter().filter(|tag| !tag.is_weak).map(|tag| tag.opaque).collect();
    let weak = tags.iter().filter(|tag| tag.is_weak).map(|tag| tag.opaque);
    let added: Vec<&[u8]> = weak.filter(|&opaque| strong.insert(opaque)).collect();
    if added.is_empty() {
        return line.clone();
    }
    let all = [&[line.as_bytes()][..], &added].concat().join(&b", "[..]);
    HeaderValue::from_bytes(&all).unwrap_or_else(|_| line.clone())
}

/// Parses a list of entity tags; `None` if it is anything else, such as `*`. Tags may contain commas.
fn entity_tags(value: &[u8]) -> Option<Vec<EntityTag<'_>>> {
    let is_filler = |byte: &u8| matches!(byte, b' ' | b'\t' | b',');
    let mut tags = Vec::new();
    let mut rest = value;
    loop {
        let gap = rest.iter().position(|byte| !is_filler(byte)).unwrap_or(rest.len());
        // Two tags are separated by a comma.
        if !tags.is_empty() && gap < rest.len() && !rest[..gap].contains(&b',') {
            return None;
        }
        rest = &rest[gap..];
        if rest.is_empty() {
            return Some(tags);
        }
        let is_weak = rest.starts_with(WEAK);
        let quoted = if is_weak { &rest[WEAK.len()..] } else { rest };
        let inner = quoted.strip_prefix(b"\"")?;
        let end = inner.iter().position(|&byte| byte == b'"')?;
        if !inner[..end].iter().all(|&byte| byte > b' ' && byte != 0x7f) {
            return None;
        }
        tags.push(EntityTag { is_weak, opaque: &quoted[..end + 2] });
        rest = &inner[end + 1..];
    }
}

/// Removes conditions on tags from a request that only reads, and whose answer rules redact: whether a tag is the upstream's would
/// confirm a guess of what is hidden. The answer is then a whole one.
pub(crate) fn remove_conditions(headers: &mut HeaderMap) {
    for name in &CONDITIONS {
        headers.remove(name);
    }
}

/// The action for the upstream's tag where a rule changes the body, or may change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tags {
    /// It becomes weak.
    Weaken,
    /// It is removed: rules redact, and it may be a digest of what they hide.
    Remove,
}

impl Tags {
    fn apply(self, headers: &mut HeaderMap) {
        match self {
            Tags::Weaken => weaken_tag(headers),
            Tags::Remove => drop(headers.remove(header::ETAG)),
        }
    }
}

/// Adapts the header to a body with other bytes.
pub(crate) fn update_for_new_body(headers: &mut HeaderMap, size: usize, tags: Tags) {
    remove_digests(headers);
    tags.apply(headers);
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(size));
}

/// Adapts the header to the same bytes, which the relay has read completely: it sends them without trailers.
pub(crate) fn update_for_same_body(headers: &mut HeaderMap, size: usize) {
    headers.remove(header::TRAILER);
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(size));
}

/// Adapts the header of an answer without the body that it describes, which a rule may change. A tag that is not removed stays strong only
/// if the client has an unchanged body under it.
pub(crate) fn update_for_absent_body(headers: &mut HeaderMap, known: &KnownTags, tags: Tags) {
    remove_digests(headers);
    if tags == Tags::Remove || !headers.get(header::ETAG).is_some_and(|tag| known.has_unchanged(tag)) {
        tags.apply(headers);
    }
}

/// Adapts the header of an answer whose content is not the resource that its tag stands for, and which rules redact.
pub(crate) fn remove_resource_digests(headers: &mut HeaderMap) {
    remove_fields(headers, &OF_RESOURCE);
}

/// Adapts the header to a body that the relay withholds: nothing describes it any more.
pub(crate) fn update_for_withheld_body(headers: &mut HeaderMap) {
    const OF_CONTENT: [HeaderName; 4] =
        [header::CONTENT_TYPE, header::CONTENT_ENCODING, header::CONTENT_LANGUAGE, header::CONTENT_DISPOSITION];
    for name in &OF_CONTENT {
        headers.remove(name);
    }
    update_for_new_body(headers, 0, Tags::Remove);
}

/// Makes the tag weak: the bytes that it stands for upstream are not those that the client has.
pub(crate) fn weaken_tag(headers: &mut HeaderMap) {
    let Some(tag) = headers.get(header::ETAG).filter(|tag| !tag.as_bytes().starts_with(WEAK)) else { return };
    match HeaderValue::from_bytes(&[WEAK, tag.as_bytes()].concat()) {
        Ok(weak) => headers.insert(header::ETAG, weak),
        Err(_) => headers.remove(header::ETAG),
    };
}

fn remove_digests(headers: &mut HeaderMap) {
    remove_fields(headers, &OF_BYTES);
}

/// Removes these fields, and digests of other names.
fn remove_fields(headers: &mut HeaderMap, names: &[HeaderName]) {
    let digests: Vec<HeaderName> = headers.keys().filter(|name| is_digest(name.as_str())).cloned().collect();
    for name in names.iter().chain(&digests) {
        headers.remove(name);
    }
}

/// Whether a field has a digest of content, by its name.
fn is_digest(name: &str) -> bool {
    let is_digest = DIGEST_WORDS.iter().any(|word| name.contains(word))
        || DIGEST_ENDINGS.iter().any(|ending| name.ends_with(ending));
    // Those of the content itself are in the lists.
    is_digest && name != OF_SIGNATURE && !["want-", "content-"].iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_known_by_their_names() {
        for name in [
            "x-amz-checksum-sha256",
            "x-bz-content-sha1",
            "x-cos-hash-crc64ecma",
            "x-oss-hash-crc64ecma",
            "x-checksum-sha256",
            "docker-content-digest",
            "x-linked-etag",
            "x-content-hash",
        ] {
            assert!(is_digest(name), "{name}");
        }
        for name in [
            "etag",
            "content-digest",
            "x-amz-content-sha256",
            "want-repr-digest",
            "content-type",
            "sec-websocket-accept",
        ] {
            assert!(!is_digest(name), "{name}");
        }
    }

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let field = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        fields.iter().map(field).collect()
    }

    #[test]
    fn conditions_name_the_tag_that_the_upstream_made() {
        for (sent, expected) in [
            ("W/\"v1\"", "W/\"v1\", \"v1\""),
            ("\"v1\"", "\"v1\""),
            ("W/\"v1\", \"v1\"", "W/\"v1\", \"v1\""),
            ("W/\"a,b\" ,, W/\"c\"", "W/\"a,b\" ,, W/\"c\", \"a,b\", \"c\""),
            ("W/\"a\", W/\"a\"", "W/\"a\", W/\"a\", \"a\""),
            ("\"x\", W/\"y\",", "\"x\", W/\"y\",, \"y\""),
            ("*", "*"),
            ("w/\"v1\"", "w/\"v1\""),
            ("W/\"v1", "W/\"v1"),
            ("W/\"v1\" W/\"v2\"", "W/\"v1\" W/\"v2\""),
            ("W/v1", "W/v1"),
            ("W/\"\"", "W/\"\", \"\""),
            ("", ""),
        ] {
            for name in ["if-match", "if-none-match"] {
                let mut request = headers(&[(name, sent), ("if-range", "W/\"v1\"")]);
                restore_conditions(&mut request);
                assert_eq!(request, headers(&[(name, expected), ("if-range", "W/\"v1\"")]), "{sent}");
            }
        }
        let mut lines = headers(&[("if-match", "W/\"a\""), ("if-match", "\"b\"")]);
        restore_conditions(&mut lines);
        assert_eq!(lines, headers(&[("if-match", "W/\"a\", \"a\""), ("if-match", "\"b\"")]));
    }

    #[test]
    fn marks_of_old_bytes_do_not_stay() {
        let old = [
            ("etag", "\"a\""),
            ("digest", "x"),
            ("content-digest", "x"),
            ("x-amz-checksum-sha256", "x"),
            ("x-goog-hash", "x"),
            ("content-length", "9"),
            ("x", "y"),
        ];
        let mut redacted = headers(&old);
        update_for_new_body(&mut redacted, 12, Tags::Remove);
        assert_eq!(redacted, headers(&[("x", "y"), ("content-length", "12")]));
        let mut answer = headers(&old);
        update_for_new_body(&mut answer, 12, Tags::Weaken);
        assert_eq!(answer, headers(&[("etag", "W/\"a\""), ("x", "y"), ("content-length", "12")]));
        let mut same = headers(&old);
        update_for_same_body(&mut same, 9);
        assert_eq!(same, headers(&old));
        let mut weak = headers(&[("etag", "W/\"a\"")]);
        weaken_tag(&mut weak);
        assert_eq!(weak, headers(&[("etag", "W/\"a\"")]));
    }

    #[test]
    fn a_304_has_the_tag_of_the_body_that_the_client_has() {
        for (known, expected) in [
            ("\"v1\"", "\"v1\""),
            ("\"v0\", \"v1\"", "\"v1\""),
            ("W/\"v1\"", "W/\"v1\""),
            ("W/\"v1\", \"v1\"", "W/\"v1\""),
            ("\"v0\"", "W/\"v1\""),
            ("*", "W/\"v1\""),
        ] {
            let known_tags = KnownTags::of(&headers(&[("if-none-match", known)]));
            let mut answer = headers(&[("etag", "\"v1\""), ("repr-digest", "x"), ("content-length", "9")]);
            update_for_absent_body(&mut answer, &known_tags, Tags::Weaken);
            assert_eq!(answer, headers(&[("etag", expected)]), "{known}");
            answer.insert("etag", HeaderValue::from_static("\"v1\""));
            update_for_absent_body(&mut answer, &known_tags, Tags::Remove);
            assert!(answer.is_empty(), "{known}: {answer:?}");
        }
        let mut answer = headers(&[("etag", "\"v1\"")]);
        update_for_absent_body(&mut answer, &KnownTags::default(), Tags::Weaken);
        assert_eq!(answer, headers(&[("etag", "W/\"v1\"")]));
    }

    #[test]
    fn nothing_describes_a_withheld_body() {
        let mut answer = headers(&[
            ("content-type", "text/html"),
            ("content-encoding", "br"),
            ("content-length", "9"),
            ("location", "/login"),
            ("etag", "\"a\""),
        ]);
        update_for_withheld_body(&mut answer);
        assert_eq!(answer, headers(&[("location", "/login"), ("content-length", "0")]));
    }
}
