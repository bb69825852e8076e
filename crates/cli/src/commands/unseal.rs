//! `unseal`: brings a passphrase or shares to an engine whose keystore is sealed.

use leafseal_client::{UnsealKeyParams, UnsealKeyResult, UnsealParams, UnsealResult};
use leafseal_engine::admin::{StoreError, seal_unseal_text};
use serde_json::json;

use crate::allocator;
use crate::arguments::UnsealArguments;
use crate::context::RunContext;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::input::read_secret;
use crate::output::{print, print_json};
use crate::transform::connect;

/// `leafseal unseal`.
pub(super) fn run(context: &RunContext, arguments: &UnsealArguments) -> CommandOutcome {
    // Buffers that the secret was read into hold it, too.
    allocator::set_wiping(true);
    let address = arguments.engine.connect.as_deref();
    let address = address.ok_or_else(|| CommandFailure::usage("--connect HOST:PORT: name the engine to unseal"))?;
    let secret = read_secret(arguments.file.as_deref(), "Passphrase or share")?;
    let engine = connect(context, address, &arguments.engine)?;
    let UnsealKeyResult { public_key } = engine.runtime.block_on(engine.client.query(&UnsealKeyParams {}))?;
    let sealed = seal_unseal_text(&public_key, secret.trim_ascii()).map_err(StoreError::from)?;
    let params = UnsealParams { secret: &sealed };
    let UnsealResult { status, missing } = engine.runtime.block_on(engine.client.query(&params))?;
    if arguments.form.json {
        return print_json(&json!({ "status": status, "missing": missing }));
    }
    print(&match status.as_str() {
        UnsealResult::UNSEALED => "the keystore is open\n".to_owned(),
        UnsealResult::OPEN => "the keystore was open already\n".to_owned(),
        _ => format!("the share is kept; missing: {missing}\n"),
    })
}
