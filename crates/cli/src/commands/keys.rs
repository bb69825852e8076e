//! `keys`: apps and their key versions in the store.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use leafseal_engine::{Curve, EcContext, admin, system_random};

use leafseal_engine::admin::{
    AppName, AppSummary, DeletionPlan, EscrowImported, EscrowStatement, KeyState, NewKeys, VersionSummary,
    public_key_pem, read_private_key_pem,
};
use serde_json::{Value, json};

use super::escrow::import_failed;
use super::{escrow, key_life};
use crate::accepted;
use crate::arguments::{AnswerFormat, ConnectArguments, CurveName, KeysCommand};
use crate::context::RunContext;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::note::note;
use crate::output::{print, print_json};
use crate::transform::connect;
use leafseal_net::utc;

/// `leafseal keys`.
pub(super) fn run(context: &RunContext, command: KeysCommand) -> CommandOutcome {
    match command {
        KeysCommand::Create { app, if_missing, form } => create(context, &AppName::parse(&app)?, if_missing, form),
        KeysCommand::Import { app, r1, k1, escrow: files, from_app, signer, form } => {
            let app = AppName::parse(&app)?;
            if files.is_empty() {
                return import(context, &app, &[(r1, Curve::P256), (k1, Curve::Secp256k1)], form);
            }
            let from = from_app.map_or_else(|| Ok(app.clone()), |from| AppName::parse(&from))?;
            import_escrow(&escrow::import(context, &app, (&files, from, signer))?, &app, form)
        }
        KeysCommand::List { form } => list(context, form),
        KeysCommand::Rotate { app, form } => {
            let app = AppName::parse(&app)?;
            let version = context.store()?.rotate(&app)?;
            tell_version(form, "rotated", &app, &version)
        }
        KeysCommand::Disable { app, version } => {
            let (app, store) = (AppName::parse(&app)?, context.store()?);
            match version {
                Some(version) => store.disable_version(&app, version)?,
                None => store.disable_app(&app)?,
            }
            print(&format!("disabled {}\n", what(&app, version)))
        }
        KeysCommand::Enable { app, version } => {
            let (app, store) = (AppName::parse(&app)?, context.store()?);
            match version {
                Some(version) => store.enable_version(&app, version)?,
                None => store.enable_app(&app)?,
            }
            print(&format!("enabled {}\n", what(&app, version)))
        }
        KeysCommand::Trim { app, keep, version, yes, form } => {
            let named = version.into_iter().collect();
            trim(context, &AppName::parse(&app)?, &Trim { keep, named, confirmed: yes }, form)
        }
        KeysCommand::Export { app, recipient, version, confirm, output } => {
            let app = AppName::parse(&app)?;
            key_life::check_confirmation(&app, &confirm)?;
            escrow::export(context, &app, version, &recipient, output.as_deref())
        }
        KeysCommand::Delete { app, delay, unused_for, confirm, form } => {
            let plan = DeletionPlan { delay, unused_for };
            key_life::delete(context, &AppName::parse(&app)?, plan, confirm.as_deref(), form)
        }
        KeysCommand::Undelete { app } => key_life::undelete(context, &AppName::parse(&app)?),
        KeysCommand::RotateAfter { app, age } => key_life::rotate_after(context, &AppName::parse(&app)?, age),
        KeysCommand::Accept { app, kinds: accept } => {
            let app = AppName::parse(&app)?;
            context.store()?.set_accepted(&app, accept)?;
            let kinds = accepted::listed(accept);
            print(&format!("app {app} accepts {kinds}: running engines follow within seconds\n"))?;
            let scheme = context.config().engine.scheme;
            if !accepted::includes(accept, scheme) {
                note(format_args!(
                    "engine.scheme is {} here: engines with this setting refuse to encrypt for app {app} unless a call names \
                     another scheme",
                    scheme.name()
                ));
            }
            Ok(())
        }
        KeysCommand::Upkeep { form } => key_life::upkeep(context, form),
        KeysCommand::Public { app, curve, pem: _, form, engine } => {
            let keys = public_keys(context, &app, &engine)?;
            print_public(&keys, curve, form)
        }
    }
}

/// Which versions to trim.
struct Trim {
    /// How many of the newest versions to keep.
    keep: Option<usize>,
    /// These only, if there are any.
    named: BTreeSet<u32>,
    confirmed: bool,
}

impl Trim {
    fn versions(&self, summary: &AppSummary) -> BTreeSet<u32> {
        if !self.named.is_empty() {
            return self.named.clone();
        }
        let old = summary.versions.iter().skip(self.keep.unwrap_or(0));
        old.filter(|version| version.state == KeyState::Disabled).map(|version| version.version).collect()
    }
}

/// Destroys the keys of disabled versions, or shows which that would be.
fn trim(context: &RunContext, app: &AppName, trim: &Trim, form: AnswerFormat) -> CommandOutcome {
    let store = context.store()?;
    let summary = store.app_summary(app)?.ok_or_else(|| admin::StoreError::UnknownApp(app.clone()))?;
    let versions = trim.versions(&summary);
    if trim.confirmed {
        store.trim_versions(app, &versions)?;
    }
    if form.json {
        return print_json(&json!({ "app": app.as_str(), "versions": versions, "destroyed": trim.confirmed }));
    }
    if versions.is_empty() {
        return print(&format!("nothing to trim: app {app} has no such disabled version\n"));
    }
    let verb = if trim.confirmed { "destroyed" } else { "would destroy" };
    print(
        &versions
            .iter()
            .map(|version| format!("{verb} the keys of version {version} of app {app}\n"))
            .collect::<String>(),
    )?;
    if !trim.confirmed {
        note(
            "nothing was changed: what these versions encrypted can then never be decrypted again; add --yes to destroy the keys",
        );
    }
    Ok(())
}

fn create(context: &RunContext, app: &AppName, if_missing: bool, form: AnswerFormat) -> CommandOutcome {
    let store = context.store_or_new()?;
    let (verb, summary) = match store.create_app(app, NewKeys::generated()) {
        Err(admin::StoreError::AppExists(_)) if if_missing => {
            ("found", store.app_summary(app)?.ok_or_else(|| admin::StoreError::UnknownApp(app.clone()))?)
        }
        created => ("created", created?),
    };
    tell_version(form, verb, app, &summary.versions[0])
}

fn what(app: &AppName, version: Option<u32>) -> String {
    match version {
        Some(version) => format!("version {version} of app {app}"),
        None => format!("app {app}"),
    }
}

fn import(
    context: &RunContext,
    app: &AppName,
    files: &[(Option<PathBuf>, Curve)],
    form: AnswerFormat,
) -> CommandOutcome {
    let ec = EcContext::new(&mut system_random());
    let mut keys = NewKeys::generated();
    for (path, curve) in files {
        if let Some(path) = path {
            keys = keys.with(read_private_key_pem(path, *curve, &ec).map_err(|error| import_failed(error, path))?);
        }
    }
    let store = context.store_or_new()?;
    let version = match store.app_summary(app)? {
        Some(_) => store.add_version(app, keys)?,
        None => {
            let summary = store.create_app(app, keys)?;
            summary.versions.into_iter().next().expect("an app is made with one version")
        }
    };
    tell_version(form, "imported", app, &version)
}

fn import_escrow(imported: &EscrowImported, app: &AppName, form: AnswerFormat) -> CommandOutcome {
    if let Some((_, newest)) = imported.versions.last()
        && form.json
    {
        return tell_version(form, "imported", app, newest);
    }
    let line = |(exported, version): &(EscrowStatement, VersionSummary)| {
        let (number, at) = (version.version, utc(exported.created_at));
        format!(
            "imported version {number} of app {app}: it was version {} of app {}, created {at}\n",
            exported.version, exported.app
        )
    };
    print(&imported.versions.iter().map(line).collect::<String>())
}

fn tell_version(form: AnswerFormat, done: &str, app: &AppName, version: &VersionSummary) -> CommandOutcome {
    if form.json {
        let mut facts = version_json(version);
        facts["app"] = json!(app.as_str());
        return print_json(&facts);
    }
    print(&format!("{done} version {} of app {app}\n", version.version))
}

fn list(context: &RunContext, form: AnswerFormat) -> CommandOutcome {
    let store = context.store()?;
    let apps = store.list_apps()?;
    let lives = store.life().map_or_else(|| Ok(BTreeMap::new()), |life| life.lives())?;
    if form.json {
        let json = |app: &AppSummary| key_life::with_life(app_json(app), lives.get(&app.name));
        return print_json(&Value::Array(apps.iter().map(json).collect()));
    }
    if apps.is_empty() {
        note("no apps yet: run leafseal keys create APP to create one");
    }
    let width = apps.iter().map(|app| app.name.as_str().len()).max().unwrap_or(0);
    let mut out = String::new();
    for app in &apps {
        for version in &app.versions {
            let delete_at = lives.get(&app.name).and_then(|life| life.delete_at);
            let state = match (delete_at, app.disabled) {
                (Some(at), _) => format!("app deleted from {}", utc(at)),
                (None, true) => "app disabled".to_owned(),
                (None, false) => state(version).to_owned(),
            };
            let (name, number, at) = (app.name.as_str(), version.version, utc(version.created_at));
            let accept = accepted::suffix(app.accept);
            out.push_str(&format!("{name:width$}  version {number:<3}  {at}  {state}{accept}\n"));
        }
        for version in &app.trimmed {
            let (name, number, at) = (app.name.as_str(), version.version, utc(version.created_at));
            out.push_str(&format!("{name:width$}  version {number:<3}  {at}  trimmed\n"));
        }
    }
    print(&out)
}

fn state(version: &VersionSummary) -> &'static str {
    match version.state {
        KeyState::Active => "active",
        KeyState::Disabled => "disabled",
    }
}

fn app_json(app: &AppSummary) -> Value {
    json!({
        "app": app.name.as_str(),
        "created_at": app.created_at,
        "disabled": app.disabled,
        "accept": accepted::words(app.accept),
        "versions": app.versions.iter().map(version_json).collect::<Vec<_>>(),
        "trimmed": app.trimmed.iter().map(|version| version.version).collect::<Vec<_>>(),
    })
}

fn version_json(version: &VersionSummary) -> Value {
    json!({
        "version": version.version,
        "created_at": version.created_at,
        "state": state(version),
        "r1": hex::encode(version.r1.compressed()),
        "k1": hex::encode(version.k1.compressed()),
    })
}

/// Public keys in the printed formats.
struct Published {
    app: String,
    version: u64,
    /// Hexadecimal and PEM, P-256 then secp256k1.
    keys: [(&'static str, String, String); 2],
}

fn public_keys(context: &RunContext, app: &str, engine: &ConnectArguments) -> CommandOutcome<Published> {
    if let Some(address) = &engine.connect {
        let connection = connect(context, address, engine)?;
        let keys = connection.runtime.block_on(connection.client.public_keys(app)).map_err(CommandFailure::from)?;
        let [r1_pem, k1_pem] = [keys.r1_pem, keys.k1_pem].map(Option::unwrap_or_default);
        let keys_of = [("r1", hex::encode(&keys.r1), r1_pem), ("k1", hex::encode(&keys.k1), k1_pem)];
        return Ok(Published { app: keys.app, version: keys.version, keys: keys_of });
    }
    let app = AppName::parse(app)?;
    let store = context.store()?;
    let keys = store.public_keys(&app)?.ok_or_else(|| admin::StoreError::UnknownApp(app.clone()))?;
    let [r1, k1] = [&keys.r1, &keys.k1].map(|key| (hex::encode(key.compressed()), public_key_pem(key)));
    let keys_of = [("r1", r1.0, r1.1), ("k1", k1.0, k1.1)];
    Ok(Published { app: app.to_string(), version: keys.version.into(), keys: keys_of })
}

fn print_public(published: &Published, curve: Option<CurveName>, form: AnswerFormat) -> CommandOutcome {
    let wanted = curve.map(|name| name.curve().short_name());
    let keys = || published.keys.iter().filter(|(name, ..)| wanted.is_none_or(|wanted| wanted == *name));
    if form.json {
        let mut facts = json!({ "app": published.app, "version": published.version });
        for (name, hex, pem) in keys() {
            facts[*name] = json!(hex);
            facts[format!("{name}_pem")] = json!(pem);
        }
        return print_json(&facts);
    }
    print(&keys().map(|(.., pem)| pem.as_str()).collect::<String>())
}
