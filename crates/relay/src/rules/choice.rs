//! Chooses among routes or destinations if a path may match regardless of case.

use crate::refusal::Refusal;

/// The action for a path or name that equals that of a rule only when case is ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OtherCase {
    /// Refuse it if the other rule hides something: the upstream may treat both as equal.
    #[default]
    Refuse,
    /// Treat it as equal.
    Same,
    /// Treat it as different.
    Other,
}

/// How paths are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    /// Case-sensitive.
    AsWritten,
    /// Ignoring the case of ASCII letters.
    Any,
}

/// The first of `items` that takes the request, whose path servers may read in several ways: `readings`, the relay's own first.
///
/// # Errors
/// The path matches another, protected route in one of the other readings, or when case is ignored; such requests are refused.
pub(crate) fn choose_in_all_readings<'i, T, R>(
    items: &'i [T],
    readings: &[R],
    other_case: OtherCase,
    takes: impl Fn(&T, Case, &R) -> bool,
    hides: impl Fn(&T) -> bool,
) -> Result<Option<&'i T>, Refusal> {
    let choose = |reading| choose(items, other_case, |item, case| takes(item, case, reading), &hides);
    let (own, others) = readings.split_first().expect("a path has a reading");
    let found = choose(own)?;
    for reading in others {
        let other = choose(reading)?;
        let is_same = |other| found.is_some_and(|found| std::ptr::eq(found, other));
        if other.is_some_and(|other| !is_same(other) && hides(other)) {
            let detail =
                "the path matches a route whose rules hide something only to servers that keep \";\" or empty segments";
            return Err(Refusal::request("ambiguous-path", detail));
        }
    }
    Ok(found)
}

/// The first of `items` that takes the request.
///
/// # Errors
/// The path matches an earlier, protected route only when case is ignored; such requests are refused.
fn choose<T>(
    items: &[T],
    other_case: OtherCase,
    takes: impl Fn(&T, Case) -> bool,
    hides: impl Fn(&T) -> bool,
) -> Result<Option<&T>, Refusal> {
    let first = |case| items.iter().position(|item| takes(item, case));
    let like = match other_case {
        OtherCase::Other => None,
        OtherCase::Same => return Ok(first(Case::Any).map(|at| &items[at])),
        OtherCase::Refuse => first(Case::Any),
    };
    let found = first(Case::AsWritten);
    match like {
        Some(like) if Some(like) != found && hides(&items[like]) => {
            let detail = "the path matches a route whose rules hide something only when case is ignored";
            Err(Refusal::request("ambiguous-path", detail))
        }
        _ => Ok(found.map(|at| &items[at])),
    }
}
