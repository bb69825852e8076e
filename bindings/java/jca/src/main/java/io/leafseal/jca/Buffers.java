package io.leafseal.jca;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Objects;
import javax.crypto.AEADBadTagException;
import javax.crypto.IllegalBlockSizeException;

/**
 * The memory behind two byte buffers: their array, or the buffer itself if it is direct. Memory that native code may not use where it is
 * goes through an array instead: that of a read-only buffer on the heap, and direct memory that another thread can unmap.
 */
final class Buffers {
    /** Bytes that go through the array at a time. */
    static final int PIECE_SIZE = 256 * 1024;
    /** Bytes that an operation may write beyond those of a piece: a block that was held back, and a tag. */
    private static final int MORE = 32;

    /** The memory that is read and written; null if it is not {@link #isUsable}. */
    final Object input;
    final int inputOffset;
    final int size;
    final Object output;
    final int outputOffset;
    /** Bytes that the output has room for. */
    final int room;
    final int kinds;
    /** Whether native code may use input and output where they are; else {@link #copied} does the work. */
    final boolean isUsable;

    private final ByteBuffer source;
    private final ByteBuffer target;
    private final int from;
    private final int to;

    /** An operation on the next bytes of a message, which replaces them. */
    interface Operation {
        /**
         * Processes the first {@code size} bytes of the array, and returns how many it has written there.
         *
         * @throws AEADBadTagException for a wrong tag: the output is then zeros
         */
        int apply(byte[] text, int size, boolean isLast) throws AEADBadTagException, IllegalBlockSizeException;
    }

    /**
     * Takes positions and limits once: native code must not see other ones if another thread moves them meanwhile.
     *
     * @throws IllegalStateException for a buffer whose arena is closed
     */
    Buffers(ByteBuffer source, ByteBuffer target) {
        this.source = source;
        this.target = target;
        from = source.position();
        to = target.position();
        size = source.limit() - from;
        room = target.limit() - to;
        Objects.checkFromIndexSize(from, size, source.capacity());
        Objects.checkFromIndexSize(to, room, target.capacity());
        input = memory(source, from, size);
        output = memory(target, to, room);
        isUsable = input != null && output != null;
        inputOffset = input == source ? from : isUsable ? source.arrayOffset() + from : 0;
        outputOffset = output == target ? to : isUsable ? target.arrayOffset() + to : 0;
        kinds = (input == source ? 0 : Native.INPUT_IS_ARRAY) | (output == target ? 0 : Native.OUTPUT_IS_ARRAY);
    }

    /** The array or direct buffer with the memory, if native code may use it. */
    private static Object memory(ByteBuffer buffer, int offset, int size) {
        if (!buffer.isDirect()) {
            return buffer.hasArray() ? buffer.array() : null;
        }
        if (DirectMemory.isPermanent(buffer)) {
            return buffer;
        }
        if (size > 0) {
            // Fails if the arena is closed, before the cipher's state changes.
            buffer.get(offset);
        }
        return null;
    }

    /**
     * Copies the source through an array, and its results to the target. In pieces, unless the operation {@code needsAll} at once or what is
     * written might change what is still to be read.
     *
     * @param needed bytes that the operation writes to the target, which has room for them
     * @return the bytes written
     * @throws IllegalStateException if the memory's arena is closed
     * @throws InternalError if the file behind it was truncated
     */
    int copied(int needed, boolean needsAll, Operation operation) throws AEADBadTagException, IllegalBlockSizeException {
        int pieceSize = needsAll || mayOverlap() ? Math.max(size, 1) : PIECE_SIZE;
        byte[] text = new byte[size <= pieceSize ? Math.max(size, needed) : pieceSize + MORE];
        int read = 0;
        int written = 0;
        try {
            do {
                int piece = Math.min(size - read, pieceSize);
                source.get(from + read, text, 0, piece);
                read += piece;
                int made = operation.apply(text, piece, read == size);
                target.put(to + written, text, 0, made);
                written += made;
            } while (read < size);
        } catch (AEADBadTagException wrong) {
            target.put(to, text, 0, needed);
            throw wrong;
        } finally {
            Arrays.fill(text, (byte) 0);
        }
        advance(written);
        return written;
    }

    /** Whether source and target may have bytes in common. */
    private boolean mayOverlap() {
        if (source.isDirect() != target.isDirect()) {
            return false;
        }
        return !source.isDirect() || Native.overlap(source, from, size, target, to, room);
    }

    /** Moves the positions past what was read, which is everything, and written. */
    void advance(int written) {
        source.position(source.limit());
        target.position(target.position() + written);
    }
}
