package io.leafseal.bench;

import java.security.Provider;
import java.security.Security;

/** The providers that are compared, each loaded only if it is asked for. */
final class Providers {
    private Providers() {
    }

    static Provider named(String name) throws ReflectiveOperationException {
        switch (name) {
            case "Leafseal":
                return made("io.leafseal.jca.LeafsealProvider");
            case "Corretto":
                return made("com.amazon.corretto.crypto.provider.AmazonCorrettoCryptoProvider");
            case "Conscrypt":
                return made("org.conscrypt.OpenSSLProvider");
            case "BouncyCastle":
                return made("org.bouncycastle.jce.provider.BouncyCastleProvider");
            default:
                return Security.getProvider(name);
        }
    }

    private static Provider made(String className) throws ReflectiveOperationException {
        return (Provider) Class.forName(className).getConstructor().newInstance();
    }
}
