package io.leafseal.client;

import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;

/** Cuts a stream into messages. Memory grows with the bytes that have arrived, up to the limit of a message, and is wiped when it is left. */
final class FrameReader {
    private static final int BUFFER_SIZE = 1 << 16;

    private final InputStream in;
    private final int sizeMax;
    private final FrameScanner scanner = new FrameScanner();
    private byte[] buffer = new byte[BUFFER_SIZE];
    /** The current message begins at `start`, is scanned up to `scanned`, and bytes have arrived up to `end`. */
    private int start;
    private int scanned;
    private int end;

    FrameReader(InputStream in, int sizeMax) {
        this.in = in;
        this.sizeMax = sizeMax;
    }

    /** A message: bytes of an array that belongs to the receiver. */
    record Frame(byte[] bytes, int from, int to) {
        int size() {
            return to - from;
        }

        void wipe() {
            Arrays.fill(bytes, from, to, (byte) 0);
        }
    }

    /** Thrown for a message beyond the limit, with the id of the request if it is an answer whose head can be read. */
    static final class TooLarge extends Exception {
        private static final long serialVersionUID = 1;
        final long id;

        TooLarge(long id) {
            super(null, null, false, false);
            this.id = id;
        }
    }

    /** Returns the next message, or null at the end of the stream. */
    Frame next() throws IOException, FrameScanner.InvalidFrame, TooLarge {
        while (true) {
            int stop = scanner.scan(buffer, scanned, end);
            if ((stop < 0 ? end : stop) - start > sizeMax) {
                throw new TooLarge(Answers.idOf(new Frame(buffer, start, end)));
            }
            if (stop >= 0) {
                return take(stop);
            }
            scanned = end;
            makeRoom();
            int count = in.read(buffer, end, buffer.length - end);
            if (count < 0) {
                return null;
            }
            end += count;
        }
    }

    private Frame take(int stop) {
        Frame frame;
        if (stop == end && stop - start >= BUFFER_SIZE / 2) {
            frame = new Frame(buffer, start, stop);
            buffer = new byte[BUFFER_SIZE];
            start = end = 0;
        } else {
            frame = new Frame(Arrays.copyOfRange(buffer, start, stop), 0, stop - start);
            Arrays.fill(buffer, start, stop, (byte) 0);
            start = stop;
        }
        scanned = start;
        return frame;
    }

    private void makeRoom() {
        if (start == end) {
            start = scanned = end = 0;
            if (buffer.length > BUFFER_SIZE) {
                buffer = new byte[BUFFER_SIZE];
            }
        }
        if (end < buffer.length) {
            return;
        }
        int size = end - start;
        if (start >= buffer.length / 2) {
            System.arraycopy(buffer, start, buffer, 0, size);
            Arrays.fill(buffer, size, end, (byte) 0);
        } else {
            // One byte more than the limit shows that a message exceeds it.
            byte[] larger = new byte[(int) Math.min(2L * buffer.length, Math.max((long) sizeMax + 1, BUFFER_SIZE))];
            System.arraycopy(buffer, start, larger, 0, size);
            wipe();
            buffer = larger;
        }
        start = 0;
        scanned = end = size;
    }

    void wipe() {
        Arrays.fill(buffer, (byte) 0);
    }
}
