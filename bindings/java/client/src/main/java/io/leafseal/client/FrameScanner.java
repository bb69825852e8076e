package io.leafseal.client;

/**
 * Finds the end of a MessagePack value in bytes that arrive in pieces. No byte is looked at twice, and nothing is allocated for lengths that
 * a peer claims. The library's parser can only start again from the first byte.
 */
final class FrameScanner {
    static final int DEPTH_MAX = 32;
    static final long ELEMENTS_MAX = 1 << 24;

    /** Values that are still to come in each open container. */
    private final long[] open = new long[DEPTH_MAX];
    private int depth;
    /** Bytes of the current value's content that are still to come. */
    private long payload;
    /** Bytes of the current head's length that are still to come, its value so far, and its first byte. */
    private int lengthLeft;
    private long length;
    private int head;

    /** Thrown for bytes that are not MessagePack or exceed a structural limit. */
    static final class InvalidFrame extends Exception {
        private static final long serialVersionUID = 1;

        InvalidFrame(String message) {
            super(message, null, false, false);
        }
    }

    /** Scans `bytes[from..to)`, which follow those of the last call. Returns the end of the value, or -1 if it is not in there. */
    int scan(byte[] bytes, int from, int to) throws InvalidFrame {
        int at = from;
        while (at < to) {
            if (payload > 0) {
                int step = (int) Math.min(payload, to - at);
                at += step;
                payload -= step;
                if (payload > 0) {
                    return -1;
                }
                if (complete()) {
                    return at;
                }
                continue;
            }
            int octet = bytes[at++] & 0xff;
            boolean isComplete = lengthLeft > 0 ? continueLength(octet) : begin(octet);
            if (isComplete && complete()) {
                return at;
            }
        }
        return -1;
    }

    /** Takes one byte of a length. Returns whether a value is complete. */
    private boolean continueLength(int octet) throws InvalidFrame {
        length = length << 8 | octet;
        lengthLeft--;
        return lengthLeft == 0 && counted(length);
    }

    /** Takes the first byte of a value. Returns whether the value is complete. */
    private boolean begin(int octet) throws InvalidFrame {
        head = octet;
        if (octet < 0x80 || octet >= 0xe0) {
            return true;
        }
        if (octet < 0x90) {
            return container(2L * (octet & 0x0f));
        }
        if (octet < 0xa0) {
            return container(octet & 0x0f);
        }
        if (octet < 0xc0) {
            return content(octet & 0x1f);
        }
        return switch (octet) {
            case 0xc0, 0xc2, 0xc3 -> true;
            case 0xca, 0xce, 0xd2 -> content(4);
            case 0xcb, 0xcf, 0xd3 -> content(8);
            case 0xcc, 0xd0 -> content(1);
            case 0xcd, 0xd1 -> content(2);
            case 0xc4, 0xd9 -> lengthOf(1);
            case 0xc5, 0xda, 0xdc, 0xde -> lengthOf(2);
            case 0xc6, 0xdb, 0xdd, 0xdf -> lengthOf(4);
            case 0xc1 -> throw new InvalidFrame("the byte c1 is not MessagePack");
            default -> throw new InvalidFrame("extension types are not part of the protocol");
        };
    }

    private boolean lengthOf(int bytes) {
        lengthLeft = bytes;
        length = 0;
        return false;
    }

    private boolean counted(long count) throws InvalidFrame {
        return switch (head) {
            case 0xdc, 0xdd -> container(count);
            case 0xde, 0xdf -> container(2 * count);
            default -> content(count);
        };
    }

    private boolean content(long bytes) {
        payload = bytes;
        return bytes == 0;
    }

    private boolean container(long values) throws InvalidFrame {
        if (values > 2 * ELEMENTS_MAX || (values > ELEMENTS_MAX && (head == 0xdd || head == 0xdc))) {
            throw new InvalidFrame("a container has more than " + ELEMENTS_MAX + " elements");
        }
        // An empty one counts, too: the engine's limit does the same.
        if (depth == DEPTH_MAX) {
            throw new InvalidFrame("more than " + DEPTH_MAX + " containers inside one another");
        }
        if (values > 0) {
            open[depth++] = values;
        }
        return values == 0;
    }

    /** A value is complete. Returns whether the outermost one is, too. */
    private boolean complete() {
        while (depth > 0) {
            if (--open[depth - 1] > 0) {
                return false;
            }
            depth--;
        }
        return true;
    }
}
