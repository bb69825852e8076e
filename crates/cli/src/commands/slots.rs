//! `slot`: the ways to open the keystore, and a new root for it.

use std::path::Path;
use std::time::{Duration, Instant};

use leafseal_engine::admin::{
    Argon2Cost, KeyShare, LocalRootKey, Passphrase, ProviderError, RemainingSlots, RootRotation, ShamirKey, SlotId,
    SlotProvider, SlotSummary, StoreError,
};
use leafseal_engine::system_random;
use leafseal_net::utc;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::arguments::{AnswerFormat, SlotAddArguments, SlotCommand};
use crate::context::{RunContext, read_root_key};
use crate::failure::{CommandFailure, CommandOutcome};
use crate::input::read_secret_line;
use crate::note::note;
use crate::output::{deliver, print, print_json};
use crate::progress::TerminalProgress;

/// How often the wait for engines shows its progress.
const STEP: Duration = Duration::from_millis(200);

/// `leafseal slot`.
pub(super) fn run(context: &RunContext, command: &SlotCommand) -> CommandOutcome {
    match command {
        SlotCommand::List { form } => list(context, *form),
        SlotCommand::Add(arguments) => add(context, arguments),
        SlotCommand::Remove { id, others_untested } => remove(context, id, *others_untested),
        SlotCommand::RotateRoot { compromised, link_seconds, form } => {
            let link = (!compromised).then(|| Duration::from_secs(*link_seconds));
            rotate_root(context, link, *form)
        }
    }
}

fn list(context: &RunContext, form: AnswerFormat) -> CommandOutcome {
    let store = context.store()?;
    let slots = store.slots()?;
    // As a killed rotate-root leaves them. Who may only read lists all the same.
    let _ = store.remove_ended_root_links();
    if form.json {
        return print_json(&slots.iter().map(fact).collect::<Vec<_>>().into());
    }
    if slots.is_empty() {
        return print("no slots: the root key opens this keystore of schema 2 (leafseal store migrate)\n");
    }
    let mut text = String::new();
    for SlotSummary { id, kind, key_name, created_at } in &slots {
        let note = if kind.is_quantum_safe() { "" } else { "  (not safe against quantum computers)" };
        text += &format!("{id}  {kind:<10}  {}  {key_name}{note}\n", utc(*created_at));
    }
    print(&text)
}

fn fact(slot: &SlotSummary) -> Value {
    let SlotSummary { id, kind, key_name, created_at } = slot;
    json!({ "id": id.to_string(), "kind": kind.name(), "key": key_name, "created_at": created_at, "quantum_safe": kind.is_quantum_safe() })
}

/// What a new slot is opened with.
enum NewSlot {
    Provider(Box<dyn SlotProvider>),
    Shares(ShamirKey, (u8, u8)),
}

impl NewSlot {
    fn of(context: &RunContext, arguments: &SlotAddArguments) -> CommandOutcome<Self> {
        if let Some(custodian) = arguments.custodian() {
            let keys = [&[custodian.key()], custodian.other_keys()].concat().join(", ");
            let provider = context.custodian(custodian);
            let provider = provider.ok_or_else(|| CommandFailure::usage(format!("set {keys}")));
            return Ok(Self::Provider(provider?));
        }
        if let Some(path) = &arguments.root_key_file {
            return Ok(Self::Provider(Box::new(root_key_or_new(path)?)));
        }
        if let Some(path) = &arguments.passphrase {
            let text = read_secret_line(path, "Passphrase of the new slot")?;
            let cost = Argon2Cost { memory_kib: arguments.argon2_memory << 10, ..Argon2Cost::default() };
            return Ok(Self::Provider(Box::new(passphrase(&text, cost).map_err(|error| usage(&error))?)));
        }
        let sizes = arguments.shares.as_deref().and_then(parse_sizes);
        let sizes = sizes.ok_or_else(|| CommandFailure::usage("--shares: N/M, such as 2/3".to_owned()))?;
        let key = ShamirKey::generate(sizes, &mut system_random());
        Ok(Self::Shares(key.map_err(|error| CommandFailure::usage(error.to_string()))?, sizes))
    }

    fn provider(&self) -> &dyn SlotProvider {
        match self {
            Self::Provider(provider) => provider.as_ref(),
            Self::Shares(key, _) => key,
        }
    }

    fn shares(&self, slot: &SlotId) -> Vec<KeyShare> {
        match self {
            Self::Provider(_) => Vec::new(),
            Self::Shares(key, sizes) => key.shares(slot, *sizes, &mut system_random()),
        }
    }
}

fn passphrase(text: &str, cost: Argon2Cost) -> Result<Passphrase, ProviderError> {
    Passphrase::new(text)?.with_cost(cost)
}

fn usage(error: &ProviderError) -> CommandFailure {
    CommandFailure::usage(error.to_string())
}

fn parse_sizes(text: &str) -> Option<(u8, u8)> {
    let (threshold, count) = text.split_once('/')?;
    Some((threshold.parse().ok()?, count.parse().ok()?))
}

fn root_key_or_new(path: &Path) -> CommandOutcome<LocalRootKey> {
    if path.exists() {
        return read_root_key(path);
    }
    let key = LocalRootKey::create_file(path, &mut system_random())?;
    note(format_args!("created the root key {}", path.display()));
    Ok(key)
}

fn parse_id(text: &str) -> CommandOutcome<SlotId> {
    SlotId::parse(text).map_err(|error| CommandFailure::usage(error.to_string()))
}

fn add(context: &RunContext, arguments: &SlotAddArguments) -> CommandOutcome {
    let replaced = arguments.replace.as_deref().map(parse_id).transpose()?;
    let store = context.store()?;
    let new = NewSlot::of(context, arguments)?;
    if let Some(id) = &replaced
        && store.slots()?.iter().all(|slot| slot.id != *id)
    {
        return Err(StoreError::UnknownSlot(id.clone()).into());
    }
    let made = store.make_slot(new.provider())?;
    let slot = made.summary();
    let shares = new.shares(&slot.id);
    if !shares.is_empty() {
        deliver_shares(slot, &shares, arguments.form)?;
    }
    store.put_slot(&made, replaced.as_ref())?;
    let instead = replaced.map(|id| format!(" in the place of {id}")).unwrap_or_default();
    match (shares.is_empty(), arguments.form.json) {
        (true, true) => print_json(&fact(slot)),
        (true, false) => print(&format!("added slot {slot}{instead}\n")),
        // Standard output has the shares, and nothing else.
        (false, _) => {
            note(format_args!("added slot {slot}{instead}: {} shares open the keystore", slot.key_name));
            Ok(())
        }
    }
}

/// Prints the shares of a slot that is not stored yet: once it is, they may be the only way into the store.
fn deliver_shares(slot: &SlotSummary, shares: &[KeyShare], form: AnswerFormat) -> CommandOutcome {
    note(format_args!(
        "the shares of slot {}: give each to another person; they are shown only now, and are of no use if this command fails",
        slot.id
    ));
    let shares: Vec<Zeroizing<String>> = shares.iter().map(KeyShare::to_text).collect();
    let text = if form.json {
        let mut fact = fact(slot);
        fact["shares"] = shares.iter().map(|share| share.as_str()).collect();
        format!("{fact}\n")
    } else {
        shares.iter().map(|share| format!("{}\n", share.as_str())).collect()
    };
    deliver(&Zeroizing::new(text))
}

fn remove(context: &RunContext, id: &str, others_untested: bool) -> CommandOutcome {
    let id = parse_id(id)?;
    let store = context.store()?;
    match others_untested {
        true => store.remove_slot(&id, RemainingSlots::Untested)?,
        false => store.remove_slot(&id, RemainingSlots::OpenWith(&context.providers()?))?,
    }
    print(&format!("removed slot {id}\n"))
}

/// What a new root does not end.
const AFTER_COMPROMISE: &str = "\
whoever had the former root has the keys of all slots and apps, too: replace each slot (leafseal slot add ... --replace ID) under a new \
key or passphrase, rotate the keys of the apps (leafseal keys rotate APP) and disable the versions before; unseal engines that no key file \
opens (leafseal unseal)";

fn rotate_root(context: &RunContext, link: Option<Duration>, form: AnswerFormat) -> CommandOutcome {
    let store = context.store()?;
    let mut bar = None;
    let rotated = store.rotate_root(link, &mut |done, of| {
        bar.get_or_insert_with(|| TerminalProgress::steps("sealing", of)).set(done as u64);
    });
    drop(bar);
    let RootRotation { root, epoch, sealed_count } = rotated?;
    if let Some(link) = link {
        wait(link);
        // It has ended anyhow: what is left is a row that an attacker could use who gets hold of the former root.
        if let Err(error) = store.remove_root_links() {
            let advice = "the next change of the keystore removes it";
            note(format_args!("leafseal: warning: the link to the new root is still there: {error}; {advice}"));
        }
    }
    if link.is_none() {
        note(format_args!("{AFTER_COMPROMISE}"));
    }
    let faults: Vec<String> = store.check()?.faults.iter().map(ToString::to_string).collect();
    if !faults.is_empty() {
        return Err(CommandFailure::failed(faults.join("\n")).advise("restore the keystore from a backup"));
    }
    if form.json {
        return print_json(&json!({ "root": root.to_string(), "epoch": epoch, "sealed": sealed_count }));
    }
    print(&format!(
        "the keystore has root {root}, its number {epoch}; sealed again: {sealed_count}; every key was opened\n"
    ))
}

/// Gives running engines the time to follow.
fn wait(link: Duration) {
    let start = Instant::now();
    let bar = TerminalProgress::steps("running engines follow", link.as_millis().try_into().unwrap_or(usize::MAX));
    while let Some(rest) = link.checked_sub(start.elapsed()).filter(|rest| !rest.is_zero()) {
        std::thread::sleep(rest.min(STEP));
        bar.set(start.elapsed().as_millis().try_into().unwrap_or(u64::MAX));
    }
}
