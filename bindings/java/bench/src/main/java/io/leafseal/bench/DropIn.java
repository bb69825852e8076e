package io.leafseal.bench;

import com.google.crypto.tink.Aead;
import com.google.crypto.tink.HybridDecrypt;
import com.google.crypto.tink.HybridEncrypt;
import com.google.crypto.tink.KeysetHandle;
import com.google.crypto.tink.RegistryConfiguration;
import com.google.crypto.tink.StreamingAead;
import com.google.crypto.tink.aead.AeadConfig;
import com.google.crypto.tink.aead.PredefinedAeadParameters;
import com.google.crypto.tink.hybrid.HybridConfig;
import com.google.crypto.tink.hybrid.PredefinedHybridParameters;
import com.google.crypto.tink.streamingaead.PredefinedStreamingAeadParameters;
import com.google.crypto.tink.streamingaead.StreamingAeadConfig;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.Security;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLEngineResult;
import javax.net.ssl.TrustManagerFactory;
import org.apache.commons.crypto.stream.CryptoInputStream;
import org.apache.commons.crypto.stream.CryptoOutputStream;
import org.springframework.security.crypto.encrypt.AesBytesEncryptor;
import org.springframework.security.crypto.keygen.KeyGenerators;

/**
 * Software that knows nothing of the provider: {@code DropIn JDK|Leafseal EC-KEYSTORE RSA-KEYSTORE}.
 *
 * <p>Prints the nanoseconds of each operation, the median of rounds, and its name. Leafseal is first in the list of providers, or absent.
 */
public final class DropIn {
    private static final int ROUNDS = 5;
    private static final long WARM_UP = TimeUnit.SECONDS.toNanos(3);
    private static final long ROUND = TimeUnit.MILLISECONDS.toNanos(400);
    private static final char[] PASSWORD = "changeit".toCharArray();
    private static final int RECORDS = 64;
    private static final int RECORD_SIZE = 16_000;

    private interface Operation {
        void run() throws Exception;
    }

    private DropIn() {
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("Leafseal")) {
            Security.insertProviderAt(Providers.named("Leafseal"), 1);
        }
        tink();
        measure("Spring AesBytesEncryptor with GCM, 10 KB, both directions", spring());
        measure("crypto streams of Hadoop and Spark (AES/CTR), 1 MB, both directions", streams());
        SSLContext ec = context(Path.of(arguments[1]));
        SSLContext rsa = context(Path.of(arguments[2]));
        measure("JSSE handshake, both sides, certificate on P-256", () -> connect(ec));
        measure("JSSE handshake, both sides, RSA-2048 certificate", () -> connect(rsa));
        measure("JSSE, 1 MB over TLS 1.3 (AES-256-GCM), both sides", transfer(ec));
    }

    private static void measure(String name, Operation operation) throws Exception {
        long end = System.nanoTime() + WARM_UP;
        while (System.nanoTime() < end) {
            operation.run();
        }
        double[] rounds = new double[ROUNDS];
        for (int i = 0; i < ROUNDS; i++) {
            long start = System.nanoTime();
            int calls = 0;
            while (System.nanoTime() - start < ROUND) {
                operation.run();
                calls++;
            }
            rounds[i] = (double) (System.nanoTime() - start) / calls;
        }
        Arrays.sort(rounds);
        System.out.println(Math.round(rounds[ROUNDS / 2]) + " " + name);
    }

    private static void tink() throws Exception {
        AeadConfig.register();
        HybridConfig.register();
        StreamingAeadConfig.register();
        byte[] text = new byte[100_000];
        byte[] context = new byte[50];
        Aead aead = KeysetHandle.generateNew(PredefinedAeadParameters.AES256_GCM).getPrimitive(RegistryConfiguration.get(), Aead.class);
        measure("Tink AES256_GCM, 100 KB, both directions", () -> aead.decrypt(aead.encrypt(text, context), context));
        KeysetHandle secret = KeysetHandle.generateNew(PredefinedHybridParameters.ECIES_P256_HKDF_HMAC_SHA256_AES128_GCM);
        HybridEncrypt encryption = secret.getPublicKeysetHandle().getPrimitive(RegistryConfiguration.get(), HybridEncrypt.class);
        HybridDecrypt decryption = secret.getPrimitive(RegistryConfiguration.get(), HybridDecrypt.class);
        byte[] small = new byte[1000];
        measure("Tink ECIES_P256, 1 KB, both directions", () -> decryption.decrypt(encryption.encrypt(small, context), context));
        StreamingAead streaming = KeysetHandle.generateNew(PredefinedStreamingAeadParameters.AES256_GCM_HKDF_1MB)
                .getPrimitive(RegistryConfiguration.get(), StreamingAead.class);
        byte[] large = new byte[4_000_000];
        measure("Tink AES256_GCM_HKDF_1MB streams, 4 MB, both directions", () -> {
            ByteArrayOutputStream sealed = new ByteArrayOutputStream(large.length + 1000);
            try (OutputStream stream = streaming.newEncryptingStream(sealed, context)) {
                stream.write(large);
            }
            try (InputStream stream = streaming.newDecryptingStream(new ByteArrayInputStream(sealed.toByteArray()), context)) {
                require(stream.readAllBytes().length == large.length);
            }
        });
    }

    private static Operation spring() {
        AesBytesEncryptor encryptor = new AesBytesEncryptor("password", "5c0744940b5c369b", KeyGenerators.secureRandom(16),
                AesBytesEncryptor.CipherAlgorithm.GCM);
        byte[] text = new byte[10_000];
        return () -> require(encryptor.decrypt(encryptor.encrypt(text)).length == text.length);
    }

    private static Operation streams() {
        Properties properties = new Properties();
        properties.setProperty("commons.crypto.cipher.classes", "org.apache.commons.crypto.cipher.JceCipher");
        SecretKeySpec key = new SecretKeySpec(new byte[32], "AES");
        IvParameterSpec iv = new IvParameterSpec(new byte[16]);
        byte[] text = new byte[1_000_000];
        return () -> {
            ByteArrayOutputStream sealed = new ByteArrayOutputStream(text.length);
            try (CryptoOutputStream stream = new CryptoOutputStream("AES/CTR/NoPadding", properties, sealed, key, iv)) {
                stream.write(text);
            }
            InputStream source = new ByteArrayInputStream(sealed.toByteArray());
            try (CryptoInputStream stream = new CryptoInputStream("AES/CTR/NoPadding", properties, source, key, iv)) {
                require(stream.readAllBytes().length == text.length);
            }
        };
    }

    private static SSLContext context(Path file) throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        try (InputStream stream = Files.newInputStream(file)) {
            store.load(stream, PASSWORD);
        }
        // That of PKIX decrypts the key for each handshake.
        KeyManagerFactory keys = KeyManagerFactory.getInstance("SunX509");
        keys.init(store, PASSWORD);
        TrustManagerFactory trust = TrustManagerFactory.getInstance("PKIX");
        trust.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
        // Full handshakes only.
        context.getServerSessionContext().setSessionCacheSize(1);
        return context;
    }

    /** Client and server after their handshake, over buffers instead of sockets. */
    private static Connection connect(SSLContext context) throws Exception {
        SSLEngine client = context.createSSLEngine();
        client.setUseClientMode(true);
        SSLEngine server = context.createSSLEngine();
        server.setUseClientMode(false);
        Connection connection = new Connection(client, server);
        while (isInHandshake(client) || isInHandshake(server)) {
            connection.move(client, server, ByteBuffer.allocate(0));
            connection.move(server, client, ByteBuffer.allocate(0));
        }
        client.getSession().invalidate();
        return connection;
    }

    private static boolean isInHandshake(SSLEngine engine) {
        SSLEngineResult.HandshakeStatus status = engine.getHandshakeStatus();
        return engine.getSession().getCipherSuite().equals("SSL_NULL_WITH_NULL_NULL")
                || status != SSLEngineResult.HandshakeStatus.NOT_HANDSHAKING && status != SSLEngineResult.HandshakeStatus.FINISHED;
    }

    private static Operation transfer(SSLContext context) throws Exception {
        Connection connection = connect(context);
        ByteBuffer record = ByteBuffer.allocate(RECORD_SIZE);
        return () -> {
            for (int i = 0; i < RECORDS; i++) {
                require(connection.move(connection.client, connection.server, record.clear()) == RECORD_SIZE);
            }
        };
    }

    private static void require(boolean isRight) {
        if (!isRight) {
            throw new AssertionError("a wrong result");
        }
    }

    private static final class Connection {
        final SSLEngine client;
        final SSLEngine server;
        private final ByteBuffer wire = ByteBuffer.allocate(1 << 16);
        private final ByteBuffer received = ByteBuffer.allocate(1 << 16);

        Connection(SSLEngine client, SSLEngine server) {
            this.client = client;
            this.server = server;
        }

        /** Lets one side send what it has, and the other receive it; the bytes of {@code text} that arrived. */
        int move(SSLEngine from, SSLEngine to, ByteBuffer text) throws Exception {
            tasks(from);
            wire.clear();
            from.wrap(text, wire);
            tasks(from);
            wire.flip();
            int arrived = 0;
            while (wire.hasRemaining()) {
                received.clear();
                int before = wire.remaining();
                to.unwrap(wire, received);
                tasks(to);
                arrived += received.position();
                if (wire.remaining() == before && to.getHandshakeStatus() == SSLEngineResult.HandshakeStatus.NEED_WRAP) {
                    break;
                }
            }
            return arrived;
        }

        private static void tasks(SSLEngine engine) {
            Runnable task = engine.getDelegatedTask();
            while (task != null) {
                task.run();
                task = engine.getDelegatedTask();
            }
        }
    }
}
