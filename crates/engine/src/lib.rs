//! The entry point to Leafseal: all encryption, decryption, rewrapping and inspection goes through an [`Engine`], which checks
//! permissions, finds the keys, and caches what is worth caching (sealing keys of sessions, opening keys by ephemeral key, tables of
//! recipients).
//!
//! Work is done in steps that the caller drives ([`Encryptor`], [`Decryptor`], [`DocumentEncryption`], …): each step is bounded, borrows
//! its input only for the call, and ends between two values or within a long one, so that a server can run other work in between and stop
//! when the result is not needed any more. Large work is divided for several workers: `fork` prepares another worker for a list of the same
//! request, [`DocumentWork::next_part`] returns a part of the same document.
//!
//! Guarantees: private keys stay inside; every tag, key or content fault is the same `decrypt failed`; no error contains a value. Not here:
//! sockets, wire formats, threads, the queue.

mod account;
mod api_key;
mod app;
mod apps;
mod bindings;
mod canaries;
mod clock;
mod cost;
mod counters;
mod credentials;
mod decrypt;
mod decrypt_options;
mod document;
mod encrypt;
mod engine;
mod error;
mod file;
mod gatherer;
mod inspect;
mod keyring;
mod log_frames;
mod log_origin;
mod long;
mod long_rewrap;
mod long_search;
mod lookup_lane;
mod lookup_memory;
mod lookups;
mod no_store;
mod opening;
mod opening_cache;
mod peer_fault;
mod permissions;
mod recent;
mod recipients;
mod report;
mod request_openings;
mod rewrap;
mod scan;
mod schemes;
mod sealing;
mod sessions;
mod settings;
mod settled;
mod spares;
mod symmetric;
mod token;
mod upkeep;
mod wanted;

pub use account::{AccountedCaller, NAMED_MAX, Named, RequestAccount};
pub use api_key::{ApiCaller, ApiKeySecret, read_api_key};
pub use bindings::{DocumentBinding, OwnBindings, PathBinding};
pub use canaries::canary_identity;
pub use clock::{EngineClock, SystemClock};
pub use cost::{document_work, request_work, values_work};
pub use counters::{CacheCounters, EngineCounters, LookupCounters, ScanCounters, ValueCounts};
pub use decrypt::{DecryptOptions, Decryptor};
pub use document::{
    DocumentDecryption, DocumentEncryption, DocumentInspection, DocumentPart, DocumentRewrap, DocumentWork,
    PlannedPart, Progress, Rewriter, check_document,
};
pub use encrypt::{EncryptOptions, Encryptor};
pub use engine::Engine;
pub use error::{Error, ErrorCode, Side};
pub use file::{FileDecryption, FileEncryption, FileOptions};
pub use inspect::{EnginePublicKeys, EnvelopeMetadata, InspectOptions, Inspector};
pub use leafseal_crypto::random::system_random;
pub use leafseal_crypto::symmetric::SymmetricKeyId;
pub use leafseal_crypto::{
    CryptoRng, Curve, CurveLanes, EcContext, GuardedMemory, Implementations, LanesUnavailable, ProcessMark, PublicKey,
    WipingAllocator, guard_secrets, use_curve_lanes, use_lanes,
};
pub use leafseal_document::{
    BYTE_ORDER_MARK, CaseFold, DocumentLimits, LineFinder, NextLine, Selection, SelectionBuilder,
};
pub use leafseal_envelope::{
    Binding, ENVELOPE_OVERHEAD, InvalidContext, Marking, ORIGIN_LEAFSEAL, OpenedMetadata, OpenedValue, Role, Scheme,
    SealedInput, ValueType,
};
pub use leafseal_errors::{
    Decision, DecisionCounts, DecisionObserver, Denial, EntryPoint, Observers, Principal, Question, RequestOrigin,
};
pub use long::{LongDecryption, LongEncryption, LongStep, Shape};
pub use long_rewrap::LongRewrap;
pub use lookups::LookupRun;
pub use peer_fault::PeerFault;
pub use permissions::{Caller, PayloadDigest, TokenCaller};
pub use report::{Failure, OnFailure, RequestReport};
pub use rewrap::{RewrapOptions, RewrappedText, Rewrapper};
pub use scan::ScanNews;
pub use schemes::AcceptedSchemes;
pub use settings::{EmptyStrings, Keying, Settings};
pub use settled::{Settled, SettledValues};
pub use token::{IssuedToken, PayloadReading, TOKEN_AGE_DEFAULT, TOKEN_AGE_MAX, TokenRequest, TokenRequestReading};
pub use upkeep::UpkeepNews;

/// The audit log, for servers that write it and for its readers.
pub mod audit {
    pub use crate::log_origin::LogName;
    pub use leafseal_audit::*;
}

/// Administration of apps, keys and grants, for the owner of the store.
pub mod admin {
    pub use leafseal_keystore::*;
}

/// Entry points for fuzz targets.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::token::fuzzing::{check_api_key, check_token};
}

/// The work queue, for servers that run the engine's steps on workers.
pub mod pool {
    pub use leafseal_pool::*;
}

/// Version, CPU and the implementation of each primitive, as pairs of name and value.
pub fn facts() -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("architecture", std::env::consts::ARCH.to_owned()),
        ("cpu_features", leafseal_lanes::cpu_features().join(" ")),
    ];
    facts.extend(leafseal_crypto::implementations());
    facts
}
