//! Which of several routes or destinations takes a request, where the case of its path's letters may not count.

use crate::refusal::Refusal;

/// The action for a path or name that equals that of a rule only when case is ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OtherCase {
    /// It is refused where something is hidden there: the upstream may take it for the same.
    #[default]
    Refuse,
    /// It is taken for the same.
    Same,
    /// It is not.
    Other,
}

/// How paths are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    /// Letter by letter.
    AsWritten,
    /// Whatever the case of ASCII letters.
    Any,
}

/// The first of `items` that takes the request.
///
/// # Errors
/// The path matches an earlier, protected route only when case is ignored; such requests are refused.
pub(crate) fn choose<T>(
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
