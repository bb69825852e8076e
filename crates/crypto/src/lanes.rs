//! Which kernels of `fieldseal-lanes` take the short messages of AES-GCM and the products of curves. Chosen once a process: the fastest
//! that this CPU can run and that gives the known answers, unless whoever starts the process names one. Where there is none, the
//! library takes all.

use std::sync::OnceLock;

use fieldseal_lanes::ec;
use fieldseal_lanes::gcm::Kernel;

/// What may be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Lanes {
    /// The fastest of this CPU.
    #[default]
    Auto,
    /// None: the library takes all messages, and curves are multiplied without instructions that not every CPU has.
    Portable,
    /// AES-NI, one message a register.
    AesNi,
    /// VAES on 256-bit registers, two messages each.
    Vaes256,
    /// VAES on 512-bit registers, four messages each.
    Vaes512,
    /// The ARMv8 cryptographic extension, one message a register.
    Armv8,
}

impl Lanes {
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
    /// [`LanesUnavailable`] for a kernel that this CPU cannot run or that gives wrong answers on it.
    pub(crate) fn kernel(self) -> Result<Option<Kernel>, LanesUnavailable> {
        match self {
            Self::Auto => Ok(usable().first().copied()),
            Self::Portable => Ok(None),
            _ => {
                let named = usable().iter().find(|kernel| kernel.name() == self.name());
                named.copied().map(Some).ok_or(LanesUnavailable(self))
            }
        }
    }
}

/// The chosen kernel cannot serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LanesUnavailable(Lanes);

impl std::fmt::Display for LanesUnavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "this CPU cannot run the lanes `{}`, or another choice was in use before", self.0.name())
    }
}

impl std::error::Error for LanesUnavailable {}

/// The kernels of this CPU that give the known answers, the fastest first; looked for once.
fn usable() -> &'static [Kernel] {
    static USABLE: OnceLock<Vec<Kernel>> = OnceLock::new();
    USABLE.get_or_init(|| Kernel::detect().into_iter().filter(|kernel| kernel.is_right()).collect())
}

static SERVING: OnceLock<Option<Kernel>> = OnceLock::new();

/// Chooses for the whole process. Belongs before the first key: what has served once stays.
///
/// # Errors
/// [`LanesUnavailable`], also when another choice serves already.
pub fn use_lanes(choice: Lanes) -> Result<(), LanesUnavailable> {
    let kernel = choice.kernel()?;
    let serving = SERVING.get_or_init(|| kernel);
    let is_chosen = serving.map(Kernel::name) == kernel.map(Kernel::name);
    is_chosen.then_some(()).ok_or(LanesUnavailable(choice))
}

/// The kernel that serves, chosen now where nobody has.
pub(crate) fn serving() -> Option<Kernel> {
    *SERVING.get_or_init(|| Lanes::Auto.kernel().ok().flatten())
}

/// The kernel that serves the curves: the fastest, but for a process that was told to be portable.
pub(crate) fn serving_curves() -> Option<ec::Kernel> {
    static SERVING_CURVES: OnceLock<Option<ec::Kernel>> = OnceLock::new();
    *SERVING_CURVES.get_or_init(|| {
        let is_portable = serving().is_none();
        let mut kernels = ec::Kernel::detect();
        kernels.retain(|kernel| !is_portable || matches!(kernel, ec::Kernel::Portable));
        kernels.into_iter().find(|kernel| kernel.is_right())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_kernels() {
        let kernels: Vec<&str> = Lanes::ALL[2..].iter().map(|lanes| lanes.name()).collect();
        assert!(Kernel::NAMES.iter().all(|name| kernels.contains(name)) && kernels.len() == Kernel::NAMES.len());
    }

    #[test]
    fn the_fastest_serves_and_stays() {
        let fastest = Kernel::detect().first().map(|kernel| kernel.name());
        assert_eq!(serving().map(Kernel::name), fastest);
        assert_eq!(use_lanes(Lanes::Auto), Ok(()));
        if fastest.is_some() {
            assert_eq!(use_lanes(Lanes::Portable), Err(LanesUnavailable(Lanes::Portable)));
        }
    }

    #[test]
    fn the_fastest_serves_the_curves() {
        let fastest = ec::Kernel::detect().first().map(|kernel| kernel.name());
        assert_eq!(serving_curves().map(ec::Kernel::name), fastest);
    }

    #[test]
    fn what_the_cpu_lacks_is_refused() {
        let available: Vec<&str> = Kernel::detect().into_iter().map(Kernel::name).collect();
        for lanes in Lanes::ALL.into_iter().skip(2) {
            assert_eq!(lanes.kernel().is_ok(), available.contains(&lanes.name()), "{lanes:?}");
        }
    }
}
