package io.leafseal.client;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.PrivateKey;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;

/**
 * Certificates and keys in PEM (RFC 7468): a file, which is read again for each connection, or its content.
 *
 * <p>Keys may be PKCS #8, PKCS #1 (RSA) or SEC 1 (EC): the older forms are wrapped into PKCS #8, the only one that the JDK reads.
 */
final class Pem {
    private static final int FILE_SIZE_MAX = 1 << 20;
    private static final String[] ALGORITHMS = {"EC", "RSA", "Ed25519", "Ed448"};
    /** AlgorithmIdentifier of rsaEncryption with its NULL (RFC 3279). */
    private static final byte[] RSA = bytes(0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00);
    /** The OID id-ecPublicKey (RFC 5480). */
    private static final byte[] EC = bytes(0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01);
    private static final byte[] VERSION_0 = bytes(0x02, 0x01, 0x00);

    private final String name;
    private final Path path;
    private final byte[] content;

    private Pem(String name, Path path, byte[] content) {
        this.name = name;
        this.path = path;
        this.content = content;
    }

    static Pem file(String name, Path path) {
        return new Pem(name, path, null);
    }

    static Pem content(String name, byte[] content) {
        return new Pem(name, null, content.clone());
    }

    /** Returns a copy that the caller wipes. */
    byte[] read() {
        if (content != null) {
            return content.clone();
        }
        try {
            if (Files.size(path) > FILE_SIZE_MAX) {
                throw failed("the file " + path + " is larger than " + FILE_SIZE_MAX + " bytes", null);
            }
            return Files.readAllBytes(path);
        } catch (IOException error) {
            throw failed("cannot read the file " + path, error);
        }
    }

    X509Certificate[] certificates(byte[] pem) {
        try {
            var found = CertificateFactory.getInstance("X.509").generateCertificates(new ByteArrayInputStream(pem));
            if (!found.isEmpty()) {
                return found.toArray(new X509Certificate[0]);
            }
        } catch (GeneralSecurityException error) {
            throw failed("no certificate in PEM", error);
        }
        throw failed("no certificate in PEM", null);
    }

    PrivateKey privateKey(byte[] pem) {
        // A string cannot be wiped; so the block is searched for in bytes, and only its label becomes text.
        int begin = find(pem, "-----BEGIN ", 0);
        while (begin >= 0) {
            int end = find(pem, "-----", begin + 11);
            String label = end < 0 ? "" : new String(pem, begin + 11, end - begin - 11, StandardCharsets.US_ASCII);
            if (label.endsWith("PRIVATE KEY")) {
                int stop = find(pem, "-----END " + label, end);
                if (stop < 0) {
                    break;
                }
                return decode(label, Arrays.copyOfRange(pem, end + 5, stop));
            }
            begin = find(pem, "-----BEGIN ", begin + 11);
        }
        throw failed("no private key in PEM", null);
    }

    private PrivateKey decode(String label, byte[] base64) {
        byte[] der = null;
        byte[] pkcs8 = null;
        try {
            der = Base64.getMimeDecoder().decode(base64);
            pkcs8 = switch (label) {
                case "PRIVATE KEY" -> der.clone();
                case "RSA PRIVATE KEY" -> wrapped(RSA, der);
                case "EC PRIVATE KEY" -> wrapped(sequence(EC, curveOf(der)), der);
                default -> throw failed("the key is encrypted or of an unknown kind; convert it to an unencrypted PKCS #8 key", null);
            };
            return load(pkcs8);
        } catch (IllegalArgumentException error) {
            throw failed("the private key is damaged", null);
        } finally {
            wipe(base64, der, pkcs8);
        }
    }

    private PrivateKey load(byte[] pkcs8) {
        for (String algorithm : ALGORITHMS) {
            try {
                return KeyFactory.getInstance(algorithm).generatePrivate(new PKCS8EncodedKeySpec(pkcs8));
            } catch (GeneralSecurityException error) {
                // Of another algorithm. Messages of the providers may contain parts of the key, so they are not kept.
            }
        }
        throw failed("the private key is damaged or of an unknown algorithm", null);
    }

    private LeafsealException failed(String message, Throwable cause) {
        return new LeafsealException(ErrorCode.TLS_FAILED, name + ": " + message, Retry.NEVER, cause);
    }

    /** PrivateKeyInfo (RFC 5208) around a key of an older form. */
    private static byte[] wrapped(byte[] algorithm, byte[] key) {
        byte[] octets = element(0x04, key);
        byte[] result = sequence(VERSION_0, algorithm, octets);
        wipe(octets);
        return result;
    }

    /** The OID in the parameters, `[0]`, of an ECPrivateKey (RFC 5915). */
    private static byte[] curveOf(byte[] key) {
        int[] at = {0};
        int end = enter(key, at, 0x30, key.length);
        at[0] = enter(key, at, 0x02, end);
        at[0] = enter(key, at, 0x04, end);
        int stop = enter(key, at, 0xa0, end);
        return Arrays.copyOfRange(key, at[0], stop);
    }

    /** Moves `at` to the content of an element, and returns the end of the content. */
    private static int enter(byte[] der, int[] at, int tag, int end) {
        if (end - at[0] < 2 || (der[at[0]] & 0xff) != tag) {
            throw new IllegalArgumentException();
        }
        int length = der[at[0] + 1] & 0xff;
        int start = at[0] + 2;
        if (length >= 0x80) {
            int count = length & 0x7f;
            if (count < 1 || count > 2 || end - start < count) {
                throw new IllegalArgumentException();
            }
            length = 0;
            for (int step = 0; step < count; step++) {
                length = length << 8 | der[start++] & 0xff;
            }
        }
        if (length > end - start) {
            throw new IllegalArgumentException();
        }
        at[0] = start;
        return start + length;
    }

    private static byte[] sequence(byte[]... parts) {
        byte[] all = new byte[List.of(parts).stream().mapToInt(part -> part.length).sum()];
        int at = 0;
        for (byte[] part : parts) {
            System.arraycopy(part, 0, all, at, part.length);
            at += part.length;
        }
        byte[] result = element(0x30, all);
        wipe(all);
        return result;
    }

    private static byte[] element(int tag, byte[] content) {
        int size = content.length;
        byte[] head = size < 0x80 ? bytes(tag, size) : size < 0x100 ? bytes(tag, 0x81, size) : bytes(tag, 0x82, size >> 8, size & 0xff);
        if (size > 0xffff) {
            throw new IllegalArgumentException();
        }
        byte[] result = Arrays.copyOf(head, head.length + size);
        System.arraycopy(content, 0, result, head.length, size);
        return result;
    }

    private static byte[] bytes(int... values) {
        byte[] result = new byte[values.length];
        for (int index = 0; index < values.length; index++) {
            result[index] = (byte) values[index];
        }
        return result;
    }

    private static int find(byte[] text, String word, int from) {
        byte[] wanted = word.getBytes(StandardCharsets.US_ASCII);
        for (int at = from; at <= text.length - wanted.length; at++) {
            if (Arrays.equals(text, at, at + wanted.length, wanted, 0, wanted.length)) {
                return at;
            }
        }
        return -1;
    }

    static void wipe(byte[]... arrays) {
        for (byte[] array : arrays) {
            if (array != null) {
                Arrays.fill(array, (byte) 0);
            }
        }
    }
}
