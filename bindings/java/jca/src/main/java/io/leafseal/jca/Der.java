package io.leafseal.jca;

import java.io.IOException;
import java.util.Arrays;

/** Reads the few forms of DER (X.690) that parameters and signatures have: definite lengths in their shortest form, no trailing bytes. */
final class Der {
    static final int INTEGER = 0x02;
    static final int SEQUENCE = 0x30;

    private final byte[] bytes;
    private final int end;
    private int at;

    Der(byte[] bytes, int start, int end) {
        this.bytes = bytes;
        this.at = start;
        this.end = end;
    }

    boolean hasMore() {
        return at < end;
    }

    /** Requires that everything was read. */
    void end() throws IOException {
        if (at != end) {
            throw new IOException("DER: bytes after the end of a value");
        }
    }

    /** The content of the next value, which must have this tag. */
    Der enter(int tag) throws IOException {
        int size = head(tag);
        at += size;
        return new Der(bytes, at - size, at);
    }

    /** The bytes of the next value, which must have this tag. */
    byte[] bytes(int tag) throws IOException {
        int size = head(tag);
        at += size;
        return Arrays.copyOfRange(bytes, at - size, at);
    }

    /** The size of the next value's content, which lies within these bytes. */
    private int head(int tag) throws IOException {
        if (end - at < 2 || (bytes[at] & 0xff) != tag) {
            throw new IOException("DER: no value with tag " + tag);
        }
        int size = bytes[at + 1] & 0xff;
        at += 2;
        if (size >= 0x80) {
            int count = size - 0x80;
            if (count == 0 || count > 3 || end - at < count || bytes[at] == 0) {
                throw new IOException("DER: a length that is not supported");
            }
            size = 0;
            for (int i = 0; i < count; i++) {
                size = size << 8 | bytes[at++] & 0xff;
            }
            if (size < 0x80 || count > 1 && size < 1 << 8 * (count - 1)) {
                throw new IOException("DER: a length that is not the shortest");
            }
        }
        if (size > end - at) {
            throw new IOException("DER: a value longer than its surroundings");
        }
        return size;
    }

    /** A value. */
    static byte[] encode(int tag, byte[] content) {
        int size = content.length;
        int count = size < 0x80 ? 0 : size < 0x100 ? 1 : size < 0x10000 ? 2 : 3;
        byte[] value = new byte[2 + count + size];
        value[0] = (byte) tag;
        value[1] = (byte) (count == 0 ? size : 0x80 + count);
        for (int i = 0; i < count; i++) {
            value[2 + i] = (byte) (size >> 8 * (count - 1 - i));
        }
        System.arraycopy(content, 0, value, 2 + count, size);
        return value;
    }
}
