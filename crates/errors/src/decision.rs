//! Decisions: the answers to "may this caller do this", and their observers: log, metrics, audit.
//!
//! A decision is made in one place of the engine, and in one of the relay for what the relay decides itself. Both report it to
//! [`Observers`]. It contains identities, never a secret or a value.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use crate::codes::ErrorCode;
use crate::operation::Operation;

words! {
    /// Where a request enters.
    EntryPoint {
        /// The HTTPS API.
        Api = "api",
        /// MessagePack-RPC.
        Rpc = "rpc",
        /// The HTTP relay.
        Relay = "relay",
        /// The command line, which works in its own process.
        Cli = "cli",
        /// A program that contains the engine, such as one in Python.
        Library = "library",
    }
}

words! {
    /// The operation that is decided.
    Question {
        /// Whether the caller is who it claims to be, and may make any request. A request that also needs a permission has only the
        /// decision about that, unless the identity is refused.
        Identity = "identity",
        /// Whether the caller may do the operations with the app; without operations, whether it may use the app at all.
        Permission = "permission",
        /// Whether the caller may read a value with its data role. Refusals alone are reported, the first of a request.
        Role = "role",
    }
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestOrigin {
    /// Where it enters.
    pub entry_point: EntryPoint,
    /// The address of the peer, if it is known there.
    pub address: Option<IpAddr>,
    /// The id of the request on its connection, if it has one.
    pub request: Option<u32>,
}

impl RequestOrigin {
    /// A request without address and id.
    pub const fn of(entry_point: EntryPoint) -> Self {
        Self { entry_point, address: None, request: None }
    }
}

/// The caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Principal<'d> {
    /// The owner of the store.
    Owner,
    /// A caller without credentials, or with credentials that name no one.
    Anonymous,
    /// A client, identified by its certificate.
    Client {
        /// The name in its certificate.
        name: &'d str,
        /// SHA-256 of the certificate.
        certificate_sha256: [u8; 32],
    },
    /// The holder of an API key, or one that names its id.
    ApiKey {
        /// The id of the key.
        id: &'d str,
    },
    /// A client, such as a relay, that acts for the holder of an API key.
    OnBehalf {
        /// The name of the client.
        client: &'d str,
        /// The id of the key.
        key: &'d str,
    },
    /// The holder of a client-side token.
    Token {
        /// The id of the token.
        id: &'d str,
    },
}

impl<'d> Principal<'d> {
    /// The kind of caller, in a word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Anonymous => "anonymous",
            Self::Client { .. } => "client",
            Self::ApiKey { .. } => "api-key",
            Self::OnBehalf { .. } => "on-behalf",
            Self::Token { .. } => "token",
        }
    }

    /// The name of the client that sent the request, if it is one.
    pub fn client(&self) -> Option<&'d str> {
        match *self {
            Self::Client { name, .. } | Self::OnBehalf { client: name, .. } => Some(name),
            Self::Owner | Self::Anonymous | Self::ApiKey { .. } | Self::Token { .. } => None,
        }
    }

    /// The id of the API key, if there is one.
    pub fn key(&self) -> Option<&'d str> {
        match *self {
            Self::ApiKey { id } | Self::OnBehalf { key: id, .. } => Some(id),
            Self::Owner | Self::Anonymous | Self::Client { .. } | Self::Token { .. } => None,
        }
    }
}

/// A decision whether a caller may do something.
#[derive(Clone, Copy, Debug)]
pub struct Decision<'d> {
    /// Where the request comes from.
    pub origin: RequestOrigin,
    /// The caller.
    pub principal: Principal<'d>,
    /// The operation that is decided.
    pub question: Question,
    /// The required operations: all of these.
    pub operations: &'d [Operation],
    /// For which app; `None` if the request names none, or one that cannot exist.
    pub app: Option<&'d str>,
    /// Why it is refused; `None` if it is granted.
    pub refusal: Option<Denial<'d>>,
    /// Whether it is about a request that has an account, whose audit record will have the decision.
    pub is_accounted: bool,
}

/// The reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denial<'d> {
    /// The code that the caller receives. Its side is [`Side::Permission`](crate::Side::Permission).
    pub code: ErrorCode,
    /// One sentence, without a secret or a value.
    pub reason: &'d str,
}

/// Receives decisions.
pub trait DecisionObserver: Send + Sync {
    /// A decision was made. Called on the thread that works on the request, so it must not block.
    fn decided(&self, decision: &Decision<'_>);

    /// Nothing could be decided, because the keystore is sealed: the request is refused with [`ErrorCode::Unavailable`]. The same rules.
    fn sealed(&self, undecided: &Decision<'_>) {
        let _ = undecided;
    }
}

/// The observers of one engine or relay. Observers are only added, so that reporting takes no lock.
#[derive(Default)]
pub struct Observers {
    first: OnceLock<Box<Attached>>,
}

struct Attached {
    observer: Arc<dyn DecisionObserver>,
    next: OnceLock<Box<Attached>>,
}

impl Observers {
    /// Adds an observer: it receives every decision from now on, after the observers before it.
    pub fn attach(&self, observer: Arc<dyn DecisionObserver>) {
        let mut attached = Box::new(Attached { observer, next: OnceLock::new() });
        let mut place = &self.first;
        while let Err(back) = place.set(attached) {
            attached = back;
            place = &place.get().expect("another one is there").next;
        }
    }

    /// Whether nothing observes.
    pub fn is_empty(&self) -> bool {
        self.first.get().is_none()
    }

    /// Passes a decision to every observer.
    pub fn decided(&self, decision: &Decision<'_>) {
        self.each(|observer| observer.decided(decision));
    }

    /// Passes to every observer what could not be decided, because the keystore is sealed.
    pub fn sealed(&self, undecided: &Decision<'_>) {
        self.each(|observer| observer.sealed(undecided));
    }

    fn each(&self, call: impl Fn(&dyn DecisionObserver)) {
        let mut next = &self.first;
        while let Some(attached) = next.get() {
            call(&*attached.observer);
            next = &attached.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Counter(AtomicUsize);

    impl DecisionObserver for Counter {
        fn decided(&self, _: &Decision<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn every_observer_receives_each_decision_once() {
        let observers = Observers::default();
        let decision = Decision {
            origin: RequestOrigin::of(EntryPoint::Library),
            principal: Principal::Owner,
            question: Question::Permission,
            operations: &[Operation::Encrypt],
            app: Some("acme"),
            refusal: None,
            is_accounted: false,
        };
        assert!(observers.is_empty());
        observers.decided(&decision);
        let counters: Vec<Arc<Counter>> = (0..3).map(|_| Arc::new(Counter(AtomicUsize::new(0)))).collect();
        for (attached, counter) in counters.iter().enumerate() {
            observers.attach(Arc::<Counter>::clone(counter));
            observers.decided(&decision);
            assert_eq!(counters.iter().filter(|counter| counter.0.load(Ordering::Relaxed) > 0).count(), attached + 1);
        }
        let counts: Vec<usize> = counters.iter().map(|counter| counter.0.load(Ordering::Relaxed)).collect();
        assert_eq!(counts, [3, 2, 1]);
        assert!(!observers.is_empty());
    }
}
