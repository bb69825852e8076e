package io.leafseal.jca;

import java.math.BigInteger;
import java.security.InvalidKeyException;
import java.security.Key;
import java.security.interfaces.ECKey;
import java.security.interfaces.ECPrivateKey;
import java.security.interfaces.ECPublicKey;
import java.security.spec.ECFieldFp;
import java.security.spec.ECParameterSpec;
import java.security.spec.ECPoint;
import java.security.spec.EllipticCurve;
import java.util.Arrays;
import java.util.Set;

/** The curve P-256, secp256r1, by its parameters (SEC 2, 2.4.2), and keys on it as bytes. */
final class P256 {
    /** Bytes of a scalar and of a coordinate. */
    static final int SIZE = 32;
    /** Bytes of an uncompressed point: 4, X, Y (SEC 1, 2.3.3). */
    static final int POINT_SIZE = 2 * SIZE + 1;
    /** Names of the curve that {@code ECGenParameterSpec} may have. */
    static final Set<String> NAMES = Set.of("secp256r1", "NIST P-256", "X9.62 prime256v1", "1.2.840.10045.3.1.7");

    static final ECParameterSpec PARAMETERS = new ECParameterSpec(
            new EllipticCurve(
                    new ECFieldFp(number("ffffffff00000001000000000000000000000000ffffffffffffffffffffffff")),
                    number("ffffffff00000001000000000000000000000000fffffffffffffffffffffffc"),
                    number("5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b")),
            new ECPoint(
                    number("6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"),
                    number("4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5")),
            number("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551"),
            1);

    private P256() {
    }

    private static BigInteger number(String digits) {
        return new BigInteger(digits, 16);
    }

    /** Whether the parameters are those of P-256, whatever class or name they have. */
    static boolean isCurve(ECParameterSpec other) {
        return other != null
                && other.getCofactor() == PARAMETERS.getCofactor()
                && PARAMETERS.getOrder().equals(other.getOrder())
                && PARAMETERS.getGenerator().equals(other.getGenerator())
                && PARAMETERS.getCurve().equals(other.getCurve());
    }

    /** Whether native code can use the key. */
    static boolean isKey(Object key) {
        return (key instanceof ECPrivateKey || key instanceof ECPublicKey) && isCurve(((ECKey) key).getParams());
    }

    /** The scalar of a private key, which the caller wipes. */
    static byte[] scalar(Key key) throws InvalidKeyException {
        if (!(key instanceof ECPrivateKey) || !isKey(key)) {
            throw new InvalidKeyException("a private key on P-256 with its number is required");
        }
        return bytes(((ECPrivateKey) key).getS());
    }

    /** The uncompressed point of a public key. */
    static byte[] point(Key key) throws InvalidKeyException {
        if (!(key instanceof ECPublicKey) || !isKey(key)) {
            throw new InvalidKeyException("a public key on P-256 is required");
        }
        ECPoint point = ((ECPublicKey) key).getW();
        if (point.equals(ECPoint.POINT_INFINITY)) {
            throw new InvalidKeyException("the point of the public key is infinity");
        }
        byte[] bytes = new byte[POINT_SIZE];
        bytes[0] = 4;
        System.arraycopy(bytes(point.getAffineX()), 0, bytes, 1, SIZE);
        System.arraycopy(bytes(point.getAffineY()), 0, bytes, 1 + SIZE, SIZE);
        return bytes;
    }

    /** A number as 32 bytes. Native code checks that it is in range. */
    static byte[] bytes(BigInteger number) throws InvalidKeyException {
        if (number.signum() < 0 || number.bitLength() > 8 * SIZE) {
            throw new InvalidKeyException("a number of the key is out of range");
        }
        byte[] signed = number.toByteArray();
        byte[] bytes = new byte[SIZE];
        int size = Math.min(signed.length, SIZE);
        System.arraycopy(signed, signed.length - size, bytes, SIZE - size, size);
        Arrays.fill(signed, (byte) 0);
        return bytes;
    }
}
