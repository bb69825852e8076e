//! Products of many scalars and a few fixed points on P-256 and secp256k1, as ECIES needs them: the generator, and the public key that many
//! messages go to. Each point has a table of [`TABLE_SIZE`] bytes, which a walk adds up without a doubling.
//!
//! ```text
//! table    of a point Q: for each window i of the scalar, the odd multiples of 2^(start of i) · Q          table
//! digits   of a scalar: signed and odd, none is zero; an even scalar is replaced by the order minus it     scalar
//! product  = Σ ± table[i][digit i]: one addition for each window, no doubling                              walk, wide::fixed
//! affine   = one inversion for all products of a group                                                     element, inversion
//! ```
//!
//! The right column names the module of each step; `path` lists the operations that differ between CPUs, `wide` computes in eight lanes.
//!
//! Constant time in scalars and products: timing depends only on their number. Points of tables are public. `docs/lanes-curves.md` has the
//! reasons and the figures.

#[cfg(target_arch = "x86_64")]
mod adx;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(all(test, feature = "valgrind", target_arch = "x86_64"))]
mod constant_time;
mod curve;
pub mod ecdsa;
mod element;
mod entry;
#[cfg(target_arch = "x86_64")]
mod ifma;
mod inversion;
mod known_answers;
mod order;
mod p256;
mod path;
mod point;
mod portable;
mod scalar;
mod secp256k1;
mod table;
mod walk;
mod wide;
mod words;

use std::ops::ControlFlow;

#[cfg(target_arch = "x86_64")]
use crate::cpu::{Adx, Avx512F, Ifma};
use crate::u64x8::LANES;
#[cfg(any(test, feature = "model"))]
use crate::u64x8::{Model, ModelCpu};
use crate::wipe::wipe;
use curve::PrimeCurve as _;
use element::FieldElement;
use entry::TableEntry;
use p256::P256;
use path::InstructionPath;
use point::Affine;
use portable::Portable;
use scalar::{Odd, WINDOWS};
use secp256k1::Secp256k1;
use table::ENTRIES;
use walk::multiply as multiply_by_tables;
use words::Words;
pub(crate) use words::mask;

/// Bytes of a scalar and of a coordinate.
pub const SCALAR_SIZE: usize = 32;
/// Bytes of a compressed point (SEC 1, 2.3.3).
pub const COMPRESSED_SIZE: usize = 33;
/// Bytes of a point's table at most: those for eight lanes have limbs of 52 bits and are a quarter larger than the others.
pub const TABLE_SIZE: usize = wide::table::SIZE;
/// Number of pieces in which a point's table is computed.
pub const TABLE_PIECES: usize = table::PIECES;
/// Products that share an inversion.
pub const GROUP_POINTS_MAX: usize = 16;

/// A curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LaneCurve {
    /// NIST P-256 (SP 800-186).
    P256,
    /// secp256k1 (SEC 2).
    Secp256k1,
}

/// The instructions that products go through. Holds the proof that this CPU has them.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Kernel {
    /// Any CPU.
    Portable,
    /// MULX, ADCX and ADOX, with look-ups in 256-bit registers.
    #[cfg(target_arch = "x86_64")]
    Adx(Adx),
    /// AVX-512 IFMA: eight products side by side.
    #[cfg(target_arch = "x86_64")]
    Ifma(Ifma),
    /// The same by the multiplication of doubles: for CPUs with AVX-512 and without IFMA.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512F),
    /// The source of both without their instructions. Slow: for tests on any CPU, and never detected.
    #[cfg(any(test, feature = "model"))]
    #[doc(hidden)]
    Model,
}

impl Kernel {
    /// Names of all kernels, whatever the CPU and the architecture.
    pub const NAMES: [&'static str; 4] = ["ifma", "avx512", "adx", "portable"];

    /// Those that this CPU can run, the fastest first.
    pub fn detect() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        let all = [
            Ifma::detect().map(Self::Ifma),
            Avx512F::detect().map(Self::Avx512),
            Adx::detect().map(Self::Adx),
            Some(Self::Portable),
        ];
        #[cfg(not(target_arch = "x86_64"))]
        let all = [Some(Self::Portable)];
        all.into_iter().flatten().collect()
    }

    /// One of [`Kernel::NAMES`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Self::Adx(_) => "adx",
            #[cfg(target_arch = "x86_64")]
            Self::Ifma(_) => "ifma",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "avx512",
            #[cfg(any(test, feature = "model"))]
            Self::Model => "model",
        }
    }

    /// The number of scalars in a call with two bases at which each costs least. On kernels with lanes a call with half of them costs the
    /// same.
    pub fn batch_size(self) -> usize {
        if self.has_lanes() { LANES } else { 2 }
    }

    /// Whether it multiplies in eight lanes: [`agree`] needs them.
    pub fn has_lanes(self) -> bool {
        !matches!(self, Self::Portable) && !matches!(self.name(), "adx")
    }

    /// The number of points from which a call of [`agree`] costs less than one library call for each; for kernels with lanes.
    pub fn agreement_count_min(self, curve: LaneCurve) -> usize {
        match (self, curve) {
            #[cfg(target_arch = "x86_64")]
            (Self::Avx512(_), LaneCurve::P256) => 3,
            #[cfg(target_arch = "x86_64")]
            (Self::Avx512(_), LaneCurve::Secp256k1) => 4,
            _ => 2,
        }
    }

    /// Whether the kernel computes the known answers on this CPU: a compiler, a hypervisor or a CPU may be faulty. Takes about a
    /// millisecond.
    pub fn is_right(self) -> bool {
        known_answers::are_given(self)
    }
}

/// Calls a function that is generic over curve and path. Kernels with lanes take the fastest other path here.
macro_rules! dispatch {
    ($kernel:expr, $curve:expr, $function:ident($($argument:expr),*)) => {
        match ($kernel, $curve) {
            (Kernel::Portable, LaneCurve::P256) => $function::<P256, _>(Portable, $($argument),*),
            (Kernel::Portable, LaneCurve::Secp256k1) => $function::<Secp256k1, _>(Portable, $($argument),*),
            #[cfg(any(test, feature = "model"))]
            (Kernel::Model, LaneCurve::P256) => $function::<P256, _>(Portable, $($argument),*),
            #[cfg(any(test, feature = "model"))]
            (Kernel::Model, LaneCurve::Secp256k1) => $function::<Secp256k1, _>(Portable, $($argument),*),
            #[cfg(target_arch = "x86_64")]
            (Kernel::Ifma(cpu), LaneCurve::P256) => $function::<P256, _>(Adx::from(cpu), $($argument),*),
            #[cfg(target_arch = "x86_64")]
            (Kernel::Ifma(cpu), LaneCurve::Secp256k1) => $function::<Secp256k1, _>(Adx::from(cpu), $($argument),*),
            #[cfg(target_arch = "x86_64")]
            (Kernel::Avx512(cpu), LaneCurve::P256) => $function::<P256, _>(Adx::from(cpu), $($argument),*),
            #[cfg(target_arch = "x86_64")]
            (Kernel::Avx512(cpu), LaneCurve::Secp256k1) => $function::<Secp256k1, _>(Adx::from(cpu), $($argument),*),
            #[cfg(target_arch = "x86_64")]
            (Kernel::Adx(cpu), LaneCurve::P256) => $function::<P256, _>(cpu, $($argument),*),
            #[cfg(target_arch = "x86_64")]
            (Kernel::Adx(cpu), LaneCurve::Secp256k1) => $function::<Secp256k1, _>(cpu, $($argument),*),
        }
    };
}

/// A scalar between 1 and the order of its curve − 1. Wiped on drop.
pub struct CurveScalar {
    curve: LaneCurve,
    odd: Odd,
}

impl std::fmt::Debug for CurveScalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scalar({:?}, …)", self.curve)
    }
}

impl CurveScalar {
    /// Accepts a big-endian scalar; `None` for zero and for values not below the order. Constant time except for that result.
    pub fn new(curve: LaneCurve, bytes: &[u8; SCALAR_SIZE]) -> Option<Self> {
        let odd = match curve {
            LaneCurve::P256 => Odd::new::<P256>(bytes),
            LaneCurve::Secp256k1 => Odd::new::<Secp256k1>(bytes),
        };
        Some(Self { curve, odd: odd? })
    }
}

/// A product: big-endian coordinates. May be a secret, so it is wiped on drop.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ProductPoint {
    /// x.
    pub x: [u8; SCALAR_SIZE],
    /// y.
    pub y: [u8; SCALAR_SIZE],
}

impl std::fmt::Debug for ProductPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Point(…)")
    }
}

impl Drop for ProductPoint {
    fn drop(&mut self) {
        wipe(&mut self.x);
        wipe(&mut self.y);
    }
}

/// A point that was given compressed, and its shared secret with a scalar. Wiped on drop.
#[derive(Clone)]
pub struct Agreement {
    /// The point.
    pub point: ProductPoint,
    /// x of the product, big-endian.
    pub shared: [u8; SCALAR_SIZE],
}

impl std::fmt::Debug for Agreement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Agreement(…)")
    }
}

impl Drop for Agreement {
    fn drop(&mut self) {
        wipe(&mut self.shared);
    }
}

/// Coordinates that are not those of a point of the curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotOnCurve;

impl std::fmt::Display for NotOnCurve {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not a point of this curve")
    }
}

impl std::error::Error for NotOnCurve {}

/// A point with its table: [`TABLE_SIZE`] bytes, made in half a millisecond and more.
pub struct FixedBase {
    kernel: Kernel,
    curve: LaneCurve,
    table: KernelTable,
}

/// The entries of a point's table, as the kernel looks them up.
enum KernelTable {
    Entries(Box<[TableEntry; ENTRIES]>),
    Wide(Box<[wide::table::Window; WINDOWS]>),
}

impl std::fmt::Debug for FixedBase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FixedBase({:?}, {})", self.curve, self.kernel.name())
    }
}

impl FixedBase {
    /// The table of the point with these big-endian coordinates, all at once.
    ///
    /// # Errors
    /// [`NotOnCurve`], also for coordinates that are not below the field's prime.
    pub fn new(
        kernel: Kernel,
        curve: LaneCurve,
        x: &[u8; SCALAR_SIZE],
        y: &[u8; SCALAR_SIZE],
    ) -> Result<Self, NotOnCurve> {
        Ok(FixedBaseWork::new(kernel, curve, x, y)?.finish())
    }

    /// The kernel that multiplies with it.
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// The table of the curve's generator.
    pub fn generator(kernel: Kernel, curve: LaneCurve) -> Self {
        let [x, y] = match curve {
            LaneCurve::P256 => P256::GENERATOR,
            LaneCurve::Secp256k1 => Secp256k1::GENERATOR,
        };
        FixedBaseWork::of_numbers(kernel, curve, &x, &y).expect("the generator is on its curve").finish()
    }
}

/// A [`FixedBase`] in progress, in [`TABLE_PIECES`] pieces of some 50 µs: the caller may do something else in between, or give up.
pub struct FixedBaseWork {
    kernel: Kernel,
    curve: LaneCurve,
    table: table::TableDraft,
    /// For eight lanes: the entries computed so far.
    wide: Option<wide::table::WideTableDraft>,
}

impl std::fmt::Debug for FixedBaseWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FixedBaseWork({:?}, {})", self.curve, self.kernel.name())
    }
}

impl FixedBaseWork {
    /// Begins the table of the point with these big-endian coordinates.
    ///
    /// # Errors
    /// As [`FixedBase::new`].
    pub fn new(
        kernel: Kernel,
        curve: LaneCurve,
        x: &[u8; SCALAR_SIZE],
        y: &[u8; SCALAR_SIZE],
    ) -> Result<Self, NotOnCurve> {
        Self::of_numbers(kernel, curve, &words::from_bytes(x), &words::from_bytes(y))
    }

    fn of_numbers(kernel: Kernel, curve: LaneCurve, x: &Words, y: &Words) -> Result<Self, NotOnCurve> {
        let table = dispatch!(kernel, curve, begin_table(x, y));
        Ok(Self {
            kernel,
            curve,
            table: table.ok_or(NotOnCurve)?,
            wide: kernel.has_lanes().then(wide::table::WideTableDraft::new),
        })
    }

    /// Computes one piece. Returns the table after the last one, otherwise the remaining work.
    pub fn go_on(mut self) -> ControlFlow<FixedBase, Self> {
        let Self { kernel, curve, ref mut table, ref mut wide } = self;
        let is_complete = dispatch!(kernel, curve, go_on_with_table(table));
        if let Some(wide) = wide {
            match curve {
                LaneCurve::P256 => wide.extend::<P256>(&table.take_entries()),
                LaneCurve::Secp256k1 => wide.extend::<Secp256k1>(&table.take_entries()),
            }
        }
        if !is_complete {
            return ControlFlow::Continue(self);
        }
        let table = match self.wide {
            Some(wide) => KernelTable::Wide(wide.finish()),
            None => KernelTable::Entries(self.table.finish()),
        };
        ControlFlow::Break(FixedBase { kernel, curve, table })
    }

    /// Does all that is left.
    pub fn finish(mut self) -> FixedBase {
        loop {
            match self.go_on() {
                ControlFlow::Continue(work) => self = work,
                ControlFlow::Break(base) => return base,
            }
        }
    }
}

fn begin_table<C: curve::PrimeCurve, P: InstructionPath>(path: P, x: &Words, y: &Words) -> Option<table::TableDraft> {
    Some(table::TableDraft::new(path, Affine::<FieldElement<C, P>>::from_numbers(path, x, y)?))
}

fn go_on_with_table<C: curve::PrimeCurve, P: InstructionPath>(path: P, table: &mut table::TableDraft) -> bool {
    table.go_on::<C, P>(path)
}

/// Each scalar's product with each base: `out[s * bases.len() + b]` is scalar s times base b. Up to [`GROUP_POINTS_MAX`] of them share an
/// inversion.
///
/// # Panics
/// When there are no bases or more than [`GROUP_POINTS_MAX`], when not all are of one curve and kernel, when a scalar is of another curve,
/// or when `out` has another length than there are products.
pub fn multiply(bases: &[&FixedBase], scalars: &[CurveScalar], out: &mut [ProductPoint]) {
    assert!((1..=GROUP_POINTS_MAX).contains(&bases.len()), "bases fit into a group");
    assert_eq!(out.len(), bases.len() * scalars.len(), "room for exactly these products");
    let (kernel, curve) = (bases[0].kernel, bases[0].curve);
    let is_alike = |base: &&FixedBase| base.curve == curve && base.kernel.name() == kernel.name();
    assert!(bases.iter().all(is_alike), "bases of one curve and kernel");
    assert!(scalars.iter().all(|scalar| scalar.curve == curve), "scalars of the bases' curve");
    match &bases[0].table {
        KernelTable::Entries(first) => {
            let mut tables = [&**first; GROUP_POINTS_MAX];
            for (place, base) in tables.iter_mut().zip(bases) {
                let KernelTable::Entries(table) = &base.table else { unreachable!("bases of one kernel") };
                *place = table;
            }
            dispatch!(kernel, curve, multiply_by_tables(&tables[..bases.len()], scalars, out));
        }
        KernelTable::Wide(first) => {
            let mut tables = [&**first; GROUP_POINTS_MAX];
            for (place, base) in tables.iter_mut().zip(bases) {
                let KernelTable::Wide(table) = &base.table else { unreachable!("bases of one kernel") };
                *place = table;
            }
            multiply_wide(kernel, curve, &tables[..bases.len()], scalars, out);
        }
    }
}

/// The scalar's product with each point, none of which has a table: `out[i]` is `None` where `points[i]` is not a compressed point of the
/// scalar's curve. Eight points side by side cost as much as one. Constant time in the scalar, not in the points.
///
/// # Panics
/// When the kernel has no lanes ([`Kernel::has_lanes`]), or when `out` is not as long as `points`.
pub fn agree(kernel: Kernel, scalar: &CurveScalar, points: &[[u8; COMPRESSED_SIZE]], out: &mut [Option<Agreement>]) {
    assert!(kernel.has_lanes(), "a kernel with lanes");
    assert_eq!(out.len(), points.len(), "room for exactly these products");
    for (points, out) in points.chunks(LANES).zip(out.chunks_mut(LANES)) {
        match (kernel, scalar.curve) {
            #[cfg(target_arch = "x86_64")]
            (Kernel::Ifma(cpu), _) => ifma::agree(cpu, scalar, points, out),
            #[cfg(target_arch = "x86_64")]
            (Kernel::Avx512(cpu), _) => avx512::agree(cpu, scalar, points, out),
            #[cfg(any(test, feature = "model"))]
            (Kernel::Model, LaneCurve::P256) => {
                wide::agree::<P256, Model, _>(ModelCpu, Portable, &scalar.odd, points, out);
            }
            #[cfg(any(test, feature = "model"))]
            (Kernel::Model, LaneCurve::Secp256k1) => {
                wide::agree::<Secp256k1, Model, _>(ModelCpu, Portable, &scalar.odd, points, out);
            }
            _ => unreachable!("a kernel with lanes"),
        }
    }
}

fn multiply_wide(
    kernel: Kernel,
    curve: LaneCurve,
    tables: &[&[wide::table::Window; WINDOWS]],
    scalars: &[CurveScalar],
    out: &mut [ProductPoint],
) {
    match (kernel, curve) {
        #[cfg(target_arch = "x86_64")]
        (Kernel::Ifma(cpu), _) => ifma::multiply(cpu, curve, tables, scalars, out),
        #[cfg(target_arch = "x86_64")]
        (Kernel::Avx512(cpu), _) => avx512::multiply(cpu, curve, tables, scalars, out),
        #[cfg(any(test, feature = "model"))]
        (Kernel::Model, LaneCurve::P256) => wide::multiply::<P256, Model, _>(ModelCpu, Portable, tables, scalars, out),
        #[cfg(any(test, feature = "model"))]
        (Kernel::Model, LaneCurve::Secp256k1) => {
            wide::multiply::<Secp256k1, Model, _>(ModelCpu, Portable, tables, scalars, out);
        }
        _ => unreachable!("tables for lanes belong to a kernel with lanes"),
    }
}
