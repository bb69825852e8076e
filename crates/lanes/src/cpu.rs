//! CPU detection. Kernels require a token, a value that exists only if the CPU has the instructions that they use. Detection reads
//! CPUID once per process (the standard library caches the result).

macro_rules! detected {
    ($detect:ident: $($feature:tt),+ $(,)?) => {
        [$(($feature, std::arch::$detect!($feature))),+]
    };
}

/// The features of this CPU that cryptography cares about, by their LLVM names, in a fixed order.
pub fn cpu_features() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    let known = detected!(is_x86_feature_detected: "aes", "pclmulqdq", "sha", "bmi2", "adx", "avx2", "vaes", "vpclmulqdq",
        "gfni", "avx512f", "avx512bw", "avx512vl", "avx512ifma", "avx512vbmi");
    #[cfg(target_arch = "aarch64")]
    let known = detected!(is_aarch64_feature_detected: "neon", "aes", "pmull", "sha2", "sha3", "sve2");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let known: [(&'static str, bool); 0] = [];
    known.into_iter().filter_map(|(name, present)| present.then_some(name)).collect()
}

/// A token: its only constructor checks whether the CPU has its features.
macro_rules! token {
    ($(#[$doc:meta])* $name:ident, $detect:ident: $($feature:tt),+) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name(());

        impl $name {
            /// The token, whether or not CPUID reports the features: Valgrind runs instructions that its CPUID omits.
            ///
            /// # Safety
            /// Where it has not, nothing may be run with it.
            #[cfg(all(test, feature = "valgrind"))]
            #[allow(dead_code)] // Not every token is taken on trust.
            pub(crate) const unsafe fn assume() -> Self {
                Self(())
            }

            /// The token, where this CPU has the features.
            pub fn detect() -> Option<Self> {
                ($(std::arch::$detect!($feature))&&+).then_some(Self(()))
            }
        }
    };
}

/// A kernel for CPUs with one token, beside its model. What runs on the other CPUs is a library's business, which is as fast there.
macro_rules! kernel {
    ($(#[$doc:meta])* $token:ident = $name:literal, $(#[$model_doc:meta])* Model) => {
        /// The instructions that the work goes through. Holds the proof that this CPU has them. Other CPUs have no kernel: a library is as
        /// fast.
        #[derive(Debug, Clone, Copy)]
        #[non_exhaustive]
        pub enum Kernel {
            $(#[$doc])*
            #[cfg(target_arch = "x86_64")]
            $token($crate::cpu::$token),
            $(#[$model_doc])*
            #[cfg(any(test, feature = "model"))]
            #[doc(hidden)]
            Model,
        }

        impl Kernel {
            /// The kernel for this CPU, if there is one.
            pub fn detect() -> Option<Self> {
                #[cfg(target_arch = "x86_64")]
                return $crate::cpu::$token::detect().map(Self::$token);
                #[cfg(not(target_arch = "x86_64"))]
                None
            }

            /// A name for reports.
            pub fn name(self) -> &'static str {
                match self {
                    #[cfg(target_arch = "x86_64")]
                    Self::$token(_) => $name,
                    #[cfg(any(test, feature = "model"))]
                    Self::Model => "model",
                }
            }
        }
    };
}
pub(crate) use kernel;

#[cfg(target_arch = "x86_64")]
token!(
    /// AES-NI and PCLMULQDQ on 128-bit registers.
    AesNi, is_x86_feature_detected: "aes", "pclmulqdq", "ssse3", "sse4.1"
);
#[cfg(target_arch = "x86_64")]
token!(
    /// VAES and VPCLMULQDQ on 256-bit registers.
    Vaes256, is_x86_feature_detected: "aes", "pclmulqdq", "ssse3", "sse4.1", "avx2", "vaes", "vpclmulqdq"
);
#[cfg(target_arch = "x86_64")]
token!(
    /// VAES and VPCLMULQDQ on 512-bit registers, with masks for bytes.
    Vaes512, is_x86_feature_detected: "aes", "pclmulqdq", "ssse3", "sse4.1", "avx2", "vaes", "vpclmulqdq", "bmi2",
    "avx512f", "avx512bw", "avx512vl"
);

#[cfg(target_arch = "x86_64")]
token!(
    /// The SHA extensions on 128-bit registers.
    ShaNi, is_x86_feature_detected: "sha", "ssse3", "sse4.1"
);

#[cfg(target_arch = "x86_64")]
token!(
    /// Products with two chains of carries (MULX, ADCX, ADOX), and 256-bit registers.
    Adx, is_x86_feature_detected: "bmi2", "adx", "avx2"
);

#[cfg(target_arch = "x86_64")]
token!(
    /// Products of 52-bit numbers in 512-bit registers (VPMADD52), and what [`Adx`] proves.
    Ifma, is_x86_feature_detected: "bmi2", "adx", "avx2", "avx512f", "avx512ifma"
);

#[cfg(target_arch = "x86_64")]
token!(
    /// Products of doubles in 512-bit registers (VFMADD), and what [`Adx`] proves.
    Avx512F, is_x86_feature_detected: "bmi2", "adx", "avx2", "avx512f"
);

#[cfg(target_arch = "x86_64")]
token!(
    /// Shuffles of bytes in 128-bit registers.
    Ssse3, is_x86_feature_detected: "ssse3", "sse4.1"
);
#[cfg(target_arch = "x86_64")]
token!(
    /// Shuffles of bytes in 256-bit registers.
    Avx2, is_x86_feature_detected: "ssse3", "sse4.1", "avx2"
);
#[cfg(target_arch = "x86_64")]
token!(
    /// Shuffles of bytes across 512-bit registers, with masks.
    Vbmi, is_x86_feature_detected: "ssse3", "sse4.1", "bmi2", "avx2", "avx512f", "avx512bw", "avx512vl", "avx512vbmi"
);

#[cfg(target_arch = "aarch64")]
token!(
    /// Registers of 128 bits.
    Neon, is_aarch64_feature_detected: "neon"
);
#[cfg(target_arch = "aarch64")]
token!(
    /// The AES and PMULL instructions of the ARMv8 cryptographic extension.
    Armv8, is_aarch64_feature_detected: "neon", "aes", "pmull"
);

#[cfg(target_arch = "x86_64")]
impl From<Vaes256> for AesNi {
    fn from(_: Vaes256) -> Self {
        Self(())
    }
}

#[cfg(target_arch = "x86_64")]
impl From<Vaes512> for AesNi {
    fn from(_: Vaes512) -> Self {
        Self(())
    }
}

#[cfg(target_arch = "x86_64")]
impl From<Ifma> for Adx {
    fn from(_: Ifma) -> Self {
        Self(())
    }
}

#[cfg(target_arch = "x86_64")]
impl From<Avx512F> for Adx {
    fn from(_: Avx512F) -> Self {
        Self(())
    }
}

#[cfg(target_arch = "x86_64")]
impl From<Avx2> for Ssse3 {
    fn from(_: Avx2) -> Self {
        Self(())
    }
}

#[cfg(target_arch = "x86_64")]
impl From<Vbmi> for Ssse3 {
    fn from(_: Vbmi) -> Self {
        Self(())
    }
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// The kernel's own account of the CPU, an independent oracle on Linux.
    #[test]
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
