//! Disables core dumps: one would contain root key, private keys and plaintext, and stay on the disk.

use std::io;

use rustix::process::{Resource, Rlimit, setrlimit};

/// Disables core dumps of this process, and on Linux prevents other processes of the same user from attaching to it or reading its memory.
///
/// # Errors
/// If the system does not permit that.
pub(crate) fn forbid() -> io::Result<()> {
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
        assert_eq!(rustix::process::getrlimit(Resource::Core), Rlimit { current: Some(0), maximum: Some(0) });
        #[cfg(target_os = "linux")]
        {
            use rustix::process::{DumpableBehavior, dumpable_behavior};
            assert_eq!(dumpable_behavior().expect("known"), DumpableBehavior::NotDumpable);
        }
    }
}
