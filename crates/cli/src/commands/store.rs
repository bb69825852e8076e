//! `store`: checks everything in the keystore and reports its faults; copies it between a file and a database.

use std::path::Path;

use fieldseal_engine::admin::{CheckReport, Copied, StoreAddress, copy_store};
use serde_json::json;

use crate::arguments::{Form, StoreCommand};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};

/// `fieldseal store`.
pub(super) fn run(context: &Context, command: &StoreCommand) -> Outcome {
    match command {
        StoreCommand::Check { form } => check(context, *form),
        StoreCommand::Copy { from: Some(from), form, .. } => {
            copy(context, &StoreAddress::File(from), &context.place().address(), *form)
        }
        StoreCommand::Copy { to, form, .. } => {
            let to = to.as_deref().unwrap_or(Path::new(""));
            copy(context, &context.place().address(), &StoreAddress::File(to), *form)
        }
    }
}

fn check(context: &Context, form: Form) -> Outcome {
    let report = context.store()?.check()?;
    let faults: Vec<String> = report.faults.iter().map(ToString::to_string).collect();
    if form.json {
        let mut facts = facts(&report);
        facts["schema_version"] = report.schema_version.into();
        facts["faults"] = json!(faults);
        print_json(&facts)?;
    } else {
        // If the database itself is damaged no key is tried.
        let verdict = match faults.len() {
            0 => "every key was opened".to_owned(),
            1 => "1 fault, as far as the store could be read".to_owned(),
            count => format!("{count} faults, as far as the store could be read"),
        };
        print(&format!("{}: {verdict}\n", counts(&report)))?;
    }
    refuse_faults(&faults, "restore the keystore from a backup")
}

fn copy(context: &Context, from: &StoreAddress<'_>, to: &StoreAddress<'_>, form: Form) -> Outcome {
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

fn refuse_faults(faults: &[String], advice: &str) -> Outcome {
    if faults.is_empty() { Ok(()) } else { Err(Failure::failed(faults.join("\n")).advise(advice)) }
}
