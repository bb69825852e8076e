//! `api-keys`: manages the keys with which programs call the engine over HTTP.

use std::collections::BTreeSet;

use leafseal_engine::admin::{ApiKey, ApiKeyId, AppName, NewApiKey, Operation, RoleName, Roles};
use leafseal_engine::{ApiKeySecret, system_random};
use serde_json::{Value, json};

use crate::accepted;
use crate::arguments::{AnswerFormat, ApiAllowed, ApiKeysCommand};
use crate::context::RunContext;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::note::note;
use crate::output::{print, print_json};
use leafseal_net::utc;

/// `leafseal api-keys`.
pub(super) fn run(context: &RunContext, command: ApiKeysCommand) -> CommandOutcome {
    match command {
        ApiKeysCommand::Create { app, allow, role, accept, form } => {
            let role: BTreeSet<RoleName> = role.iter().map(|role| RoleName::parse(role)).collect::<Result<_, _>>()?;
            let roles = if role.is_empty() { Roles::Any } else { Roles::Only(role) };
            let operations = allow.into_iter().map(operation).collect();
            let (app, accept, secret) = (AppName::parse(&app)?, accept.unwrap_or_default(), new_secret());
            let new = NewApiKey { app, operations, roles, accept, secret_sha256: secret.sha256() };
            create(context, &new, &secret, form)
        }
        ApiKeysCommand::List { form } => list(context, form),
        ApiKeysCommand::Revoke { id } => {
            // If a user pastes the whole key, errors must not contain it; only its id matters.
            let id = id.strip_prefix("lsk_").map_or(&*id, |key| key.split('_').next().unwrap_or_default());
            let id = ApiKeyId::parse(id).map_err(|error| CommandFailure::usage(error.to_string()))?;
            context.store()?.revoke_api_key(&id)?;
            print(&format!("revoked {id}: running engines refuse it within seconds\n"))
        }
    }
}

fn new_secret() -> ApiKeySecret {
    ApiKeySecret::generate(&mut system_random())
}

fn create(context: &RunContext, new: &NewApiKey, secret: &ApiKeySecret, form: AnswerFormat) -> CommandOutcome {
    let key = context.store()?.create_api_key(new)?;
    let text = secret.text(&key.id);
    if form.json {
        let mut reported = key_json(&key);
        reported["key"] = text.as_str().into();
        return print_json(&reported);
    }
    note(format_args!("id {}; the key is shown only once", key.id));
    print(&format!("{}\n", *text))
}

fn list(context: &RunContext, form: AnswerFormat) -> CommandOutcome {
    let keys = context.store()?.list_api_keys()?;
    if form.json {
        return print_json(&Value::Array(keys.iter().map(key_json).collect()));
    }
    let line = |key: &ApiKey| {
        let revoked = key.revoked_at.map_or_else(String::new, |at| format!("  revoked {}", utc(at)));
        let (id, app, allowed, roles) = (&key.id, &key.app, words(key).join(","), roles(key).join(","));
        let accept = accepted::suffix(key.accept);
        format!("{id}  {app}  allow {allowed}  roles {roles}{accept}  created {}{revoked}\n", utc(key.created_at))
    };
    print(&keys.iter().map(line).collect::<String>())
}

fn key_json(key: &ApiKey) -> Value {
    json!({
        "id": key.id.as_str(),
        "app": key.app.as_str(),
        "allow": words(key),
        "roles": roles(key),
        "accept": accepted::words(key.accept),
        "created_at": key.created_at,
        "revoked_at": key.revoked_at,
    })
}

fn operation(allowed: ApiAllowed) -> Operation {
    match allowed {
        ApiAllowed::Encrypt => Operation::Encrypt,
        ApiAllowed::Decrypt => Operation::Decrypt,
        ApiAllowed::Inspect => Operation::Inspect,
        ApiAllowed::ClientSideTokens => Operation::IssueTokens,
    }
}

fn words(key: &ApiKey) -> Vec<&'static str> {
    key.operations.iter().map(|operation| operation.as_str()).collect()
}

fn roles(key: &ApiKey) -> Vec<&str> {
    match &key.roles {
        Roles::Any => vec!["*"],
        Roles::Only(roles) => roles.iter().map(RoleName::as_str).collect(),
    }
}
