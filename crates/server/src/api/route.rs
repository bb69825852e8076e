//! Maps method and path to a call.

use hyper::Method;

use crate::metrics::ApiCall;

/// The fixed paths; `{…}` is one segment, as in the OpenAPI document.
pub(crate) const PATHS: [(&str, ApiCall); ApiCall::ALL.len()] = [
    ("/cages/key", ApiCall::KeysByApiKey),
    ("/keys", ApiCall::KeysByApp),
    ("/{team}/apps/{app}", ApiCall::AppOfTeam),
    ("/encrypt", ApiCall::Encrypt),
    ("/decrypt", ApiCall::Decrypt),
    ("/inspect", ApiCall::Inspect),
    ("/client-side-tokens", ApiCall::ClientSideTokens),
    ("/v2/relay-outbound", ApiCall::RelayOutbound),
    ("/", ApiCall::Certificate),
    ("/openapi.json", ApiCall::OpenApi),
];

impl ApiCall {
    /// Returns the call of this path, with the app that the path names. A second leading slash is ignored: it comes from a base URL that
    /// ends in one.
    pub(crate) fn of_path(path: &str) -> Option<(ApiCall, Option<&str>)> {
        let path = path.strip_prefix('/').filter(|rest| rest.starts_with('/')).unwrap_or(path);
        if let Some((_, call)) = PATHS.iter().find(|(known, call)| *known == path && *call != ApiCall::AppOfTeam) {
            return Some((*call, None));
        }
        let (team, app) = path.strip_prefix('/')?.split_once("/apps/")?;
        let is_segment = |segment: &str| !segment.is_empty() && !segment.contains('/');
        (is_segment(team) && is_segment(app)).then_some((ApiCall::AppOfTeam, Some(app)))
    }

    /// The HTTP method of the call; `GET` includes `HEAD`.
    pub(crate) fn method(self) -> Method {
        match self {
            ApiCall::Encrypt | ApiCall::Decrypt | ApiCall::Inspect | ApiCall::ClientSideTokens => Method::POST,
            _ => Method::GET,
        }
    }

    /// The methods of the call, for `Allow`.
    pub(crate) fn allowed(self) -> &'static str {
        match self {
            ApiCall::Encrypt | ApiCall::Inspect | ApiCall::ClientSideTokens => "POST",
            ApiCall::Decrypt => "POST, OPTIONS",
            ApiCall::KeysByApp | ApiCall::AppOfTeam => "GET, HEAD, OPTIONS",
            _ => "GET, HEAD",
        }
    }

    /// Whether pages of other origins may be allowed to call it: for public keys, and for decryption with client-side tokens.
    pub(crate) fn is_for_pages(self) -> bool {
        matches!(self, ApiCall::KeysByApp | ApiCall::AppOfTeam | ApiCall::Decrypt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_exact() {
        assert_eq!(PATHS.map(|(_, call)| call), ApiCall::ALL);
        for (path, call) in PATHS {
            let app = path.contains('{').then_some("{app}");
            assert_eq!(ApiCall::of_path(path), Some((call, app)), "{path}");
        }
        assert_eq!(ApiCall::of_path("/team_1/apps/app_x"), Some((ApiCall::AppOfTeam, Some("app_x"))));
        assert_eq!(ApiCall::of_path("//encrypt"), Some((ApiCall::Encrypt, None)));
        assert_eq!(ApiCall::of_path("//team_1/apps/app_x"), Some((ApiCall::AppOfTeam, Some("app_x"))));
        assert_eq!(ApiCall::of_path("//"), Some((ApiCall::Certificate, None)));
        for other in [
            "",
            "///",
            "///encrypt",
            "/encrypt/",
            "/Encrypt",
            "/a/apps/",
            "//apps/a",
            "/a/apps/b/c",
            "/a/b/apps/c",
            "/a/app/b",
        ] {
            assert_eq!(ApiCall::of_path(other), None, "{other}");
        }
    }

    /// The document and the table contain the same calls.
    #[test]
    fn the_open_api_document_has_every_call_and_no_other() {
        let document: serde_json::Value = serde_json::from_str(super::super::OPEN_API).expect("JSON");
        let reported: Vec<(String, String)> = document["paths"]
            .as_object()
            .expect("paths")
            .iter()
            .flat_map(|(path, item)| {
                let methods = item.as_object().expect("methods").keys().filter(|key| *key != "parameters");
                methods.map(|method| (path.clone(), method.to_ascii_uppercase())).collect::<Vec<_>>()
            })
            .collect();
        let mut known: Vec<(String, String)> =
            PATHS.iter().map(|(path, call)| ((*path).to_owned(), call.method().to_string())).collect();
        known.sort();
        let mut reported = reported;
        reported.sort();
        assert_eq!(reported, known);
    }
}
