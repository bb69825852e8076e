//! Where the context of a value is: the path from an object around the value to a member.

use std::sync::Arc;

use super::ast::{PathSegment, Reach, Selector};
use super::parser::{Parser, SelectorTotals};
use crate::error::{SelectorError, SelectorErrorKind};
use crate::limits::DocumentLimits;

/// Maximum number of names: as many may be looked for in each object.
const CONTEXT_NAMES_MAX: usize = 16;
const EXPECTED: &str = "one to 16 member names, separated by dots, such as id, customer.id or ['a.b'].id";

/// The path from an object to the member that is the context of the values in it: `id`, `customer.id`, `['a.b'].id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextSelector {
    names: Arc<[String]>,
}

impl ContextSelector {
    /// Reads a path of names, in the notation of selectors without `$` in front.
    ///
    /// # Errors
    /// It is not such a path, or exceeds a limit.
    pub fn parse(text: &str, limits: &DocumentLimits) -> Result<Self, SelectorError> {
        let before = if text.starts_with('[') { "$" } else { "$." };
        let fault = |position: usize, kind| SelectorError {
            selector: 0,
            position: position.saturating_sub(before.len()),
            kind,
        };
        let selector = format!("{before}{text}");
        let mut parsed = SelectorTotals::default();
        let query = Parser::new(&selector, limits, &mut parsed).selector();
        let query = query.map_err(|error| fault(error.position, error.kind))?;
        let names = query.segments.into_iter().map(name_of).collect::<Option<Vec<String>>>();
        match names {
            Some(names) if (1..=CONTEXT_NAMES_MAX).contains(&names.len()) => Ok(Self { names: names.into() }),
            _ => Err(fault(0, SelectorErrorKind::Expected(EXPECTED))),
        }
    }

    pub(crate) fn names(&self) -> &Arc<[String]> {
        &self.names
    }
}

/// The name of a segment that selects exactly one member.
fn name_of(segment: PathSegment) -> Option<String> {
    let [Selector::Name(name)] = <[Selector; 1]>::try_from(segment.selectors).ok()? else { return None };
    (segment.reach == Reach::Children).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_paths_of_names() {
        let parse = |text: &str| ContextSelector::parse(text, &DocumentLimits::default());
        for (text, names) in [
            ("id", &["id"][..]),
            ("customer.id", &["customer", "id"]),
            ("['a.b'].id", &["a.b", "id"]),
            ("[\"a\"]['b']", &["a", "b"]),
            ("a['b c']", &["a", "b c"]),
            ("['']", &[""]),
            ("_é", &["_é"]),
        ] {
            assert_eq!(parse(text).expect(text).names().to_vec(), names, "{text}");
        }
        let long = ["a"; 17].join(".");
        for text in
            ["", ".", ".id", "id.", "$.id", "$", "*", "a.*", "a..b", "a[0]", "['a','b']", "a b", "[?@.a]", "[*]", &long]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse(&long[2..]).is_ok());
        assert_eq!(parse("a.b!").expect_err("no name").position, 3);
    }
}
