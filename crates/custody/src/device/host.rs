//! The side of the process that loads the library of a device: one request from standard input, one answer to standard output.

use std::io::{Read, Write};
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, Signal, getpid, kill_process, setrlimit};

use super::exchange::{DeviceAnswer, DeviceRequest, write_answer};

/// Answers the request on standard input with what `run` returns. For the `main` of a process that does nothing else: it ends when the
/// process that asks is gone, and leaves no core dump.
pub fn answer_request(run: impl FnOnce(&DeviceRequest) -> DeviceAnswer) -> ExitCode {
    let is_private = forbid_core_dump();
    let Ok(request) = DeviceRequest::read(&mut std::io::stdin()) else {
        // A person who starts the process sees why it ends.
        let _ =
            std::io::stderr().write_all(b"this process serves one request of the program leafseal, which starts it\n");
        return ExitCode::from(2);
    };
    end_with_the_other_side();
    let answer = match is_private {
        Ok(()) => run(&request),
        Err(error) => Err(leafseal_keystore::ProviderError::Unavailable(format!("core dumps stay on: {error}"))),
    };
    match write_answer(&mut std::io::stdout(), &answer) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// A library that crashes must leave nothing of a slot on the disk.
fn forbid_core_dump() -> std::io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    // The limit does not apply to a dump that `core_pattern` pipes to a program (core(5)); this does.
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// A library that hangs must not outlive an engine that was killed. Nothing follows a request, so standard input ends with the engine.
fn end_with_the_other_side() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        // Nothing of the library runs any more, not even what it registered for the end of the process.
        let _ = kill_process(getpid(), Signal::KILL);
    });
}
