//! CPU features. Kernels require a token, a value that exists only if the CPU has the features that they are compiled for. Detection
//! reads CPUID once per process (the standard library caches the result).

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

/// Declares tokens. Each lists the features of its CPUs once, by their LLVM names. From that list follow:
///
/// - its detection, the only safe way to a token;
/// - the functions that are compiled for its CPUs ([`compiled`], [`entry`], `#[compiled_for]`);
/// - a check that a token which another one converts to has no feature that the other lacks.
///
/// `xtask tidy` finds features that stand anywhere else.
macro_rules! tokens {
    ($dollar:tt $($arch:tt by $detect:ident {
        $($(#[$doc:meta])* $token:ident [$($feature:tt)+] $(from $($wider:ident)+)?;)+
    })+) => {
        $($(
            $(#[$doc])*
            #[cfg(target_arch = $arch)]
            #[derive(Debug, Clone, Copy)]
            pub struct $token(());

            #[cfg(target_arch = $arch)]
            impl $token {
                /// The features, by their LLVM names.
                pub const FEATURES: &[&str] = &[$($feature),+];

                /// The token, where this CPU has the features.
                pub fn detect() -> Option<Self> {
                    ($(std::arch::$detect!($feature))&&+).then_some(Self(()))
                }

                /// The token, whether or not CPUID reports the features: Valgrind runs instructions that its CPUID omits.
                ///
                /// # Safety
                /// - Code that takes the token must not run on a CPU, or under a Valgrind, without the features.
                #[cfg(all(test, feature = "valgrind"))]
                #[allow(dead_code)] // Only one token needs it.
                pub(crate) const unsafe fn assume() -> Self {
                    Self(())
                }
            }

            $($(
                #[cfg(target_arch = $arch)]
                const _: () = assert!(includes($wider::FEATURES, $token::FEATURES), "a feature that the wider token lacks");

                #[cfg(target_arch = $arch)]
                impl From<$wider> for $token {
                    fn from(_: $wider) -> Self {
                        Self(())
                    }
                }
            )+)?
        )+)+

        /// Compiles a function for the CPUs of a token: `compiled! { Avx2 fn f() {} }`.
        macro_rules! compiled {
            $($(
                ($token $dollar($dollar function:tt)*) => {
                    #[target_feature($(enable = $feature),+)]
                    $dollar($dollar function)*
                };
            )+)+
        }
    };
}

/// Whether all of `part` are among `all`.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // No other architecture has tokens that convert.
const fn includes(all: &[&str], part: &[&str]) -> bool {
    let mut i = 0;
    while i < part.len() {
        let mut j = 0;
        while j < all.len() && !is_same(all[j].as_bytes(), part[i].as_bytes()) {
            j += 1;
        }
        if j == all.len() {
            return false;
        }
        i += 1;
    }
    true
}

#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
const fn is_same(mut a: &[u8], mut b: &[u8]) -> bool {
    while let ([x, rest @ ..], [y, others @ ..]) = (a, b) {
        if *x != *y {
            return false;
        }
        (a, b) = (rest, others);
    }
    a.is_empty() && b.is_empty()
}

tokens! {
    $

    "x86_64" by is_x86_feature_detected {
        /// AES-NI and PCLMULQDQ on 128-bit registers.
        AesNi ["aes" "pclmulqdq" "ssse3" "sse4.1"] from Vaes256 Vaes512;
        /// VAES and VPCLMULQDQ on 256-bit registers.
        Vaes256 ["aes" "pclmulqdq" "ssse3" "sse4.1" "avx2" "vaes" "vpclmulqdq"];
        /// VAES and VPCLMULQDQ on 512-bit registers, with masks for bytes.
        Vaes512 [
            "aes" "pclmulqdq" "ssse3" "sse4.1" "avx2" "vaes" "vpclmulqdq" "bmi2" "avx512f" "avx512bw" "avx512vl"
        ];
        /// The SHA extensions on 128-bit registers.
        ShaNi ["sha" "ssse3" "sse4.1"];
        /// Products with two chains of carries (MULX, ADCX, ADOX), and 256-bit registers.
        Adx ["bmi2" "adx" "avx2"] from Ifma Avx512F;
        /// Products of 52-bit numbers in 512-bit registers (VPMADD52), and the features of [`Adx`].
        Ifma ["bmi2" "adx" "avx2" "avx512f" "avx512ifma"];
        /// Products of doubles in 512-bit registers (VFMADD), and the features of [`Adx`].
        Avx512F ["bmi2" "adx" "avx2" "avx512f"];
        /// Shuffles of bytes in 128-bit registers.
        Ssse3 ["ssse3" "sse4.1"] from Avx2 Vbmi;
        /// Shuffles of bytes in 256-bit registers.
        Avx2 ["ssse3" "sse4.1" "avx2"];
        /// Shuffles of bytes across 512-bit registers, with masks.
        Vbmi ["ssse3" "sse4.1" "bmi2" "avx2" "avx512f" "avx512bw" "avx512vl" "avx512vbmi"];
    }

    "aarch64" by is_aarch64_feature_detected {
        /// Registers of 128 bits.
        Neon ["neon"];
        /// The AES instructions of the ARMv8 cryptographic extension, and PMULL, which Rust's feature `aes` includes.
        Armv8 ["neon" "aes"];
    }
}

/// Defines a safe function that runs code compiled for the CPUs of its first argument, a token. Code that is generic over
/// registers is `#[inline(always)]`, so that it is compiled for these CPUs with the function that it ends up in.
///
/// The body of an `unsafe fn` is unsafe for its own reasons alone, which its documentation states.
macro_rules! entry {
    (@function [$($attribute:tt)*] [$($outer:tt)*] [$($inner:tt)*] $name:ident $cpu:ident $token:ident
        [$($argument:ident: $type:ty),*] [$($result:ty)?] $body:block
    ) => {
        $($attribute)*
        $($outer)* fn $name($cpu: $crate::cpu::$token $(, $argument: $type)*) $(-> $result)? {
            $crate::cpu::compiled! {
                $token
                $($inner)* fn compiled($cpu: $crate::cpu::$token $(, $argument: $type)*) $(-> $result)? $body
            }
            // SAFETY:
            // - The token proves the features that `compiled` has: both follow from one list.
            // - The caller of this function guarantees the other requirements of `compiled`.
            unsafe { compiled($cpu $(, $argument)*) }
        }
    };
    // SAFETY: a pattern; the documentation of each function that it matches states the obligations of callers.
    ($(#[$attribute:meta])* $visibility:vis unsafe fn $name:ident(
        $cpu:ident: $token:ident $(, $argument:ident: $type:ty)* $(,)?
    ) $(-> $result:ty)? $body:block) => {
        $crate::cpu::entry! {
            @function [$(#[$attribute])*] [$visibility unsafe] [unsafe] $name $cpu $token
            [$($argument: $type),*] [$($result)?] $body
        }
    };
    ($(#[$attribute:meta])* $visibility:vis fn $name:ident(
        $cpu:ident: $token:ident $(, $argument:ident: $type:ty)* $(,)?
    ) $(-> $result:ty)? $body:block) => {
        $crate::cpu::entry! {
            @function [$(#[$attribute])*] [$visibility] [] $name $cpu $token
            [$($argument: $type),*] [$($result)?] $body
        }
    };
}
pub(crate) use {compiled, entry};

/// The kernel for the CPUs of one token, and its model. Other CPUs have no kernel, because a library is as fast there.
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

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// The check of conversions between tokens can fail.
    #[test]
    fn a_feature_that_only_one_token_has_is_found() {
        assert!(includes(Vaes512::FEATURES, AesNi::FEATURES));
        assert!(!includes(AesNi::FEATURES, Vaes512::FEATURES));
        assert!(!includes(&["avx512f"], &["avx512"]) && !includes(&["avx512"], &["avx512f"]));
        assert!(includes(&[], &[]) && !includes(&[], &["aes"]));
    }

    /// Linux reports the CPU's features independently of CPUID.
    #[test]
    fn detection_agrees_with_linux() {
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
