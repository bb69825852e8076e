//! The system's random generator: on Linux the kernel's, by its system call.
//!
//! The C library's function does not do: from version 2.41 on glibc's reads the vDSO of Linux 6.11, a generator in the memory of the
//! process, which a copy of the process has too. The kernel empties its page in forks, a restored checkpoint has it back.

/// Fills `out`.
///
/// # Panics
/// If the kernel has no random numbers, which it has from early boot on, since Linux 3.17.
#[cfg(target_os = "linux")]
pub(crate) fn fill(mut out: &mut [u8]) {
    while !out.is_empty() {
        // SAFETY: the call writes at most the number of bytes that `out` has, and reads none.
        let filled = unsafe { libc::syscall(libc::SYS_getrandom, out.as_mut_ptr(), out.len(), 0) };
        match usize::try_from(filled) {
            Ok(filled) => out = &mut out[filled..],
            Err(_) => {
                let error = std::io::Error::last_os_error();
                assert_eq!(error.kind(), std::io::ErrorKind::Interrupted, "the kernel has random numbers: {error}");
            }
        }
    }
}

/// Fills `out` by the function of the library `rand`.
#[cfg(not(target_os = "linux"))]
pub(crate) fn fill(out: &mut [u8]) {
    rand::TryRng::try_fill_bytes(&mut rand::rngs::SysRng, out).expect("the system has random numbers");
}
