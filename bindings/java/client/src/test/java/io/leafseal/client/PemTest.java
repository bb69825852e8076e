package io.leafseal.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.PrivateKey;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Private keys in the forms that OpenSSL writes. */
class PemTest {
    @TempDir
    private Path folder;

    private String openssl(String... arguments) throws Exception {
        List<String> command = new java.util.ArrayList<>(List.of("openssl"));
        command.addAll(List.of(arguments));
        Process process = new ProcessBuilder(command).directory(folder.toFile()).redirectError(ProcessBuilder.Redirect.DISCARD).start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.US_ASCII);
        assertEquals(0, process.waitFor(), String.join(" ", command));
        return output;
    }

    private static PrivateKey read(String pem) {
        return Pem.content("key", new byte[0]).privateKey(pem.getBytes(StandardCharsets.US_ASCII));
    }

    @Test
    void everyFormIsTheSameKey() throws Exception {
        for (String curve : List.of("prime256v1", "secp384r1")) {
            Files.writeString(folder.resolve("ec.pem"), openssl("ecparam", "-name", curve, "-genkey", "-noout"));
            PrivateKey expected = read(openssl("pkcs8", "-topk8", "-nocrypt", "-in", "ec.pem"));
            String sec1 = Files.readString(folder.resolve("ec.pem"));
            assertEquals("EC", expected.getAlgorithm());
            assertArrayEquals(((java.security.interfaces.ECPrivateKey) expected).getS().toByteArray(),
                    ((java.security.interfaces.ECPrivateKey) read(sec1)).getS().toByteArray());
            // With the parameters before it, as OpenSSL writes them by default, and with CRLF.
            assertEquals("EC", read(openssl("ecparam", "-name", curve, "-genkey").replace("\n", "\r\n")).getAlgorithm());
        }
        for (String bits : List.of("2048", "4096")) {
            Files.writeString(folder.resolve("rsa.pem"), openssl("genrsa", bits));
            String pkcs1 = openssl("rsa", "-in", "rsa.pem", "-traditional");
            PrivateKey expected = read(openssl("pkcs8", "-topk8", "-nocrypt", "-in", "rsa.pem"));
            assertArrayEquals(expected.getEncoded(), read(pkcs1).getEncoded());
        }
        assertEquals("EdDSA", read(openssl("genpkey", "-algorithm", "ed25519")).getAlgorithm());
    }

    @Test
    void faultsAreNamedAndShowNoKey() throws Exception {
        Files.writeString(folder.resolve("ec.pem"), openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout"));
        String encrypted = openssl("pkcs8", "-topk8", "-in", "ec.pem", "-passout", "pass:x");
        String good = Files.readString(folder.resolve("ec.pem"));
        String body = good.split("\n")[1];
        List<String> cases = List.of(
                "", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", encrypted, good.replace(body, body.substring(8)), good.replace(body, "AAAA"),
                good.replace("-----END", "-----"), "-----BEGIN EC PRIVATE KEY-----\n-----END EC PRIVATE KEY-----",
                "-----BEGIN EC PRIVATE KEY-----\n!\n-----END EC PRIVATE KEY-----", "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----");
        for (String pem : cases) {
            LeafsealException error = assertThrows(LeafsealException.class, () -> read(pem), pem);
            assertEquals("tls_failed", error.code());
            assertFalse(error.toString().contains(body));
        }
        Path large = Files.write(folder.resolve("large.pem"), new byte[(1 << 20) + 1]);
        assertThrows(LeafsealException.class, () -> Pem.file("ca", large).read());
    }
}
