//! The methods without values of users. Each is answered in one step.

use leafseal_engine::{Caller, Engine, admin};
use leafseal_protocol::{
    ApiKeyFacts, AuthenticateParams, ErrorCode, ErrorObject, FrameLimits, InfoResult, PROTOCOL_VERSION, PublicKeySet,
    PublicKeysParams, Query, answer,
};

use super::convert;

/// Answers a query of `caller`. `limits` are those of the listener.
pub(super) fn answer(
    engine: &Engine,
    caller: &Caller,
    (id, query): (u32, &Query<'_>),
    limits: &FrameLimits,
    out: &mut Vec<u8>,
) -> Result<(), ErrorObject> {
    match query {
        Query::PublicKeys(params) => answer::result(id, &public_keys(engine, caller, params)?, out),
        Query::Authenticate(params) => answer::result(id, &authenticate(engine, caller, params)?, out),
        Query::Info(_) => answer::result(id, &info(engine, caller, limits)?, out),
        Query::UnsealKey(_) | Query::Unseal(_) => {
            return Err(ErrorObject::new(ErrorCode::Internal, "the unsealer answers unseal"));
        }
        Query::Health(_) => return Err(ErrorObject::new(ErrorCode::Internal, "the listener answers health")),
    }
    Ok(())
}

fn public_keys(engine: &Engine, caller: &Caller, params: &PublicKeysParams<'_>) -> Result<PublicKeySet, ErrorObject> {
    let keys = engine.public_keys(caller, params.app).map_err(convert::error)?;
    Ok(PublicKeySet {
        app: params.app.to_owned(),
        version: u64::from(keys.version),
        r1: keys.r1.compressed().to_vec(),
        k1: keys.k1.compressed().to_vec(),
        r1_pem: Some(admin::public_key_pem(&keys.r1)),
        k1_pem: Some(admin::public_key_pem(&keys.k1)),
    })
}

fn authenticate(engine: &Engine, caller: &Caller, params: &AuthenticateParams<'_>) -> Result<ApiKeyFacts, ErrorObject> {
    let shown = engine.authenticate(caller, params.api_key.0, params.client).map_err(convert::error)?;
    Ok(ApiKeyFacts {
        key_id: shown.id().as_str().to_owned(),
        app: shown.app().as_str().to_owned(),
        operations: shown.operations().iter().map(|operation| operation.as_str().to_owned()).collect(),
        roles: match shown.roles() {
            admin::Roles::Any => None,
            admin::Roles::Only(roles) => Some(roles.iter().map(|role| role.as_str().to_owned()).collect()),
        },
    })
}

/// The properties that `docs/protocol.md` specifies, and those of the engine.
fn info(engine: &Engine, caller: &Caller, limits: &FrameLimits) -> Result<InfoResult, ErrorObject> {
    engine.admit(caller).map_err(convert::error)?;
    let facts = [
        ("protocol", PROTOCOL_VERSION.to_string()),
        ("frame_size_max", limits.frame_size_max.to_string()),
        ("elements_max", limits.elements_max.to_string()),
        ("depth_max", limits.depth_max.to_string()),
    ];
    let facts = facts.into_iter().chain(leafseal_engine::facts());
    Ok(InfoResult { facts: facts.map(|(name, fact)| (name.to_owned(), fact)).collect() })
}
