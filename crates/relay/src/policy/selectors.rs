//! What a rule selects: the kinds of selectors, their keys in the file, and how they are read.
//!
//! Whatever is asked of all kinds is answered here, so that no other file lists them, and by destructuring, so that no answer compiles
//! without a new kind. What a kind hides from readers of other parts is in [`Hidden`](super::Hidden), and how a rule is applied to a part
//! of a message is in `rules/`.

use std::sync::Arc;

use hyper::header::{self, HeaderName, HeaderValue};
use leafseal_config::{Spanned, parse_each, settings};
use leafseal_document::form::{FieldNames, is_field_name};
use leafseal_document::{CaseFold, DocumentLimits, Selection};

use super::types::TypeKind;

/// The longest name of a field that a rule may have.
pub(crate) const FIELD_NAME_SIZE_MIN: usize = 256;

/// Header fields that frame or route a message: no rule may change them.
const FRAMING: [HeaderName; 16] = [
    header::ACCEPT_ENCODING,
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::CONTENT_TYPE,
    header::EXPECT,
    header::HOST,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::RANGE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::VIA,
];

settings! {
    /// The selectors of a rule, as the file has them.
    #[derive(Debug)]
    pub(crate) struct SelectorKeys: FileTable {
        /// JSONPath selectors of values in JSON bodies.
        pub json: Vec<Spanned<String>> = Vec::new();
        /// Names of form fields; `*` selects all.
        pub form: Vec<Spanned<String>> = Vec::new();
        /// Names of query parameters, in requests; `*` selects all.
        pub query: Vec<Spanned<String>> = Vec::new();
        /// Names of header fields.
        pub headers: Vec<Spanned<String>> = Vec::new();
    }
}

/// The selectors of a rule. A part of a message for which there are none is not read.
#[derive(Clone, Debug, Default)]
pub struct Selectors {
    /// JSON values.
    pub json: Option<JsonFields>,
    /// Form fields.
    pub form: Arc<FieldNames>,
    /// Query parameters.
    pub query: Arc<FieldNames>,
    /// Header fields.
    pub headers: Vec<HeaderName>,
}

/// Selected values of JSON documents.
#[derive(Clone, Debug)]
pub struct JsonFields {
    /// JSONPath selectors, for the engine.
    pub selectors: Arc<[String]>,
    /// The compiled selectors.
    pub selection: Selection,
}

impl Selectors {
    /// Those of every value in bodies.
    pub(crate) fn everything_in_bodies() -> Self {
        Selectors {
            json: Some(JsonFields { selectors: Arc::new(["$".to_owned()]), selection: Selection::everything() }),
            form: Arc::new(FieldNames::new(["*"])),
            ..Selectors::default()
        }
    }

    /// Whether they select nothing.
    pub fn is_empty(&self) -> bool {
        !self.read_bodies() && !self.read_heads()
    }

    /// Whether they read bodies.
    pub fn read_bodies(&self) -> bool {
        let Selectors { json, form, query: _, headers: _ } = self;
        json.is_some() || !form.is_empty()
    }

    /// Whether they read what comes before the body.
    pub fn read_heads(&self) -> bool {
        let Selectors { json: _, form: _, query, headers } = self;
        !headers.is_empty() || !query.is_empty()
    }

    /// Whether they read bodies of this type.
    pub(crate) fn read(&self, kind: TypeKind) -> bool {
        match kind {
            TypeKind::Json | TypeKind::JsonLines => self.json.is_some(),
            TypeKind::Urlencoded | TypeKind::Multipart => !self.form.is_empty(),
        }
    }

    /// Whether they select form fields, or values that many upstreams read as such.
    pub(crate) fn select_fields(&self) -> bool {
        let Selectors { json: _, form, query, headers: _ } = self;
        !form.is_empty() || !query.is_empty()
    }

    /// Compares names in this way. Compiled JSON selectors do so already.
    pub(crate) fn in_case(&mut self, case: CaseFold) {
        let Selectors { json: _, form, query, headers: _ } = self;
        for names in [form, query] {
            *names = Arc::new(Arc::unwrap_or_clone(std::mem::take(names)).in_case(case));
        }
    }

    /// Returns the kind of a value that both select, if there may be one.
    pub(crate) fn may_overlap(&self, other: &Selectors) -> Option<&'static str> {
        let Selectors { json: _, form, query, headers } = self;
        let parts = [
            ("JSON value", self.compare_json(other, Selection::may_overlap)),
            ("form field", form.may_overlap(&other.form)),
            ("query parameter", query.may_overlap(&other.query)),
            ("header field", headers.iter().any(|name| other.headers.contains(name))),
        ];
        parts.into_iter().find_map(|(part, overlaps)| overlaps.then_some(part))
    }

    /// Whether both select a JSON value by names that differ only in case. Fields of forms and queries are refused only if no rule has
    /// their own spelling.
    pub(crate) fn may_be_confused_with(&self, other: &Selectors) -> bool {
        self.compare_json(other, Selection::may_be_confused_with)
    }

    fn compare_json(&self, other: &Selectors, compare: fn(&Selection, &Selection) -> bool) -> bool {
        match (&self.json, &other.json) {
            (Some(one), Some(other)) => compare(&one.selection, &other.selection),
            _ => false,
        }
    }

    /// Whether a header field is selected that frames or routes the message.
    pub(crate) fn change_framing(&self) -> bool {
        self.headers.iter().any(|name| FRAMING.contains(name))
    }
}

impl SelectorKeys {
    /// Compiles the selectors of the rule at `offset`; faults are reported with their offsets.
    pub(crate) fn compile(
        &self,
        offset: usize,
        (names, hides): (CaseFold, bool),
        report: &mut impl FnMut(usize, String),
    ) -> Selectors {
        let SelectorKeys { json, form, query, headers } = self;
        if [json, form, query, headers].into_iter().all(Vec::is_empty) {
            report(offset, "the rule selects nothing: set json, form, query or headers".to_owned());
        }
        let limits = DocumentLimits::default();
        let parse_selector = |text: &str| Selection::parse(&[text], &limits).map(|_| text.to_owned());
        let selectors = parse_each(json, "selector", parse_selector, report);
        let mut builder = Selection::builder(&limits).other_case(names).unambiguous(hides);
        let added = selectors.iter().try_for_each(|selector| builder.add(selector));
        let selection = added.map(|()| builder.finish()).unwrap_or_else(|error| {
            report(offset, format!("selectors: {error}"));
            Selection::everything()
        });
        Selectors {
            json: (!json.is_empty()).then_some(JsonFields { selectors: selectors.into(), selection }),
            form: Arc::new(FieldNames::new(parse_each(form, "form field", parse_field_name, report))),
            query: Arc::new(FieldNames::new(parse_each(query, "query parameter", parse_field_name, report))),
            headers: parse_each(headers, "header", parse_header, report),
        }
    }

    /// Whether they read bodies.
    pub(crate) fn read_bodies(&self) -> bool {
        let SelectorKeys { json, form, query: _, headers: _ } = self;
        !json.is_empty() || !form.is_empty()
    }

    /// Whether they read JSON and nothing else.
    pub(crate) fn read_json_alone(&self) -> bool {
        let SelectorKeys { json, form, query, headers } = self;
        !json.is_empty() && form.is_empty() && query.is_empty() && headers.is_empty()
    }

    /// The fault of selectors that only requests have, in a rule for responses.
    pub(crate) fn fault_in_responses(&self) -> Option<&'static str> {
        let is_faulty = !self.query.is_empty();
        is_faulty.then_some("`query` is only valid for requests: remove it from this response rule")
    }

    /// The fault of a text that replaces selected values and cannot be written where these are.
    pub(crate) fn fault_of_replacement(&self, replacement: &str) -> Option<&'static str> {
        let is_faulty = HeaderValue::from_str(replacement).is_err() && !self.headers.is_empty();
        is_faulty.then_some("`replacement` is not a valid header value")
    }
}

/// Returns warnings about rules of a request that hide every field of one source, so that the same field in another cannot be recognised
/// by its name. `hiding`: the offsets and selectors of rules that hide something.
pub(crate) fn warnings_of_other_sources(hiding: &[(usize, &SelectorKeys)]) -> Vec<(usize, &'static str)> {
    let find_all = |of: fn(&SelectorKeys) -> &[Spanned<String>]| {
        let is_all = |keys: &SelectorKeys| of(keys).iter().any(|name| name.get_ref() == "*");
        hiding.iter().find(|(_, keys)| is_all(keys)).map(|&(offset, _)| offset)
    };
    let (forms, queries) = (find_all(|keys| &keys.form), find_all(|keys| &keys.query));
    let mut warnings = Vec::new();
    match (forms, queries) {
        (Some(offset), None) => warnings.push((
            offset,
            "requests with a parameter in the query are refused unless a rule hides it with `query`, because many upstreams read \
             query and form as one: set query = [\"*\"] too, or select form fields by name",
        )),
        (None, Some(offset)) => warnings.push((
            offset,
            "forms with a field that no rule hides with `form` are refused, because many upstreams read query and form as one: set \
             form = [\"*\"] too, or select parameters by name",
        )),
        _ => {}
    }
    let is_cookie = |name: &Spanned<String>| name.get_ref().eq_ignore_ascii_case(header::COOKIE.as_str());
    let cookies_are_hidden = hiding.iter().any(|(_, keys)| keys.headers.iter().any(is_cookie));
    if let Some(offset) = forms.or(queries).filter(|_| !cookies_are_hidden) {
        warnings.push((
            offset,
            "a cookie may have the name of any field, which `*` does not list, and upstreams that read cookies as parameters (PHP's \
             $_REQUEST without request_order) would find its value in the clear: select fields by name, or configure the upstream",
        ));
    }
    warnings
}

/// The name of a form field or query parameter.
fn parse_field_name(text: &str) -> Result<String, &'static str> {
    let is_valid = is_field_name(text) && text.len() <= FIELD_NAME_SIZE_MIN;
    is_valid
        .then(|| text.to_owned())
        .ok_or("a name must not be empty or contain control characters, and must have at most 256 bytes")
}

fn parse_header(text: &str) -> Result<HeaderName, &'static str> {
    let name = HeaderName::from_bytes(text.as_bytes()).map_err(|_| "not a valid header name")?;
    if FRAMING.contains(&name) {
        return Err("this header frames or routes the message and cannot be changed");
    }
    Ok(name)
}
