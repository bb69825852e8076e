//! One table of requests and the decisions that each must give, and a store whose callers make them. Each entry point runs its part of the
//! table.

use std::collections::BTreeSet;
use std::sync::Arc;

use leafseal_engine::admin::{
    AcceptedSchemes, ApiKeyId, AppName, Apps, ClientName, Keystore, NewApiKey, NewClient, Operation, RoleName, Roles,
};
use leafseal_engine::{
    ApiKeySecret, Caller, EncryptOptions, Engine, EntryPoint, Progress, Settings, read_api_key, system_random,
};

use crate::{RecordedDecisions, ScratchStore};

/// The app of most cases.
pub const CASE_APP: &str = "acme";
/// An app that is disabled.
pub const DISABLED_APP: &str = "closed";

/// The caller. At entry points without permissions it is the owner of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseCaller {
    /// May do everything.
    All,
    /// May only encrypt.
    Writer,
    /// May decrypt, values of the role `card` alone.
    Reader,
    /// Has a grant, or a key, that was disabled.
    Revoked,
    /// Has credentials that were never granted anything.
    Stranger,
    /// Has no credentials.
    Nobody,
}

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseRequest {
    /// Encrypts a value.
    Encrypt,
    /// Encrypts what is not an envelope already.
    SkipSealed,
    /// Makes a symmetric envelope of one to a public key with the role `health`.
    Reseal,
    /// Decrypts a value with the role `health`.
    Decrypt,
    /// Rewraps a value.
    Rewrap,
    /// Reads the metadata in an envelope.
    Inspect,
    /// Reads the public keys.
    PublicKeys,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct DecisionCase {
    /// A description, for the report.
    pub name: &'static str,
    /// The caller.
    pub caller: CaseCaller,
    /// For what.
    pub request: CaseRequest,
    /// For which app.
    pub app: &'static str,
    entry_points: &'static [EntryPoint],
    expected: &'static [&'static str],
}

const EVERY: &[EntryPoint] = EntryPoint::ALL;
const WITH_CALLERS: &[EntryPoint] = &[EntryPoint::Rpc, EntryPoint::Api, EntryPoint::Relay];
const BY_KEY: &[EntryPoint] = &[EntryPoint::Api, EntryPoint::Relay];
const INSPECTING: &[EntryPoint] = &[EntryPoint::Rpc, EntryPoint::Api, EntryPoint::Library];
/// An interface that takes requests of every kind.
const ENGINE: &[EntryPoint] = &[EntryPoint::Rpc, EntryPoint::Cli, EntryPoint::Library];

macro_rules! cases {
    ($($name:literal: $caller:ident $request:ident $app:expr, $entry_points:expr => $($expected:literal),+;)+) => {
        [$(DecisionCase {
            name: $name,
            caller: CaseCaller::$caller,
            request: CaseRequest::$request,
            app: $app,
            entry_points: $entry_points,
            expected: &[$($expected),+],
        }),+]
    };
}

static CASES: [DecisionCase; 23] = cases! {
    "a permitted encryption": All Encrypt CASE_APP, EVERY => "permission encrypt acme granted";
    "a permitted search for envelopes": All SkipSealed CASE_APP, EVERY => "permission encrypt+decrypt acme granted";
    "a permitted resealing": All Reseal CASE_APP, EVERY => "permission encrypt+decrypt acme granted";
    "a permitted decryption": All Decrypt CASE_APP, EVERY => "permission decrypt acme granted";
    "a permitted rewrap": All Rewrap CASE_APP, ENGINE => "permission encrypt+decrypt acme granted";
    "a permitted inspection": All Inspect CASE_APP, INSPECTING => "permission inspect acme granted";
    "public keys for anyone": Nobody PublicKeys CASE_APP, &[EntryPoint::Api] => "permission - acme granted";
    "public keys for a client": Writer PublicKeys CASE_APP, &[EntryPoint::Rpc] => "permission - acme granted";
    "an operation that is not granted": Writer Decrypt CASE_APP, WITH_CALLERS => "permission decrypt acme forbidden";
    "one of two operations that is not granted": Writer SkipSealed CASE_APP, WITH_CALLERS =>
        "permission encrypt+decrypt acme forbidden";
    "resealing without the permission to decrypt": Writer Reseal CASE_APP, WITH_CALLERS =>
        "permission encrypt+decrypt acme forbidden";
    "resealing without the permission to encrypt": Reader Reseal CASE_APP, &[EntryPoint::Rpc, EntryPoint::Relay] =>
        "permission encrypt+decrypt acme forbidden";
    "resealing with a key that may not encrypt": Reader Reseal CASE_APP, &[EntryPoint::Api] =>
        "permission encrypt acme forbidden";
    "a role that is not granted": Reader Decrypt CASE_APP, &[EntryPoint::Rpc, EntryPoint::Api] =>
        "permission decrypt acme granted", "role decrypt acme forbidden";
    "a role about which the engine decides": Reader Decrypt CASE_APP, &[EntryPoint::Relay] => "permission decrypt acme granted";
    "an app that does not exist": All Encrypt "nowhere", ENGINE => "permission encrypt nowhere unknown_app";
    "an app that is disabled": All Encrypt DISABLED_APP, &[EntryPoint::Rpc, EntryPoint::Api, EntryPoint::Cli, EntryPoint::Library] =>
        "permission encrypt closed app_disabled";
    "a certificate that was revoked": Revoked Encrypt CASE_APP, &[EntryPoint::Rpc] => "identity - - forbidden";
    "a certificate without a grant": Stranger Encrypt CASE_APP, &[EntryPoint::Rpc] => "identity - - forbidden";
    "no certificate": Nobody Encrypt CASE_APP, &[EntryPoint::Rpc] => "identity - - forbidden";
    "a key that was revoked": Revoked Encrypt CASE_APP, BY_KEY => "identity - - unauthorized";
    "a key that does not exist": Stranger Encrypt CASE_APP, BY_KEY => "identity - - unauthorized";
    "no key": Nobody Encrypt CASE_APP, BY_KEY => "identity - - unauthorized";
};

/// The cases of an entry point.
pub fn decision_cases(entry_point: EntryPoint) -> impl Iterator<Item = &'static DecisionCase> {
    CASES.iter().filter(move |case| case.entry_points.contains(&entry_point))
}

impl DecisionCase {
    /// The decisions that the request gives at `entry_point`, as [`RecordedDecisions`] returns them.
    pub fn expected(&self, entry_point: EntryPoint) -> Vec<String> {
        let principal = match (entry_point, self.caller) {
            (EntryPoint::Cli | EntryPoint::Library, _) => "owner",
            (_, CaseCaller::Nobody) => "anonymous",
            (EntryPoint::Rpc, caller) => caller.client(),
            // The relay learns the id of a key from the engine.
            (EntryPoint::Relay, CaseCaller::Revoked | CaseCaller::Stranger) => "anonymous",
            (EntryPoint::Api | EntryPoint::Relay, _) => "key",
        };
        self.expected.iter().map(|words| format!("{} {principal} {words}", entry_point.as_str())).collect()
    }
}

impl CaseCaller {
    /// The name in the caller's certificate.
    pub fn client(self) -> &'static str {
        match self {
            CaseCaller::All => "all",
            CaseCaller::Writer => "writer",
            CaseCaller::Reader => "reader",
            CaseCaller::Revoked => "revoked",
            CaseCaller::Stranger => "stranger",
            CaseCaller::Nobody => "nobody",
        }
    }

    fn operations(self) -> BTreeSet<Operation> {
        match self {
            CaseCaller::Writer => BTreeSet::from([Operation::Encrypt]),
            CaseCaller::Reader => BTreeSet::from([Operation::Decrypt, Operation::Inspect]),
            _ => Operation::ALL.iter().copied().collect(),
        }
    }

    fn roles(self) -> Roles {
        let card = || BTreeSet::from([RoleName::parse("card").expect("a role")]);
        if self == CaseCaller::Reader { Roles::Only(card()) } else { Roles::Any }
    }
}

/// An engine with the callers of the table, and its decisions.
pub struct DecisionFixture {
    /// The engine.
    pub engine: Engine,
    /// The decisions that its observer has received.
    pub decisions: Arc<RecordedDecisions>,
    /// A JSON string: an envelope to a public key with the role `health`.
    pub sealed: String,
    keys: Vec<(CaseCaller, &'static str, String)>,
    _store: ScratchStore,
}

impl Default for DecisionFixture {
    fn default() -> Self {
        Self::new()
    }
}

impl DecisionFixture {
    /// Creates the store, an engine over it and an observer.
    ///
    /// # Panics
    /// On a disk that cannot be written.
    pub fn new() -> Self {
        let store = ScratchStore::new(&[CASE_APP, DISABLED_APP]);
        let keystore = store.open();
        let name = |text: &str| AppName::parse(text).expect("a name");
        let mut keys = Vec::new();
        for caller in [CaseCaller::All, CaseCaller::Writer, CaseCaller::Reader, CaseCaller::Revoked] {
            add_client(&keystore, caller);
            for app in [CASE_APP, DISABLED_APP] {
                let (id, text) = add_key(&keystore, caller, name(app));
                if caller == CaseCaller::Revoked {
                    keystore.revoke_api_key(&id).expect("revoked");
                }
                keys.push((caller, app, text));
            }
        }
        let revoked = ClientName::parse(CaseCaller::Revoked.client()).expect("a name");
        keystore.disable_client(&revoked).expect("disabled");
        keystore.disable_app(&name(DISABLED_APP)).expect("disabled");
        let engine = Engine::new(Box::new(store.open()), Settings::default());
        engine.maintain().expect("refreshed");
        let sealed = sealed(&engine);
        let decisions = RecordedDecisions::new();
        engine.observe_decisions(Arc::<RecordedDecisions>::clone(&decisions));
        Self { engine, decisions, sealed, keys, _store: store }
    }

    /// The API key of a caller for an app; `None` if it has none.
    pub fn api_key(&self, caller: CaseCaller, app: &str) -> Option<String> {
        match caller {
            CaseCaller::Nobody => None,
            CaseCaller::Stranger => {
                let id = ApiKeyId::parse("00112233aabbccdd").expect("an id");
                Some(ApiKeySecret::generate(&mut system_random()).text(&id).to_string())
            }
            _ => self
                .keys
                .iter()
                .find(|(of, for_app, _)| *of == caller && *for_app == app)
                .map(|(.., text)| text.clone()),
        }
    }
}

/// The id in an API key's text.
///
/// # Panics
/// If it is no key.
pub fn id_of(key: &str) -> ApiKeyId {
    read_api_key(key).expect("a key").0
}

fn add_client(keystore: &dyn Keystore, caller: CaseCaller) {
    let granted = caller.operations().into_iter();
    let client = NewClient {
        name: ClientName::parse(caller.client()).expect("a name"),
        apps: Apps::All,
        operations: granted.filter(|operation| matches!(operation, Operation::Encrypt | Operation::Decrypt)).collect(),
        roles: caller.roles(),
        accept: AcceptedSchemes::ALL,
        certificate_sha256: None,
    };
    keystore.put_client(&client).expect("stored");
}

fn add_key(keystore: &dyn Keystore, caller: CaseCaller, app: AppName) -> (ApiKeyId, String) {
    let secret = ApiKeySecret::generate(&mut system_random());
    let (operations, roles, secret_sha256) = (caller.operations(), caller.roles(), secret.sha256());
    let id = keystore
        .create_api_key(&NewApiKey { app, operations, roles, accept: AcceptedSchemes::ALL, secret_sha256 })
        .expect("stored")
        .id;
    let text = secret.text(&id).to_string();
    (id, text)
}

fn sealed(engine: &Engine) -> String {
    let (options, document) = (EncryptOptions { role: Some("health"), ..EncryptOptions::new(CASE_APP) }, b"\"a\"");
    let work = engine.encrypt_document(&Caller::Owner, &options, None, document.len());
    let (mut work, mut out) = (work.expect("granted"), Vec::new());
    while work.step(document, &mut out).expect("encrypted") == Progress::More {}
    String::from_utf8(out).expect("UTF-8")
}
