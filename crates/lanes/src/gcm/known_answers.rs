//! Known answers that a kernel must compute before it is used: test cases 3, 4, 15 and 16 of the GCM specification that SP 800-38D grew
//! from (McGrew and Viega, "The Galois/Counter Mode of Operation (GCM)", appendix B), and the second vector of XAES-256-GCM.

use super::{GcmKey, Kernel, Nonce, OpenItem, SealItem, TAG_SIZE, XaesKeyParts, XaesNonce, XaesOpenItem, XaesSealItem};

const KEY: [u8; 32] = block(0xfeff_e992_8665_731c_6d6a_8f94_6730_8308, 0xfeff_e992_8665_731c_6d6a_8f94_6730_8308);
const NONCE: Nonce = Nonce([0xca, 0xfe, 0xba, 0xbe, 0xfa, 0xce, 0xdb, 0xad, 0xde, 0xca, 0xf8, 0x88]);
const AAD: [u8; 32] = block(0xfeed_face_dead_beef_feed_face_dead_beef, 0xabad_dad2 << 96);
const AAD_SIZE: usize = 20;
const TEXT: [[u8; 32]; 2] = [
    block(0xd931_3225_f884_06e5_a559_09c5_aff5_269a, 0x86a7_a953_1534_f7da_2e4c_303d_8a31_8a72),
    block(0x1c3c_0c95_9568_0953_2fcf_0e24_49a6_b525, 0xb16a_edf5_aa0d_e657_ba63_7b39_1aaf_d255),
];
/// The cases with associated data have less text.
const SHORT: usize = 60;

/// For one length of key: the ciphertext, and the tags without and with associated data.
struct GcmAnswers {
    key_size: usize,
    ciphertext: [[u8; 32]; 2],
    tag: u128,
    tag_with_aad: u128,
}

const ANSWERS: [GcmAnswers; 2] = [
    GcmAnswers {
        key_size: 16,
        ciphertext: [
            block(0x4283_1ec2_2177_7424_4b72_21b7_84d0_d49c, 0xe3aa_212f_2c02_a4e0_35c1_7e23_29ac_a12e),
            block(0x21d5_14b2_5466_931c_7d8f_6a5a_ac84_aa05, 0x1ba3_0b39_6a0a_ac97_3d58_e091_473f_5985),
        ],
        tag: 0x4d5c_2af3_27cd_64a6_2cf3_5abd_2ba6_fab4,
        tag_with_aad: 0x5bc9_4fbc_3221_a5db_94fa_e95a_e712_1a47,
    },
    GcmAnswers {
        key_size: 32,
        ciphertext: [
            block(0x522d_c1f0_9956_7d07_f47f_37a3_2a84_427d, 0x643a_8cdc_bfe5_c0c9_7598_a2bd_2555_d1aa),
            block(0x8cb0_8e48_590d_bb3d_a7b0_8b10_5682_8838, 0xc5f6_1e63_93ba_7a0a_bcc9_f662_8980_15ad),
        ],
        tag: 0xb094_dac5_d934_71bd_ec1a_5022_70e3_cc6c,
        tag_with_aad: 0x76fc_6ece_0f4e_1768_cddf_8853_bb2d_551b,
    },
];

const fn block(front: u128, back: u128) -> [u8; 32] {
    let (front, back) = (front.to_be_bytes(), back.to_be_bytes());
    let mut bytes = [0; 32];
    let mut i = 0;
    while i < 16 {
        bytes[i] = front[i];
        bytes[16 + i] = back[i];
        i += 1;
    }
    bytes
}

/// The vector of the specification in which a bit leaves when the subkey is doubled.
const XAES_KEY: [u8; 32] = [3; 32];
const XAES_NONCE: XaesNonce = XaesNonce(*b"ABCDEFGHIJKLMNOPQRSTUVWX");
const XAES_AAD: &[u8] = b"c2sp.org/XAES-256-GCM";
const XAES_TEXT: &[u8] = b"XAES-256-GCM";
const XAES_SEALED: [u8; 28] = [
    0x98, 0x6e, 0xc1, 0x83, 0x25, 0x93, 0xdf, 0x54, 0x43, 0xa1, 0x79, 0x43, 0x7f, 0xd0, 0x83, 0xbf, 0x3f, 0xdb, 0x41,
    0xab, 0xd7, 0x40, 0xa2, 0x1f, 0x71, 0xeb, 0x76, 0x9d,
];

/// Whether a kernel seals to the known answers, opens them, and refuses a wrong tag: messages alike and of two lengths, more than
/// fit into a group.
pub(super) fn are_given(kernel: Kernel) -> bool {
    gcm_is_right(kernel) && xaes_is_right(kernel, &XAES_SEALED)
}

/// The same for XAES-256-GCM, alone, side by side, and many under one prefix.
fn xaes_is_right(kernel: Kernel, answer: &[u8; 28]) -> bool {
    let mut key = XaesKeyParts::zero();
    kernel.expand_xaes(&XAES_KEY, &mut key);
    let item = XaesSealItem { nonce: XAES_NONCE, aad: XAES_AAD, plaintext: XAES_TEXT };
    let mut wrong = *answer;
    wrong[27] ^= 1;
    [1, 5, 40].into_iter().all(|count| {
        let (mut sealed, mut out, mut opened) = (vec![[0; 28]; count], vec![[0; 12]; count], vec![true; count]);
        kernel.seal_xaes(&key, &vec![item; count], sealed.as_flattened_mut());
        let mut open = vec![XaesOpenItem { nonce: XAES_NONCE, aad: XAES_AAD, sealed: answer }; count];
        open[count - 1].sealed = &wrong;
        kernel.open_xaes(&key, &open, out.as_flattened_mut(), &mut opened);
        let (last, others) = out.split_last().expect("at least one");
        sealed.iter().all(|sealed| sealed == answer)
            && others.iter().all(|text| text == XAES_TEXT)
            && *last == [0; 12]
            && opened.iter().rposition(|opened| *opened) == count.checked_sub(2)
            && opened.iter().filter(|opened| **opened).count() == count - 1
    })
}

fn gcm_is_right(kernel: Kernel) -> bool {
    let text = TEXT.as_flattened();
    let long = SealItem { nonce: NONCE, aad: &[], plaintext: text };
    let short = SealItem { nonce: NONCE, aad: &AAD[..AAD_SIZE], plaintext: &text[..SHORT] };
    ANSWERS.iter().all(|answers| {
        let key = GcmKey::new(kernel, &KEY[..answers.key_size]);
        let expected = |item: &SealItem<'_>| {
            let tag = if item.aad.is_empty() { answers.tag } else { answers.tag_with_aad };
            [&answers.ciphertext.as_flattened()[..item.plaintext.len()], &tag.to_be_bytes()].concat()
        };
        let mixed = [long, short, short, long, short, long, long, long, short, short, long];
        [[long; 11].as_slice(), &[short; 11], &mixed, &[short]].into_iter().all(|items| gives(&key, items, expected))
    })
}

fn gives(key: &GcmKey, items: &[SealItem<'_>], expected: impl Fn(&SealItem<'_>) -> Vec<u8>) -> bool {
    let mut answers: Vec<Vec<u8>> = items.iter().map(expected).collect();
    let mut sealed = vec![0; items.iter().map(|item| item.plaintext.len() + TAG_SIZE).sum()];
    key.seal(items, &mut sealed);
    let seals = sealed == answers.concat();
    // The last one must not open.
    *answers.last_mut().and_then(|answer| answer.last_mut()).expect("a tag") ^= 1;
    let open: Vec<OpenItem<'_>> = items
        .iter()
        .zip(&answers)
        .map(|(item, sealed)| OpenItem { nonce: item.nonce, aad: item.aad, sealed })
        .collect();
    let mut expected: Vec<&[u8]> = items.iter().map(|item| item.plaintext).collect();
    let zeros = [0; 64];
    let last = items.len() - 1;
    expected[last] = &zeros[..items[last].plaintext.len()];
    let mut opened = vec![true; items.len()];
    let mut out = vec![0xff; expected.iter().map(|text| text.len()).sum()];
    key.open(&open, &mut out, &mut opened);
    let opens = opened[..last].iter().all(|&opened| opened) && !opened[last] && out == expected.concat();
    seals && opens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn are_given_by_every_kernel_of_this_cpu() {
        for kernel in Kernel::detect() {
            assert!(are_given(kernel), "{}", kernel.name());
        }
    }

    /// The check can fail: another answer is not taken.
    #[test]
    fn a_wrong_answer_is_detected() {
        let Some(&kernel) = Kernel::detect().first() else { return };
        let key = GcmKey::new(kernel, &KEY);
        let item = SealItem { nonce: NONCE, aad: &[], plaintext: TEXT.as_flattened() };
        assert!(!gives(&key, &[item], |item| vec![0; item.plaintext.len() + TAG_SIZE]));
        assert!(!xaes_is_right(kernel, &[0; 28]));
    }
}
