//! The kinds of envelopes that apps, grants and API keys accept, as words.

use leafseal_client::{AcceptedScheme, WordSet};
use leafseal_engine::{AcceptedSchemes, Scheme};

/// Parses kinds separated by commas, or `all`.
pub(crate) fn parsed(text: &str) -> Result<AcceptedSchemes, String> {
    if text == "all" {
        return Ok(AcceptedSchemes::ALL);
    }
    let words = WordSet::<AcceptedScheme>::parse(text).ok_or(
        "must be all, or of public-key, symmetric and from-public-key some, each at most once, separated by commas",
    )?;
    Ok(AcceptedSchemes {
        public_key: words.contains(AcceptedScheme::PublicKey),
        symmetric: words.contains(AcceptedScheme::Symmetric),
        from_public_key: words.contains(AcceptedScheme::FromPublicKey),
    })
}

/// Their words; `*` for all.
pub(crate) fn words(accept: AcceptedSchemes) -> Vec<&'static str> {
    if accept == AcceptedSchemes::ALL {
        return vec!["*"];
    }
    let kinds = [
        (accept.public_key, AcceptedScheme::PublicKey),
        (accept.symmetric, AcceptedScheme::Symmetric),
        (accept.from_public_key, AcceptedScheme::FromPublicKey),
    ];
    kinds.into_iter().filter_map(|(is_accepted, kind)| is_accepted.then_some(kind.as_str())).collect()
}

/// Their words with commas, or `all`: as [`parsed`] takes them.
pub(crate) fn listed(accept: AcceptedSchemes) -> String {
    if accept == AcceptedSchemes::ALL { "all".to_owned() } else { words(accept).join(",") }
}

/// Whether values that are sealed with this scheme are among them.
pub(crate) fn includes(accept: AcceptedSchemes, scheme: Scheme) -> bool {
    match scheme {
        Scheme::PublicKey => accept.public_key,
        Scheme::Symmetric => accept.symmetric,
    }
}

/// What a line of a list says of them: nothing if all are accepted.
pub(crate) fn suffix(accept: AcceptedSchemes) -> String {
    match accept {
        AcceptedSchemes::ALL => String::new(),
        accept => format!("  accepts {}", words(accept).join(",")),
    }
}
