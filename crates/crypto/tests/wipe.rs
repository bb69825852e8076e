//! Secrets are gone from memory once they are dropped: their place is read back through the kernel's view of this process.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::os::unix::fs::FileExt;

use leafseal_crypto::{Curve, PrivateKey, Secret};

/// The current content of `size` bytes of this process at `address`.
fn memory(address: usize, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    let memory = File::open("/proc/self/mem").expect("readable");
    memory.read_exact_at(&mut bytes, address as u64).expect("mapped");
    bytes
}

/// A unique pattern, created where it is used.
fn fill(secret: &mut Secret<32>) {
    secret.expose_mut().iter_mut().enumerate().for_each(|(i, byte)| *byte = 0x51 ^ (i as u8).wrapping_mul(29));
}

#[test]
fn a_dropped_secret_is_wiped() {
    let mut secret = Secret::<32>::zeroed();
    fill(&mut secret);
    let address = secret.expose().as_ptr() as usize;
    let before = memory(address, 32);
    assert_eq!(before, secret.expose().to_vec(), "the view shows what is there");
    drop(secret);
    // The allocator writes its own links to the front of freed memory; what it leaves must be zero.
    assert_eq!(memory(address, 32)[16..], [0; 16]);
}

#[test]
fn a_dropped_private_key_is_wiped() {
    let mut scalar = Secret::<32>::zeroed();
    fill(&mut scalar);
    let key = PrivateKey::from_scalar(Curve::P256, scalar).expect("valid");
    let address = key.scalar().expose().as_ptr() as usize;
    assert_ne!(memory(address, 32)[16..], [0; 16]);
    drop(key);
    assert_eq!(memory(address, 32)[16..], [0; 16]);
}
