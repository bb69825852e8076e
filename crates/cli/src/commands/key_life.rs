//! `keys delete`, `undelete`, `rotate-after` and `upkeep`: the life of an app's keys.

use leafseal_engine::admin::{AppLife, AppName, DeletionPlan, KeyLife, Keystore, RotationRule, StoreError, Upkeep};
use leafseal_net::utc;
use serde_json::{Value, json};

use crate::arguments::AnswerFormat;
use crate::context::RunContext;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::note::note;
use crate::output::{print, print_json};

fn life(store: &dyn Keystore) -> CommandOutcome<&dyn KeyLife> {
    store.life().ok_or_else(|| CommandFailure::failed("this keystore cannot be changed"))
}

/// Plans the deletion of an app, or shows what it would be.
pub(super) fn delete(
    context: &RunContext,
    app: &AppName,
    plan: DeletionPlan,
    confirmed: Option<&str>,
    form: AnswerFormat,
) -> CommandOutcome {
    let store = context.store()?;
    let summary = store.app_summary(app)?.ok_or_else(|| StoreError::UnknownApp(app.clone()))?;
    confirmed.map_or(Ok(()), |name| check_confirmation(app, name))?;
    let delete_at = confirmed.map(|_| life(&*store)?.schedule_deletion(app, plan).map_err(CommandFailure::from));
    let delete_at = delete_at.transpose()?;
    if form.json {
        return print_json(&json!({ "app": app.as_str(), "planned": delete_at.is_some(), "delete_at": delete_at }));
    }
    let Some(at) = delete_at else {
        print(&format!("would disable app {app} and delete its {} key versions\n", summary.versions.len()))?;
        note(format_args!(
            "nothing was changed: what these keys encrypted can then never be decrypted again; add --confirm {app} to delete them"
        ));
        return Ok(());
    };
    print(&format!(
        "disabled app {app}: its keys are deleted from {} on; leafseal keys undelete {app} undoes it\n",
        utc(at)
    ))?;
    if store.is_shared() {
        note(
            "engines whose role in the database has SELECT alone record no use of an app: that none is recorded says nothing of them",
        );
    }
    Ok(())
}

/// Checks that the name of an app was repeated.
pub(super) fn check_confirmation(app: &AppName, name: &str) -> CommandOutcome {
    if name == app.as_str() {
        return Ok(());
    }
    Err(CommandFailure::usage(format!("--confirm must repeat the name of the app: {app}")))
}

/// Cancels the deletion of an app.
pub(super) fn undelete(context: &RunContext, app: &AppName) -> CommandOutcome {
    life(&*context.store()?)?.cancel_deletion(app)?;
    print(&format!("app {app} is as it was before its deletion was planned\n"))
}

/// Sets when an app's keys are rotated.
pub(super) fn rotate_after(context: &RunContext, app: &AppName, rule: RotationRule) -> CommandOutcome {
    life(&*context.store()?)?.set_rotation(app, rule)?;
    let when = match rule {
        RotationRule::Default => "as engine.rotate_after has it".to_owned(),
        RotationRule::Never => "by command alone".to_owned(),
        RotationRule::After(age) => format!("at an age of {}", leafseal_config::write_duration(age)),
    };
    print(&format!("the keys of app {app} are rotated {when}\n"))
}

/// Rotates and deletes what is due.
pub(super) fn upkeep(context: &RunContext, form: AnswerFormat) -> CommandOutcome {
    let settings = &context.config().engine;
    let (after, put_off) = (settings.rotate_after, settings.use_record_interval);
    let (store, mut done) = (context.store()?, Upkeep::default());
    while !done.is_complete {
        let next = life(&*store)?.upkeep((!after.is_zero()).then_some(after), put_off)?;
        done.rotated.extend(next.rotated);
        done.deleted.extend(next.deleted);
        done.put_off.extend(next.put_off);
        done.failed.extend(next.failed);
        done.is_complete = next.is_complete;
    }
    if form.json {
        let rotated = done.rotated.iter().map(|(app, version)| json!({ "app": app.as_str(), "version": version }));
        let deleted: Vec<&str> = done.deleted.iter().map(AppName::as_str).collect();
        let put_off = done.put_off.iter().map(|(app, until)| json!({ "app": app.as_str(), "delete_at": until }));
        print_json(&json!({
            "rotated": rotated.collect::<Vec<_>>(), "deleted": deleted, "put_off": put_off.collect::<Vec<_>>(),
        }))?;
    } else {
        let rotated = done.rotated.iter().map(|(app, version)| format!("rotated version {version} of app {app}\n"));
        let deleted = done.deleted.iter().map(|app| format!("deleted app {app} with its keys\n"));
        let put_off = done.put_off.iter().map(|(app, until)| {
            format!(
                "put off the deletion of app {app} until {}: its envelopes were opened after the request\n",
                utc(*until)
            )
        });
        let lines: String = rotated.chain(deleted).chain(put_off).collect();
        print(if lines.is_empty() { "nothing is due\n" } else { &lines })?;
    }
    let failures: Vec<String> = done.failed.iter().map(|(app, error)| format!("app {app}: {error}")).collect();
    if failures.is_empty() { Ok(()) } else { Err(CommandFailure::failed(failures.join("\n"))) }
}

/// The facts of an app, with what is planned for it.
pub(super) fn with_life(mut app: Value, life: Option<&AppLife>) -> Value {
    let Some(life) = life else { return app };
    for (name, at) in [("delete_at", life.delete_at), ("used_at", life.used_at)] {
        if let Some(at) = at {
            app[name] = at.into();
        }
    }
    match life.rotation {
        RotationRule::Default => {}
        RotationRule::Never => app["rotate_after"] = "never".into(),
        RotationRule::After(age) => app["rotate_after"] = leafseal_config::write_duration(age).into(),
    }
    app
}
