package io.leafseal.jca;

import java.lang.ref.Reference;
import java.security.MessageDigest;
import java.security.ProviderException;
import java.util.Arrays;
import javax.crypto.AEADBadTagException;

/**
 * A key and the message that is being sealed or opened under it. {@link AeadCipher} checks states, ranges and room.
 *
 * <p>A whole message is one native call. A message in pieces lives in a native slot: one that is opened as ciphertext, until its end,
 * because no plaintext may be released before the tag has been checked.
 *
 * <p>Places are an array or a direct buffer, an offset in it, and a bit of {@link Native#INPUT_IS_ARRAY} or {@link Native#OUTPUT_IS_ARRAY}.
 */
final class AeadMessage {
    static final int AES_128_GCM = 0;
    static final int AES_192_GCM = 1;
    static final int AES_256_GCM = 2;
    static final int CHACHA20_POLY1305 = 3;

    /** Bytes of a nonce that travel in registers. */
    private static final int SHORT_IV_SIZE = 12;
    /** Associated data up to this size leaves its array behind for the next message. */
    private static final int AAD_KEPT_MAX = 1024;

    private int algorithm;
    private byte[] key;
    /** How often the key was used, up to 1: from the second time on it is kept in expanded form. */
    private boolean isKeyUsed;
    private boolean isKeyInSlot;
    private Slot slot;

    private byte[] longIv;
    private long ivHigh;
    private int ivLow;
    private int tagSize;
    private int blockSize;
    private boolean seals;

    private byte[] aad = {};
    private int aadSize;

    private boolean isBegun;
    /** Bytes of the message so far. */
    private long received;

    /** Whether {@code other} is the current key. Constant time for keys of one length. */
    boolean isKey(byte[] other) {
        return key != null && MessageDigest.isEqual(key, other);
    }

    /** Takes over {@code newKey}, which has the algorithm's length, and wipes the old one. A message in progress is discarded. */
    void setKey(int newAlgorithm, byte[] newKey) {
        if (isBegun || isKeyInSlot && !isKey(newKey)) {
            clearSlot();
        }
        if (!isKey(newKey)) {
            isKeyUsed = false;
        }
        if (key != null && key != newKey) {
            Arrays.fill(key, (byte) 0);
        }
        key = newKey;
        algorithm = newAlgorithm;
    }

    private void clearSlot() {
        Slot it = slot;
        try {
            Native.clearAead(it.address);
        } finally {
            Reference.reachabilityFence(it);
        }
        isKeyInSlot = false;
        isBegun = false;
    }

    /** Sets the parameters of the messages that follow, and forgets associated data and pieces of the last one. */
    void start(byte[] iv, int newTagSize, boolean newSeals) {
        if (iv.length == SHORT_IV_SIZE) {
            longIv = null;
            ivHigh = Bytes.longAt(iv, 0);
            ivLow = Bytes.intAt(iv, Long.BYTES);
        } else {
            longIv = iv;
        }
        tagSize = newTagSize;
        seals = newSeals;
        blockSize = algorithm == CHACHA20_POLY1305 ? 1 : 16;
        restart();
    }

    /** Discards associated data and pieces: the next message has the same parameters. */
    void restart() {
        if (isBegun) {
            clearSlot();
        }
        received = 0;
        aadSize = 0;
        if (aad.length > AAD_KEPT_MAX) {
            aad = new byte[0];
        }
    }

    int tagSize() {
        return tagSize;
    }

    /** Adds associated data, before the message's first bytes. */
    void addAad(byte[] bytes, int offset, int size) {
        int total = Math.addExact(aadSize, size);
        if (total > aad.length) {
            aad = Arrays.copyOf(aad, aadSize == 0 ? total : Math.max(total, (int) Math.min(2L * aad.length, Integer.MAX_VALUE - 8)));
        }
        System.arraycopy(bytes, offset, aad, aadSize, size);
        aadSize = total;
    }

    /** Bytes that come out when {@code size} bytes more go in. Negative past the largest array, as every caller's check finds. */
    int outputSize(int size, boolean isLast) {
        if (!seals) {
            return isLast ? (int) Math.max(received + size - tagSize, 0) : 0;
        }
        long total = received % blockSize + size;
        return (int) (isLast ? total + tagSize : total - total % blockSize);
    }

    /** Whether a message that ends after {@code size} bytes more is too short for a tag. */
    boolean lacksTag(int size) {
        return !seals && received + size < tagSize;
    }

    /**
     * Takes bytes of the message. {@code room} is how many bytes may be written from {@code outputOffset} on.
     *
     * @return the number of bytes written to the output, which are as many as {@link #outputSize} gave
     */
    int update(Object input, int inputOffset, int size, Object output, int outputOffset, int room, int kinds) {
        checkTotal(size);
        begin();
        if (!seals) {
            receive(input, inputOffset, size, kinds);
            received += size;
            return 0;
        }
        int written = seal(input, inputOffset, size, output, outputOffset, room, kinds, false);
        received += size;
        return written;
    }

    /**
     * Ends the message with its last bytes.
     *
     * @return the number of bytes written to the output
     * @throws AEADBadTagException for a wrong tag; the output is then zeros
     */
    int finish(Object input, int inputOffset, int size, Object output, int outputOffset, int room, int kinds)
            throws AEADBadTagException {
        checkTotal(size);
        // Taken once: another thread that interferes must not lead native code out of bounds.
        boolean isSealing = seals;
        int tag = tagSize;
        if (!isBegun) {
            int outputSize = isSealing ? size + tag : size - tag;
            checkRoom(outputSize, room);
            whole(isSealing, tag, input, inputOffset, Math.min(size, outputSize), output, outputOffset, kinds);
            return outputSize;
        }
        if (isSealing) {
            int written = seal(input, inputOffset, size, output, outputOffset, room, kinds, true);
            isBegun = false;
            return written;
        }
        int outputSize = outputSize(size, true);
        checkRoom(outputSize, room);
        receive(input, inputOffset, size, kinds);
        release(output, outputOffset, outputSize, kinds);
        return outputSize;
    }

    private static void checkRoom(int outputSize, int room) {
        if (outputSize < 0 || outputSize > room) {
            throw new IndexOutOfBoundsException("the output has no room for " + outputSize + " bytes");
        }
    }

    private void checkTotal(int size) {
        if (received + size > Integer.MAX_VALUE - tagSize) {
            throw new ProviderException("a message of AES/GCM or ChaCha20-Poly1305 must be shorter than 2 GiB");
        }
    }

    private void whole(boolean isSealing, int tag, Object input, int inputOffset, int size, Object output, int outputOffset,
            int kinds) throws AEADBadTagException {
        Object from = input;
        int fromOffset = inputOffset;
        int how = kinds;
        int reach = size + tag;
        if (input == output && Bytes.overlaps(inputOffset, outputOffset, reach)) {
            if (inputOffset == outputOffset) {
                how |= Native.IN_PLACE;
            } else if (isSealing) {
                System.arraycopy(input, inputOffset, output, outputOffset, size);
                fromOffset = outputOffset;
                how |= Native.IN_PLACE;
            } else {
                // The tag might be overwritten by the plaintext.
                from = Arrays.copyOfRange((byte[]) input, inputOffset, inputOffset + reach);
                fromOffset = 0;
            }
        }
        Slot it = keySlot();
        long address = it == null ? 0 : it.address;
        boolean isRight = true;
        try {
            if (isSealing) {
                Native.seal(address, algorithm, key, longIv, ivHigh, ivLow, aad, aadSize, tag, from, fromOffset, size, output,
                        outputOffset, how);
            } else {
                isRight = Native.open(address, algorithm, key, longIv, ivHigh, ivLow, aad, aadSize, tag, from, fromOffset, size,
                        output, outputOffset, how);
            }
        } finally {
            Reference.reachabilityFence(it);
        }
        if (!isRight) {
            throw new AEADBadTagException("Tag mismatch");
        }
    }

    /** The slot that holds the key; none at its first use, so that a cipher for a single message needs no native memory. */
    private Slot keySlot() {
        if (!isKeyInSlot && isKeyUsed) {
            if (slot == null) {
                slot = Slot.ofAead();
            }
            isKeyInSlot = true;
        }
        isKeyUsed = true;
        return isKeyInSlot ? slot : null;
    }

    private void begin() {
        if (isBegun) {
            return;
        }
        isKeyUsed = true;
        Slot it = keySlot();
        try {
            Native.begin(it.address, algorithm, key, longIv, ivHigh, ivLow, aad, aadSize, tagSize, seals);
        } finally {
            Reference.reachabilityFence(it);
        }
        isBegun = true;
    }

    private int seal(Object input, int inputOffset, int size, Object output, int outputOffset, int room, int kinds,
            boolean isLast) {
        Object from = input;
        int fromOffset = inputOffset;
        int how = kinds;
        byte[] copy = null;
        if (input == output && Bytes.overlaps(inputOffset, outputOffset, size + blockSize + tagSize)) {
            if (inputOffset == outputOffset) {
                how |= Native.IN_PLACE;
            } else {
                copy = Arrays.copyOfRange((byte[]) input, inputOffset, inputOffset + size);
                from = copy;
                fromOffset = 0;
            }
        }
        Slot it = slot;
        try {
            return Native.sealPiece(it.address, from, fromOffset, size, output, outputOffset, room, how, isLast);
        } finally {
            Reference.reachabilityFence(it);
            if (copy != null) {
                Arrays.fill(copy, (byte) 0);
            }
        }
    }

    private void receive(Object input, int inputOffset, int size, int kinds) {
        Slot it = slot;
        try {
            Native.openPiece(it.address, input, inputOffset, size, kinds);
        } finally {
            Reference.reachabilityFence(it);
        }
    }

    /** Checks the tag and hands out the plaintext. */
    private void release(Object output, int outputOffset, int size, int kinds) throws AEADBadTagException {
        Slot it = slot;
        boolean isRight;
        isBegun = false;
        try {
            isRight = Native.openEnd(it.address, output, outputOffset, size, kinds);
        } finally {
            Reference.reachabilityFence(it);
        }
        if (!isRight) {
            throw new AEADBadTagException("Tag mismatch");
        }
    }
}
