//! Envelopes that the relay forwards: what searches have found, for the access log and the metrics.
//!
//! A third party can do nothing with an envelope. Messages are therefore searched as they are forwarded, after the rules, whether or not a
//! rule could read them.

use std::sync::{Arc, OnceLock};

use hyper::Uri;
use hyper::header::HeaderMap;

use crate::body::envelopes::{FoundEnvelope, holds_envelope};
use crate::metrics::ListenerMetrics;
use crate::place::ExchangePart;

/// The findings of the searches of one exchange. The body of a request may outlive its record, so that all share this.
#[derive(Debug)]
pub(crate) struct SealedPlaces {
    metrics: Arc<ListenerMetrics>,
    found: [OnceLock<FoundEnvelope>; ExchangePart::ALL.len()],
}

impl SealedPlaces {
    pub(crate) fn new(metrics: &Arc<ListenerMetrics>) -> Arc<Self> {
        Arc::new(SealedPlaces { metrics: Arc::clone(metrics), found: Default::default() })
    }

    /// Records and counts the result of a search; the first one of a place counts.
    pub(crate) fn note(&self, place: ExchangePart, found: FoundEnvelope) {
        if found != FoundEnvelope::Nothing && self.found[place as usize].set(found).is_ok() {
            self.metrics.searched(place, found);
        }
    }

    /// The result of the search in this place, unless it found nothing.
    pub(crate) fn found(&self, place: ExchangePart) -> Option<FoundEnvelope> {
        self.found[place as usize].get().copied()
    }
}

/// Whether the head of a request holds an envelope, as it is forwarded.
pub(crate) fn is_in_head(target: &Uri, headers: &HeaderMap) -> bool {
    let target = target.path_and_query().map_or("", |target| target.as_str());
    holds_envelope(target.as_bytes()) || is_in_fields(headers)
}

/// Whether a field's value holds an envelope.
pub(crate) fn is_in_fields(fields: &HeaderMap) -> bool {
    fields.values().any(|value| holds_envelope(value.as_bytes()))
}

#[cfg(test)]
mod tests {
    use hyper::header::{AUTHORIZATION, HeaderValue};

    use super::*;

    #[test]
    fn envelopes_in_heads_are_found() {
        for (target, value, expected) in [
            ("/a?b=prev:next", "Bearer x", false),
            ("/cards/ev%3ATk9D%3Ax%3A$", "", true),
            ("/cards?card=ev:Tk9D:x", "", true),
            ("https://a.example/?u=%2F%3Fc%3Dev%253ATk9D%253A", "", true),
            ("/", "Bearer ev:Tk9D:x:$", true),
        ] {
            let headers = [(AUTHORIZATION, HeaderValue::from_static(value))].into_iter().collect();
            assert_eq!(is_in_head(&target.parse().unwrap(), &headers), expected, "{target} {value}");
        }
    }

    #[test]
    fn the_first_result_of_a_place_counts() {
        let metrics = Arc::<ListenerMetrics>::default();
        let places = SealedPlaces::new(&metrics);
        places.note(ExchangePart::RequestBody, FoundEnvelope::Nothing);
        assert_eq!(places.found(ExchangePart::RequestBody), None);
        places.note(ExchangePart::RequestBody, FoundEnvelope::BeyondLimit);
        places.note(ExchangePart::RequestBody, FoundEnvelope::Envelope);
        places.note(ExchangePart::RequestHead, FoundEnvelope::Envelope);
        assert_eq!(
            ExchangePart::ALL.map(|place| places.found(place)),
            [Some(FoundEnvelope::Envelope), Some(FoundEnvelope::BeyondLimit), None, None]
        );
    }
}
