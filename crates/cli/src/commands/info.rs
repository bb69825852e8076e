//! `info`: properties of this program, or of a running engine.

use serde_json::{Map, Value};

use crate::arguments::InfoArguments;
use crate::context::RunContext;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::output::{print, print_json};
use crate::transform::connect;

/// Those of the engine, and the kinds of key slots that this program can make and open.
fn own_facts() -> Vec<(&'static str, String)> {
    let mut facts = leafseal_engine::facts();
    let kinds: Vec<&str> = leafseal_custody::slot_kinds().iter().map(|kind| kind.name()).collect();
    facts.push(("key_slots", kinds.join(" ")));
    facts
}

/// `leafseal info`.
pub(super) fn run(context: &RunContext, arguments: &InfoArguments) -> CommandOutcome {
    let facts: Vec<(String, String)> = match &arguments.engine.connect {
        Some(address) => {
            let connection = connect(context, address, &arguments.engine)?;
            connection.runtime.block_on(connection.client.info()).map_err(CommandFailure::from)?
        }
        None => own_facts().into_iter().map(|(name, fact)| (name.to_owned(), fact)).collect(),
    };
    if arguments.form.json {
        let facts: Map<String, Value> = facts.into_iter().map(|(name, fact)| (name, Value::String(fact))).collect();
        return print_json(&Value::Object(facts));
    }
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    print(&facts.iter().map(|(name, fact)| format!("{name:width$}  {fact}\n")).collect::<String>())
}
