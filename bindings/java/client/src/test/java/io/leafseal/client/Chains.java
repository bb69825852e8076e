package io.leafseal.client;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.Principal;
import java.security.PrivateKey;
import java.security.SecureRandom;
import java.security.Signature;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.ECGenParameterSpec;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.net.ssl.KeyManager;
import javax.net.ssl.X509ExtendedKeyManager;

/** Chains of certificates that expire when a test wants: a root, an authority below it, and the certificate of an engine below that. */
final class Chains {
    private static final byte[] ECDSA_SHA256 = hex("300a06082a8648ce3d040302");
    private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("yyMMddHHmmss'Z'").withZone(ZoneOffset.UTC);

    private Chains() {}

    /** A certificate and its key. */
    record Link(X509Certificate certificate, KeyPair keys) {}

    /** The parts of a chain. */
    record Chain(Link root, Link between, Link leaf) {}

    /** A chain of which the parts expire then. Its root has a name of its own. */
    static Chain chain(Instant root, Instant between, Instant leaf) {
        Link top = link("root " + new SecureRandom().nextInt(), null, root, true, newKeys());
        Link middle = link("between", top, between, true, newKeys());
        return new Chain(top, middle, link("engine", middle, leaf, false, newKeys()));
    }

    /** A certificate that is valid until `end`; without an issuer, one that signs itself. */
    static Link link(String subject, Link issuer, Instant end, boolean isAuthority, KeyPair keys) {
        byte[] name = name(subject);
        byte[] validity = tagged(0x30, time(Instant.now().minus(Duration.ofDays(1))), time(end));
        // Basic constraints, or 127.0.0.1 as alternative name.
        byte[] extension = hex(isAuthority ? "300f0603551d130101ff040530030101ff" : "30120603551d110101ff0408300687047f000001");
        byte[] body = tagged(0x30, hex("a003020102"), tagged(0x02, new byte[] {1}, new SecureRandom().generateSeed(8)), ECDSA_SHA256,
                issuer == null ? name : issuer.certificate.getSubjectX500Principal().getEncoded(), validity, name,
                keys.getPublic().getEncoded(), tagged(0xa3, tagged(0x30, extension)));
        try {
            Signature signer = Signature.getInstance("SHA256withECDSA");
            signer.initSign((issuer == null ? keys : issuer.keys).getPrivate());
            signer.update(body);
            byte[] der = tagged(0x30, body, ECDSA_SHA256, tagged(0x03, new byte[1], signer.sign()));
            var factory = CertificateFactory.getInstance("X.509");
            return new Link((X509Certificate) factory.generateCertificate(new ByteArrayInputStream(der)), keys);
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException(error);
        }
    }

    static KeyPair newKeys() {
        try {
            KeyPairGenerator generator = KeyPairGenerator.getInstance("EC");
            generator.initialize(new ECGenParameterSpec("secp256r1"));
            return generator.generateKeyPair();
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException(error);
        }
    }

    private static byte[] name(String text) {
        return tagged(0x30, tagged(0x31, tagged(0x30, hex("0603550403"), tagged(0x0c, text.getBytes(StandardCharsets.UTF_8)))));
    }

    private static byte[] time(Instant moment) {
        return tagged(0x17, TIME.format(moment).getBytes(StandardCharsets.US_ASCII));
    }

    /** DER, ITU-T X.690. */
    private static byte[] tagged(int tag, byte[]... parts) {
        int size = Arrays.stream(parts).mapToInt(part -> part.length).sum();
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        out.write(tag);
        if (size > 0xff) {
            out.writeBytes(new byte[] {(byte) 0x82, (byte) (size >> 8)});
        } else if (size > 0x7f) {
            out.write(0x81);
        }
        out.write(size);
        for (byte[] part : parts) {
            out.writeBytes(part);
        }
        return out.toByteArray();
    }

    private static byte[] hex(String digits) {
        return HexFormat.of().parseHex(digits);
    }

    /** Authorities in PEM. */
    static byte[] pem(Link... links) {
        return Arrays.stream(links).map(Chains::pem).collect(Collectors.joining()).getBytes(StandardCharsets.US_ASCII);
    }

    private static String pem(Link link) {
        try {
            String text = Base64.getMimeEncoder().encodeToString(link.certificate.getEncoded());
            return "-----BEGIN CERTIFICATE-----\n" + text + "\n-----END CERTIFICATE-----\n";
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Shows an engine's certificate on each new connection, and those of authorities: the ones that were set last. */
    static final class EngineKeys extends X509ExtendedKeyManager {
        private volatile X509Certificate[] certificates;
        private volatile PrivateKey key;

        EngineKeys(Chain chain, Link... authorities) {
            set(chain, authorities);
        }

        void set(Chain chain, Link... authorities) {
            key = chain.leaf.keys.getPrivate();
            Stream<Link> links = Stream.concat(Stream.of(chain.leaf), Arrays.stream(authorities));
            certificates = links.map(Link::certificate).toArray(X509Certificate[]::new);
        }

        KeyManager[] managers() {
            return new KeyManager[] {this};
        }

        @Override
        public String chooseServerAlias(String type, Principal[] issuers, Socket socket) {
            return type.equals("EC") ? "engine" : null;
        }

        @Override
        public X509Certificate[] getCertificateChain(String alias) {
            return certificates.clone();
        }

        @Override
        public PrivateKey getPrivateKey(String alias) {
            return key;
        }

        @Override
        public String[] getServerAliases(String type, Principal[] issuers) {
            return new String[] {"engine"};
        }

        @Override
        public String[] getClientAliases(String type, Principal[] issuers) {
            return new String[0];
        }

        @Override
        public String chooseClientAlias(String[] types, Principal[] issuers, Socket socket) {
            return null;
        }
    }
}
