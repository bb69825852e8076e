//! One module per command. A command takes its arguments and the context, and returns its outcome.

mod api_keys;
mod audit;
mod bench;
mod canaries;
mod certs;
mod config;
mod dev;
mod escrow;
mod generate;
mod info;
mod inspect;
mod key_life;
mod keys;
mod load;
mod probe;
mod relay;
mod renewal;
mod rewrite;
mod serve;
mod slots;
mod store;
mod unseal;

use crate::arguments::{Arguments, Command};
use crate::context::RunContext;
use crate::descriptors;
use crate::failure::CommandOutcome;

/// Runs the command.
///
/// # Errors
/// Why the command failed.
pub(crate) fn run(arguments: Arguments) -> CommandOutcome {
    let Arguments { global, command } = arguments;
    if matches!(command, Command::Serve(_) | Command::Dev(_) | Command::Relay(_) | Command::Load(_) | Command::Bench(_))
    {
        descriptors::raise();
    }
    // This must work especially if the configuration is invalid.
    if let Command::Config(command) = command {
        return config::run(&RunContext::read(&global), &command);
    }
    // This uses its own temporary folder, and no other.
    if let Command::Bench(arguments) = command {
        return bench::run(&global, &arguments);
    }
    if let Command::Load(arguments) = command {
        return load::run(&global, &arguments);
    }
    // This reads no configuration.
    if let Command::Generate(arguments) = command {
        return generate::run(&arguments);
    }
    let context = RunContext::checked(&global)?;
    match command {
        Command::Dev(arguments) => dev::run(&context, &arguments),
        Command::Serve(arguments) => serve::run(&context, &arguments),
        Command::Unseal(arguments) => unseal::run(&context, &arguments),
        Command::Probe(arguments) => probe::run(&context, &arguments),
        Command::Relay(arguments) => relay::run(&context, &arguments),
        Command::Encrypt(arguments) => rewrite::encrypt(&context, arguments),
        Command::Decrypt(arguments) => rewrite::decrypt(&context, arguments),
        Command::Rewrap(arguments) => rewrite::rewrap(&context, arguments),
        Command::Inspect(arguments) => inspect::run(&context, &arguments),
        Command::Keys(command) => keys::run(&context, command),
        Command::Certs(command) => certs::run(&context, command),
        Command::ApiKeys(command) => api_keys::run(&context, command),
        Command::Canaries(command) => canaries::run(&context, &command),
        Command::Audit(command) => audit::run(&context, &command),
        Command::Store(command) => store::run(&context, &command),
        Command::Slot(command) => slots::run(&context, &command),
        Command::Info(arguments) => info::run(&context, &arguments),
        Command::Config(_) | Command::Bench(_) | Command::Load(_) | Command::Generate(_) => {
            unreachable!("handled above")
        }
    }
}
