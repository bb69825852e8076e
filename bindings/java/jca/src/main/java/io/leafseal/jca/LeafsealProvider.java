package io.leafseal.jca;

import java.security.Key;
import java.security.NoSuchAlgorithmException;
import java.security.Provider;
import java.util.List;
import java.util.Map;

/**
 * A security provider whose throughput depends on the number of bytes alone: from the first call on, for arrays and direct buffers, whole
 * messages and pieces.
 *
 * <p>Insert it before the JDK's providers: {@code Security.insertProviderAt(new LeafsealProvider(), 1)}, or
 * {@code security.provider.1=io.leafseal.jca.LeafsealProvider} in the security properties. Its algorithms behave as those of the JDK, with
 * the differences that the README lists; the JDK's providers serve all others.
 *
 * <p>Without a native library for the machine, AES/GCM and AES/CTR of the JDK are used in pieces, and nothing else is provided; {@link #status}
 * returns the reason.
 */
public final class LeafsealProvider extends Provider {
    /** The provider's name. */
    public static final String NAME = "Leafseal";

    private static final long serialVersionUID = 1;

    private static final String[] DIGESTS = {"SHA-1", "SHA-224", "SHA-256", "SHA-384", "SHA-512"};
    private static final List<String> NONE = List.of();
    private static final Map<String, String> RAW = Map.of("SupportedKeyFormats", "RAW");

    /** Registers the algorithms. The first instance of a process loads the native library. */
    public LeafsealProvider() {
        super(NAME, Version.VERSION, "Leafseal: AES/GCM, AES/CTR, ChaCha20, hashes, HMAC and P-256, native");
        cipher("AES/GCM/NoPadding", NONE);
        cipher("AES_128/GCM/NoPadding", List.of("2.16.840.1.101.3.4.1.6", "OID.2.16.840.1.101.3.4.1.6"));
        cipher("AES_192/GCM/NoPadding", List.of("2.16.840.1.101.3.4.1.26", "OID.2.16.840.1.101.3.4.1.26"));
        cipher("AES_256/GCM/NoPadding", List.of("2.16.840.1.101.3.4.1.46", "OID.2.16.840.1.101.3.4.1.46"));
        cipher("AES/CTR/NoPadding", NONE);
        if (status().isNative()) {
            cipher("ChaCha20", NONE);
            cipher("ChaCha20-Poly1305", List.of("1.2.840.113549.1.9.16.3.18", "OID.1.2.840.113549.1.9.16.3.18"));
            putService(new Entry(this, "AlgorithmParameters", "GCM", NONE, null, -1));
            digests();
            p256();
            rsa();
        } else {
            Fallback.log(status());
        }
    }

    /** Returns which implementation is in use, and why. */
    public static Status status() {
        return NativeLibrary.STATUS;
    }

    private void cipher(String name, List<String> aliases) {
        putService(new Entry(this, "Cipher", name, aliases, RAW, -1));
    }

    private void digests() {
        String[] arcs = {"1.3.14.3.2.26", "2.16.840.1.101.3.4.2.4", "2.16.840.1.101.3.4.2.1", "2.16.840.1.101.3.4.2.2",
            "2.16.840.1.101.3.4.2.3"};
        String[] macArcs = {"7", "8", "9", "10", "11"};
        for (int i = 0; i < DIGESTS.length; i++) {
            List<String> aliases = i == 0 ? List.of("SHA", "SHA1", arcs[i], "OID." + arcs[i]) : List.of(arcs[i], "OID." + arcs[i]);
            putService(new Entry(this, "MessageDigest", DIGESTS[i], aliases, null, i));
            String oid = "1.2.840.113549.2." + macArcs[i];
            putService(new Entry(this, "Mac", "Hmac" + DIGESTS[i].replace("-", ""), List.of(oid, "OID." + oid), RAW, i));
        }
    }

    private void p256() {
        Map<String, String> keys = Map.of("SupportedKeyClasses",
                "java.security.interfaces.ECPublicKey|java.security.interfaces.ECPrivateKey");
        putService(new Entry(this, "KeyAgreement", "ECDH", NONE, keys, 0));
        putService(new Entry(this, "KeyPairGenerator", "EC", List.of("EllipticCurve"), null, 0));
        String[] names = {"NONEwithECDSA", "SHA1withECDSA", "SHA224withECDSA", "SHA256withECDSA", "SHA384withECDSA", "SHA512withECDSA"};
        String[] arcs = {null, "1", "3.1", "3.2", "3.3", "3.4"};
        for (int i = 0; i < names.length; i++) {
            String oid = "1.2.840.10045.4." + arcs[i];
            List<String> aliases = arcs[i] == null ? NONE : List.of(oid, "OID." + oid);
            putService(new Entry(this, "Signature", names[i], aliases, keys, i - 1));
            putService(new Entry(this, "Signature", names[i] + "inP1363Format", NONE, keys, i - 1));
        }
    }

    private void rsa() {
        Map<String, String> keys = Map.of("SupportedKeyClasses",
                "java.security.interfaces.RSAPublicKey|java.security.interfaces.RSAPrivateCrtKey");
        String[] names = {"SHA256withRSA", "SHA384withRSA", "SHA512withRSA"};
        for (int i = 0; i < names.length; i++) {
            String oid = "1.2.840.113549.1.1." + (11 + i);
            putService(new Entry(this, "Signature", names[i], List.of(oid, "OID." + oid), keys, i));
        }
        String oid = "1.2.840.113549.1.1.10";
        putService(new Entry(this, "Signature", "RSASSA-PSS", List.of("PSS", oid, "OID." + oid), keys, 0));
    }

    /** The class that the entry makes, for lists of services. */
    private static String className(String type, String name) {
        switch (type) {
            case "MessageDigest":
                return NativeDigest.class.getName();
            case "Mac":
                return NativeMac.class.getName();
            case "AlgorithmParameters":
                return GcmParameters.class.getName();
            case "KeyAgreement":
                return EcdhAgreement.class.getName();
            case "KeyPairGenerator":
                return EcKeyPairGenerator.class.getName();
            case "Signature":
                return name.contains("ECDSA") ? EcdsaSignature.class.getName()
                        : name.equals("RSASSA-PSS") ? RsaPssSignature.class.getName() : RsaSignature.class.getName();
            default:
                return status().isNative() ? GcmCipher.class.getName() : ChunkedCipher.class.getName();
        }
    }

    /** A service that is made without reflection. */
    private static final class Entry extends Service {
        private final int algorithm;

        Entry(Provider provider, String type, String name, List<String> aliases, Map<String, String> attributes, int algorithm) {
            super(provider, type, name, className(type, name), aliases, attributes);
            this.algorithm = algorithm;
        }

        @Override
        public Object newInstance(Object parameter) throws NoSuchAlgorithmException {
            switch (getType()) {
                case "MessageDigest":
                    return new NativeDigest(algorithm);
                case "Mac":
                    return new NativeMac(algorithm);
                case "AlgorithmParameters":
                    return new GcmParameters();
                case "KeyAgreement":
                    return new EcdhAgreement();
                case "KeyPairGenerator":
                    return new EcKeyPairGenerator();
                case "Signature":
                    return signature();
                default:
                    return status().isNative() ? nativeCipher() : new ChunkedCipher(getAlgorithm());
            }
        }

        private Object signature() {
            String name = getAlgorithm();
            if (name.contains("ECDSA")) {
                return new EcdsaSignature(algorithm, !name.endsWith("inP1363Format"));
            }
            return name.equals("RSASSA-PSS") ? new RsaPssSignature() : new RsaSignature(algorithm);
        }

        private Object nativeCipher() throws NoSuchAlgorithmException {
            switch (getAlgorithm()) {
                case "AES/GCM/NoPadding":
                    return new GcmCipher(getProvider(), 0);
                case "AES_128/GCM/NoPadding":
                    return new GcmCipher(getProvider(), 16);
                case "AES_192/GCM/NoPadding":
                    return new GcmCipher(getProvider(), 24);
                case "AES_256/GCM/NoPadding":
                    return new GcmCipher(getProvider(), 32);
                case "AES/CTR/NoPadding":
                    return new CtrCipher();
                case "ChaCha20":
                    return new ChaCha20Cipher();
                case "ChaCha20-Poly1305":
                    return new ChaCha20Poly1305Cipher();
                default:
                    throw new NoSuchAlgorithmException(getAlgorithm());
            }
        }

        @Override
        public boolean supportsParameter(Object parameter) {
            switch (getType()) {
                case "MessageDigest":
                case "AlgorithmParameters":
                case "KeyPairGenerator":
                    return super.supportsParameter(parameter);
                case "KeyAgreement":
                    return parameter == null || P256.isKey(parameter);
                case "Signature":
                    return parameter == null || (getAlgorithm().contains("ECDSA") ? P256.isKey(parameter)
                            : RsaKeys.isKey(parameter, getAlgorithm().equals("RSASSA-PSS")));
                default:
                    return isRawKey(parameter);
            }
        }

        private static boolean isRawKey(Object parameter) {
            return parameter == null || parameter instanceof Key && "RAW".equals(((Key) parameter).getFormat());
        }
    }
}
