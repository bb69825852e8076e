package io.leafseal.jca;

import java.security.InvalidKeyException;
import java.security.Key;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import javax.crypto.Cipher;

/** Keys of ChaCha20, and what both of its ciphers refuse. */
final class ChaCha20Keys {
    private static final int SIZE = 32;

    private ChaCha20Keys() {
    }

    /** The bytes of a key, which the caller wipes. */
    static byte[] bytes(Key key) throws InvalidKeyException {
        if (!"RAW".equals(key.getFormat())) {
            throw new InvalidKeyException("Key encoding format must be RAW");
        }
        byte[] bytes = key.getEncoded();
        if (bytes == null || bytes.length != SIZE) {
            if (bytes != null) {
                Arrays.fill(bytes, (byte) 0);
            }
            throw new InvalidKeyException("Key length must be 256 bits");
        }
        return bytes;
    }

    static int bits(Key key) throws InvalidKeyException {
        Arrays.fill(bytes(key), (byte) 0);
        return 8 * SIZE;
    }

    static void checkMode(String mode) throws NoSuchAlgorithmException {
        if (!mode.equalsIgnoreCase("None")) {
            throw new NoSuchAlgorithmException("Mode must be None");
        }
    }

    static void checkOperation(int mode) {
        if (mode == Cipher.WRAP_MODE || mode == Cipher.UNWRAP_MODE) {
            throw new UnsupportedOperationException("WRAP_MODE and UNWRAP_MODE are not currently supported");
        }
    }
}
