//! Core dumps and the memory of keys. A core dump would contain plaintext and stay on the disk, so there is none, unless the environment
//! permits it to look into a crash; even then keys are left out.

use std::ffi::OsStr;
use std::io;

use leafseal_engine::guard_secrets;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The variable that permits core dumps.
pub(crate) const CORE_DUMPS_VARIABLE: &str = "LEAFSEAL_CORE_DUMPS";

/// The content of a core dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CoreDumps {
    /// There is none.
    Off,
    /// Everything but private keys and the root key.
    WithoutKeys,
    /// Keys, too: for the tests, which prove that they would find a key.
    Whole,
}

impl CoreDumps {
    /// The choice that a value of the variable means, `None` for another value.
    pub(crate) fn parse(value: Option<&OsStr>) -> Option<Self> {
        match value.map(OsStr::as_encoded_bytes) {
            None | Some(b"off") => Some(Self::Off),
            Some(b"without-keys") => Some(Self::WithoutKeys),
            Some(b"whole") => Some(Self::Whole),
            Some(_) => None,
        }
    }

    /// Applies the choice to this process. Call it before any secret is read.
    ///
    /// # Errors
    /// If the system does not permit to turn dumps off.
    pub(crate) fn apply(self) -> io::Result<()> {
        if self != Self::Whole {
            raise_locked_memory();
            guard_secrets(|error| {
                tracing::warn!(%error, "keys may be swapped: the system does not lock their memory; raise the limit (ulimit -l)");
            });
        }
        if self == Self::Off { forbid() } else { Ok(()) }
    }
}

/// Raises the soft limit of locked memory to the hard one.
fn raise_locked_memory() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Memlock);
    // A refusal shows when memory is locked.
    let _ = setrlimit(Resource::Memlock, Rlimit { current: maximum, maximum });
}

/// Disables core dumps of this process, and on Linux prevents other processes of the same user from attaching to it or reading its memory.
fn forbid() -> io::Result<()> {
    // The hard limit too, so that nothing raises it again.
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    // The limit does not apply to a dump that `core_pattern` pipes to a program (core(5)); this does.
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_files_nor_pipes_get_a_dump() {
        forbid().expect("allowed");
        assert_eq!(getrlimit(Resource::Core), Rlimit { current: Some(0), maximum: Some(0) });
        #[cfg(target_os = "linux")]
        {
            use rustix::process::{DumpableBehavior, dumpable_behavior};
            assert_eq!(dumpable_behavior().expect("known"), DumpableBehavior::NotDumpable);
        }
    }

    #[test]
    fn dumps_are_off_unless_the_variable_is_exact() {
        let parse = |value: &str| CoreDumps::parse(Some(OsStr::new(value)));
        assert_eq!(CoreDumps::parse(None), Some(CoreDumps::Off));
        assert_eq!(parse("without-keys"), Some(CoreDumps::WithoutKeys));
        for value in ["", "on", "1", "Whole", "without-keys "] {
            assert_eq!(parse(value), None, "{value:?}");
        }
    }
}
