//! Ranges of Java's memory: of byte arrays, which the collector moves, and of direct buffers, which stay where they are.

use std::ptr::NonNull;

use jni_sys::{JNIEnv, jboolean, jclass, jint, jobject};
use leafseal_crypto::wipe;
use zeroize::Zeroizing;

use crate::jvm::{Critical, Jvm, Release, Thrown, enter};

/// Longest part of an array that is processed in one critical section: some 60 microseconds of AES-GCM, for which the collector may wait.
pub(crate) const PIECE_SIZE: usize = 256 * 1024;
/// Longest range of an array that is copied instead.
pub(crate) const COPIED_SIZE_MAX: usize = 1024;

/// The input is a byte array; otherwise a direct buffer.
const INPUT_IS_ARRAY: jint = 1;
/// The output is a byte array; otherwise a direct buffer.
const OUTPUT_IS_ARRAY: jint = 2;
/// Input and output are the same bytes of one array.
const IN_PLACE: jint = 4;

/// Bytes that are read, bytes that are written, or both.
pub(crate) enum JavaText<'a> {
    /// Apart.
    Separate(&'a [u8], &'a mut [u8]),
    /// The output replaces the input.
    InPlace(&'a mut [u8]),
}

/// An array or a direct buffer, and an offset in it.
pub(crate) type Argument = (jobject, jint);

/// Whether the input is an array.
pub(crate) fn input_is_array(kinds: jint) -> bool {
    kinds & INPUT_IS_ARRAY != 0
}

/// Whether the output is an array.
pub(crate) fn output_is_array(kinds: jint) -> bool {
    kinds & OUTPUT_IS_ARRAY != 0
}

/// A place in Java's memory. The caller, `Native.java`, has checked that the ranges lie within it.
#[derive(Clone, Copy)]
pub(crate) enum JavaBytes {
    /// An array, and the offset in it.
    Array(jobject, usize),
    /// Memory that does not move.
    Address(NonNull<u8>),
}

impl JavaBytes {
    pub(crate) fn new(jvm: Jvm, (object, offset): Argument, is_array: bool) -> Self {
        let offset = usize::try_from(offset).expect("Java checks that offsets are not negative");
        if is_array {
            return Self::Array(object, offset);
        }
        match jvm.address(object) {
            // SAFETY: the offset lies within the buffer.
            Some(start) => Self::Address(unsafe { start.add(offset) }),
            None => Self::Address(NonNull::dangling()),
        }
    }

    /// The place `size` bytes further on, within the same range.
    pub(crate) fn after(self, size: usize) -> Self {
        match self {
            Self::Array(array, offset) => Self::Array(array, offset + size),
            // SAFETY: the range that begins here has at least `size` bytes.
            Self::Address(start) => Self::Address(unsafe { start.add(size) }),
        }
    }

    /// Copies bytes out of the range.
    pub(crate) fn read(self, jvm: Jvm, out: &mut [u8]) -> Result<(), Thrown> {
        match self {
            Self::Array(array, offset) => jvm.read(array, offset, out),
            // SAFETY: the range has at least as many bytes; `out` is native memory apart from it.
            Self::Address(start) => unsafe {
                std::ptr::copy_nonoverlapping(start.as_ptr(), out.as_mut_ptr(), out.len());
                Ok(())
            },
        }
    }

    /// Copies bytes into the range.
    pub(crate) fn write(self, jvm: Jvm, bytes: &[u8]) -> Result<(), Thrown> {
        match self {
            Self::Array(array, offset) => jvm.write(array, offset, bytes),
            // SAFETY: as in `read`.
            Self::Address(start) => unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.as_ptr(), bytes.len());
                Ok(())
            },
        }
    }

    /// Calls `each` once with the range, which it must not change: of an array, at most [`PIECE_SIZE`] bytes.
    pub(crate) fn whole(self, jvm: Jvm, size: usize, each: impl FnOnce(&[u8])) -> Result<(), Thrown> {
        if size <= COPIED_SIZE_MAX {
            let mut copy = [0; COPIED_SIZE_MAX];
            self.read(jvm, &mut copy[..size])?;
            each(&copy[..size]);
            wipe(&mut copy[..size]);
            return Ok(());
        }
        let (start, _section) = self.open(jvm, size, Release::Abort)?;
        // SAFETY: the bytes lie within the range. If another thread of the caller writes to them, which is its race, they are still only
        // numbers.
        each(unsafe { std::slice::from_raw_parts(start, size) });
        Ok(())
    }

    /// Calls `each` with consecutive pieces of the range, which it must not change.
    pub(crate) fn read_pieces(self, jvm: Jvm, size: usize, mut each: impl FnMut(&[u8])) -> Result<(), Thrown> {
        let piece_max = if matches!(self, Self::Array(..)) { PIECE_SIZE } else { size };
        let mut done = 0;
        while done < size {
            let piece = (size - done).min(piece_max);
            self.after(done).whole(jvm, piece, &mut each)?;
            done += piece;
        }
        Ok(())
    }

    /// Overwrites the range with zeros.
    pub(crate) fn wipe(self, jvm: Jvm, size: usize) -> Result<(), Thrown> {
        let mut done = 0;
        while done < size {
            let piece = (size - done).min(PIECE_SIZE);
            let (start, _section) = self.after(done).open(jvm, piece, Release::Commit)?;
            // SAFETY: the piece lies within the range.
            wipe(unsafe { std::slice::from_raw_parts_mut(start, piece) });
            done += piece;
        }
        Ok(())
    }

    /// The address of `size` bytes, valid while the section lives. Java has checked the range; if another thread interfered with its
    /// objects meanwhile, the check here keeps native code within the array.
    fn open(self, jvm: Jvm, size: usize, mode: Release) -> Result<(*mut u8, Option<Critical>), Thrown> {
        match self {
            Self::Array(array, offset) => {
                if offset + size > jvm.length(array) {
                    return Err(jvm.misused());
                }
                let section = jvm.critical(array, mode)?;
                // SAFETY: the offset lies within the array.
                Ok((unsafe { section.start().add(offset) }, Some(section)))
            }
            Self::Address(start) => Ok((start.as_ptr(), None)),
        }
    }
}

/// Input and output of an operation.
#[derive(Clone, Copy)]
pub(crate) struct Places {
    /// The bytes that are read.
    pub(crate) input: JavaBytes,
    /// The bytes that are written.
    pub(crate) output: JavaBytes,
    /// Whether they are the same bytes.
    pub(crate) is_in_place: bool,
}

impl Places {
    /// For an operation on a whole message: `size` bytes of input, as many of output, and `more` bytes of output for a tag.
    ///
    /// For ranges of one array, Java has made sure that they are equal (then `kinds` has `IN_PLACE`) or apart. Direct buffers may
    /// overlap in
    /// any way: then the input is moved to the output first.
    pub(crate) fn new(jvm: Jvm, input: Argument, output: Argument, size: usize, more: usize, kinds: jint) -> Self {
        let mut places = Self::unchecked(jvm, input, output, kinds);
        if let Some((from, to)) = places.overlap(size + more) {
            // SAFETY: both ranges have `size` bytes.
            unsafe { std::ptr::copy(from.as_ptr(), to.as_ptr(), size) };
            places.input = places.output;
            places.is_in_place = true;
        }
        places
    }

    /// For a piece of a message whose output may begin with bytes of earlier pieces: `reach` is the longer of both ranges. Where they
    /// overlap
    /// and are not processed `is_aligned`, byte for byte, the input is copied to `copy`, which must live as long as the places.
    pub(crate) fn of_piece(
        jvm: Jvm,
        (input, output): (Argument, Argument),
        (size, reach): (usize, usize),
        kinds: jint,
        is_aligned: bool,
        copy: &mut Zeroizing<Vec<u8>>,
    ) -> Result<Self, Thrown> {
        let mut places = Self::unchecked(jvm, input, output, kinds);
        let overlap = places.overlap(reach);
        let is_same = places.is_in_place || overlap.is_some_and(|(from, to)| from == to);
        if is_same && is_aligned {
            places.is_in_place = true;
        } else if is_same || overlap.is_some() {
            copy.resize(size, 0);
            places.input.read(jvm, copy)?;
            places.input = JavaBytes::Address(NonNull::from(copy.as_mut_slice()).cast());
            places.is_in_place = false;
        }
        Ok(places)
    }

    fn unchecked(jvm: Jvm, input: Argument, output: Argument, kinds: jint) -> Self {
        Self {
            input: JavaBytes::new(jvm, input, input_is_array(kinds)),
            output: JavaBytes::new(jvm, output, output_is_array(kinds)),
            is_in_place: kinds & IN_PLACE != 0,
        }
    }

    /// The addresses of both ranges if they have bytes in common, or would if both had `reach` bytes.
    fn overlap(&self, reach: usize) -> Option<(NonNull<u8>, NonNull<u8>)> {
        let (JavaBytes::Address(from), JavaBytes::Address(to)) = (self.input, self.output) else { return None };
        ((from.as_ptr() as usize).abs_diff(to.as_ptr() as usize) < reach).then_some((from, to))
    }

    /// Whether the ranges may lie in memory that moves, so that long ones are cut into pieces.
    pub(crate) fn moves(&self) -> bool {
        matches!(self.input, JavaBytes::Array(..)) || matches!(self.output, JavaBytes::Array(..))
    }

    /// The places `size` bytes further on.
    pub(crate) fn after(&self, size: usize) -> Self {
        Self { input: self.input.after(size), output: self.output.after(size), is_in_place: self.is_in_place }
    }

    /// Calls `each` with the first `size` bytes of input and output. `more` is what the output has besides, for a tag: then
    /// [`JavaText`] has it at its end, in the output alone.
    pub(crate) fn with<R>(
        &self,
        jvm: Jvm,
        size: usize,
        more: usize,
        each: impl FnOnce(JavaText<'_>, &mut [u8]) -> R,
    ) -> Result<R, Thrown> {
        let (output, _written) = self.output.open(jvm, size + more, Release::Commit)?;
        // SAFETY: the output has `size + more` bytes.
        let (text, rest) = unsafe { std::slice::from_raw_parts_mut(output, size + more) }.split_at_mut(size);
        if self.is_in_place {
            return Ok(each(JavaText::InPlace(text), rest));
        }
        let (input, _read) = self.input.open(jvm, size, Release::Abort)?;
        // SAFETY: the input has `size` bytes and does not overlap the text.
        let input = unsafe { std::slice::from_raw_parts(input, size) };
        Ok(each(JavaText::Separate(input, text), rest))
    }

    /// Calls `each` with consecutive pieces.
    pub(crate) fn pieces(&self, jvm: Jvm, size: usize, mut each: impl FnMut(JavaText<'_>)) -> Result<(), Thrown> {
        let piece_max = if self.moves() { PIECE_SIZE } else { size };
        let mut done = 0;
        while done < size {
            let piece = (size - done).min(piece_max);
            let places = self.after(done);
            if piece <= COPIED_SIZE_MAX && self.moves() {
                places.copied(jvm, piece, &mut each)?;
            } else {
                places.with(jvm, piece, 0, |text, _| each(text))?;
            }
            done += piece;
        }
        Ok(())
    }

    fn copied(&self, jvm: Jvm, size: usize, each: &mut impl FnMut(JavaText<'_>)) -> Result<(), Thrown> {
        let mut copy = [0; COPIED_SIZE_MAX];
        let bytes = &mut copy[..size];
        self.input.read(jvm, bytes)?;
        each(JavaText::InPlace(bytes));
        self.output.write(jvm, bytes)?;
        wipe(bytes);
        Ok(())
    }
}

/// `boolean overlap(ByteBuffer input, int inputOffset, int inputSize, ByteBuffer output, int outputOffset, int outputSize)`: whether
/// ranges of two direct buffers may have bytes in common. Only compares addresses: the memory may be unmapped.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_overlap")]
extern "system" fn java_overlap(
    environment: *mut JNIEnv,
    _class: jclass,
    input: jobject,
    input_offset: jint,
    input_size: jint,
    output: jobject,
    output_offset: jint,
    output_size: jint,
) -> jboolean {
    enter(environment, true, |jvm| {
        let reach = usize::try_from(input_size.max(output_size)).expect("Java checks that sizes are not negative");
        Ok(Places::unchecked(jvm, (input, input_offset), (output, output_offset), 0).overlap(reach).is_some())
    })
}
