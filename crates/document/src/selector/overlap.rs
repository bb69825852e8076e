//! Whether two selections can select the same scalar, for warnings about rules: without a document, so filters may match anything.

use std::collections::BTreeSet;

use super::Selection;
use super::ast::{JsonPathQuery, PathSegment, Reach, Selector};
use crate::fold::{CaseFold, folded};

impl Selection {
    /// Whether some document has a scalar that both selections select, as far as names and indexes show: filters, slices and indexes
    /// from the end are taken to match. The work is the product of the numbers of segments.
    pub fn may_overlap(&self, other: &Selection) -> bool {
        let ignores_case = self.other_case() == CaseFold::Same || other.other_case() == CaseFold::Same;
        self.overlaps(other, ignores_case)
    }

    /// Whether some document has a scalar that both selections select for a reader that ignores the case of names, which one of them at
    /// least does not exclude ([`OtherCase::Other`]).
    pub fn may_be_confused_with(&self, other: &Selection) -> bool {
        let excludes = |selection: &Selection| selection.other_case() == CaseFold::Other;
        self.overlaps(other, !excludes(self) || !excludes(other))
    }

    fn overlaps(&self, other: &Selection, ignores_case: bool) -> bool {
        let overlap = |one, other| may_overlap(one, other, ignores_case);
        self.queries().iter().any(|one| other.queries().iter().any(|other| overlap(one, other)))
    }
}

/// Follows all paths on which both queries match: each state is the number of segments that have matched. A query that has matched as a
/// whole selects everything below.
fn may_overlap(one: &JsonPathQuery, other: &JsonPathQuery, ignores_case: bool) -> bool {
    let ends = (one.segments.len(), other.segments.len());
    let mut open = vec![(0, 0)];
    let mut seen = BTreeSet::from([(0, 0)]);
    while let Some((at, other_at)) = open.pop() {
        if (at, other_at) == ends {
            return true;
        }
        let (segment, other_segment) = (one.segments.get(at), other.segments.get(other_at));
        let may_wait = |segment: Option<&PathSegment>| segment.is_none_or(|it| it.reach == Reach::Descendants);
        let mut next = Vec::new();
        if segment.is_some() && may_wait(other_segment) {
            next.push((at + 1, other_at));
        }
        if other_segment.is_some() && may_wait(segment) {
            next.push((at, other_at + 1));
        }
        if let (Some(segment), Some(other_segment)) = (segment, other_segment)
            && may_match_alike(segment, other_segment, ignores_case)
        {
            next.push((at + 1, other_at + 1));
        }
        open.extend(next.into_iter().filter(|state| seen.insert(*state)));
    }
    false
}

/// Whether a child can match both segments.
fn may_match_alike(one: &PathSegment, other: &PathSegment, ignores_case: bool) -> bool {
    one.selectors.iter().any(|one| other.selectors.iter().any(|other| may_select_alike(one, other, ignores_case)))
}

fn may_select_alike(one: &Selector, other: &Selector, ignores_case: bool) -> bool {
    use Selector::{Filter, Index, Name, Slice, Wildcard};
    match (one, other) {
        (Wildcard | Filter(_), _) | (_, Wildcard | Filter(_)) => true,
        (Name(one), Name(other)) => one == other || ignores_case && folded(one) == folded(other),
        // Names belong to objects, indexes to arrays.
        (Name(_), Index(_) | Slice(_)) | (Index(_) | Slice(_), Name(_)) => false,
        (Index(one), Index(other)) => one == other || (*one < 0) != (*other < 0),
        (Slice(_), Index(_) | Slice(_)) | (Index(_), Slice(_)) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::DocumentLimits;

    fn overlap(one: &str, other: &str) -> bool {
        let parse = |selector| Selection::parse(&[selector], &DocumentLimits::default()).unwrap();
        let found = parse(one).may_overlap(&parse(other));
        assert_eq!(parse(other).may_overlap(&parse(one)), found, "{one} and {other}");
        found
    }

    #[test]
    fn selectors_that_can_select_one_scalar_overlap() {
        for (one, other) in [
            ("$", "$.a"),
            ("$.card", "$.card.number"),
            ("$..email", "$.customer.email"),
            ("$..email", "$.customer"),
            ("$..a", "$..b"),
            ("$.a.*", "$.a[0]"),
            ("$.cards[*].number", "$.cards[?@.kind == 'x'].number"),
            ("$.cards[0]", "$.cards[-1]"),
            ("$.cards[1:3]", "$.cards[0]"),
            ("$['a','b']", "$['b','c']"),
            ("$.*.x..y", "$.a.x.z.y"),
        ] {
            assert!(overlap(one, other), "{one} and {other}");
        }
    }

    #[test]
    fn selectors_of_different_values_do_not() {
        for (one, other) in [
            ("$.a", "$.b"),
            ("$.a.number", "$.a.code"),
            ("$.card", "$.Card"),
            ("$.cards[0]", "$.cards[1]"),
            ("$.cards[-2]", "$.cards[-1]"),
            ("$.a[0]", "$.a.b"),
            ("$.a..x", "$.b..x"),
            ("$.*.x", "$.*.y"),
        ] {
            assert!(!overlap(one, other), "{one} and {other}");
        }
    }

    #[test]
    fn names_overlap_in_any_case_where_that_is_ignored() {
        let parse = |selector, other_case| {
            let mut builder = Selection::builder(&DocumentLimits::default()).other_case(other_case);
            builder.add(selector).unwrap();
            builder.finish()
        };
        let same = |selector| parse(selector, CaseFold::Same);
        assert!(same("$.card").may_overlap(&same("$.CARD")));
        assert!(!same("$.card").may_overlap(&same("$.cards")));
        let [one, other] = ["$.card", "$.CARD"].map(|selector| parse(selector, CaseFold::Refuse));
        assert!(!one.may_overlap(&other) && one.may_be_confused_with(&other));
        let [lower, upper] = ["$.card", "$.CARD"].map(|selector| parse(selector, CaseFold::Other));
        assert!(!lower.may_be_confused_with(&upper) && one.may_be_confused_with(&upper));
    }

    /// A random document has no scalar that both select, unless the selections overlap.
    #[test]
    fn no_scalar_is_selected_by_selections_that_do_not_overlap() {
        use crate::walker::{Purpose, WalkProgress, Walker};
        use std::collections::HashSet;

        let limits = DocumentLimits::default();
        let document = br#"{"a":[{"a":1,"b":[2,3]},{"b":{"a":4}},5],"b":{"a":[6,7,[8]],"b":{"b":9,"a":10}}}"#;
        let steps = [".a", ".b", "..a", "..b", ".*", "[0]", "[1]", "[-1]", "[1:]", "..*", "[?@.a]"];
        let mut selectors: Vec<String> = vec!["$".to_owned()];
        for _ in 0..2 {
            let longer: Vec<String> = selectors.iter().flat_map(|it| steps.map(|step| format!("{it}{step}"))).collect();
            selectors.extend(longer);
        }
        selectors.sort();
        selectors.dedup();
        let selected = |selection: &Selection| -> HashSet<usize> {
            let mut walker = Walker::new(document, selection, Purpose::Encrypt, &limits).unwrap();
            let mut matches = Vec::new();
            while walker.next_batch(&mut matches, 1000, 1 << 20).unwrap() == WalkProgress::More {}
            matches.into_iter().map(|found| found.start).collect()
        };
        let all: Vec<(Selection, HashSet<usize>)> = selectors
            .iter()
            .map(|selector| Selection::parse(&[selector], &limits).unwrap())
            .map(|selection| {
                let found = selected(&selection);
                (selection, found)
            })
            .collect();
        for (one, found) in &all {
            for (other, other_found) in &all {
                assert!(found.is_disjoint(other_found) || one.may_overlap(other), "{one:?} and {other:?}");
            }
        }
    }
}
