//! Request and response bodies of calls, and their headers.

use std::time::Instant;

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes};
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH,
    CONTENT_TYPE, HeaderValue, ORIGIN, VARY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{HeaderMap, Method, Response, StatusCode};
use leafseal_http::{
    BodyError, BufferedBody, HttpProblem, JSON_LINES_TYPES, Pieces, RequestBody, ResponseBody, bytes, empty,
};
use leafseal_protocol::ErrorCode;
use tokio::time::timeout_at;

use super::problem::{forbidden, invalid, overloaded, too_large};
use crate::settings::ApiSettings;
use leafseal_service::Rope;
use leafseal_service::Share;

/// The form of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestBodyForm {
    Json,
    /// JSON Lines: a document on each line, under one of [`JSON_LINES_TYPES`], which the answer has too.
    Lines(&'static str),
    /// A file, plain or in the encrypted file form.
    Bytes,
}

impl RequestBodyForm {
    /// The form that the headers declare.
    pub(super) fn of(headers: &HeaderMap) -> Result<RequestBodyForm, HttpProblem> {
        if headers.contains_key(CONTENT_ENCODING) {
            return Err(RequestBodyForm::wrong("bodies are taken as they are, without Content-Encoding"));
        }
        let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (media_type, parameters) = value.split_once(';').unwrap_or((value, ""));
        let media_type = media_type.trim();
        if media_type.eq_ignore_ascii_case("application/octet-stream") {
            return Ok(RequestBodyForm::Bytes);
        }
        let is_utf8 = |parameter: &str| match parameter.trim().split_once('=') {
            Some((name, charset)) if name.eq_ignore_ascii_case("charset") => {
                charset.trim_matches('"').eq_ignore_ascii_case("utf-8")
            }
            _ => true,
        };
        let form = match JSON_LINES_TYPES.into_iter().find(|lines| media_type.eq_ignore_ascii_case(lines)) {
            Some(media_type) => Some(RequestBodyForm::Lines(media_type)),
            None => media_type.eq_ignore_ascii_case("application/json").then_some(RequestBodyForm::Json),
        };
        form.filter(|_| parameters.split(';').all(is_utf8)).ok_or_else(|| {
            RequestBodyForm::wrong(
                "the header `Content-Type` is application/json or application/x-ndjson (in UTF-8), or application/octet-stream",
            )
        })
    }

    pub(super) fn wrong(detail: &str) -> HttpProblem {
        HttpProblem::new(ErrorCode::UnsupportedMediaType, detail)
    }

    fn media_type(self) -> &'static str {
        match self {
            RequestBodyForm::Json => "application/json",
            RequestBodyForm::Lines(media_type) => media_type,
            RequestBodyForm::Bytes => "application/octet-stream",
        }
    }
}

/// A complete body, and its share of the memory for incoming data.
pub(super) struct CompleteBody {
    pub(super) pieces: Pieces,
    pub(super) share: Share,
}

/// Reads a body of up to `size_max` bytes. A body with a larger declared length is refused without being read.
pub(super) async fn read(
    headers: &HeaderMap,
    body: RequestBody,
    size_max: usize,
    mut share: Share,
    deadline: Instant,
) -> Result<CompleteBody, HttpProblem> {
    let reported = headers.get(CONTENT_LENGTH).and_then(|size| size.to_str().ok()?.parse::<u64>().ok());
    if reported.is_some_and(|reported| reported > size_max as u64) {
        return Err(too_large(size_max));
    }
    let mut body = body;
    let mut pieces = Pieces::default();
    loop {
        let frame = timeout_at(deadline.into(), body.frame()).await;
        let frame = frame.map_err(|_| slow("the body was not there in time"))?;
        let Some(frame) = frame else { return Ok(CompleteBody { pieces, share }) };
        let frame = frame.map_err(|error| match error {
            BodyError::Slow => slow("the body arrives too slowly"),
            _ => invalid("the body broke off"),
        })?;
        let Ok(data) = frame.into_data() else { continue };
        if pieces.size() + data.len() > size_max {
            return Err(too_large(size_max));
        }
        let full = |_| overloaded("the engine has no room for the body", std::time::Duration::from_secs(1));
        share.resize(pieces.capacity_with(data.len(), size_max)).map_err(full)?;
        pieces.push(&data, size_max);
    }
}

fn slow(detail: &str) -> HttpProblem {
    HttpProblem::new(ErrorCode::SlowBody, detail)
}

/// The response with an answer of the workers, in the form of the request.
pub(super) fn answer(form: RequestBodyForm, (written, share): (Rope, Share)) -> Response<ResponseBody> {
    let buffers = written.into_buffers().map(Bytes::from);
    respond(form.media_type(), BufferedBody::new(buffers, share).boxed_unsync())
}

pub(super) fn answer_json(value: &serde_json::Value) -> Response<ResponseBody> {
    answer_bytes("application/json", value.to_string().into_bytes())
}

pub(super) fn answer_bytes(media_type: &'static str, content: Vec<u8>) -> Response<ResponseBody> {
    respond(media_type, bytes(Bytes::from(content)))
}

pub(super) fn answer_static(media_type: &'static str, content: &'static [u8]) -> Response<ResponseBody> {
    respond(media_type, bytes(Bytes::from_static(content)))
}

fn respond(media_type: &'static str, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The same response without its body, for `HEAD`.
pub(super) fn head_of(response: Response<ResponseBody>) -> Response<ResponseBody> {
    let (mut parts, body) = response.into_parts();
    if let Some(size) = body.size_hint().exact() {
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(size));
    }
    Response::from_parts(parts, empty())
}

/// Sets the CORS header that lets the page's origin read the answer, if it is allowed.
pub(super) fn allow_origin(settings: &ApiSettings, request_headers: &HeaderMap, answer: &mut HeaderMap) {
    if settings.cors_origins.is_empty() {
        return;
    }
    answer.append(VARY, HeaderValue::from_static("origin"));
    let Some(origin) = request_headers.get(ORIGIN) else { return };
    if let Some(allowed) = allowed_origin(settings, origin) {
        answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(super::EXPOSED));
    }
}

fn allowed_origin(settings: &ApiSettings, origin: &HeaderValue) -> Option<HeaderValue> {
    if settings.cors_origins.iter().any(|allowed| allowed == "*") {
        return Some(HeaderValue::from_static("*"));
    }
    settings.cors_origins.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes()).then(|| origin.clone())
}

/// The answer to a CORS preflight request.
pub(super) fn preflight(
    settings: &ApiSettings,
    request_headers: &HeaderMap,
    method: &Method,
) -> Result<Response<ResponseBody>, HttpProblem> {
    let is_allowed = request_headers.get(ORIGIN).is_some_and(|origin| allowed_origin(settings, origin).is_some());
    if !is_allowed {
        return Err(forbidden("pages of this origin are not let in: api.cors_origins names those that are"));
    }
    let mut response = Response::new(empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    let (methods, names) = match *method {
        Method::POST => ("POST", "authorization, content-type"),
        _ => ("GET, HEAD", "x-evervault-app-id, content-type"),
    };
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(names));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(content_type: &str) -> Option<RequestBodyForm> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_str(content_type).expect("a value"));
        RequestBodyForm::of(&headers).ok()
    }

    #[test]
    fn forms_are_recognised_by_the_media_type() {
        for json in ["application/json", "Application/JSON; charset=UTF-8", "application/json;charset=\"utf-8\""] {
            assert_eq!(form(json), Some(RequestBodyForm::Json), "{json}");
        }
        assert_eq!(form("application/octet-stream"), Some(RequestBodyForm::Bytes));
        for lines in JSON_LINES_TYPES {
            assert_eq!(form(&format!("{lines}; charset=utf-8")), Some(RequestBodyForm::Lines(lines)));
            assert_eq!(form(&format!("{lines}; charset=utf-16")), None);
        }
        for other in ["", "text/json", "application/json; charset=latin1", "application/json2", "json"] {
            assert_eq!(form(other), None, "{other}");
        }
        assert_eq!(RequestBodyForm::of(&HeaderMap::new()).map_err(|problem| problem.status.as_u16()), Err(415));
        let mut packed = HeaderMap::new();
        packed.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        packed.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        assert!(RequestBodyForm::of(&packed).is_err());
    }
}
