package io.leafseal.jca;

import java.lang.ref.Reference;
import java.security.MessageDigest;
import java.util.Arrays;

/** A key of a stream cipher. The key stream has a position instead of a state, so that nothing native changes. */
final class StreamKey {
    static final int AES_128_CTR = 0;
    static final int AES_192_CTR = 1;
    static final int AES_256_CTR = 2;
    static final int CHACHA20 = 3;

    private int algorithm;
    private byte[] key;
    private boolean isUsed;
    private boolean isInSlot;
    private Slot slot;

    boolean isKey(byte[] other) {
        return key != null && MessageDigest.isEqual(key, other);
    }

    /** Takes over {@code newKey}, which has the algorithm's length, and wipes the old one. */
    void set(int newAlgorithm, byte[] newKey) {
        if (!isKey(newKey)) {
            isUsed = false;
            if (isInSlot) {
                Slot it = slot;
                try {
                    Native.clearCipher(it.address);
                } finally {
                    Reference.reachabilityFence(it);
                }
                isInSlot = false;
            }
        }
        if (key != null) {
            Arrays.fill(key, (byte) 0);
        }
        key = newKey;
        algorithm = newAlgorithm;
    }

    /**
     * Encrypts or decrypts. Places are as in {@link AeadMessage}; the ranges may overlap.
     *
     * @param position bytes of the key stream before the input
     */
    void apply(long ivHigh, long ivLow, long position, Object input, int inputOffset, int size, Object output, int outputOffset,
            int kinds) {
        Object from = input;
        int fromOffset = inputOffset;
        int how = kinds;
        if (input == output && Bytes.overlaps(inputOffset, outputOffset, size)) {
            if (inputOffset != outputOffset) {
                System.arraycopy(input, inputOffset, output, outputOffset, size);
                fromOffset = outputOffset;
            }
            how |= Native.IN_PLACE;
        }
        if (!isInSlot && isUsed) {
            if (slot == null) {
                slot = Slot.ofCipher();
            }
            isInSlot = true;
        }
        isUsed = true;
        Slot it = isInSlot ? slot : null;
        try {
            Native.apply(it == null ? 0 : it.address, algorithm, key, ivHigh, ivLow, position, from, fromOffset, size, output,
                    outputOffset, how);
        } finally {
            Reference.reachabilityFence(it);
        }
    }
}
