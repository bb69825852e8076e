//! The cost of a field in process: both curves, each keying, 1 to 60,000 fields of 32 bytes, as envelope text and through a
//! document, and decrypted again. In the same run, loops that process one field after another, over BoringSSL (which Leafseal
//! uses) and aws-lc-rs (the fastest one-shot encryption measured on CPUs with AVX-512): bare ones, with one-shot AES-256-GCM and
//! base64 of IV and ciphertext and nothing else; ones from and to the whole text of an envelope; and ones that first generate a key
//! for it, by the library.
//!
//! Criterion reports the 2,000-field cases; then a table gives medians of rounds that take all rows in turn, in nanoseconds per
//! field, with the ratio to the faster bare loop; then the cost of 2,000 fields beside its limit.

use std::hint::black_box;
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce as LcNonce, UnboundKey};
use base64_simd::{Out, STANDARD_NO_PAD};
use criterion::{Criterion, Throughput};
use leafseal_crypto::aead::{AeadAlgorithm, AeadKey, Nonce, OpenItem, SealItem, TAG_SIZE};
use leafseal_crypto::{EcContext, Implementations, PrivateKey, Recipient};
use leafseal_engine::{
    Caller, Curve, DecryptOptions, EncryptOptions, Engine, Keying, Progress, SealedInput, Settings, ValueType,
    system_random,
};
use leafseal_testkit::ScratchStore;

const COUNTS: [usize; 5] = [1, 30, 150, 2_000, 60_000];
const TEXT_SIZE: usize = 32;
/// Bytes of associated data.
const AAD_SIZE: usize = 33;
/// An envelope's text: the text before the IV, the IV, the ephemeral key with its colons, the ciphertext, the end.
const HEAD: &[u8] = b"ev:Tk9D:";
const IV_SIZE: usize = 16;
const MIDDLE: [u8; 46] = *b":A1234567890123456789012345678901234567890123:";
const END: &[u8] = b":$";
/// Time budget of one row over all rounds.
const ROW_TIME: Duration = Duration::from_millis(600);
const ROUNDS_MAX: usize = 102;

struct Fixture {
    engine: Engine,
    _store: ScratchStore,
}

fn fixture() -> Fixture {
    let store = ScratchStore::new(&["bench"]);
    // Long sessions, so that a session row does not pay for a key.
    let settings =
        Settings { session_age_max: Duration::from_secs(3600), session_values_max: 1 << 32, ..Settings::default() };
    Fixture { engine: Engine::new(Box::new(store.open()), settings), _store: store }
}

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{:0width$}", i * 7_919, width = TEXT_SIZE)).collect()
}

fn document(count: usize) -> String {
    let members: Vec<String> =
        texts(count).iter().enumerate().map(|(i, text)| format!("\"f{i}\":\"{text}\"")).collect();
    format!("{{{}}}", members.join(","))
}

/// A library that encrypts and decrypts one message at a time.
trait OneShot {
    fn seal(&self, nonce: [u8; 12], text: &[u8], sealed: &mut [u8; TEXT_SIZE + TAG_SIZE]);
    fn open<'s>(
        &self,
        nonce: [u8; 12],
        sealed: &mut [u8; TEXT_SIZE + TAG_SIZE],
        out: &'s mut [u8; TEXT_SIZE],
    ) -> &'s [u8];
}

/// BoringSSL: our key with its SIMD lanes turned off.
struct BoringSsl(AeadKey);

/// aws-lc-rs, in place.
struct AwsLc(LessSafeKey);

impl OneShot for BoringSsl {
    fn seal(&self, nonce: [u8; 12], text: &[u8], sealed: &mut [u8; TEXT_SIZE + TAG_SIZE]) {
        self.0.seal(&SealItem { nonce: Nonce(nonce), aad: &[3; AAD_SIZE], plaintext: text }, sealed);
    }

    fn open<'s>(
        &self,
        nonce: [u8; 12],
        sealed: &mut [u8; TEXT_SIZE + TAG_SIZE],
        out: &'s mut [u8; TEXT_SIZE],
    ) -> &'s [u8] {
        self.0.open(&OpenItem { nonce: Nonce(nonce), aad: &[3; AAD_SIZE], sealed }, out).expect("opens");
        out
    }
}

impl OneShot for AwsLc {
    fn seal(&self, nonce: [u8; 12], text: &[u8], sealed: &mut [u8; TEXT_SIZE + TAG_SIZE]) {
        sealed[..TEXT_SIZE].copy_from_slice(text);
        let (body, tag_place) = sealed.split_at_mut(TEXT_SIZE);
        let nonce = LcNonce::assume_unique_for_key(nonce);
        let tag = self.0.seal_in_place_separate_tag(nonce, Aad::from([3; AAD_SIZE]), body).expect("seals");
        tag_place.copy_from_slice(tag.as_ref());
    }

    fn open<'s>(
        &self,
        nonce: [u8; 12],
        sealed: &mut [u8; TEXT_SIZE + TAG_SIZE],
        out: &'s mut [u8; TEXT_SIZE],
    ) -> &'s [u8] {
        let nonce = LcNonce::assume_unique_for_key(nonce);
        out.copy_from_slice(self.0.open_in_place(nonce, Aad::from([3; AAD_SIZE]), sealed).expect("opens"));
        out
    }
}

/// One-shot seal and base64 of IV and ciphertext.
fn bare(library: &impl OneShot, texts: &[String], out: &mut Vec<u8>) {
    let mut sealed = [0; TEXT_SIZE + TAG_SIZE];
    for (counter, text) in (0_u64..).zip(texts) {
        let nonce = nonce(counter);
        library.seal(nonce, text.as_bytes(), &mut sealed);
        append_base64(&nonce, out);
        append_base64(&sealed, out);
    }
}

/// One-shot encryption and the whole text of an envelope after a header.
fn one_shot_text(library: &impl OneShot, texts: &[String], out: &mut Vec<u8>) {
    let mut sealed = [0; TEXT_SIZE + TAG_SIZE];
    for (counter, text) in (0_u64..).zip(texts) {
        let nonce = nonce(counter);
        library.seal(nonce, text.as_bytes(), &mut sealed);
        out.extend_from_slice(&[0xd9, 136]);
        out.extend_from_slice(HEAD);
        append_base64(&nonce, out);
        out.extend_from_slice(&MIDDLE);
        append_base64(&sealed, out);
        out.extend_from_slice(END);
    }
}

/// Decrypts the output of [`one_shot_text`], without its header, to text that is UTF-8.
fn one_shot_open(library: &impl OneShot, texts: &[&[u8]]) {
    let (mut nonce, mut sealed, mut opened) = ([0; 12], [0; TEXT_SIZE + TAG_SIZE], [0; TEXT_SIZE]);
    for text in texts {
        let inner = text.strip_prefix(HEAD).and_then(|inner| inner.strip_suffix(END)).expect("an envelope");
        let (iv, inner) = inner.split_at_checked(IV_SIZE).expect("an IV");
        let ciphertext = inner.strip_prefix(&MIDDLE).expect("the key at hand");
        let _ = STANDARD_NO_PAD.decode(iv, Out::from_slice(&mut nonce)).expect("base64");
        let _ = STANDARD_NO_PAD.decode(ciphertext, Out::from_slice(&mut sealed)).expect("base64");
        let opened = library.open(nonce, &mut sealed, &mut opened);
        black_box(std::str::from_utf8(opened).expect("UTF-8"));
    }
}

fn nonce(counter: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_be_bytes());
    nonce
}

fn append_base64(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + bytes.len() / 3 * 4, 0);
    let _ = STANDARD_NO_PAD.encode(bytes, Out::from_slice(&mut out[start..]));
}

fn options(curve: Curve, keying: Keying) -> EncryptOptions<'static> {
    EncryptOptions { curve: Some(curve), keying: Some(keying), ..EncryptOptions::new("bench") }
}

/// A request for a list of values: started, encrypted in steps, each envelope after a header.
fn encrypt_values(engine: &Engine, options: &EncryptOptions<'_>, values: &[SealedInput<'_>], out: &mut Vec<u8>) {
    let mut encryptor = engine.encryptor(&Caller::Owner, options).expect("begins");
    let mut rest = values;
    while !rest.is_empty() {
        // Asked for each step, as the service does: it grows once the recipient's table is known.
        let (part, after) = rest.split_at(rest.len().min(encryptor.step_values_max()));
        let header = |_, size: usize, out: &mut Vec<u8>| out.extend_from_slice(&[0xd9, size as u8]);
        encryptor.encrypt(part, out, header).expect("encrypts");
        rest = after;
    }
}

fn encrypt_document(engine: &Engine, options: &EncryptOptions<'_>, document: &[u8], out: &mut Vec<u8>) {
    let mut work = engine.encrypt_document(&Caller::Owner, options, None, document.len()).expect("begins");
    while work.step(document, out).expect("encrypts") == Progress::More {}
}

fn decrypt_values(engine: &Engine, texts: &[&[u8]]) {
    let mut decryptor = engine.decryptor(&Caller::Owner, &DecryptOptions::new("bench")).expect("begins");
    let mut done = 0;
    while done < texts.len() {
        let end = texts.len().min(done + decryptor.step_values_max());
        done += decryptor
            .decrypt(&texts[done..end], |_, opened| {
                black_box(opened);
            })
            .expect("decrypts");
    }
}

fn decrypt_document(engine: &Engine, document: &[u8], out: &mut Vec<u8>) {
    let mut work = engine.decrypt_document(&Caller::Owner, &DecryptOptions::new("bench"), None, document.len());
    let work = work.as_mut().expect("begins");
    while work.step(document, out).expect("decrypts") == Progress::More {}
}

type Work<'a> = Box<dyn FnMut(&mut Vec<u8>) + 'a>;

struct Row<'a> {
    name: String,
    once: Work<'a>,
    times: Vec<f64>,
}

fn row<'a>(name: impl Into<String>, once: impl FnMut(&mut Vec<u8>) + 'a) -> Row<'a> {
    Row { name: name.into(), once: Box::new(once), times: Vec::new() }
}

/// Every row for one number of fields: its name and nanoseconds per field.
fn measure(fixture: &Fixture, count: usize) -> Vec<(String, f64)> {
    let engine = &fixture.engine;
    let texts = texts(count);
    let values: Vec<SealedInput<'_>> =
        texts.iter().map(|text| SealedInput { value_type: ValueType::String, text: text.as_bytes() }).collect();
    let document = document(count);
    let (boringssl, aws_lc) = (&boringssl(), &aws_lc());
    let (mut one_shot, mut one_shot_texts) = (Vec::new(), Vec::new());
    one_shot_text(boringssl, &texts, &mut one_shot);
    one_shot_texts.extend(one_shot.chunks(one_shot.len() / count).map(|text| &text[2..]));
    let sealed: Vec<Sealed> = Curve::ALL.map(|curve| seal(engine, curve, &values, &document)).into();
    let opened: Vec<Vec<&[u8]>> =
        sealed.iter().map(|(_, text, places, _)| places.iter().map(|&(a, b)| &text[a..b]).collect()).collect();

    let mut rng = system_random();
    let ec = &EcContext::new(&mut rng);
    let recipients = Curve::ALL.map(|curve| Recipient::from(ec.public_key(&PrivateKey::generate(curve, &mut rng))));

    let mut rows = vec![
        row("bare loop, BoringSSL", |out| bare(boringssl, &texts, out)),
        row("bare loop, aws-lc-rs", |out| bare(aws_lc, &texts, out)),
        row("envelope text, BoringSSL", |out| one_shot_text(boringssl, &texts, out)),
        row("envelope text, aws-lc-rs", |out| one_shot_text(aws_lc, &texts, out)),
        row("opened, BoringSSL", |_| one_shot_open(boringssl, &one_shot_texts)),
        row("opened, aws-lc-rs", |_| one_shot_open(aws_lc, &one_shot_texts)),
    ];
    for recipient in &recipients {
        let (name, texts) = (recipient.public().curve().short_name(), &texts);
        let agree = || black_box(recipient.encapsulate(ec, &mut system_random()).shared);
        rows.push(row(format!("{name} one-shot request, BoringSSL"), move |out| {
            let _ = agree();
            one_shot_text(boringssl, texts, out);
        }));
        rows.push(row(format!("{name} one-shot request, aws-lc-rs"), move |out| {
            let _ = agree();
            one_shot_text(aws_lc, texts, out);
        }));
    }
    for keying in [Keying::Session, Keying::Request, Keying::Field] {
        for curve in Curve::ALL {
            let (options, values, document) = (options(curve, keying), &values, &document);
            let name = format!("{} {:?}", curve.short_name(), keying).to_lowercase();
            rows.push(row(format!("{name}, envelope text"), move |out| encrypt_values(engine, &options, values, out)));
            rows.push(row(format!("{name}, document"), move |out| {
                encrypt_document(engine, &options, document.as_bytes(), out);
            }));
        }
    }
    for ((curve, _, _, sealed_document), texts) in sealed.iter().zip(&opened) {
        let name = curve.short_name();
        rows.push(row(format!("{name} opened, envelope text"), move |_| decrypt_values(engine, texts)));
        rows.push(row(format!("{name} opened, document"), move |out| decrypt_document(engine, sealed_document, out)));
    }
    take_in_turn(&mut rows, count);
    rows.into_iter().map(|row| (row.name, median(&row.times) / count as f64)).collect()
}

fn boringssl() -> BoringSsl {
    BoringSsl(
        AeadKey::with_lanes(Implementations::Portable, AeadAlgorithm::Aes256Gcm, &[7; 32]).expect("without lanes"),
    )
}

fn aws_lc() -> AwsLc {
    AwsLc(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[7; 32]).expect("32 bytes")))
}

type Sealed = (Curve, Vec<u8>, Vec<(usize, usize)>, Vec<u8>);

/// Envelopes of one request, their positions, and a document of them.
fn seal(engine: &Engine, curve: Curve, values: &[SealedInput<'_>], document: &str) -> Sealed {
    let options = options(curve, Keying::Request);
    let (mut text, mut places, mut sealed_document) = (Vec::new(), Vec::new(), Vec::new());
    let mut encryptor = engine.encryptor(&Caller::Owner, &options).expect("begins");
    let places_of = |_, size: usize, out: &mut Vec<u8>| places.push((out.len(), out.len() + size));
    encryptor.encrypt(values, &mut text, places_of).expect("encrypts");
    encrypt_document(engine, &options, document.as_bytes(), &mut sealed_document);
    (curve, text, places, sealed_document)
}

/// Round after round over all rows, so that interference affects every row; a row ends when its time is used up. All rows write to one
/// buffer, as an engine's connection does, so that none pays for another's cold memory. Every second round runs backwards: of two requests
/// one generates the other's key too, and it must not always be the same row.
fn take_in_turn(rows: &mut [Row<'_>], count: usize) {
    let mut out = Vec::with_capacity(count * 200);
    for round in 0..ROUNDS_MAX {
        for place in 0..rows.len() {
            let place = if round % 2 == 0 { place } else { rows.len() - 1 - place };
            let row = &mut rows[place];
            let spent: f64 = row.times.iter().sum();
            if row.times.len() > 3 && row.times.len().is_multiple_of(2) && spent > ROW_TIME.as_nanos() as f64 {
                continue;
            }
            out.clear();
            let start = Instant::now();
            (row.once)(&mut out);
            row.times.push(start.elapsed().as_nanos() as f64);
            black_box(&out);
        }
    }
}

/// The median of the averages of two rounds, one forwards and one backwards.
fn median(times: &[f64]) -> f64 {
    let (rounds, _) = times.as_chunks::<2>();
    let mut means: Vec<f64> = rounds.iter().map(|[there, back]| (there + back) / 2.0).collect();
    means.sort_by(f64::total_cmp);
    means[means.len() / 2]
}

fn table(fixture: &Fixture) {
    let columns: Vec<Vec<(String, f64)>> = COUNTS.iter().map(|&count| measure(fixture, count)).collect();
    println!("\nNanoseconds a field of {TEXT_SIZE} bytes (ratio to the faster bare loop)\n");
    print!("{:<32}", "");
    COUNTS.iter().for_each(|count| print!("{count:>20}"));
    println!();
    for (place, (name, _)) in columns[0].iter().enumerate() {
        print!("{name:<32}");
        for column in &columns {
            let bare = column[0].1.min(column[1].1);
            let nanoseconds = column[place].1;
            print!("{:>20}", format!("{nanoseconds:.0} ({:.2})", nanoseconds / bare));
        }
        println!();
    }
    let place = COUNTS.iter().position(|&count| count == TARGET_COUNT).expect("one of the counts");
    print_bars(&columns[place]);
}

/// The limit for the middle case, in nanoseconds per field, and the required speed-up over the loops that do the same work one field after
/// another.
const TARGET_COUNT: usize = 2_000;

struct Target {
    row: &'static str,
    loops: &'static str,
    most: f64,
    least_ratio: f64,
}

const TARGETS: [Target; 4] = [
    Target { row: "r1 request, envelope text", loops: "r1 one-shot request", most: 45.0, least_ratio: 3.5 },
    Target { row: "k1 request, envelope text", loops: "k1 one-shot request", most: 45.0, least_ratio: 3.5 },
    Target { row: "r1 opened, envelope text", loops: "opened, ", most: 60.0, least_ratio: 1.0 },
    Target { row: "k1 opened, envelope text", loops: "opened, ", most: 60.0, least_ratio: 1.0 },
];

fn print_bars(rows: &[(String, f64)]) {
    println!("\n{TARGET_COUNT} fields beside the faster loop that does the same work\n");
    let time_of = |name: &str| {
        let named = rows.iter().filter(|row| row.0.starts_with(name));
        named.map(|row| row.1).fold(f64::INFINITY, f64::min)
    };
    for bar in TARGETS {
        let (time, one_shot) = (time_of(bar.row), time_of(bar.loops));
        let ratio = one_shot / time;
        let result = if time <= bar.most && ratio >= bar.least_ratio { "met" } else { "missed" };
        print!("{:<28}{time:>6.1} ns, the loop {one_shot:>6.1}: {ratio:.2} times as fast", bar.row);
        println!(" (at most {} ns and at least {} times: {result})", bar.most, bar.least_ratio);
    }
}

/// Criterion's own report of the middle case.
fn criterion_report(criterion: &mut Criterion, fixture: &Fixture) {
    const COUNT: usize = 2_000;
    let texts = texts(COUNT);
    let values: Vec<SealedInput<'_>> =
        texts.iter().map(|text| SealedInput { value_type: ValueType::String, text: text.as_bytes() }).collect();
    let document = document(COUNT);
    let boringssl = boringssl();
    let mut out = Vec::with_capacity(COUNT * 200);
    let mut group = criterion.benchmark_group("2000 fields of 32 bytes");
    group.throughput(Throughput::Elements(COUNT as u64));
    group.sample_size(30).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(300));
    let mut add = |name: String, once: &mut dyn FnMut(&mut Vec<u8>)| {
        group.bench_function(name, |b| {
            b.iter(|| {
                out.clear();
                once(&mut out);
                black_box(&out);
            });
        });
    };
    add("bare loop, BoringSSL".to_owned(), &mut |out| bare(&boringssl, &texts, out));
    for curve in Curve::ALL {
        let options = options(curve, Keying::Request);
        let (engine, name) = (&fixture.engine, curve.short_name());
        add(format!("{name} request, envelope text"), &mut |out| encrypt_values(engine, &options, &values, out));
        add(format!("{name} request, document"), &mut |out| {
            encrypt_document(engine, &options, document.as_bytes(), out)
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let fixture = fixture();
    if std::env::args().any(|argument| argument == "--test") {
        let _ = measure(&fixture, 1);
        return;
    }
    criterion_report(&mut criterion, &fixture);
    criterion.final_summary();
    table(&fixture);
}
