//! Copies of a running process: a restored checkpoint or a fork continues the same memory twice, and must not use a nonce twice
//! under a key.
//! A program of its own with a single test, because a copy has only the thread that made it.
#![allow(unsafe_code)]
#![cfg(target_os = "linux")]

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;

use leafseal_engine::admin::AppPublicKeys;
use leafseal_engine::{
    Caller, Curve, EcContext, EncryptOptions, Encryptor, Engine, Keying, SealedInput, Settings, ValueType,
    system_random,
};

const APP: &str = "copied";
/// Values of all copies together, for the kinds of keying that share keys.
const VALUES: usize = 1_000_000;
/// Values of a request.
const REQUEST_VALUES: usize = 250;

/// The part that must differ between two envelopes: the text of nonce and ephemeral key.
type Pair = [u8; PAIR_SIZE];
const PAIR_SIZE: usize = 16 + 1 + 44;

fn engine() -> Engine {
    let ec = EcContext::new(&mut system_random());
    let key = |curve| ec.public_key(&leafseal_crypto::PrivateKey::generate(curve, &mut system_random()));
    let keys = AppPublicKeys { version: 1, r1: key(Curve::P256), k1: key(Curve::Secp256k1) };
    let engine = Engine::of_public_keys([(APP.parse().expect("a name"), keys)], Settings::default());
    engine.prepare();
    engine
}

/// Encrypts `count` values in requests of some each, and passes each pair to `each`.
fn encrypt(engine: &Engine, keying: Keying, count: usize, mut each: impl FnMut(&Pair)) {
    let mut done = 0;
    while done < count {
        let size = REQUEST_VALUES.min(count - done);
        step(&mut request(engine, keying), size, &mut each);
        done += size;
    }
}

fn request(engine: &Engine, keying: Keying) -> Encryptor {
    let options = EncryptOptions { keying: Some(keying), ..EncryptOptions::new(APP) };
    engine.encryptor(&Caller::Owner, &options).expect("permitted")
}

/// Encrypts the next `size` values of a request, and passes each pair to `each`.
fn step(request: &mut Encryptor, size: usize, mut each: impl FnMut(&Pair)) {
    let value = SealedInput { value_type: ValueType::String, text: b"4111" };
    let mut out = Vec::new();
    request.encrypt(&vec![value; size], &mut out, |_, _, out| out.push(b'\n')).expect("encrypts");
    for envelope in out.split(|byte| *byte == b'\n').skip(1) {
        let start = envelope.iter().skip(3).position(|byte| *byte == b':').expect("a version") + 3 + 1;
        each(envelope[start..][..PAIR_SIZE].first_chunk().expect("nonce and ephemeral key"));
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
fn copies_of_an_engine_repeat_no_key_with_a_nonce() {
    let engine = engine();
    copies_with_requests_in_flight(&engine);
    idle_copies(&engine);
}

fn pairs_of(mut copy: File) -> Vec<Pair> {
    let mut pairs = Vec::new();
    copy.read_to_end(&mut pairs).expect("read");
    let (pairs, rest) = pairs.as_chunks::<PAIR_SIZE>();
    assert!(rest.is_empty(), "whole pairs");
    pairs.to_vec()
}

/// The copies go on with the same requests in another order, so that a request's values get other numbers of the session's key.
fn copies_with_requests_in_flight(engine: &Engine) {
    let mut requests = [(); 2].map(|()| request(engine, Keying::Session));
    let mut seen = HashSet::new();
    requests.iter_mut().for_each(|request| step(request, REQUEST_VALUES, |pair| assert!(seen.insert(*pair))));
    let orders = [[0, 0, 1, 1], [1, 0, 0, 1], [1, 1, 0, 0]];
    for order in orders {
        let copy = copy(|out| {
            let mut pairs = Vec::new();
            for index in order {
                step(&mut requests[index], REQUEST_VALUES, |pair| pairs.extend_from_slice(pair));
            }
            out.write_all(&pairs).expect("written");
        });
        let pairs = pairs_of(copy);
        assert_eq!(pairs.len(), order.len() * REQUEST_VALUES);
        let repeated = pairs.iter().filter(|pair| !seen.insert(**pair)).count();
        assert_eq!(repeated, 0, "pairs of key and nonce that another copy used: {order:?}");
    }
    assert_eq!(seen.iter().map(|pair| &pair[17..]).collect::<HashSet<_>>().len(), 1, "one key serves all");
}

/// Each has a share of the values, in requests that begin after it was made.
fn idle_copies(engine: &Engine) {
    for (keying, count) in [(Keying::Session, VALUES), (Keying::Request, VALUES), (Keying::Field, 5_000)] {
        // The engine has a session, spare keys and tables, whose copies both continue with.
        let mut seen = HashSet::with_capacity(count);
        encrypt(engine, keying, 4 * REQUEST_VALUES, |pair| assert!(seen.insert(*pair)));
        let share = (count - seen.len()) / 2;
        let copies = [(); 2].map(|()| {
            copy(|out| {
                let mut pairs = Vec::new();
                encrypt(engine, keying, share, |pair| pairs.extend_from_slice(pair));
                out.write_all(&pairs).expect("written");
            })
        });
        for copy in copies {
            let pairs = pairs_of(copy);
            assert_eq!(pairs.len(), share, "{keying:?}");
            let repeated = pairs.iter().filter(|pair| !seen.insert(**pair)).count();
            assert_eq!(repeated, 0, "{keying:?}: pairs of key and nonce that another copy used");
        }
        assert_eq!(seen.len(), count);
        let keys = seen.iter().map(|pair| &pair[17..]).collect::<HashSet<_>>().len();
        assert!(keying != Keying::Session || keys == 1, "the copies share the session's key: {keys}");
    }
}
