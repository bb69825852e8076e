//! The cost of freeing a large buffer for its thread, with the program's allocator: frames and answers are freed by workers and
//! network threads, which must not be busy for longer than a slice may last. Microseconds of wall-clock time: on a machine with
//! other load the maxima show that load.
//!
//! `_RJEM_MALLOC_CONF=background_thread:false` shows what it would cost if the thread that frees gave the memory back itself.

use std::time::{Duration, Instant};

/// As in the program.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const ROUNDS: usize = 9;
const MIB: usize = 1 << 20;
/// Maximum duration of a slice, in microseconds.
const SLICE_MAX: f64 = 200.0;
/// Bytes that a part of a list writes, about.
const PART_SIZE: usize = 26_000;
const SMALL_ONES: usize = 500_000;

fn main() {
    println!("{:44} {:>10} {:>10} {:>10}", "freed, µs", "least", "median", "most");
    for size in [1, 16, 64, 256, 1024] {
        row(&format!("a buffer of {size} MiB"), move || vec![1_u8; size * MIB]);
    }
    for size in [1, 16, 256, 1024] {
        row(&format!("parts of {size} MiB together"), move || vec![vec![1_u8; PART_SIZE]; size * MIB / PART_SIZE]);
    }
    give_back();
    let before = stalls();
    let buffer = vec![1_u8; 1024 * MIB];
    drop(buffer);
    let after = stalls();
    println!("\nof {SMALL_ONES} small buffers made, written and freed, longer than {SLICE_MAX} µs: {before}");
    println!("of as many while 1 GiB goes back to the system: {after}");
}

/// Made by one thread and freed by another, as frames and answers are.
fn row<T: Send + 'static>(name: &str, make: impl Fn() -> T + Copy + Send + 'static) {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let made = std::thread::spawn(make).join().expect("made");
            let began = Instant::now();
            drop(made);
            let time = began.elapsed().as_secs_f64() * 1e6;
            std::thread::sleep(Duration::from_millis(100));
            time
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{name:44} {:10.1} {:10.1} {:10.1}", times[0], times[ROUNDS / 2], times[ROUNDS - 1]);
}

/// How fast memory comes back after the last buffer of a load.
fn give_back() {
    let buffer = vec![1_u8; 1024 * MIB];
    drop(buffer);
    let began = Instant::now();
    print!("\nMiB resident after 1 GiB was freed:");
    for quarter in 0..=8 {
        std::thread::sleep((Duration::from_millis(250) * quarter).saturating_sub(began.elapsed()));
        print!(" {:.2} s {}", f64::from(quarter) / 4.0, resident() / MIB);
    }
    println!();
}

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).map_or(0, |pages| pages * 4096)
}

/// How many small buffers take longer than a slice may last.
fn stalls() -> usize {
    let mut kept = vec![Vec::new(); 50];
    let mut stall = |round: usize| {
        let began = Instant::now();
        kept[round % 50] = vec![1_u8; 20_000 + round * 37 % 100_000];
        began.elapsed().as_secs_f64() * 1e6 > SLICE_MAX
    };
    (0..SMALL_ONES).filter(|round| stall(*round)).count()
}
