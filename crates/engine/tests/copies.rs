//! Copies of a running process: a restored checkpoint or a fork continues the same memory twice, and must not use a nonce twice
//! under a key.
//! A program of its own with a single test, because a copy has only the thread that made it.
#![cfg(target_os = "linux")]

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;

use leafseal_engine::admin::PublicKeys;
use leafseal_engine::{
    Caller, Curve, EcContext, EncryptOptions, Engine, Keying, Settings, Value, ValueType, system_random,
};

const APP: &str = "copied";
/// Values of all copies together, for the kinds of keying that share keys.
const VALUES: usize = 1_000_000;
/// Values of a request.
const REQUEST_VALUES: usize = 250;

/// What must not be equal in two envelopes: the text of nonce and ephemeral key.
type Pair = [u8; PAIR_SIZE];
const PAIR_SIZE: usize = 16 + 1 + 44;

fn engine() -> Engine {
    let ec = EcContext::new(&mut system_random());
    let key = |curve| ec.public_key(&leafseal_crypto::PrivateKey::generate(curve, &mut system_random()));
    let keys = PublicKeys { version: 1, r1: key(Curve::P256), k1: key(Curve::Secp256k1) };
    let engine = Engine::of_public_keys([(APP.parse().expect("a name"), keys)], Settings::default());
    engine.prepare();
    engine
}

/// Encrypts `count` values in requests of some each, and passes each pair to `each`.
fn encrypt(engine: &Engine, keying: Keying, count: usize, mut each: impl FnMut(&Pair)) {
    let value = Value { value_type: ValueType::String, text: b"4111" };
    let options = EncryptOptions { keying: Some(keying), ..EncryptOptions::new(APP) };
    let mut done = 0;
    while done < count {
        let mut encryptor = engine.encryptor(&Caller::Owner, &options).expect("permitted");
        let mut out = Vec::new();
        let size = REQUEST_VALUES.min(count - done);
        encryptor.encrypt(&vec![value; size], &mut out, |_, _, out| out.push(b'\n')).expect("encrypts");
        for envelope in out.split(|byte| *byte == b'\n').skip(1) {
            let start = envelope.iter().skip(3).position(|byte| *byte == b':').expect("a version") + 3 + 1;
            each(envelope[start..][..PAIR_SIZE].first_chunk().expect("nonce and ephemeral key"));
        }
        done += size;
    }
}

/// Starts a copy of this process by the system call, of which no library learns anything: the copy continues with each byte of
/// memory, as one that is restored. Returns what it writes.
fn copy(work: impl FnOnce(&mut File)) -> File {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    // SAFETY: both descriptors were opened above, and nothing else owns them.
    let [reader, mut writer] = ends.map(|end| unsafe { File::from_raw_fd(end) });
    // SAFETY: without a stack of its own the copy continues here, as after a fork. The only other thread of this program waits for
    // this test and holds no lock.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    if child == 0 {
        work(&mut writer);
        // SAFETY: ends the copy without the handlers that belong to its parent.
        unsafe { libc::_exit(0) };
    }
    assert!(child > 0, "a copy");
    reader
}

#[test]
fn two_copies_of_an_engine_repeat_no_key_with_a_nonce() {
    let engine = engine();
    for (keying, count) in [(Keying::Session, VALUES), (Keying::Request, VALUES), (Keying::Field, 5_000)] {
        // The engine has a session, spare keys and tables, whose copies both continue with.
        let mut seen = HashSet::with_capacity(count);
        encrypt(&engine, keying, 4 * REQUEST_VALUES, |pair| assert!(seen.insert(*pair)));
        let share = (count - seen.len()) / 2;
        let mut copies = [(); 2].map(|()| {
            copy(|out| {
                let mut pairs = Vec::new();
                encrypt(&engine, keying, share, |pair| pairs.extend_from_slice(pair));
                out.write_all(&pairs).expect("written");
            })
        });
        for copy in &mut copies {
            let mut pairs = Vec::new();
            copy.read_to_end(&mut pairs).expect("read");
            assert_eq!(pairs.len(), share * PAIR_SIZE, "{keying:?}");
            let (pairs, _) = pairs.as_chunks::<PAIR_SIZE>();
            let repeated = pairs.iter().filter(|pair| !seen.insert(**pair)).count();
            assert_eq!(repeated, 0, "{keying:?}: pairs of key and nonce that another copy used");
        }
        assert_eq!(seen.len(), count);
        let keys = seen.iter().map(|pair| &pair[17..]).collect::<HashSet<_>>().len();
        assert!(keying != Keying::Session || keys == 1, "the copies share the session's key: {keys}");
    }
}
