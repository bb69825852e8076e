package io.leafseal.jca;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.crypto.tink.Aead;
import com.google.crypto.tink.HybridDecrypt;
import com.google.crypto.tink.HybridEncrypt;
import com.google.crypto.tink.InsecureSecretKeyAccess;
import com.google.crypto.tink.KeysetHandle;
import com.google.crypto.tink.Mac;
import com.google.crypto.tink.RegistryConfiguration;
import com.google.crypto.tink.StreamingAead;
import com.google.crypto.tink.TinkJsonProtoKeysetFormat;
import com.google.crypto.tink.aead.AeadConfig;
import com.google.crypto.tink.aead.PredefinedAeadParameters;
import com.google.crypto.tink.hybrid.HybridConfig;
import com.google.crypto.tink.hybrid.PredefinedHybridParameters;
import com.google.crypto.tink.mac.MacConfig;
import com.google.crypto.tink.mac.PredefinedMacParameters;
import com.google.crypto.tink.streamingaead.PredefinedStreamingAeadParameters;
import com.google.crypto.tink.streamingaead.StreamingAeadConfig;
import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsServer;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.Security;
import java.util.Properties;
import javax.crypto.Cipher;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.TrustManagerFactory;
import org.apache.commons.crypto.stream.CryptoInputStream;
import org.apache.commons.crypto.stream.CryptoOutputStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.springframework.security.crypto.encrypt.AesBytesEncryptor;
import org.springframework.security.crypto.keygen.KeyGenerators;

/** Software that knows nothing of the provider works with it first in the list, and with what the JDK's providers made. */
class DropInTest {
    private static final String PASSWORD = "changeit";

    @TempDir
    static Path folder;

    @BeforeAll
    static void first() throws Exception {
        AeadConfig.register();
        StreamingAeadConfig.register();
        MacConfig.register();
        HybridConfig.register();
        String keytool = Path.of(System.getProperty("java.home"), "bin", "keytool").toString();
        Process process = new ProcessBuilder(keytool, "-genkeypair", "-alias", "server", "-keyalg", "EC", "-groupname", "secp256r1",
                "-dname", "CN=localhost", "-ext", "SAN=IP:127.0.0.1", "-validity", "30", "-storetype", "PKCS12", "-keystore",
                folder.resolve("server.p12").toString(), "-storepass", PASSWORD).inheritIO().start();
        assertEquals(0, process.waitFor());
        use(true);
    }

    @AfterAll
    static void last() {
        Security.removeProvider(LeafsealProvider.NAME);
    }

    private static void use(boolean isFirst) throws Exception {
        Security.removeProvider(LeafsealProvider.NAME);
        if (isFirst) {
            Security.insertProviderAt(Both.LEAFSEAL, 1);
        }
        assertEquals(isFirst ? "Leafseal" : "SunJCE", Cipher.getInstance("AES/GCM/NoPadding").getProvider().getName());
    }

    @Test
    void tink() throws Exception {
        byte[] text = Both.cycle(100_000);
        byte[] context = Both.cycle(50);
        for (var parameters : new com.google.crypto.tink.aead.AeadParameters[] {PredefinedAeadParameters.AES128_GCM,
            PredefinedAeadParameters.AES256_GCM, PredefinedAeadParameters.AES256_CTR_HMAC_SHA256,
            PredefinedAeadParameters.CHACHA20_POLY1305}) {
            KeysetHandle handle = KeysetHandle.generateNew(parameters);
            byte[] sealed = handle.getPrimitive(RegistryConfiguration.get(), Aead.class).encrypt(text, context);
            use(false);
            Aead other = copy(handle).getPrimitive(RegistryConfiguration.get(), Aead.class);
            assertArrayEquals(text, other.decrypt(sealed, context));
            byte[] theirs = other.encrypt(text, context);
            use(true);
            Aead ours = copy(handle).getPrimitive(RegistryConfiguration.get(), Aead.class);
            assertArrayEquals(text, ours.decrypt(theirs, context));
            theirs[77] ^= 1;
            assertThrows(GeneralSecurityException.class, () -> ours.decrypt(theirs, context));
        }
        Mac mac = KeysetHandle.generateNew(PredefinedMacParameters.HMAC_SHA512_256BITTAG)
                .getPrimitive(RegistryConfiguration.get(), Mac.class);
        mac.verifyMac(mac.computeMac(text), text);
    }

    /** A keyset that has no primitives of the other provider. */
    private static KeysetHandle copy(KeysetHandle handle) throws GeneralSecurityException {
        String text = TinkJsonProtoKeysetFormat.serializeKeyset(handle, InsecureSecretKeyAccess.get());
        return TinkJsonProtoKeysetFormat.parseKeyset(text, InsecureSecretKeyAccess.get());
    }

    @Test
    void tinkStreams() throws Exception {
        byte[] text = Both.cycle(3_000_000);
        for (var parameters : new com.google.crypto.tink.streamingaead.StreamingAeadParameters[] {
            PredefinedStreamingAeadParameters.AES256_GCM_HKDF_4KB, PredefinedStreamingAeadParameters.AES128_CTR_HMAC_SHA256_1MB}) {
            StreamingAead aead = KeysetHandle.generateNew(parameters).getPrimitive(RegistryConfiguration.get(), StreamingAead.class);
            ByteArrayOutputStream sealed = new ByteArrayOutputStream();
            try (OutputStream stream = aead.newEncryptingStream(sealed, new byte[3])) {
                stream.write(text);
            }
            try (InputStream stream = aead.newDecryptingStream(new ByteArrayInputStream(sealed.toByteArray()), new byte[3])) {
                assertArrayEquals(text, stream.readAllBytes());
            }
        }
    }

    @Test
    void tinkHybrid() throws Exception {
        KeysetHandle secret = KeysetHandle.generateNew(PredefinedHybridParameters.ECIES_P256_HKDF_HMAC_SHA256_AES128_GCM);
        byte[] text = Both.cycle(1000);
        HybridEncrypt encryption = secret.getPublicKeysetHandle().getPrimitive(RegistryConfiguration.get(), HybridEncrypt.class);
        HybridDecrypt decryption = secret.getPrimitive(RegistryConfiguration.get(), HybridDecrypt.class);
        assertArrayEquals(text, decryption.decrypt(encryption.encrypt(text, new byte[5]), new byte[5]));
    }

    @ParameterizedTest
    @CsvSource({"TLSv1.3,TLS_AES_256_GCM_SHA384", "TLSv1.3,TLS_AES_128_GCM_SHA256", "TLSv1.3,TLS_CHACHA20_POLY1305_SHA256",
        "TLSv1.2,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLSv1.2,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"})
    void https(String protocol, String suite) throws Exception {
        SSLContext context = context();
        HttpsServer server = HttpsServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setHttpsConfigurator(new HttpsConfigurator(context));
        byte[] body = Both.cycle(2_000_000);
        server.createContext("/", exchange -> {
            byte[] received = exchange.getRequestBody().readAllBytes();
            exchange.sendResponseHeaders(200, received.length + 7);
            exchange.getResponseBody().write(new byte[7]);
            exchange.getResponseBody().write(received);
            exchange.close();
        });
        server.start();
        try {
            SSLParameters parameters = new SSLParameters(new String[] {suite}, new String[] {protocol});
            HttpClient client = HttpClient.newBuilder().sslContext(context).sslParameters(parameters).build();
            URI address = URI.create("https://127.0.0.1:" + server.getAddress().getPort() + "/");
            HttpRequest request = HttpRequest.newBuilder(address).POST(HttpRequest.BodyPublishers.ofByteArray(body)).build();
            HttpResponse<byte[]> response = client.send(request, HttpResponse.BodyHandlers.ofByteArray());
            assertEquals(suite, response.sslSession().orElseThrow().getCipherSuite());
            assertEquals(body.length + 7, response.body().length);
            assertArrayEquals(body, java.util.Arrays.copyOfRange(response.body(), 7, response.body().length));
        } finally {
            server.stop(0);
        }
    }

    private static SSLContext context() throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        try (InputStream file = Files.newInputStream(folder.resolve("server.p12"))) {
            store.load(file, PASSWORD.toCharArray());
        }
        KeyManagerFactory keys = KeyManagerFactory.getInstance("PKIX");
        keys.init(store, PASSWORD.toCharArray());
        TrustManagerFactory trust = TrustManagerFactory.getInstance("PKIX");
        trust.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
        return context;
    }

    @Test
    void springEncryptors() throws Exception {
        AesBytesEncryptor ours = new AesBytesEncryptor("password", "5c0744940b5c369b", KeyGenerators.secureRandom(16),
                AesBytesEncryptor.CipherAlgorithm.GCM);
        byte[] text = Both.cycle(10_000);
        byte[] sealed = ours.encrypt(text);
        use(false);
        AesBytesEncryptor theirs = new AesBytesEncryptor("password", "5c0744940b5c369b", KeyGenerators.secureRandom(16),
                AesBytesEncryptor.CipherAlgorithm.GCM);
        assertArrayEquals(text, theirs.decrypt(sealed));
        byte[] other = theirs.encrypt(text);
        use(true);
        assertArrayEquals(text, ours.decrypt(other));
    }

    /** The streams that Hadoop and Spark encrypt files and shuffles with. */
    @Test
    void cryptoStreams() throws Exception {
        Properties properties = new Properties();
        properties.setProperty("commons.crypto.cipher.classes", "org.apache.commons.crypto.cipher.JceCipher");
        SecretKeySpec key = new SecretKeySpec(new byte[32], "AES");
        IvParameterSpec iv = new IvParameterSpec(Both.cycle(16));
        byte[] text = Both.cycle(1_000_003);
        ByteArrayOutputStream sealed = new ByteArrayOutputStream();
        try (CryptoOutputStream stream = new CryptoOutputStream("AES/CTR/NoPadding", properties, sealed, key, iv)) {
            stream.write(text, 0, 17);
            stream.write(text, 17, text.length - 17);
        }
        Cipher jdk = Cipher.getInstance("AES/CTR/NoPadding", "SunJCE");
        jdk.init(Cipher.ENCRYPT_MODE, key, iv);
        assertArrayEquals(jdk.doFinal(text), sealed.toByteArray());
        InputStream source = new ByteArrayInputStream(sealed.toByteArray());
        try (CryptoInputStream stream = new CryptoInputStream("AES/CTR/NoPadding", properties, source, key, iv)) {
            assertArrayEquals(text, stream.readAllBytes());
        }
    }
}
