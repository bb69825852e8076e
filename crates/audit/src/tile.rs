//! Names and contents of tiles and bundles of entries (C2SP `tlog-tiles`).

use crate::merkle::{NodeHash, ROW_BITS, ROW_WIDTH};

/// Longest entry: its length has 16 bits.
pub(crate) const ENTRY_SIZE_MAX: usize = u16::MAX as usize;

/// What a file of the log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TileKind {
    /// Entries.
    Entries,
    /// Hashes of a level.
    Level(u8),
}

/// A tile or bundle: its place, and how much of it there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TileName {
    pub(crate) kind: TileKind,
    pub(crate) index: u64,
    /// 1 to 256.
    pub(crate) width: usize,
}

impl TileName {
    pub(crate) fn is_full(self) -> bool {
        self.width == ROW_WIDTH
    }

    /// The number after its last entry; `None` beyond 64 bits.
    pub(crate) fn end(self) -> Option<u64> {
        let height = match self.kind {
            TileKind::Entries => 0,
            TileKind::Level(level) => u32::from(level) * ROW_BITS,
        };
        let hashes = self.index.checked_mul(ROW_WIDTH as u64)?.checked_add(self.width as u64)?;
        hashes.checked_mul(1_u64.checked_shl(height)?)
    }

    /// The folder of its parts, from before it was full.
    pub(crate) fn parts_path(self) -> String {
        Self { width: ROW_WIDTH, ..self }.path() + ".p"
    }

    /// The path below the folder of the log.
    pub(crate) fn path(self) -> String {
        let mut groups = vec![self.index % 1000];
        let mut rest = self.index / 1000;
        while rest > 0 {
            groups.push(rest % 1000);
            rest /= 1000;
        }
        let mut path = match self.kind {
            TileKind::Entries => "tile/entries".to_owned(),
            TileKind::Level(level) => format!("tile/{level}"),
        };
        for (place, group) in groups.iter().enumerate().rev() {
            let mark = if place > 0 { "x" } else { "" };
            path += &format!("/{mark}{group:03}");
        }
        if !self.is_full() {
            path += &format!(".p/{}", self.width);
        }
        path
    }

    /// The name of a path, if it is one exactly as [`TileName::path`] writes it.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let (kind, rest) = path.strip_prefix("tile/")?.split_once('/')?;
        let kind = match kind {
            "entries" => TileKind::Entries,
            level => TileKind::Level(level.parse().ok().filter(|level| *level < 64)?),
        };
        let (index, width) = match rest.split_once(".p/") {
            Some((index, width)) => (index, width.parse().ok().filter(|width| (1..ROW_WIDTH).contains(width))?),
            None => (rest, ROW_WIDTH),
        };
        let index = index.split('/').try_fold(0_u64, |index, group| {
            let digits = group.strip_prefix('x').unwrap_or(group);
            let value: u64 = digits.parse().ok().filter(|_| digits.len() == 3)?;
            index.checked_mul(1000)?.checked_add(value)
        })?;
        let name = Self { kind, index, width };
        (name.path() == path).then_some(name)
    }
}

/// The hashes of a tile; `None` unless it is `width` of them.
pub(crate) fn tile_hashes(bytes: &[u8], width: usize) -> Option<Vec<NodeHash>> {
    let (hashes, rest) = bytes.as_chunks::<32>();
    (rest.is_empty() && hashes.len() == width).then(|| hashes.to_vec())
}

/// Appends an entry to a bundle.
///
/// # Panics
/// On an entry above [`ENTRY_SIZE_MAX`].
pub(crate) fn push_entry(entry: &[u8], bundle: &mut Vec<u8>) {
    push_entry_of(&[entry], bundle);
}

/// The same for an entry in parts.
///
/// # Panics
/// As [`push_entry`].
pub(crate) fn push_entry_of(parts: &[&[u8]], bundle: &mut Vec<u8>) {
    let size: usize = parts.iter().map(|part| part.len()).sum();
    let prefix = u16::try_from(size).expect("an entry within its bound").to_be_bytes();
    bundle.reserve(prefix.len() + size);
    bundle.extend_from_slice(&prefix);
    parts.iter().for_each(|part| bundle.extend_from_slice(part));
}

/// The entries of a bundle; `None` from the first that is cut off.
pub(crate) fn bundle_entries(mut bundle: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    std::iter::from_fn(move || {
        if bundle.is_empty() {
            return None;
        }
        let entry = bundle.split_first_chunk().and_then(|(size, rest)| {
            let (entry, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*size)))?;
            bundle = rest;
            Some(entry)
        });
        if entry.is_none() {
            bundle = &[];
        }
        Some(entry)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tile(kind: TileKind, index: u64, width: usize) -> TileName {
        TileName { kind, index, width }
    }

    #[test]
    fn paths_are_those_of_the_specification() {
        let cases = [
            (tile(TileKind::Level(0), 1_234_067, 256), "tile/0/x001/x234/067"),
            (tile(TileKind::Level(63), 0, 1), "tile/63/000.p/1"),
            (tile(TileKind::Entries, 999, 255), "tile/entries/999.p/255"),
            (tile(TileKind::Entries, 1000, 256), "tile/entries/x001/000"),
            (tile(TileKind::Level(1), 0, 256), "tile/1/000"),
        ];
        for (name, path) in cases {
            assert_eq!(name.path(), path);
            assert_eq!(TileName::parse(path), Some(name));
        }
        let wrong = [
            "tile/64/000",
            "tile/00/000",
            "tile/+1/000",
            "tile/0/0",
            "tile/0/0000",
            "tile/0/x000/001",
            "tile/0/001/002",
            "tile/0/000.p/256",
            "tile/0/000.p/0",
            "tile/0/000.p/07",
            "tile/0/000.p/+7",
            "tile/0/000.p",
            "tile/0/000/",
            "tile/0/",
            "tile/0",
            "tile/entry/000",
            "tile/entries/x999/x999/x999/x999/x999/x999/x999/999",
            "checkpoint",
            "",
            "tile/0/x01/+12",
            "tile/0/-12",
            "tile/0/１23",
        ];
        for path in wrong {
            assert_eq!(TileName::parse(path), None, "{path}");
        }
    }

    #[test]
    fn bundles_end_where_an_entry_is_cut() {
        let mut bundle = Vec::new();
        for entry in [&b"one"[..], b"", &[7; ENTRY_SIZE_MAX]] {
            push_entry(entry, &mut bundle);
        }
        let all: Vec<_> = bundle_entries(&bundle).collect();
        assert_eq!(all, [Some(&b"one"[..]), Some(b""), Some(&[7; ENTRY_SIZE_MAX])]);
        for size in 0..bundle.len() {
            let some: Vec<_> = bundle_entries(&bundle[..size]).collect();
            let whole = some.iter().flatten().count();
            assert_eq!(some.len() - whole, usize::from(![0, 5, 7].contains(&size)), "{size}");
            assert_eq!(some[..whole], all[..whole]);
        }
        assert_eq!(tile_hashes(&[1; 64], 2), Some(vec![[1; 32]; 2]));
        assert_eq!((tile_hashes(&[1; 64], 1), tile_hashes(&[1; 65], 2), tile_hashes(&[], 1)), (None, None, None));
    }
}
