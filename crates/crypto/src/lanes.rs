//! Selects the kernels of `leafseal-lanes` for short AES-GCM messages, long ChaCha20, pairs of SHA-256, curve multiplication and base64.
//! Selected once per process: the fastest that the CPU supports and that passes a known-answer test, unless the process names one at
//! start-up. If there is none, the library is used.

use std::sync::OnceLock;

use leafseal_lanes::gcm::Kernel;
use leafseal_lanes::{chacha, ec, rsa, sha256, text};
use thiserror::Error;

use crate::ffi::fork_barrier::init;

/// The implementations that a process may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Implementations {
    /// The fastest of this CPU.
    #[default]
    Auto,
    /// No kernel: the library encrypts all messages, and curves use instructions that every CPU has.
    Portable,
    /// AES-NI, with one message in each register.
    AesNi,
    /// VAES on 256-bit registers, two messages each.
    Vaes256,
    /// VAES on 512-bit registers, four messages each.
    Vaes512,
    /// The ARMv8 cryptographic extension, with one message in each register.
    Armv8,
}

impl Implementations {
    /// Every choice.
    pub const ALL: [Self; 6] = [Self::Auto, Self::Portable, Self::AesNi, Self::Vaes256, Self::Vaes512, Self::Armv8];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Portable => "portable",
            Self::AesNi => "aesni",
            Self::Vaes256 => "vaes256",
            Self::Vaes512 => "vaes512",
            Self::Armv8 => "armv8",
        }
    }

    /// The kernel of this choice, none for the library.
    ///
    /// # Errors
    /// [`LanesUnavailable`] for a kernel that this CPU does not support or whose self-test fails on it.
    pub(crate) fn kernel(self) -> Result<Option<Kernel>, LanesUnavailable> {
        match self {
            Self::Auto => Ok(usable().first().copied()),
            Self::Portable => Ok(None),
            _ => {
                let named = usable().iter().find(|kernel| kernel.name() == self.name());
                let is_detected = Kernel::detect().iter().any(|kernel| kernel.name() == self.name());
                named.copied().map(Some).ok_or(LanesUnavailable::of_kernel(self.name(), is_detected))
            }
        }
    }
}

/// How curves are multiplied for encapsulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CurveLanes {
    /// The fastest kernel of this CPU, or the one for every CPU if [`Lanes::Portable`] is in use.
    #[default]
    Auto,
    /// No tables: the libraries multiply.
    Library,
    /// Tables, with instructions that every CPU has.
    Portable,
    /// Tables, with MULX, ADCX and ADOX.
    Adx,
    /// Tables, with AVX-512 and the multiplication of doubles: eight products side by side.
    Avx512,
    /// Tables, with AVX-512 IFMA: eight products side by side.
    Ifma,
}

impl CurveLanes {
    /// Every choice.
    pub const ALL: [Self; 6] = [Self::Auto, Self::Library, Self::Portable, Self::Adx, Self::Avx512, Self::Ifma];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Library => "library",
            Self::Portable => "portable",
            Self::Adx => "adx",
            Self::Avx512 => "avx512",
            Self::Ifma => "ifma",
        }
    }

    /// The kernel of this choice, none for the libraries.
    ///
    /// # Errors
    /// As [`Implementations::kernel`].
    pub(crate) fn kernel(self) -> Result<Option<ec::Kernel>, LanesUnavailable> {
        let mut kernels = ec::Kernel::detect().into_iter();
        match self {
            Self::Auto => {
                let is_portable = serving().is_none();
                let is_allowed = |kernel: &ec::Kernel| !is_portable || matches!(kernel, ec::Kernel::Portable);
                Ok(kernels.filter(is_allowed).find(|kernel| kernel.is_right()))
            }
            Self::Library => Ok(None),
            _ => {
                let named = kernels.find(|kernel| kernel.name() == self.name());
                let right = named.filter(|kernel| kernel.is_right());
                right.map(Some).ok_or(LanesUnavailable::of_kernel(self.name(), named.is_some()))
            }
        }
    }
}

/// The chosen kernel cannot serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LanesUnavailable {
    /// The CPU lacks the instructions.
    #[error("this CPU does not support `{0}`: choose another implementation, or `auto`")]
    Unsupported(&'static str),
    /// The kernel's self-test failed.
    #[error("`{0}` failed its self-test on this CPU: choose another implementation, or `auto`")]
    SelfTest(&'static str),
    /// Another choice is in use, and stays so for the life of the process.
    #[error("another implementation than `{0}` is already in use: choose it before the first key is used")]
    InUse(&'static str),
}

impl LanesUnavailable {
    /// Why a kernel of this name cannot serve.
    fn of_kernel(name: &'static str, is_detected: bool) -> Self {
        if is_detected { Self::SelfTest(name) } else { Self::Unsupported(name) }
    }
}

/// The kernels of this CPU that give the known answers, the fastest first; looked for once.
fn usable() -> &'static [Kernel] {
    static USABLE: OnceLock<Vec<Kernel>> = OnceLock::new();
    init::<Vec<Kernel>>(&USABLE, || Kernel::detect().into_iter().filter(|kernel| kernel.is_right()).collect())
}

/// The choice, and its kernel.
static SERVING: OnceLock<(Implementations, Option<Kernel>)> = OnceLock::new();

/// Chooses for the whole process. Call it before the first key: a kernel that was used stays in use.
///
/// # Errors
/// [`LanesUnavailable`], also when another choice serves already.
pub fn use_lanes(choice: Implementations) -> Result<(), LanesUnavailable> {
    let kernel = choice.kernel()?;
    let (_, serving) = init(&SERVING, || (choice, kernel));
    let is_chosen = serving.map(Kernel::name) == kernel.map(Kernel::name);
    is_chosen.then_some(()).ok_or(LanesUnavailable::InUse(choice.name()))
}

/// The kernel in use. Chooses it at the first call if [`use_lanes`] has not.
pub(crate) fn serving() -> Option<Kernel> {
    chosen().1
}

fn chosen() -> (Implementations, Option<Kernel>) {
    *init(&SERVING, || (Implementations::Auto, Implementations::Auto.kernel().ok().flatten()))
}

static SERVING_CURVES: OnceLock<Option<ec::Kernel>> = OnceLock::new();

/// Chooses for the curves, likewise; after [`use_lanes`], where both do.
///
/// # Errors
/// As [`use_lanes`].
pub fn use_curve_lanes(choice: CurveLanes) -> Result<(), LanesUnavailable> {
    let kernel = choice.kernel()?;
    let serving = init(&SERVING_CURVES, || kernel);
    let is_chosen = serving.map(ec::Kernel::name) == kernel.map(ec::Kernel::name);
    is_chosen.then_some(()).ok_or(LanesUnavailable::InUse(choice.name()))
}

/// The kernel of the curves in use. Chooses it at the first call if [`use_curve_lanes`] has not.
pub(crate) fn serving_curves() -> Option<ec::Kernel> {
    *init(&SERVING_CURVES, || CurveLanes::Auto.kernel().ok().flatten())
}

/// The kernel for RSA signatures: that of the instructions that serve the curves, where it has one.
pub(crate) fn serving_rsa() -> Option<rsa::Kernel> {
    let curves = serving_curves()?;
    rsa::Kernel::detect().filter(|kernel| kernel.name() == curves.name())
}

/// The kernel for long texts of ChaCha20-Poly1305 beside one for AES-GCM: both have registers of 512 bits, or neither.
pub(crate) fn chacha_beside(gcm: Option<Kernel>) -> Option<chacha::Kernel> {
    static USABLE: OnceLock<Option<chacha::Kernel>> = OnceLock::new();
    let is_wide = gcm.is_some_and(|gcm| gcm.name() == Implementations::Vaes512.name());
    let usable = || chacha::Kernel::detect().filter(|kernel| kernel.is_right());
    if is_wide { *init(&USABLE, usable) } else { None }
}

/// The kernel for pairs of SHA-256, where lanes serve at all.
pub(crate) fn serving_sha256() -> Option<sha256::Kernel> {
    static SERVING_SHA256: OnceLock<Option<sha256::Kernel>> = OnceLock::new();
    let usable = || serving().and_then(|_| sha256::Kernel::detect()).filter(|kernel| kernel.is_right());
    *init(&SERVING_SHA256, usable)
}

/// The kernel for base64: the fastest, but none of a later generation than the process was configured to use.
#[inline]
pub fn text_kernel() -> text::Kernel {
    static SERVING_TEXT: OnceLock<text::Kernel> = OnceLock::new();
    *init(&SERVING_TEXT, choose_text)
}

#[cold]
fn choose_text() -> text::Kernel {
    let mut kernels = text::Kernel::detect();
    kernels.retain(|kernel| serves_text(chosen().0, kernel.name()));
    kernels.into_iter().find(|kernel| kernel.is_right()).unwrap_or(text::Kernel::Portable)
}

fn serves_text(choice: Implementations, kernel: &str) -> bool {
    let later: &[&str] = match choice {
        Implementations::Auto | Implementations::Vaes512 | Implementations::Armv8 => &[],
        Implementations::Vaes256 => &["vbmi"],
        Implementations::AesNi => &["vbmi", "avx2"],
        Implementations::Portable => return kernel == "portable",
    };
    !later.contains(&kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_kernels() {
        let kernels: Vec<&str> = Implementations::ALL[2..].iter().map(|lanes| lanes.name()).collect();
        assert!(Kernel::NAMES.iter().all(|name| kernels.contains(name)) && kernels.len() == Kernel::NAMES.len());
    }

    #[test]
    fn the_fastest_serves_and_stays() {
        let fastest = Kernel::detect().first().map(|kernel| kernel.name());
        assert_eq!(serving().map(Kernel::name), fastest);
        assert_eq!(use_lanes(Implementations::Auto), Ok(()));
        if fastest.is_some() {
            assert_eq!(use_lanes(Implementations::Portable), Err(LanesUnavailable::InUse("portable")));
        }
    }

    #[test]
    fn names_are_those_of_the_kernels_of_curves() {
        let kernels: Vec<&str> = CurveLanes::ALL[2..].iter().map(|lanes| lanes.name()).collect();
        assert!(ec::Kernel::NAMES.iter().all(|name| kernels.contains(name)));
        assert_eq!(kernels.len(), ec::Kernel::NAMES.len());
    }

    #[test]
    fn the_fastest_serves_the_curves() {
        let fastest = ec::Kernel::detect().first().map(|kernel| kernel.name());
        assert_eq!(serving_curves().map(ec::Kernel::name), fastest);
        assert_eq!(use_curve_lanes(CurveLanes::Auto), Ok(()));
        assert_eq!(use_curve_lanes(CurveLanes::Library), Err(LanesUnavailable::InUse("library")));
    }

    #[test]
    fn the_fastest_serves_text_and_no_choice_is_without() {
        assert_eq!(text_kernel().name(), text::Kernel::detect()[0].name());
        let served = |choice| text::Kernel::NAMES.into_iter().filter(move |name| serves_text(choice, name));
        assert_eq!(served(Implementations::Portable).collect::<Vec<_>>(), ["portable"]);
        assert_eq!(served(Implementations::AesNi).collect::<Vec<_>>(), ["ssse3", "neon", "portable"]);
        assert_eq!(served(Implementations::Vaes256).collect::<Vec<_>>(), ["avx2", "ssse3", "neon", "portable"]);
        assert_eq!(served(Implementations::Auto).count(), text::Kernel::NAMES.len());
    }

    #[test]
    fn unsupported_paths_are_refused() {
        let available: Vec<&str> = Kernel::detect().into_iter().map(Kernel::name).collect();
        for lanes in Implementations::ALL
            .into_iter()
            .filter(|lanes| !matches!(lanes, Implementations::Auto | Implementations::Portable))
        {
            assert_eq!(lanes.kernel().is_ok(), available.contains(&lanes.name()), "{lanes:?}");
        }
        let available: Vec<&str> = ec::Kernel::detect().into_iter().map(ec::Kernel::name).collect();
        for lanes in
            CurveLanes::ALL.into_iter().filter(|lanes| !matches!(lanes, CurveLanes::Auto | CurveLanes::Library))
        {
            assert_eq!(lanes.kernel().is_ok(), available.contains(&lanes.name()), "{lanes:?}");
        }
    }
}
