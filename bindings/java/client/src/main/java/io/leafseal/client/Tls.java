package io.leafseal.client;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.StandardSocketOptions;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.security.Principal;
import java.security.PrivateKey;
import java.security.cert.CertPathBuilderException;
import java.security.cert.Certificate;
import java.security.cert.CertificateExpiredException;
import java.security.cert.X509Certificate;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import javax.net.ssl.KeyManager;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509ExtendedKeyManager;

/**
 * TLS 1.3 with a client certificate. The files are read again for each connection; while they are unchanged the context is reused, so that
 * sessions resume. The JDK does not verify an engine's certificate again when a session resumes, so a context ends with the first chain
 * that was verified in it.
 */
final class Tls {
    static final String ALPN = "leafseal/1";
    /** AES-128 first: records of 256-bit keys cost more on both sides. */
    private static final String[] CIPHERS = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"};
    private static final String[] PROTOCOLS = {"TLSv1.3"};

    private final Pem ca;
    private final Pem certificate;
    private final Pem key;
    private byte[] digest;
    private Context context;

    Tls(Pem ca, Pem certificate, Pem key) {
        this.ca = ca;
        this.certificate = certificate;
        this.key = key;
    }

    /** A connected socket, TLS over it, and when the engine's chain expires. */
    record Sockets(Socket plain, SSLSocket secure, Instant expiry) {}

    /** The context that connections share while the files are unchanged. */
    private static final class Context {
        final SSLContext tls;
        final ChainExpiry chains;
        /** When the first of the chains expires that were verified with it. */
        Instant expiry = Instant.MAX;

        Context(SSLContext tls, ChainExpiry chains) {
            this.tls = tls;
            this.chains = chains;
        }
    }

    /**
     * Connects and completes the handshake. The caller closes `plain` to end it early.
     *
     * @param name the name that the engine's certificate must be valid for
     */
    Sockets connect(Socket plain, InetSocketAddress address, String name, int timeoutMs) {
        Context current = context(timeoutMs);
        try {
            plain.setTcpNoDelay(true);
            plain.setOption(StandardSocketOptions.SO_KEEPALIVE, true);
            plain.connect(address, timeoutMs);
        } catch (IOException error) {
            throw new LeafsealException(ErrorCode.CONNECT_FAILED, message(error), Retry.ELSEWHERE, error);
        }
        try {
            SSLSocket secure = (SSLSocket) current.tls.getSocketFactory().createSocket(plain, name, address.getPort(), true);
            secure.setSSLParameters(parameters());
            secure.startHandshake();
            if (!ALPN.equals(secure.getApplicationProtocol())) {
                throw tlsFailed("the server does not support " + ALPN + "; connect to the engine's RPC port", null);
            }
            return new Sockets(plain, secure, expiry(current, secure.getSession().getPeerCertificates()));
        } catch (javax.net.ssl.SSLException error) {
            // A peer that closes the connection or is silent is a matter of the network rather than of certificates.
            if (error.getCause() instanceof IOException) {
                throw new LeafsealException(ErrorCode.CONNECT_FAILED, message(error), Retry.ELSEWHERE, error);
            }
            throw tlsFailed(explained(error), error);
        } catch (IOException error) {
            throw new LeafsealException(ErrorCode.CONNECT_FAILED, message(error), Retry.ELSEWHERE, error);
        }
    }

    /** The JDK's message does not say that a certificate has expired. */
    private static String explained(Throwable error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof CertificateExpiredException) {
                return "a certificate of the engine's chain has expired (" + cause.getMessage() + ")";
            }
        }
        return message(error);
    }

    private static SSLParameters parameters() {
        SSLParameters parameters = new SSLParameters(CIPHERS, PROTOCOLS);
        parameters.setApplicationProtocols(new String[] {ALPN});
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        return parameters;
    }

    /** When the engine's chain expires. */
    private synchronized Instant expiry(Context current, Certificate[] sent) {
        try {
            Instant expiry = current.chains.of(sent);
            current.expiry = expiry.isBefore(current.expiry) ? expiry : current.expiry;
            return expiry;
        } catch (CertPathBuilderException error) {
            throw tlsFailed("the authority of the engine's certificate has expired", error);
        } catch (GeneralSecurityException error) {
            throw tlsFailed("the engine's certificate cannot be used: " + message(error), error);
        }
    }

    /** The context for the present content of the files. Its sessions stay valid for as long as a handshake may take. */
    private synchronized Context context(int timeoutMs) {
        byte[] authority = ca.read();
        byte[] chain = certificate.read();
        byte[] secret = key.read();
        try {
            MessageDigest sha = MessageDigest.getInstance("SHA-256");
            for (byte[] part : List.of(authority, chain, secret)) {
                sha.update((part.length + ":").getBytes(java.nio.charset.StandardCharsets.US_ASCII));
                sha.update(part);
            }
            byte[] seen = sha.digest();
            boolean hasExpired = context != null && !Instant.now().plusMillis(timeoutMs).isBefore(context.expiry);
            if (context == null || hasExpired || !Arrays.equals(seen, digest)) {
                context = create(ca.certificates(authority), certificate.certificates(chain), key.privateKey(secret));
                digest = seen;
            }
            return context;
        } catch (GeneralSecurityException | IOException error) {
            throw tlsFailed("the certificates cannot be used: " + message(error), error);
        } finally {
            Pem.wipe(secret);
        }
    }

    private static Context create(X509Certificate[] authorities, X509Certificate[] chain, PrivateKey key)
            throws GeneralSecurityException, IOException {
        KeyStore trusted = KeyStore.getInstance("PKCS12");
        trusted.load(null, null);
        for (int index = 0; index < authorities.length; index++) {
            trusted.setCertificateEntry("ca" + index, authorities[index]);
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance("PKIX");
        trust.init(trusted);
        SSLContext created = SSLContext.getInstance("TLSv1.3");
        checkPair(chain[0], key);
        created.init(new KeyManager[] {new Identity(chain, key)}, trust.getTrustManagers(), null);
        return new Context(created, new ChainExpiry(authorities));
    }

    /** The JDK would fail in the handshake, with a message that names neither file. */
    private static void checkPair(X509Certificate certificate, PrivateKey key) throws GeneralSecurityException {
        String scheme = switch (key.getAlgorithm()) {
            case "RSA" -> "SHA256withRSA";
            case "EC" -> "SHA256withECDSA";
            default -> "EdDSA";
        };
        byte[] text = {1, 2, 3};
        java.security.Signature signer = java.security.Signature.getInstance(scheme);
        boolean matches = false;
        if (certificate.getPublicKey().getAlgorithm().equals(key.getAlgorithm())) {
            signer.initSign(key);
            signer.update(text);
            byte[] signature = signer.sign();
            signer.initVerify(certificate.getPublicKey());
            signer.update(text);
            matches = signer.verify(signature);
        }
        if (!matches) {
            throw tlsFailed("key: it does not belong to the certificate", null);
        }
    }

    static LeafsealException tlsFailed(String message, Throwable cause) {
        return new LeafsealException(ErrorCode.TLS_FAILED, message, Retry.NEVER, cause);
    }

    static String message(Throwable error) {
        return error.getMessage() == null ? error.getClass().getSimpleName() : error.getMessage();
    }

    /** The one certificate that this client has. */
    private static final class Identity extends X509ExtendedKeyManager {
        private static final String ALIAS = "client";
        private final X509Certificate[] chain;
        private final PrivateKey key;

        Identity(X509Certificate[] chain, PrivateKey key) {
            this.chain = chain;
            this.key = key;
        }

        @Override
        public String chooseClientAlias(String[] types, Principal[] issuers, Socket socket) {
            return Arrays.asList(types).contains(key.getAlgorithm()) ? ALIAS : null;
        }

        @Override
        public String chooseEngineClientAlias(String[] types, Principal[] issuers, SSLEngine engine) {
            return chooseClientAlias(types, issuers, null);
        }

        @Override
        public String[] getClientAliases(String type, Principal[] issuers) {
            return new String[] {ALIAS};
        }

        @Override
        public X509Certificate[] getCertificateChain(String alias) {
            return chain.clone();
        }

        @Override
        public PrivateKey getPrivateKey(String alias) {
            return key;
        }

        @Override
        public String chooseServerAlias(String type, Principal[] issuers, Socket socket) {
            return null;
        }

        @Override
        public String[] getServerAliases(String type, Principal[] issuers) {
            return new String[0];
        }
    }
}
