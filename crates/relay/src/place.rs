//! The places of a message that are searched for envelopes.

use crate::policy::{Action, Actions, Rule};
use crate::refusal::Direction;

/// The parts of an exchange that are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum ExchangePart {
    /// Path, query and header of the request.
    RequestHead,
    RequestBody,
    RequestTrailers,
    ResponseBody,
}

impl ExchangePart {
    /// All places, in the order of their numbers.
    pub(crate) const ALL: [ExchangePart; 4] = [
        ExchangePart::RequestHead,
        ExchangePart::RequestBody,
        ExchangePart::RequestTrailers,
        ExchangePart::ResponseBody,
    ];
    /// The places that can only be searched in part.
    pub(crate) const BODIES: [ExchangePart; 2] = [ExchangePart::RequestBody, ExchangePart::ResponseBody];

    /// The body of a message of this direction.
    pub(crate) fn body_of(direction: Direction) -> ExchangePart {
        match direction {
            Direction::Request => ExchangePart::RequestBody,
            Direction::Response => ExchangePart::ResponseBody,
        }
    }

    /// The word in metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            ExchangePart::RequestHead => "request_head",
            ExchangePart::RequestBody => "request_body",
            ExchangePart::RequestTrailers => "request_trailers",
            ExchangePart::ResponseBody => "response_body",
        }
    }

    /// The field of the access log.
    pub(crate) fn field(self) -> &'static str {
        match self {
            ExchangePart::RequestHead => "sealed_request_head",
            ExchangePart::RequestBody => "sealed_request_body",
            ExchangePart::RequestTrailers => "sealed_request_trailers",
            ExchangePart::ResponseBody => "sealed_response_body",
        }
    }

    /// Whether this place is searched in messages to which these rules of its direction apply: in everything that goes to a third party
    /// (`is_outbound`), and in bodies where rules decrypt; not where rules encrypt, because envelopes are meant to be there.
    pub(crate) fn is_searched(self, is_outbound: bool, actions: &Actions) -> bool {
        let has = |action: Action, reads: fn(&Rule) -> bool| {
            actions.rules.iter().any(|rule| rule.action == action && reads(rule))
        };
        let (decrypts, encrypts) = (has(Action::Decrypt, Rule::reads_bodies), has(Action::Encrypt, Rule::reads_bodies));
        match self {
            ExchangePart::RequestHead | ExchangePart::RequestTrailers => {
                is_outbound && !has(Action::Encrypt, Rule::reads_heads)
            }
            ExchangePart::RequestBody => (is_outbound || decrypts) && !encrypts,
            ExchangePart::ResponseBody => decrypts && !encrypts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_searched_where_envelopes_are_not_meant_to_be() {
        let none = |is_outbound| ExchangePart::ALL.map(|place| place.is_searched(is_outbound, &Actions::NONE));
        assert_eq!(none(true), [true, true, true, false]);
        assert_eq!(none(false), [false; 4]);
        let [decrypts, encrypts, both, heads] = [
            "{ action = \"decrypt\", json = [\"$\"] }",
            "{ action = \"encrypt\", json = [\"$.a\"] }",
            "{ action = \"decrypt\", json = [\"$.b\"] }, { action = \"encrypt\", form = [\"a\"] }",
            "{ action = \"decrypt\", json = [\"$\"] }, { action = \"encrypt\", headers = [\"X-A\"] }",
        ]
        .map(|rules| {
            let text = format!(
                "[engine]\naddresses = [\"a:1\"]\nauthorities = \"a\"\ncertificate = \"a\"\nprivate_key = \"a\"\n\
                 [[inbound]]\naddress = \"127.0.0.1:0\"\nupstream = \"http://a\"\n\
                 [[inbound.route]]\npath = \"/\"\napp = \"a\"\nrequest = [{rules}]\n"
            );
            let mut configuration = crate::Configuration::parse(&text).unwrap();
            configuration.inbound.remove(0).routes.remove(0).request
        });
        for (actions, outbound, inbound) in [
            (&decrypts, [true, true, true, true], [false, true, false, true]),
            (&encrypts, [true, false, true, false], [false; 4]),
            (&both, [true, false, true, false], [false; 4]),
            (&heads, [false, true, false, true], [false, true, false, true]),
        ] {
            assert_eq!(ExchangePart::ALL.map(|place| place.is_searched(true, actions)), outbound, "{actions:?}");
            assert_eq!(ExchangePart::ALL.map(|place| place.is_searched(false, actions)), inbound, "{actions:?}");
        }
    }
}
