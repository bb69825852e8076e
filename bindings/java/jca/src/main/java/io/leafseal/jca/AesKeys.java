package io.leafseal.jca;

import java.security.InvalidKeyException;
import java.security.Key;
import java.util.Arrays;

/** Keys of AES. */
final class AesKeys {
    private AesKeys() {
    }

    /** The bytes of a key, which the caller wipes. {@code size} is the length that is wanted, or 0. */
    static byte[] bytes(Key key, int size) throws InvalidKeyException {
        if (key == null) {
            throw new InvalidKeyException("The key must not be null");
        }
        byte[] bytes = key.getEncoded();
        if (bytes == null) {
            throw new InvalidKeyException("Key encoding must not be null");
        }
        String fault = null;
        if (size != 0 && bytes.length != size) {
            fault = "The key must be " + size + " bytes";
        } else if (!"AES".equalsIgnoreCase(key.getAlgorithm()) && !"Rijndael".equalsIgnoreCase(key.getAlgorithm())) {
            fault = "Wrong algorithm: AES or Rijndael required";
        } else if (!isSize(bytes.length)) {
            fault = "Invalid AES key length: " + bytes.length + " bytes";
        }
        if (fault != null) {
            Arrays.fill(bytes, (byte) 0);
            throw new InvalidKeyException(fault);
        }
        return bytes;
    }

    /** Bits of a key. */
    static int bits(Key key) throws InvalidKeyException {
        byte[] bytes = key.getEncoded();
        Arrays.fill(bytes, (byte) 0);
        if (!isSize(bytes.length)) {
            throw new InvalidKeyException("Invalid key length: " + bytes.length + " bytes");
        }
        return 8 * bytes.length;
    }

    private static boolean isSize(int size) {
        return size == 16 || size == 24 || size == 32;
    }
}
