//! What the CPU can do. The multi-buffer kernels that will live here are chosen by it at start; `fieldseal info` shows it.
//!
//! Deliberately absent so far: kernels. Sealing and opening go through the library that measured best (crate `crypto`).
#![warn(missing_docs)]

macro_rules! detected {
    ($detect:ident: $($feature:tt),+ $(,)?) => {
        [$(($feature, std::arch::$detect!($feature))),+]
    };
}

/// The features of this CPU that cryptography cares about, by their LLVM names, in a fixed order.
pub fn cpu_features() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    let known = detected!(is_x86_feature_detected: "aes", "pclmulqdq", "sha", "bmi2", "adx", "avx2", "vaes", "vpclmulqdq",
        "gfni", "avx512f", "avx512bw", "avx512vl", "avx512ifma");
    #[cfg(target_arch = "aarch64")]
    let known = detected!(is_aarch64_feature_detected: "neon", "aes", "pmull", "sha2", "sha3", "sve2");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let known: [(&'static str, bool); 0] = [];
    known.into_iter().filter_map(|(name, present)| present.then_some(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's own account of the CPU, an independent oracle on Linux.
    #[test]
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    fn agrees_with_the_kernel() {
        let info = std::fs::read_to_string("/proc/cpuinfo").expect("readable");
        let flags = info.lines().find(|line| line.starts_with("flags")).expect("a flags line");
        let flags: Vec<&str> = flags.split_whitespace().collect();
        let kernel_name = |feature: &'static str| if feature == "sha" { "sha_ni" } else { feature };
        for feature in ["aes", "pclmulqdq", "sha", "bmi2", "adx", "avx2", "vaes", "vpclmulqdq", "avx512f", "avx512ifma"]
        {
            assert_eq!(cpu_features().contains(&feature), flags.contains(&kernel_name(feature)), "{feature}");
        }
    }
}
