//! Which bodies the rules of a direction take: types, patches, and rules that must match.

use leafseal_config::Spanned;

use super::super::schema;
use super::Reader;
use crate::policy::types::{MediaTypes, PATCH_TYPE, TypeKind};
use crate::policy::{Action, Bodies, Embedded, Mismatch, OtherSources, Patches, Rule};

/// What a route or destination sets for the bodies of one direction.
pub(super) struct DirectionSettings<'s> {
    pub(super) mismatch: Option<Mismatch>,
    pub(super) types: &'s [Spanned<String>],
    pub(super) patches: Option<&'s Spanned<Patches>>,
    pub(super) embedded_json: Embedded,
    pub(super) other_sources: OtherSources,
}

impl<'s> DirectionSettings<'s> {
    pub(super) fn of_request(bodies: &'s schema::BodySettings) -> Self {
        let schema::BodySettings { types, request_mismatch: mismatch, patches, embedded_json, other_sources, .. } =
            bodies;
        DirectionSettings {
            mismatch: *mismatch,
            types,
            patches: patches.as_ref(),
            embedded_json: *embedded_json,
            other_sources: *other_sources,
        }
    }

    /// Those of responses, which have one source.
    pub(super) fn of_response(bodies: &'s schema::BodySettings) -> Self {
        let (mismatch, types) = (bodies.response_mismatch, bodies.response_types.as_slice());
        DirectionSettings { mismatch, types, other_sources: OtherSources::Pass, ..Self::of_request(bodies) }
    }
}

impl Reader<'_> {
    pub(super) fn bodies(&mut self, settings: &DirectionSettings<'_>, rules: &[Rule]) -> Bodies {
        // Values to hide must not pass because of an unknown type; values to reveal may stay hidden.
        let hides = rules.iter().any(Rule::hides);
        let default = if hides { Mismatch::Refuse } else { Mismatch::Pass };
        let mismatch = settings.mismatch.unwrap_or(default);
        let patches = settings.patches.map_or(Patches::Refuse, |patches| *patches.get_ref());
        let types = MediaTypes::new(self.each(settings.types, "type", MediaTypes::parse_one));
        let hides_in_json = rules.iter().any(|rule| rule.hides() && rule.selectors.json.is_some());
        for spanned in settings.types {
            let Ok(essence) = MediaTypes::parse_one(spanned.get_ref()) else { continue };
            if !rules.iter().any(|rule| rule.selectors.read(TypeKind::of_listed(&essence)) && (rule.hides() || !hides))
            {
                let message =
                    format!("no rule of this direction reads bodies of type {essence}: add one, or remove the type");
                self.problem(spanned.span().start, message);
            }
            if &*essence == PATCH_TYPE && patches == Patches::Refuse && hides_in_json {
                let message = "a JSON Patch is refused where a rule hides values in JSON: set patches = \"operations\", \
                               which compares the paths of its operations with the selectors";
                self.problem(spanned.span().start, message);
            }
        }
        let DirectionSettings { embedded_json, other_sources, .. } = *settings;
        Bodies { mismatch, types, patches, embedded_json, other_sources }
    }

    /// Reports selectors that cannot be compared with the paths of operations.
    pub(super) fn check_patches(&mut self, patches: Option<&Spanned<Patches>>, rules: &[&[Rule]]) {
        let Some(spanned) = patches.filter(|patches| *patches.get_ref() == Patches::Operations) else { return };
        let selections = || rules.iter().copied().flatten().filter_map(|rule| rule.selectors.json.as_ref());
        if selections().next().is_none() {
            self.problem(spanned.span().start, "`patches` needs a rule with `json`");
        }
        if rules.iter().copied().flatten().any(|rule| rule.sealing.binds_places()) {
            let message = "with patches = \"operations\" no rule may have `context_select` or `bind`: a patch does not show where in \
                           the document its values will be";
            self.problem(spanned.span().start, message);
        }
        if selections().any(|fields| !fields.selection.is_of_names()) {
            let message = "with patches = \"operations\" selectors must consist of names and wildcards: a patch does not show the \
                           values that a filter needs, and moves the elements that an index counts";
            self.problem(spanned.span().start, message);
        }
    }

    /// Reads `require_match` of a rule.
    pub(super) fn require_match(&mut self, rule: &schema::Rule, offset: usize) -> bool {
        let reads_bodies = rule.selectors.read_bodies();
        if rule.require_match.is_some() && !reads_bodies {
            self.problem(offset, "`require_match` is only valid in a rule with `json` or `form`");
        }
        if rule.require_match.is_none() && reads_bodies && rule.action != Action::Decrypt {
            self.warning(
                offset,
                "a value passes in the clear if the body has another shape than the selectors expect, although lenient parsers may \
                 find it (one object where a list is expected, for example): set require_match = true, or false if the values are \
                 optional",
            );
        }
        rule.require_match.unwrap_or(false)
    }
}
