//! What the rules of a direction hide, for the parts of a message that these rules do not read: another source of the same field, or a body
//! of another type.

use std::sync::Arc;

use hyper::header;
use leafseal_document::form::FieldNames;
use leafseal_document::{CaseFold, FieldPath, Selection};

use super::{JsonFields, OtherSources, Rule};
use crate::json_text::MemberNames;

/// Values that the rules of a direction hide, for parts of a message that these rules do not read.
#[derive(Clone, Debug)]
pub struct Hidden {
    /// Whether values of JSON documents are hidden.
    pub json: bool,
    /// The selectors of these values, rule by rule.
    pub selections: Arc<[Selection]>,
    /// The names under which these values are members, for texts of JSON inside of other values.
    pub(crate) members: Arc<MemberNames>,
    /// Whether a document that is a single value is hidden.
    pub json_root: bool,
    /// The form fields that are hidden.
    pub form: Arc<FieldNames>,
    /// The parameters of the query that are hidden.
    pub query: Arc<FieldNames>,
    /// Form fields that are hidden by name, for bodies of another type.
    pub in_bodies: Arc<FieldNames>,
    /// Hidden form fields that no rule hides in the query.
    pub in_query: Elsewhere,
    /// Hidden parameters of the query, and values hidden in JSON, that no rule hides in forms.
    pub in_forms: Arc<FieldNames>,
    /// Members of documents by which frameworks read hidden form fields and parameters, as far as no rule shows by its names that it
    /// hides them in JSON; and names of members that are paths to hidden values.
    pub in_json: Option<Selection>,
    /// Form fields and parameters that are hidden by name, for cookies.
    pub in_cookies: Elsewhere,
    /// Whether the field `Cookie` as a whole is hidden.
    pub cookies_are_hidden: bool,
    /// How names are compared.
    pub case: CaseFold,
}

/// Fields that are hidden in another source than the one that is searched for them.
#[derive(Clone, Debug)]
pub struct Elsewhere {
    fields: Arc<FieldNames>,
    /// The same, with the names of values that are hidden in JSON.
    with_json: Arc<FieldNames>,
}

impl Elsewhere {
    /// `may_set`: whether the request may set values that JSON sets too: its method is not safe, or it has a body.
    pub fn names(&self, may_set: bool) -> &Arc<FieldNames> {
        if may_set { &self.with_json } else { &self.fields }
    }
}

impl Hidden {
    pub(super) fn new(rules: &[Rule], case: CaseFold, other_sources: OtherSources) -> Self {
        let hiding = || rules.iter().filter(|rule| rule.hides()).map(|rule| &rule.selectors);
        let form = FieldNames::union(hiding().map(|selectors| &*selectors.form));
        let query = FieldNames::union(hiding().map(|selectors| &*selectors.query));
        let selections: Arc<[Selection]> =
            hiding().filter_map(|selectors| selectors.json.as_ref()).map(|fields| fields.selection.clone()).collect();
        let refuses = other_sources == OtherSources::Refuse;
        let paths: Vec<FieldPath> = match refuses {
            true => selections.iter().flat_map(Selection::field_names).collect(),
            false => Vec::new(),
        };
        let hidden_paths: &[Selection] = if refuses { &selections } else { &[] };
        let fields = || form.iter().chain(query.iter()).filter(|_| refuses);
        let folds = if case == CaseFold::Other { CaseFold::Other } else { CaseFold::Same };
        let selects_root = |fields: &JsonFields| fields.selectors.iter().any(|selector| selector == "$");
        // What is hidden here and not there, where it would be read as the same field.
        let elsewhere = |here: &FieldNames, paths: &[FieldPath], there: &FieldNames| {
            if here.is_everything() || there.is_everything() {
                let is_left = here.is_everything() && !there.is_everything();
                return Arc::new(if is_left { FieldNames::everything_except(there) } else { FieldNames::default() });
            }
            let here = FieldNames::new(here.iter()).with_paths(paths).without(there);
            Arc::new(here.guarded(case, there))
        };
        let named = |names: &[&FieldNames], paths: &[FieldPath]| {
            let names = FieldNames::new(names.iter().flat_map(|names| names.iter())).with_paths(paths);
            Arc::new(names.guarded(case, &FieldNames::default()))
        };
        Hidden {
            json: hiding().any(|selectors| selectors.json.is_some()),
            members: Arc::new(MemberNames::new(&selections, fields(), case)),
            in_json: Selection::guard(fields(), hidden_paths, folds),
            json_root: hiding().any(|selectors| selectors.json.as_ref().is_some_and(selects_root)),
            in_bodies: named(&[&form], &[]),
            in_query: Elsewhere { fields: elsewhere(&form, &[], &query), with_json: elsewhere(&form, &paths, &query) },
            in_forms: elsewhere(&query, &paths, &form),
            in_cookies: Elsewhere { fields: named(&[&form, &query], &[]), with_json: named(&[&form, &query], &paths) },
            cookies_are_hidden: hiding().any(|selectors| selectors.headers.contains(&header::COOKIE)),
            form: Arc::new(form.clone().guarded(case, &form)),
            query: Arc::new(query.clone().guarded(case, &query)),
            selections,
            case,
        }
    }
}
