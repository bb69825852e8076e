//! The memory of secrets that live long, in a process that has asked for it: one test, because that holds for the whole process.
#![cfg(target_os = "linux")]

use leafseal_crypto::{GUARDED_SIZE, GuardedMemory, GuardedSecret, guard_secrets};

/// The flags of the mapping at `address`, as the kernel names them.
fn flags(address: usize) -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("readable");
    let mut is_it = false;
    for line in maps.lines() {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let bounds = range
            .and_then(|(low, high)| Some(usize::from_str_radix(low, 16).ok()?..usize::from_str_radix(high, 16).ok()?));
        is_it = bounds.map_or(is_it, |bounds| bounds.contains(&address));
        if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| is_it) {
            return flags.split_whitespace().map(str::to_owned).collect();
        }
    }
    Vec::new()
}

#[test]
fn guarded_secrets_are_not_dumped_copied_or_swapped() {
    let before = GuardedSecret::from_bytes(&[1; GUARDED_SIZE]);
    assert_eq!(GuardedMemory::current(), GuardedMemory::default(), "on the heap");
    guard_secrets(|error| eprintln!("memory cannot be locked here: {error}"));
    let secret = GuardedSecret::from_bytes(&[7; GUARDED_SIZE]);
    let memory = GuardedMemory::current();
    assert!(memory.mapped > 0);
    let address = secret.expose().as_ptr() as usize;
    let flags = flags(address);
    // dd: not in a core dump; wf: empty in a copy of the process; lo: locked.
    for (flag, is_expected) in [("dd", true), ("wf", true), ("lo", memory.locked == memory.mapped)] {
        assert_eq!(flags.iter().any(|found| found == flag), is_expected, "{flag} of {flags:?}");
    }
    // A slot is wiped, and given to the next.
    drop(secret);
    let next = GuardedSecret::zeroed();
    assert_eq!((next.expose().as_ptr() as usize, next.expose()), (address, &[0; GUARDED_SIZE]));
    let many: Vec<GuardedSecret> = (0..10_000_u32).map(|_| next.clone()).collect();
    let grown = GuardedMemory::current();
    assert!(grown.mapped >= many.len() * GUARDED_SIZE && grown.mapped < 2 * many.len() * GUARDED_SIZE, "{grown:?}");
    drop(many);
    let again: Vec<GuardedSecret> = (0..10_000_u32).map(|_| next.clone()).collect();
    assert_eq!(GuardedMemory::current(), grown, "slots are used again");
    // What was made before goes on where it is.
    assert_eq!(before, GuardedSecret::from_bytes(&[1; GUARDED_SIZE]));
    drop(again);
}
