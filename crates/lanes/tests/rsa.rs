//! RSA's signature primitive against powers by another arithmetic (`vectors/rsa`), in every place of a batch, through the instructions of
//! this CPU and through their model.

use std::collections::HashMap;

use leafseal_lanes::rsa::{BATCH_SIZE, Components, Kernel, RsaSigningKey, Unsupported};

/// A private key of the vectors, with message representatives and signatures.
struct Group {
    numbers: HashMap<&'static str, Vec<u8>>,
    cases: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Group {
    fn components(&self) -> Components<'_> {
        Components {
            modulus: &self.numbers["n"],
            public_exponent: &self.numbers["e"],
            prime_1: &self.numbers["p"],
            prime_2: &self.numbers["q"],
            exponent_1: &self.numbers["dP"],
            exponent_2: &self.numbers["dQ"],
            coefficient: &self.numbers["qInv"],
        }
    }
}

fn from_hex(text: &str) -> Vec<u8> {
    text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn groups() -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for line in include_str!("../../../vectors/rsa/primitive.rsp").lines().filter(|line| !line.is_empty()) {
        let Some((name, digits)) = line.split_once(" = ").filter(|(name, _)| !name.starts_with('[')) else {
            groups.push(Group { numbers: HashMap::new(), cases: Vec::new() });
            continue;
        };
        let group = groups.last_mut().expect("a modulus is first");
        match name {
            "m" => group.cases.push((from_hex(digits), Vec::new())),
            "s" => group.cases.last_mut().expect("after m").1 = from_hex(digits),
            _ => _ = group.numbers.insert(name, from_hex(digits)),
        }
    }
    assert_eq!(groups.len(), 4);
    groups
}

fn kernels() -> impl Iterator<Item = Kernel> {
    Kernel::detect().into_iter().chain([Kernel::Model])
}

#[test]
fn signatures_equal_another_arithmetic_in_every_place() {
    for kernel in kernels() {
        for group in groups() {
            let key = RsaSigningKey::new(kernel, &group.components()).expect("a supported key");
            // The model is slow, and has nothing that depends on the place.
            let shifts = if kernel.name() == "model" { 1 } else { BATCH_SIZE };
            for shift in 0..shifts {
                let (messages, expected): (Vec<_>, Vec<_>) =
                    group.cases.iter().cycle().skip(shift).take(28).cloned().unzip();
                let messages: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
                let signatures = key.sign(&messages);
                for ((found, expected), message) in signatures.iter().zip(&expected).zip(&messages) {
                    assert!(found.as_ref() == Some(expected), "{key:?} {message:02x?}");
                }
            }
        }
    }
}

#[test]
fn a_call_takes_any_number_of_messages() {
    for kernel in kernels() {
        let group = &groups()[0];
        let key = RsaSigningKey::new(kernel, &group.components()).expect("a supported key");
        for count in [0, 1, 2, 3, 4, 5, 8, 9] {
            let messages: Vec<&[u8]> = group.cases[..count].iter().map(|(message, _)| message.as_slice()).collect();
            let expected: Vec<_> = group.cases[..count].iter().map(|(_, signature)| Some(signature.clone())).collect();
            assert!(key.sign(&messages) == expected, "{count}");
        }
    }
}

#[test]
fn representatives_not_below_the_modulus_have_no_signature() {
    for kernel in kernels() {
        let group = &groups()[0];
        let key = RsaSigningKey::new(kernel, &group.components()).expect("a supported key");
        let modulus = &group.numbers["n"];
        let highest = vec![0xff; modulus.len()];
        let longer = [&[1], &vec![0; modulus.len()][..]].concat();
        let (message, signature) = &group.cases[3];
        let found = key.sign(&[modulus, message, &highest, &longer]);
        assert!(found == [None, Some(signature.clone()), None, None]);
    }
}

/// One number of a key that does not belong to the others, or a key of another shape.
#[test]
fn keys_that_lanes_cannot_sign_with_are_refused() {
    let groups = groups();
    let right = groups[0].components();
    let other = groups[1].components();
    let shorter = &right.prime_1[1..];
    let even: Vec<u8> = right.prime_2.iter().map(|byte| byte & 0xfe).collect();
    let wrong = [
        Components { modulus: other.modulus, ..right },
        Components { public_exponent: other.public_exponent, ..right },
        Components { public_exponent: &[], ..right },
        Components { public_exponent: &[1], ..right },
        Components { public_exponent: &[1; 9], ..right },
        Components { prime_1: other.prime_1, ..right },
        Components { prime_1: shorter, ..right },
        Components { prime_1: right.prime_2, prime_2: right.prime_1, ..right },
        Components { prime_2: &even, ..right },
        Components { prime_2: other.prime_2, ..right },
        Components { exponent_1: other.exponent_1, ..right },
        Components { exponent_2: other.exponent_2, ..right },
        Components { coefficient: other.coefficient, ..right },
        Components { modulus: &right.modulus[..128], ..right },
        Components { modulus: &[], ..right },
    ];
    for kernel in kernels() {
        for (i, components) in wrong.iter().enumerate() {
            assert_eq!(RsaSigningKey::new(kernel, components).err(), Some(Unsupported), "{} {i}", kernel.name());
        }
        let padded = [&[0; 3], right.modulus].concat();
        RsaSigningKey::new(kernel, &Components { modulus: &padded, ..right }).expect("leading zeros are allowed");
    }
}

#[test]
fn nothing_prints_a_secret() {
    let groups = groups();
    let key = RsaSigningKey::new(Kernel::Model, &groups[0].components()).expect("a supported key");
    assert_eq!(format!("{key:?}"), "PrivateKey(2048 bits, model, …)");
    assert_eq!(format!("{:?}", groups[0].components()), "Components(…)");
}
