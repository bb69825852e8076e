//! `keys export`, and `keys import` of what it has written.

use std::path::{Path, PathBuf};

use leafseal_engine::admin::{
    AppName, ESCROW_SIGNER, EscrowImport, EscrowImported, EscrowRecipient, RECORD_KEY_SIZE, StoreError,
    read_escrowed_version,
};
use leafseal_engine::{EcContext, system_random};
use serde_json::{Value, json};

use crate::accepted;
use crate::context::RunContext;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::note::note;
use crate::output::OpenOutput;

/// Writes the key versions of an app, encrypted to a recipient.
pub(super) fn export(
    context: &RunContext,
    app: &AppName,
    version: Option<u32>,
    recipient: &Path,
    output: Option<&Path>,
) -> CommandOutcome {
    let text = std::fs::read_to_string(recipient).map_err(|error| CommandFailure::reading(recipient, &error))?;
    let to = EscrowRecipient::from_pem(&text)
        .map_err(|error| CommandFailure::usage(error.to_string()).at(recipient.display()))?;
    let store = context.store()?;
    let keys = store.load_app(app)?.ok_or_else(|| StoreError::UnknownApp(app.clone()))?;
    let signer = store.record_key(ESCROW_SIGNER, None)?;
    let signer = signer.ok_or_else(|| CommandFailure::failed("this keystore has no key to sign an export with"))?;
    let ec = EcContext::new(&mut system_random());
    let mut sealed: Vec<Value> = Vec::new();
    for known in keys.versions.iter().filter(|known| version.is_none_or(|version| version == known.version)) {
        let jwe = to.seal((&keys, known), &signer, &ec, &mut system_random());
        sealed.push(json!({ "version": known.version, "jwe": jwe }));
    }
    if sealed.is_empty() {
        return Err(CommandFailure::failed(format!("app {app} has no such active version: enable it first")));
    }
    // Before anything is written: what cannot be recorded is not read out.
    let versions: Vec<u32> = sealed.iter().filter_map(|it| it["version"].as_u64()?.try_into().ok()).collect();
    store.history().map_or(Ok(()), |history| history.record_export(app, &versions))?;
    let signer = hex::encode(signer.public_key());
    let mut out = OpenOutput::open(output)?;
    out.write(format!("{}\n", json!({ "app": app.as_str(), "signer": signer, "keys": sealed })).as_bytes())?;
    out.finish()?;
    note(format_args!(
        "signer {signer}: note it apart from the export; another keystore imports the keys with it alone"
    ));
    Ok(())
}

/// Takes versions of the app `from` back, into an app that exists or not. `signer`: of another keystore.
pub(super) fn import(
    context: &RunContext,
    app: &AppName,
    (files, from, signer): (&[PathBuf], AppName, Option<[u8; RECORD_KEY_SIZE]>),
) -> CommandOutcome<EscrowImported> {
    let ec = EcContext::new(&mut system_random());
    let read = |path: &PathBuf| read_escrowed_version(path, &ec).map_err(|error| import_failed(error, path));
    let versions = files.iter().map(read).collect::<Result<_, _>>()?;
    let imported = context.store_or_new()?.import_escrow(app, EscrowImport { versions, from, signer })?;
    if let Some((exported, newest)) = imported.versions.last() {
        let kinds = |accept| accepted::listed(accept);
        let accepts = match exported.accept == imported.accept {
            true => format!("accepts {}", kinds(imported.accept)),
            false => format!(
                "accepts {} as before, not {} as the exported app did: leafseal keys accept changes it",
                kinds(imported.accept),
                kinds(exported.accept)
            ),
        };
        note(format_args!("app {app} {accepts}"));
        let (now, then) = (newest.version, exported.version);
        note(format_args!(
            "version {now}, which was {then}, encrypts from now on: if others may have it, leafseal keys rotate {app}"
        ));
    }
    Ok(imported)
}

/// With the file that cannot be imported.
pub(super) fn import_failed(error: StoreError, path: &Path) -> CommandFailure {
    match error {
        StoreError::Import(error) => CommandFailure::failed(error.to_string()).at(path.display()),
        StoreError::Escrow(error) => CommandFailure::failed(error.to_string()).at(path.display()),
        StoreError::Io { source, .. } => CommandFailure::reading(path, &source),
        error => error.into(),
    }
}
