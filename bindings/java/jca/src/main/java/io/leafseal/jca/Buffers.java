package io.leafseal.jca;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Objects;

/**
 * The memory behind two byte buffers: their array, or the buffer itself if it is direct. Only the content of a read-only buffer on the heap,
 * whose array is out of reach, is copied; closing wipes the copy.
 */
final class Buffers implements AutoCloseable {
    final Object input;
    final int inputOffset;
    final int size;
    final Object output;
    final int outputOffset;
    /** Bytes that the output has room for. */
    final int room;
    final int kinds;

    private final ByteBuffer source;
    private final ByteBuffer target;
    private byte[] copy;

    /**
     * Takes positions and limits once: native code must not see other ones if another thread moves them meanwhile.
     *
     * @throws IllegalStateException for a buffer whose memory session is closed
     */
    Buffers(ByteBuffer source, ByteBuffer target) {
        this.source = source;
        this.target = target;
        int from = source.position();
        int to = target.position();
        size = source.limit() - from;
        room = target.limit() - to;
        Objects.checkFromIndexSize(from, size, source.capacity());
        Objects.checkFromIndexSize(to, room, target.capacity());
        int how = 0;
        if (source.isDirect()) {
            checkAlive(source, from, size);
            input = source;
            inputOffset = from;
        } else {
            how |= Native.INPUT_IS_ARRAY;
            if (!source.hasArray()) {
                copy = new byte[size];
                source.get(from, copy);
            }
            input = copy == null ? source.array() : copy;
            inputOffset = copy == null ? source.arrayOffset() + from : 0;
        }
        if (target.isDirect()) {
            checkAlive(target, to, room);
            output = target;
            outputOffset = to;
        } else {
            how |= Native.OUTPUT_IS_ARRAY;
            output = target.array();
            outputOffset = target.arrayOffset() + to;
        }
        kinds = how;
    }

    private static void checkAlive(ByteBuffer buffer, int offset, int size) {
        if (size > 0) {
            buffer.get(offset);
        }
    }

    /** Moves the positions past what was read, which is everything, and written. */
    void advance(int written) {
        source.position(source.limit());
        target.position(target.position() + written);
    }

    @Override
    public void close() {
        if (copy != null) {
            Arrays.fill(copy, (byte) 0);
        }
    }
}
