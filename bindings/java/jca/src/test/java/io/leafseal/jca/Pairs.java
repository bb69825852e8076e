package io.leafseal.jca;

import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.Provider;
import java.security.Security;
import java.security.spec.ECGenParameterSpec;

/** Key pairs of the JDK. */
final class Pairs {
    static final Provider EC = Security.getProvider("SunEC");
    static final Provider RSA = Security.getProvider("SunRsaSign");
    static final KeyPair P256_PAIR = ec("secp256r1");
    static final KeyPair OTHER_PAIR = ec("secp256r1");
    static final KeyPair P384_PAIR = ec("secp384r1");
    static final KeyPair RSA_2048 = rsa(2048);
    static final KeyPair RSA_3072 = rsa(3072);
    static final KeyPair RSA_1024 = rsa(1024);

    static KeyPair ec(String curve) {
        try {
            KeyPairGenerator generator = KeyPairGenerator.getInstance("EC", EC);
            generator.initialize(new ECGenParameterSpec(curve));
            return generator.generateKeyPair();
        } catch (Exception error) {
            throw new AssertionError(error);
        }
    }

    static KeyPair rsa(int bits) {
        try {
            KeyPairGenerator generator = KeyPairGenerator.getInstance("RSA", RSA);
            generator.initialize(bits);
            return generator.generateKeyPair();
        } catch (Exception error) {
            throw new AssertionError(error);
        }
    }

    private Pairs() {
    }
}
