//! `store`: checks everything in the keystore and reports its faults; migrates it; backs it up and restores it; copies it between a file
//! and a database; extracts some apps.

mod history;
mod records;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use leafseal_engine::admin::{
    self, AppName, BackedUp, CheckReport, Copied, Extracted, LocalRootKey, Migration, Restored, StoreAddress,
    StoreError, StoreId, StorePlace, back_up, copy_store, extract_apps,
};
use leafseal_engine::system_random;
use serde_json::json;

use crate::arguments::{AnswerFormat, StoreCommand};
use crate::context::{RunContext, make_folder, read_root_key};
use crate::failure::{CommandFailure, CommandOutcome};
use crate::output::{OpenOutput, print, print_json};
use crate::progress::TerminalProgress;

/// `leafseal store`.
pub(super) fn run(context: &RunContext, command: &StoreCommand) -> CommandOutcome {
    match command {
        StoreCommand::Check { verify_record, form } => check(context, verify_record.as_deref(), *form),
        StoreCommand::Migrate { dry_run, form } => migrate(context, *dry_run, *form),
        StoreCommand::History { last, form } => history::show(&*context.store()?, *last, *form),
        StoreCommand::Backup { file, form } => backup(context, file, *form),
        StoreCommand::Restore { file, accept_store, accept_generation, form } => {
            let restored = file.as_deref().map(|file| restore(context, file, *form));
            restored.unwrap_or(Ok(()))?;
            accept_store.as_deref().map_or(Ok(()), |id| accept_other(context, id, *form))?;
            accept_generation.map_or(Ok(()), |generation| accept(context, generation, *form))
        }
        StoreCommand::Copy { from: Some(from), form, .. } => {
            copy(context, &StoreAddress::File(from), &context.place().address(), *form)
        }
        StoreCommand::Copy { to, form, .. } => {
            let to = to.as_deref().unwrap_or(Path::new(""));
            copy(context, &context.place().address(), &StoreAddress::File(to), *form)
        }
        StoreCommand::Extract { apps, to, root_key_file, form } => {
            let apps = apps.iter().map(|app| AppName::parse(app)).collect::<Result<_, _>>()?;
            extract(context, &apps, &Extract::new(to, root_key_file.as_deref()), *form)
        }
    }
}

fn check(context: &RunContext, log: Option<&Path>, form: AnswerFormat) -> CommandOutcome {
    let store = context.store_of_any_age()?;
    let report = store.check()?;
    let faults: Vec<String> = report.faults.iter().map(ToString::to_string).collect();
    let records = log.map(|log| records::verify(&*store, log)).transpose()?;
    if form.json {
        let mut facts = facts(&report);
        facts["schema_version"] = report.schema_version.into();
        facts["store_id"] = report.store.to_string().into();
        facts["generation"] = report.generation.into();
        facts["faults"] = json!(faults);
        if let Some(records) = &records {
            facts["records"] = records::to_json(records);
        }
        print_json(&facts)?;
    } else {
        // If the database itself is damaged no key is tried.
        let verdict = match faults.len() {
            0 => "every key was opened".to_owned(),
            1 => "1 fault, as far as the store could be read".to_owned(),
            count => format!("{count} faults, as far as the store could be read"),
        };
        print(&format!(
            "{}: {verdict}; keystore {}, generation {}\n",
            counts(&report),
            report.store,
            report.generation
        ))?;
        records.as_ref().map_or(Ok(()), |records| print(&records::to_text(records)))?;
    }
    refuse_faults(&faults, "restore the keystore from a backup")?;
    records.map_or(Ok(()), |records| records::refuse_faults(&records))
}

fn migrate(context: &RunContext, is_dry_run: bool, form: AnswerFormat) -> CommandOutcome {
    let store = context.store()?;
    let mut bar = None;
    let done = match is_dry_run {
        true => store.plan_migration(),
        false => store.migrate(&mut |done, of| {
            bar.get_or_insert_with(|| TerminalProgress::steps("sealing", of)).set(done as u64);
        }),
    };
    drop(bar);
    let Migration { from, to, entry_count } = done?;
    let is_done = from != to && !is_dry_run;
    if is_done {
        let faults: Vec<String> = store.check()?.faults.iter().map(ToString::to_string).collect();
        refuse_faults(&faults, "restore the keystore from a backup")?;
    }
    if form.json {
        return print_json(&json!({ "from": from, "to": to, "entries": entry_count, "migrated": is_done }));
    }
    print(&match (from == to, is_dry_run) {
        (true, _) => format!("the keystore has schema {to}, the newest: nothing to do\n"),
        (false, true) => format!(
            "would migrate from schema {from} to {to}: {entry_count} entries; every key was opened, nothing was changed\n"
        ),
        (false, false) => format!(
            "migrated from schema {from} to {to}: {entry_count} entries; every row was authenticated, every key was opened\n"
        ),
    })
}

fn backup(context: &RunContext, file: &Path, form: AnswerFormat) -> CommandOutcome {
    let is_standard = file == Path::new("-");
    let mut out = OpenOutput::open(Some(file).filter(|_| !is_standard))?;
    let environment = context.environments()?()?;
    let done = back_up(&context.place().address(), environment, context.config().keystore, &mut out);
    let BackedUp { generation, row_count, size } = done.map_err(|error| match error {
        StoreError::BackupWrite(error) => CommandFailure::writing(file.display(), &error),
        error => error.into(),
    })?;
    out.finish()?;
    if is_standard {
        return Ok(());
    }
    if form.json {
        return print_json(&json!({ "generation": generation, "rows": row_count, "bytes": size }));
    }
    let file = file.display();
    print(&format!(
        "backed up to {file}: generation {generation}, rows {row_count}, bytes {size}: every row was authenticated\n"
    ))
}

fn restore(context: &RunContext, file: &Path, form: AnswerFormat) -> CommandOutcome {
    let mut input: Box<dyn Read> = match file == Path::new("-") {
        true => Box::new(std::io::stdin().lock()),
        false => Box::new(File::open(file).map_err(|error| CommandFailure::reading(file, &error))?),
    };
    let place = context.place();
    let done = admin::restore(&mut *input, &place.address(), context.environments()?, context.config().keystore);
    let Restored { generation, row_count, report } = done.map_err(|error| match error {
        StoreError::BackupRead(error) => CommandFailure::reading(file, &error),
        error => error.into(),
    })?;
    let faults: Vec<String> = report.faults.iter().map(ToString::to_string).collect();
    refuse_faults(&faults, "remove the restored keystore, and restore another backup")?;
    if form.json {
        let mut facts = facts(&report);
        facts["generation"] = generation.into();
        facts["rows"] = row_count.into();
        return print_json(&facts);
    }
    let to = place.address().location();
    print(&format!(
        "restored {to}: generation {generation}, rows {row_count}, {}: every row was authenticated, every key was opened\n",
        counts(&report)
    ))
}

fn accept(context: &RunContext, generation: u64, form: AnswerFormat) -> CommandOutcome {
    let folder = context.memory_folder();
    let accepted = context.store_of_any_age()?.accept_generation(generation, folder.as_deref())?;
    if form.json {
        return print_json(&json!({ "accepted": generation, "generation": accepted }));
    }
    print(&format!(
        "generation {generation} of the keystore is accepted and continues as {accepted}, which is newer than what any engine has seen\n"
    ))
}

/// Takes the keystore for the one that belongs in its place.
fn accept_other(context: &RunContext, id: &str, form: AnswerFormat) -> CommandOutcome {
    let invalid = || CommandFailure::usage(format!("{id} is no id of a keystore: leafseal store check prints it"));
    let id = StoreId::parse(id).ok_or_else(invalid)?;
    let folder = context.memory_folder().ok_or_else(|| CommandFailure::usage("keystore.memory_folder is off"))?;
    context.store_of_any_age()?.accept_store(&id, &folder)?;
    if form.json {
        return print_json(&json!({ "accepted_store": id.to_string() }));
    }
    print(&format!("keystore {id} is accepted on this machine in the place of the one that was seen there before\n"))
}

fn copy(context: &RunContext, from: &StoreAddress<'_>, to: &StoreAddress<'_>, form: AnswerFormat) -> CommandOutcome {
    let Copied { row_count, report } = copy_store(from, to, context.environments()?, context.config().keystore)?;
    let faults: Vec<String> = report.faults.iter().map(ToString::to_string).collect();
    refuse_faults(&faults, "the original has the same faults: restore it from a backup, and remove the copy")?;
    if form.json {
        let mut facts = facts(&report);
        facts["rows"] = row_count.into();
        return print_json(&facts);
    }
    let (from, to) = (from.location(), to.location());
    print(&format!(
        "copied {from} to {to}: rows {row_count}, {}: every row was compared, every key was opened\n",
        counts(&report)
    ))
}

/// Where an extract is to be, with the names that a folder has by default.
struct Extract {
    store: PathBuf,
    root_key: PathBuf,
}

impl Extract {
    fn new(folder: &Path, root_key_file: Option<&Path>) -> Self {
        let names = StorePlace::default();
        let root_key = root_key_file.map_or_else(|| folder.join(names.root_key_file), Path::to_owned);
        Self { store: folder.join(names.path), root_key }
    }

    fn root_key_or_new(&self) -> Result<LocalRootKey, StoreError> {
        match LocalRootKey::create_file(&self.root_key, &mut system_random()) {
            Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::AlreadyExists => {
                LocalRootKey::read_file(&self.root_key)
            }
            created => created,
        }
    }
}

fn extract(context: &RunContext, apps: &BTreeSet<AppName>, to: &Extract, form: AnswerFormat) -> CommandOutcome {
    let is_new_key = !to.root_key.exists();
    let is_original = |key: &LocalRootKey| context.root_key().is_ok_and(|original| original.id() == key.id());
    if !is_new_key && is_original(&read_root_key(&to.root_key)?) {
        let path = to.root_key.display();
        return Err(CommandFailure::usage(format!(
            "{path}: the root key of an extract must not be that of the original"
        )));
    }
    make_folder(to.root_key.parent().unwrap_or(Path::new("")))?;
    let of_extract = || to.root_key_or_new().map(|key| context.environment(vec![Box::new(key)]));
    let (place, of_original, limits) = (context.place(), context.environments()?()?, context.config().keystore);
    let Extracted { left_out_count, report } =
        extract_apps(&place.address(), of_original, &to.store, apps, of_extract, limits)?;
    let faults: Vec<String> = report.faults.iter().map(ToString::to_string).collect();
    refuse_faults(&faults, "remove the extract, and run leafseal store check")?;
    let (store, root_key) = (to.store.display(), to.root_key.display());
    if form.json {
        return print_json(&json!({
            "apps": report.app_count,
            "key_versions": report.version_count,
            "left_out": left_out_count,
            "keystore": to.store.to_string_lossy(),
            "root_key": to.root_key.to_string_lossy(),
            "root_key_created": is_new_key,
        }));
    }
    let state = if is_new_key { "created" } else { "existing" };
    print(&format!(
        "extracted to {store}: apps {}, key versions {} (without private keys, because disabled: {left_out_count}); \
         every other key was opened\n\
         root key of the extract: {root_key} ({state}); keep it apart from the keystore\n",
        report.app_count, report.version_count
    ))
}

fn facts(report: &CheckReport) -> serde_json::Value {
    json!({
        "apps": report.app_count,
        "key_versions": report.version_count,
        "clients": report.client_count,
        "api_keys": report.api_key_count,
    })
}

fn counts(report: &CheckReport) -> String {
    format!("apps {}, key versions {}, clients {}", report.app_count, report.version_count, report.client_count)
}

fn refuse_faults(faults: &[String], advice: &str) -> CommandOutcome {
    if faults.is_empty() { Ok(()) } else { Err(CommandFailure::failed(faults.join("\n")).advise(advice)) }
}
