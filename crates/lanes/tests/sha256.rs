//! SHA-256 of two messages side by side: the kernel of this CPU against the definition.

use leafseal_lanes::sha256::{BLOCK_SIZE, INITIAL, Kernel};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

#[test]
fn kernels_give_the_known_answers() {
    assert!(Kernel::detect().into_iter().chain([Kernel::Model]).all(Kernel::is_right));
}

#[test]
fn the_instructions_equal_the_definition() {
    let Some(kernel) = Kernel::detect() else { return };
    let mut rng = StdRng::seed_from_u64(1);
    for _ in 0..2_000 {
        let messages = [(); 2].map(|()| {
            let mut message = vec![0; rng.random_range(0..6 * BLOCK_SIZE)];
            rng.fill_bytes(&mut message);
            message
        });
        let [front, back] = &messages;
        let start = if rng.random() { [INITIAL; 2] } else { rng.random() };
        let [mut found, mut expected] = [start; 2];
        let [x, y] = &mut found;
        let count = kernel.compress_pair([x, y], [front, back]);
        let [x, y] = &mut expected;
        assert_eq!(count, Kernel::Model.compress_pair([x, y], [front, back]));
        assert_eq!(count, front.len().min(back.len()) / BLOCK_SIZE);
        assert_eq!(found, expected);
    }
}
