package io.leafseal.jca;

import java.nio.ByteBuffer;
import java.util.Arrays;

/** Small operations on bytes. */
final class Bytes {
    static final byte[] EMPTY = {};

    private Bytes() {
    }

    /** Eight bytes, big-endian. */
    static long longAt(byte[] bytes, int offset) {
        return (long) intAt(bytes, offset) << Integer.SIZE | intAt(bytes, offset + Integer.BYTES) & 0xffffffffL;
    }

    /** Four bytes, big-endian. */
    static int intAt(byte[] bytes, int offset) {
        return bytes[offset] << 24 | (bytes[offset + 1] & 0xff) << 16 | (bytes[offset + 2] & 0xff) << 8 | bytes[offset + 3] & 0xff;
    }

    /** Whether two ranges of {@code size} bytes in one array have bytes in common. */
    static boolean overlaps(int offset, int other, int size) {
        return Math.abs((long) offset - other) < size;
    }

    /** Copies a range of an array or a direct buffer. */
    static byte[] copy(Object input, int offset, int size, boolean isArray) {
        if (isArray) {
            return Arrays.copyOfRange((byte[]) input, offset, offset + size);
        }
        byte[] copy = new byte[size];
        ((ByteBuffer) input).get(offset, copy);
        return copy;
    }
}
