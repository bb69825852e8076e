package io.leafseal.jca;

import java.security.InvalidKeyException;
import java.security.Key;
import java.security.KeyFactory;
import java.security.NoSuchAlgorithmException;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.PKCS8EncodedKeySpec;
import java.security.spec.X509EncodedKeySpec;
import javax.crypto.Cipher;
import javax.crypto.spec.SecretKeySpec;

/** Keys from their encodings. */
final class UnwrappedKeys {
    private UnwrappedKeys() {
    }

    /** A key of the type that {@link Cipher#unwrap} takes. */
    static Key of(byte[] encoded, String algorithm, int type) throws InvalidKeyException, NoSuchAlgorithmException {
        try {
            switch (type) {
                case Cipher.SECRET_KEY:
                    return new SecretKeySpec(encoded, algorithm);
                case Cipher.PRIVATE_KEY:
                    return KeyFactory.getInstance(algorithm).generatePrivate(new PKCS8EncodedKeySpec(encoded));
                case Cipher.PUBLIC_KEY:
                    return KeyFactory.getInstance(algorithm).generatePublic(new X509EncodedKeySpec(encoded));
                default:
                    throw new InvalidKeyException("Unknown key type " + type);
            }
        } catch (InvalidKeySpecException | IllegalArgumentException error) {
            throw new InvalidKeyException("Cannot construct a key of " + algorithm, error);
        }
    }
}
