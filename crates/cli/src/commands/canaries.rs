//! `canaries`: envelopes that raise an alarm when someone decrypts them.

use leafseal_engine::admin::{AppName, Canary, Keystore, StoreCanaries};
use leafseal_engine::{
    Caller, CryptoRng, EncryptOptions, Engine, Scheme, SealedInput, ValueType, canary_identity, system_random,
};
use serde_json::{Value, json};

use crate::arguments::{AddCanaryArguments, AnswerFormat, CanariesCommand};
use crate::context::RunContext;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::output::{print, print_json};

/// Records in the history of the keystore, when a command ends, that it has opened canaries, if it has.
pub(super) struct CanaryNote(Engine, String);

impl CanaryNote {
    pub(super) fn of(engine: &Engine, app: &str) -> Self {
        Self(engine.clone(), app.to_owned())
    }
}

impl Drop for CanaryNote {
    fn drop(&mut self) {
        let Ok(app) = AppName::parse(&self.1) else { return };
        // Whoever looks must see no difference.
        let _ = self.0.record_opened_canaries(&app);
    }
}

/// `leafseal canaries`.
pub(super) fn run(context: &RunContext, command: &CanariesCommand) -> CommandOutcome {
    match command {
        CanariesCommand::Add(arguments) => add(context, arguments),
        CanariesCommand::List { app, form } => list(context, app, *form),
        CanariesCommand::Remove { app, id } => remove(context, app, id),
    }
}

fn of(store: &dyn Keystore) -> CommandOutcome<&dyn StoreCanaries> {
    store.canaries().ok_or_else(|| CommandFailure::failed("this keystore has no canaries"))
}

fn add(context: &RunContext, arguments: &AddCanaryArguments) -> CommandOutcome {
    let (engine, app) = (context.engine()?, AppName::parse(&arguments.app)?);
    let text = arguments.text.clone().unwrap_or_else(|| card_number(&mut system_random()));
    let options = EncryptOptions {
        scheme: arguments.scheme.map(Scheme::from),
        role: arguments.role.as_deref(),
        context: arguments.context.as_deref(),
        ..EncryptOptions::new(app.as_str())
    };
    let mut envelope = Vec::new();
    let value = SealedInput { value_type: ValueType::String, text: text.as_bytes() };
    let mut encryptor = engine.encryptor(&Caller::Owner, &options)?;
    encryptor.encrypt(&[value], &mut envelope, |_, _, _| ())?;
    let (identity, scheme) = canary_identity(&envelope).ok_or_else(|| CommandFailure::internal("no envelope"))?;
    // Before anybody can have it.
    let canary = of(&*context.store()?)?.add_canary(&app, &identity, scheme)?;
    let envelope = String::from_utf8_lossy(&envelope);
    match arguments.form.json {
        true => print_json(&json!({ "id": canary.id, "scheme": canary.scheme, "envelope": envelope })),
        false => print(&format!("{envelope}\n")),
    }
}

/// A number of 16 digits with the check digit of Luhn, as cards have it.
fn card_number(rng: &mut impl CryptoRng) -> String {
    let mut digits = vec![4];
    digits.extend((1..15).map(|_| rng.next_u32() % 10));
    let doubled = |(index, digit): (usize, &u32)| match index % 2 {
        0 => (digit * 2) / 10 + (digit * 2) % 10,
        _ => *digit,
    };
    let sum: u32 = digits.iter().enumerate().map(doubled).sum();
    digits.push((10 - sum % 10) % 10);
    digits.iter().map(u32::to_string).collect()
}

fn list(context: &RunContext, app: &str, form: AnswerFormat) -> CommandOutcome {
    let canaries = of(&*context.store()?)?.canaries(&AppName::parse(app)?)?;
    if form.json {
        let value = |it: &Canary| json!({ "id": it.id, "scheme": it.scheme, "created_at": it.created_at });
        return print_json(&Value::Array(canaries.iter().map(value).collect()));
    }
    let line = |it: &Canary| {
        format!("{}  {}  created {}\n", it.id, it.scheme, leafseal_engine::audit::unix_time_text(it.created_at))
    };
    print(&canaries.iter().map(line).collect::<String>())
}

fn remove(context: &RunContext, app: &str, id: &str) -> CommandOutcome {
    let app = AppName::parse(app)?;
    match of(&*context.store()?)?.remove_canary(&app, id)? {
        true => Ok(()),
        false => Err(CommandFailure::failed(format!("app {app} has no canary {id}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_pass_the_check_of_cards() {
        for _ in 0..50 {
            let number = card_number(&mut system_random());
            let digits = number.bytes().rev().map(|byte| u32::from(byte - b'0')).enumerate();
            let sum: u32 = digits.map(|(i, digit)| if i % 2 == 1 { (digit * 2) % 10 + digit / 5 } else { digit }).sum();
            assert!(number.len() == 16 && sum.is_multiple_of(10), "{number}");
        }
    }
}
