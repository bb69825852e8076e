//! `store check`: checks everything in the keystore and reports its faults.

use serde_json::json;

use crate::arguments::StoreCommand;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};

/// `fieldseal store`.
pub(super) fn run(context: &Context, command: &StoreCommand) -> Outcome {
    let StoreCommand::Check { form } = command;
    let report = context.store()?.check()?;
    let faults: Vec<String> = report.faults.iter().map(ToString::to_string).collect();
    if form.json {
        print_json(&json!({
            "schema_version": report.schema_version,
            "apps": report.app_count,
            "key_versions": report.version_count,
            "clients": report.client_count,
            "api_keys": report.api_key_count,
            "faults": faults,
        }))?;
    } else {
        let (apps, versions, clients) = (report.app_count, report.version_count, report.client_count);
        let counts = format!("apps {apps}, key versions {versions}, clients {clients}");
        // If the database itself is damaged no key is tried.
        let verdict = match faults.len() {
            0 => "every key was opened".to_owned(),
            1 => "1 fault, as far as the store could be read".to_owned(),
            count => format!("{count} faults, as far as the store could be read"),
        };
        print(&format!("{counts}: {verdict}\n"))?;
    }
    if faults.is_empty() {
        return Ok(());
    }
    Err(Failure::failed(faults.join("\n")).advise("restore the keystore from a backup"))
}
