//! A small upstream for trying out the relay: it echoes what it received.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::{BodyExt, Limited};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response};
use leafseal_errors::ErrorCode;
use leafseal_http::{
    ConnectionPeer, Handler, HttpProblem, HttpSettings, Listener, ListenerEvent, ListenerObserver, ListenerOptions,
    RequestBody, ResponseBody, bytes,
};
use leafseal_net::ListeningThread;
use leafseal_net::tls::{Acceptor, ServerIdentity};
use serde_json::{Map, Value, json};

/// Maximum size of a body.
const BODY_SIZE_MAX: usize = 1 << 20;
/// Maximum number of connections.
const CONNECTIONS_MAX: usize = 64;

/// The running upstream; it stops on drop.
pub struct DemoUpstream {
    thread: ListeningThread,
}

struct Echo;

impl ListenerObserver for Echo {
    fn observe(&self, _: &ListenerEvent<'_>) {}
}

impl Handler for Echo {
    async fn handle(self: Arc<Self>, request: Request<RequestBody>, _: Arc<ConnectionPeer>) -> Response<ResponseBody> {
        let (head, body) = request.into_parts();
        let Ok(body) = Limited::new(body, BODY_SIZE_MAX).collect().await else {
            let detail = format!("the body cannot be read, or has more than {BODY_SIZE_MAX} bytes");
            return HttpProblem::new(ErrorCode::TooLarge, detail).response();
        };
        let body = body.to_bytes();
        let text = || Value::String(String::from_utf8_lossy(&body).into_owned());
        let headers = head.headers.iter().map(|(name, value)| {
            (name.to_string(), Value::String(String::from_utf8_lossy(value.as_bytes()).into_owned()))
        });
        let reported = json!({
            "method": head.method.as_str(),
            "path": head.uri.path(),
            "headers": headers.collect::<Map<String, Value>>(),
            "body": serde_json::from_slice(&body).unwrap_or_else(|_| text()),
        });
        let mut response = Response::new(bytes(format!("{reported}\n").into()));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

impl DemoUpstream {
    /// Listens on `address`, over TLS with `identity`.
    ///
    /// # Errors
    /// If the address is in use, the identity is invalid, or a thread cannot be started.
    pub fn start(address: SocketAddr, identity: &ServerIdentity) -> io::Result<DemoUpstream> {
        let acceptor = Acceptor::new(identity).map_err(io::Error::other)?;
        let serve = move |socket| async move {
            let settings = HttpSettings { connections_max: CONNECTIONS_MAX, ..HttpSettings::default() };
            let options = ListenerOptions { address, acceptor: Some(acceptor), settings, observer: Arc::new(Echo) };
            match Listener::start_on(socket, options, Arc::new(Echo)) {
                Ok(_listener) => pending().await,
                Err(error) => tracing::error!(%error, "the demo upstream cannot listen"),
            }
        };
        Ok(DemoUpstream { thread: ListeningThread::start("leafseal-demo", address, serve)? })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.thread.address()
    }
}
