package io.leafseal.client;

import static io.leafseal.client.Testing.failure;
import static io.leafseal.client.Testing.rejects;
import static io.leafseal.client.Testing.until;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import io.leafseal.client.testing.Engine;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Every call against a real engine: what goes in comes out, and errors have codes. */
class CallsTest {
    private static final EncryptOptions ENCRYPT = EncryptOptions.defaults();
    private static final DecryptOptions DECRYPT = DecryptOptions.defaults();
    private static final CallOptions CALL = CallOptions.defaults();

    private static Engine engine;
    private static LeafsealClient client;

    @BeforeAll
    static void start() {
        engine = Engine.start();
        client = engine.client().connect();
    }

    @AfterAll
    static void stop() {
        if (client != null) {
            client.close();
        }
        if (engine != null) {
            engine.close();
        }
    }

    private static boolean isEnvelope(String text) {
        return text.startsWith("ev:") && text.endsWith(":$");
    }

    @Test
    void valuesOfEveryKindComeBack() {
        BigInteger two64 = BigInteger.ONE.shiftLeft(64);
        List<Object> values = Arrays.asList(
                "4111111111111111", "", "Zoë 😀", "\ufffd", 0L, -1L, 12.5, 1e300, Long.MAX_VALUE, Long.MIN_VALUE, two64.subtract(BigInteger.ONE), true,
                false, null);
        List<String> sealed = client.encryptAll(values);
        assertTrue(sealed.subList(0, values.size() - 1).stream().allMatch(CallsTest::isEnvelope));
        assertNull(sealed.get(values.size() - 1));
        assertEquals(values, client.decryptAll(sealed));
        assertNull(client.encrypt(null));
        assertEquals("one", client.decrypt(client.encrypt("one")));
        assertEquals("no envelope", client.decrypt("no envelope"));
        assertEquals(List.of(), client.encryptAll(List.of()));
        assertEquals(List.of(1L, 2L, 3L, 0.1, "4"), client.decryptAll(client.encryptAll(List.of(1, (short) 2, (byte) 3, 0.1f, "4"))));
    }

    @Test
    void listsOfEveryLengthComeBackInOneRequestEach() {
        for (int count : new int[] {1, 7, 15, 16, 17, 2000, 65_535, 65_536, 70_000}) {
            List<Object> values = new ArrayList<>(IntStream.range(0, count).mapToObj(index -> "x".repeat(index % 40) + index).toList());
            assertEquals(values, client.decryptAll(client.encryptAll(values, ENCRYPT.keying(Keying.SESSION))), () -> count + " values");
        }
        for (int length : new int[] {31, 32, 255, 256, 8191, 8192, 65_535, 65_536, 3_000_000}) {
            for (String unit : List.of("x", "ä", "😀")) {
                String value = unit.repeat(length / unit.length());
                assertEquals(value, client.decrypt(client.encrypt(value)), () -> length + " of " + unit);
            }
        }
    }

    @Test
    void rolesCurvesAndKeyingReachTheEngine() {
        EncryptOptions options = ENCRYPT.role("support").curve(Curve.K1).keying(Keying.FIELD);
        List<String> sealed = client.encryptAll(List.of("a", "b"), options);
        List<Inspection> inspected = client.inspect(sealed, CALL.app(Engine.APP));
        for (Inspection inspection : inspected) {
            assertEquals("support", inspection.role().orElseThrow());
            assertEquals("k1", inspection.curve().orElseThrow());
            assertEquals("string", inspection.type());
            assertEquals(1, inspection.keyVersion().orElseThrow());
            assertTrue(inspection.encryptedAt().orElseThrow().isBefore(Instant.now().plusSeconds(5)));
            assertEquals(33, inspection.ephemeral().orElseThrow().length);
        }
        assertFalse(Arrays.equals(inspected.get(0).ephemeral().orElseThrow(), inspected.get(1).ephemeral().orElseThrow()));
        rejects("forbidden", () -> client.decryptAll(sealed, DECRYPT.role("other")));
        assertTrue(client.inspect(sealed, CALL).get(0).role().isEmpty());
    }

    @Test
    void documentsKeepEveryOtherByte() {
        String text = "{ \"amount\": 1.50,  \"id\": 12345678901234567890, \"card\": {\"number\": \"4111\", \"holder\": \"Zoë\"}, \"tags\": [\"a\", null] }";
        List<Report> reports = new ArrayList<>();
        String sealed = client.encryptDocument(text, ENCRYPT.select("$.card", "$.missing").onReport(reports::add));
        assertTrue(sealed.startsWith("{ \"amount\": 1.50,  \"id\": 12345678901234567890, \"card\": {\"number\": \"ev:"));
        // With a character outside of base64: envelopes may contain any other text.
        assertFalse(sealed.contains("\"4111\"") || sealed.contains("Zoë"));
        assertEquals(List.of(2L, 0L), reports.get(0).matched());
        assertEquals(2, reports.get(0).count());
        assertEquals(text, client.decryptDocument(sealed, DECRYPT));
        String all = client.encryptDocument(text, ENCRYPT);
        assertEquals(text, client.decryptDocument(all, DECRYPT));
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        byte[] before = bytes.clone();
        byte[] sealedBytes = client.encryptDocument(bytes, ENCRYPT.select("$.amount"));
        assertArrayEquals(before, bytes, "the caller's array stays");
        assertArrayEquals(bytes, client.decryptDocument(sealedBytes, DECRYPT));
        for (int size : new int[] {0, 100, 16_000, 70_000, 5_000_000}) {
            String large = "{\"text\":\"" + "x".repeat(size) + "\"}";
            assertEquals(large, client.decryptDocument(client.encryptDocument(large, ENCRYPT), DECRYPT), () -> size + " characters");
        }
    }

    @Test
    void errorsHaveTheIndexOfTheElementAtFault() {
        List<Executable> calls = List.of(
                () -> client.encryptAll(Arrays.asList("a", null, Double.NaN)),
                () -> client.encryptAll(List.of("a", 1, new Object())),
                () -> client.encryptAll(List.of("a", true, "\ud800")),
                () -> client.rewrap(List.of("a", "b", "\udc00"), CALL),
                () -> client.encryptDocument("{}", ENCRYPT.select("$.a", "$.b", "\ud800")),
                () -> client.encryptDocument("{}", ENCRYPT.select("$.a", "$.b", "$.[")));
        for (Executable call : calls) {
            assertEquals(OptionalLong.of(2), assertThrows(LeafsealException.class, call).index());
        }
        LeafsealException error = assertThrows(LeafsealException.class, () -> client.encryptDocument("{}", ENCRYPT.role("\ud800")));
        assertEquals(OptionalLong.empty(), error.index());
    }

    @Test
    void filesComeBack() {
        for (int size : new int[] {0, 1, 5000, 10_000_000}) {
            byte[] file = new byte[size];
            Arrays.fill(file, (byte) 'f');
            byte[] sealed = client.encryptFile(file, ENCRYPT.curve(Curve.K1));
            assertArrayEquals(file, client.decryptFile(sealed, DECRYPT), () -> size + " bytes");
        }
        rejects("invalid_envelope", () -> client.decryptFile(new byte[] {1, 2, 3}, DECRYPT));
    }

    /** Every template of the vectors, with parts of envelopes that were just made, is refused with its code. */
    @Test
    void aValueOpensInItsOwnContextAndInNoOtherRow() {
        EncryptOptions symmetric = ENCRYPT.scheme(Scheme.SYMMETRIC);
        List<Object> values = Arrays.asList("one", 2L, null, true);
        List<String> rows = List.of("row 1", "row 2", "row 3", "Zeile 4 – ä");
        List<String> sealed = client.encryptAll(values, rows, symmetric);
        assertEquals(values, client.decryptAll(sealed, rows, DECRYPT));
        assertEquals(values, client.decryptAllAsync(client.encryptAllAsync(values, rows, symmetric).join(), rows, DECRYPT).join());
        // One context for all is the same context.
        assertEquals("one", client.decrypt(sealed.get(0), DECRYPT.context(rows.get(0))));
        List<String> moved = Arrays.asList(sealed.get(1), sealed.get(0), null, sealed.get(3));
        assertEquals(OptionalLong.of(0), rejects("decrypt_failed", () -> client.decryptAll(moved, rows, DECRYPT)).index());
        rejects("decrypt_failed", () -> client.decryptAll(sealed, DECRYPT));
        List<Report> reports = new ArrayList<>();
        DecryptOptions others = DECRYPT.onFailure(OnFailure.NULL).onReport(reports::add);
        assertEquals(Arrays.asList(null, null, null, true), client.decryptAll(moved, rows, others));
        assertEquals(List.of(0L, 1L), reports.get(0).failedIndexes());
        List<String> first = List.of(sealed.get(0));
        assertEquals(new Rewrapped(first, 0), client.rewrap(first, List.of("row 1"), CALL));
        rejects("decrypt_failed", () -> client.rewrap(first, List.of("row 2"), CALL));
        assertEquals("decrypt_failed", failure(client.rewrapAsync(first, List.of("row 2"), CALL)).code());
        List<List<String>> wrong = Arrays.asList(
                null, List.of(), rows.subList(1, 4), List.of("row 1", "row 2", "", "row 4"), List.of("row 1", "row 2", "row 3", "x".repeat(1025)),
                Arrays.asList("row 1", "row 2", null, "row 4"));
        for (List<String> contexts : wrong) {
            rejects("invalid_params", () -> client.encryptAll(values, contexts, symmetric));
            rejects("invalid_params", () -> client.decryptAll(sealed, contexts, DECRYPT));
        }
        rejects("invalid_params", () -> client.encryptAll(values, rows, symmetric.context("row")));
        List<String> limit = List.of("x".repeat(1024));
        assertEquals(List.of("at the limit"), client.decryptAll(client.encryptAll(List.of("at the limit"), limit, symmetric), limit, DECRYPT));
    }

    @Test
    void symmetricEnvelopesOpenAsTheyWereMadeAndInNoOtherForm() throws Exception {
        JsonNode vectors = new JsonMapper().readTree(Path.of("../../../vectors/symmetric/refused.json").toFile());
        String context = vectors.get("context").asText();
        List<String> values = List.of(vectors.get("value").asText(), vectors.get("other").asText());
        List<String> sealed = client.encryptAll(values, ENCRYPT.scheme(Scheme.SYMMETRIC).context(context));
        assertEquals(values, client.decryptAll(sealed, DECRYPT.context(context)));
        String[] one = sealed.get(0).split(":");
        String[] other = sealed.get(1).split(":");
        for (JsonNode vector : vectors.get("refused")) {
            String text = vector.get("template").asText()
                    .replace("{id}", one[2]).replace("{nonce}", one[3]).replace("{ciphertext}", one[4])
                    .replace("{other_nonce}", other[3]).replace("{other_ciphertext}", other[4]);
            DecryptOptions options = DECRYPT.context(context);
            if (vector.has("context")) {
                options = vector.get("context").isNull() ? DECRYPT : DECRYPT.context(vector.get("context").asText());
            }
            DecryptOptions with = options;
            rejects(vector.get("code").asText(), () -> client.decrypt(text, with));
        }
        assertTrue(vectors.get("refused").size() > 30);
        String open = client.encryptAll(values, ENCRYPT.scheme(Scheme.PUBLIC_KEY)).get(0);
        rejects("decrypt_failed", () -> client.decrypt(open, DECRYPT.context(context)));
        rejects("decrypt_failed", () -> client.decrypt(open, DECRYPT.accept("symmetric")));
        Inspection inspection = client.inspect(sealed, CALL).get(0);
        assertEquals("symmetric", inspection.scheme().orElseThrow());
        assertEquals(16, inspection.symmetricKeyId().orElseThrow().length);
        CallOptions inside = CALL.app(Engine.APP);
        assertEquals(1, client.inspect(sealed, inside.context(context)).get(0).keyVersion().orElseThrow());
        rejects("decrypt_failed", () -> client.inspect(sealed, inside));
        rejects("invalid_params", () -> client.inspect(sealed, CALL.context(context)));
        rejects("invalid_params", () -> client.inspect(sealed, CALL.accept("symmetric")));
        assertEquals(1, client.inspect(sealed, inside.context(context).accept("symmetric")).get(0).keyVersion().orElseThrow());
        rejects("decrypt_failed", () -> client.inspect(sealed, inside.context(context).accept("public-key,from-public-key")));
        rejects("decrypt_failed", () -> client.inspect(List.of(open), inside.context(context)));
        rejects("invalid_params", () -> client.inspect(sealed, inside.curve(Curve.K1)));
    }

    @Test
    void envelopesThatDoNotOpenFailTheCallOrAreLeftOrReplaced() {
        List<String> sealed = client.encryptAll(List.of("good", "other"));
        String good = sealed.get(0);
        String other = sealed.get(1);
        int at = other.length() - 6;
        String bad = other.substring(0, at) + (other.charAt(at) == 'A' ? 'B' : 'A') + other.substring(at + 1);
        LeafsealException error = rejects("decrypt_failed", () -> client.decryptAll(List.of(good, bad)));
        assertEquals(1, error.index().orElseThrow());
        assertEquals(Retry.NEVER, error.retry());
        assertEquals(LeafsealException.Source.ENGINE, error.source());
        List<Report> reports = new ArrayList<>();
        DecryptOptions leave = DECRYPT.onFailure(OnFailure.LEAVE).onReport(reports::add);
        assertEquals(List.of("good", bad), client.decryptAll(List.of(good, bad), leave));
        assertEquals(1, reports.get(0).failed());
        assertEquals(List.of(1L), reports.get(0).failedIndexes());
        String document = "{\"good\":\"" + good + "\",\"bad\":\"" + bad + "\"}";
        assertEquals("{\"good\":\"good\",\"bad\":null}", client.decryptDocument(document, leave.onFailure(OnFailure.NULL)));
        assertEquals(List.of("$['bad']"), reports.get(1).failedPaths());
        assertEquals(List.of(good), client.encryptAll(List.of(good), ENCRYPT.skipSealed(true)));
    }

    /** Envelopes to a public key become symmetric ones with a mark that stays, and the report counts them; everything else is encrypted or left. */
    @Test
    void envelopesToAPublicKeyAreResealed() {
        EncryptOptions card = ENCRYPT.role("card");
        List<Object> arrived = List.of(client.encrypt("text", card), client.encrypt(2.5, card.curve(Curve.K1)), client.encrypt(true, card));
        String own = client.encrypt("own", card.scheme(Scheme.SYMMETRIC));
        String otherRole = client.encrypt("other role", ENCRYPT.role("pii"));
        List<Object> given = new ArrayList<>(arrived);
        given.addAll(List.of(own, "plain", otherRole));
        List<Report> reports = new ArrayList<>();
        EncryptOptions reseal = card.reseal(Reseal.SYMMETRIC).onReport(reports::add);
        List<String> sealed = client.encryptAll(given, reseal);
        assertEquals(List.of(3L, 1L, 1L, 5L), counts(reports.get(0)));
        assertEquals(own, sealed.get(3));
        assertEquals(
                List.of("text", 2.5, true, "own", "plain", otherRole), client.decryptAll(sealed, DECRYPT.accept("symmetric,from-public-key")));
        for (int at = 0; at < sealed.size(); at++) {
            String envelope = sealed.get(at);
            boolean isMarked = at < 3;
            Inspection inspected = client.inspect(List.of(envelope), CALL.app(Engine.APP)).get(0);
            assertEquals(
                    List.of("symmetric", "card", isMarked),
                    List.of(inspected.scheme().orElseThrow(), inspected.role().orElseThrow(), inspected.isFromPublicKey().orElse(false)));
            for (Map.Entry<String, Boolean> accept : Map.of("public-key", false, "symmetric", !isMarked, "from-public-key", isMarked).entrySet()) {
                Executable decrypt = () -> client.decrypt(envelope, DECRYPT.accept(accept.getKey()));
                if (accept.getValue()) {
                    assertDoesNotThrow(decrypt);
                } else {
                    rejects("decrypt_failed", decrypt);
                }
            }
        }
        assertEquals(sealed, client.encryptAll(sealed, reseal));
        assertEquals(List.of(0L, 6L, 0L, 0L), counts(reports.get(1)));
        String document = "{\"card\":\"" + arrived.get(0) + "\",\"note\":\"" + arrived.get(1) + "\"}";
        String resealed = client.encryptDocument(document, reseal.select("$.card"));
        assertTrue(resealed.startsWith("{\"card\":\"ev:WEFN:") && resealed.endsWith(",\"note\":\"" + arrived.get(1) + "\"}"), resealed);
        assertEquals(List.of(1L, 0L, 0L, 1L), counts(reports.get(2)));
        rejects("invalid_params", () -> client.encryptAll(arrived, ENCRYPT.reseal(Reseal.SYMMETRIC)));
        rejects("invalid_params", () -> client.encryptAll(arrived, reseal.scheme(Scheme.PUBLIC_KEY)));
    }

    private static List<Long> counts(Report report) {
        return List.of(report.rewrapped(), report.skipped(), report.resealed(), report.symmetric());
    }

    @Test
    void aRewrapReplacesEnvelopesOfOlderKeys() {
        try (Engine other = Engine.start(); LeafsealClient rotating = other.client().connect()) {
            List<String> old = rotating.encryptAll(List.of("a", "b"));
            assertEquals(new Rewrapped(old, 0), rotating.rewrap(old, CALL));
            other.command("keys", "rotate", Engine.APP);
            until("the rotation is visible", () -> rotating.publicKeys(CALL).version() == 2);
            Rewrapped result = rotating.rewrap(old, CALL.curve(Curve.K1));
            assertEquals(2, result.count());
            assertEquals(List.of("a", "b"), rotating.decryptAll(result.envelopes()));
            assertEquals("k1", rotating.inspect(result.envelopes(), CALL).get(0).curve().orElseThrow());
            List<String> mixed = List.of(old.get(0), "ev:Tk9D:planted:$");
            List<Report> reports = new ArrayList<>();
            rejects("invalid_envelope", () -> rotating.rewrap(mixed, CALL));
            Rewrapped left = rotating.rewrap(mixed, CALL.onFailure(RewrapFailure.LEAVE).onReport(reports::add));
            assertEquals(List.of(1L, mixed.get(1)), List.of(left.count(), left.envelopes().get(1)));
            assertEquals(List.of(1L), reports.get(0).failedIndexes());
            PublicKeys keys = rotating.publicKeys(CALL);
            assertEquals(33, keys.r1().length);
            assertEquals(Engine.APP, keys.app());
        }
    }

    @Test
    void anApiKeyIsVerifiedAndLimitsDecryption() {
        String apiKey = engine.command("api-keys", "create", Engine.APP, "--allow", "encrypt,decrypt");
        ApiKey seen = client.authenticate(apiKey, CALL);
        assertEquals(Engine.APP, seen.app());
        assertEquals(Set.of("encrypt", "decrypt"), Set.copyOf(seen.operations()));
        assertEquals("4111", client.decrypt(client.encrypt("4111"), DECRYPT.keyId(seen.keyId())));
        rejects("forbidden", () -> client.authenticate("a wrong key", CALL));
        rejects("forbidden", () -> client.decrypt(client.encrypt("4111"), DECRYPT.keyId("unknown")));
    }

    @Test
    void healthAndInfo() {
        assertEquals("ok", client.health(CALL));
        Map<String, String> info = client.info(CALL);
        assertEquals("1", info.get("protocol"));
        assertNotNull(info.get("version"));
        assertEquals("ok", client.healthAsync(CALL).join());
    }

    @Test
    void futuresHaveTheSameResults() {
        assertEquals("x", client.encryptAsync("x", ENCRYPT).thenCompose(sealed -> client.decryptAsync(sealed, DECRYPT)).join());
        List<Object> values = List.of("a", 1L, true);
        assertEquals(values, client.encryptAllAsync(values, ENCRYPT).thenCompose(sealed -> client.decryptAllAsync(sealed, DECRYPT)).join());
        byte[] json = "{\"a\":1}".getBytes(StandardCharsets.UTF_8);
        assertArrayEquals(json, client.encryptDocumentAsync(json, ENCRYPT).thenCompose(sealed -> client.decryptDocumentAsync(sealed, DECRYPT)).join());
        assertArrayEquals(json, client.encryptFileAsync(json, ENCRYPT).thenCompose(sealed -> client.decryptFileAsync(sealed, DECRYPT)).join());
        String envelope = client.encrypt("x");
        assertEquals(List.of(envelope), client.rewrapAsync(List.of(envelope), CALL).join().envelopes());
        assertEquals("r1", client.inspectAsync(List.of(envelope), CALL).join().get(0).curve().orElseThrow());
        assertEquals("invalid_params", failure(client.encryptAsync(new Object(), ENCRYPT)).code());
        assertEquals("forbidden", failure(client.encryptAsync("x", ENCRYPT.app("unknown"))).code());
        // A continuation may block in a call.
        assertEquals("y", client.encryptAsync("y", ENCRYPT).thenApply(client::decrypt).join());
    }

    @Test
    void everyErrorHasACodeAndNoErrorAValue() {
        String secret = "a secret value";
        LeafsealClient bare = engine.client().app(null).build();
        LeafsealClient small = engine.client().requestSizeMax(100).build();
        Object[][] cases = {
            {"invalid_params", (Executable) () -> client.encryptAll(List.of(secret, Double.NaN))},
            {"invalid_params", (Executable) () -> client.encrypt(Float.POSITIVE_INFINITY)},
            {"invalid_params", (Executable) () -> client.encrypt(Map.of(secret, 1))},
            {"invalid_params", (Executable) () -> client.encrypt(List.of(secret))},
            {"invalid_params", (Executable) () -> client.encrypt(BigInteger.ONE.shiftLeft(64))},
            {"invalid_params", (Executable) () -> client.encrypt(BigInteger.ONE.shiftLeft(63).negate().subtract(BigInteger.ONE))},
            {"invalid_params", (Executable) () -> client.encrypt(secret + "\ud800")},
            {"invalid_params", (Executable) () -> client.encrypt("\udc00\ud800" + secret)},
            {"invalid_params", (Executable) () -> client.encryptAll(null)},
            {"invalid_params", (Executable) () -> client.encryptDocument((String) null, ENCRYPT)},
            {"invalid_params", (Executable) () -> client.encrypt(secret, ENCRYPT.select("$.a"))},
            {"invalid_params", (Executable) () -> client.encryptFile(new byte[1], ENCRYPT.role("a"))},
            {"invalid_params", (Executable) () -> client.encrypt(secret, ENCRYPT.timeout(Duration.ZERO))},
            {"invalid_params", (Executable) () -> client.rewrap(Collections.singletonList(null), CALL)},
            {"invalid_document", (Executable) () -> client.encryptDocument("{\"a\": \"" + secret + "\"", ENCRYPT)},
            {"invalid_selector", (Executable) () -> client.encryptDocument("{}", ENCRYPT.select("$.["))},
            {"unmatched_selector", (Executable) () -> client.encryptDocument("{}", ENCRYPT.select("$.b").strict(true))},
            {"ambiguous_name", (Executable) () -> client.encryptDocument("{\"A\":1}", ENCRYPT.select("$.a").otherCase(OtherCase.REFUSE))},
            {"forbidden", (Executable) () -> client.encrypt(secret, ENCRYPT.app("unknown"))},
            {"invalid_params", (Executable) () -> client.encrypt(secret, ENCRYPT.app(""))},
            {"invalid_envelope", (Executable) () -> client.inspect(List.of(secret), CALL)},
            {"invalid_params", (Executable) () -> bare.encrypt(secret)},
            {"too_large", (Executable) () -> small.encrypt(secret.repeat(100))},
            {"too_large", (Executable) () -> small.encryptDocument("\"" + secret.repeat(10) + "\"", ENCRYPT)},
        };
        for (int index = 0; index < cases.length; index++) {
            LeafsealException error = rejects((String) cases[index][0], (Executable) cases[index][1]);
            assertFalse(error.toString().contains(secret), error.getMessage());
        }
        bare.close();
        small.close();
    }

    @Test
    void settingsAreCheckedAndNamedInErrors() {
        assertTrue(rejects("invalid_settings", () -> engine.client().addresses().build()).getMessage().contains("addresses"));
        for (String address : List.of("a:b:c", "host:0", "host:65536", "host:99999", "", "host name", "[::1", "a/b")) {
            rejects("invalid_settings", () -> engine.client().addresses(address).build());
        }
        engine.client().addresses("[::1]", "host", "host:1", "1.2.3.4:5", "[fe80::1%eth0]:5").build().close();
        assertTrue(rejects("invalid_settings", () -> engine.client().ca((byte[]) null).build()).getMessage().contains("ca"));
        assertTrue(rejects("invalid_settings", () -> engine.client().timeout(Duration.ofSeconds(-1)).build()).getMessage().contains("timeout"));
        assertTrue(rejects("invalid_settings", () -> engine.client().connectionsMax(0).build()).getMessage().contains("connectionsMax"));
        assertTrue(rejects("invalid_settings", () -> engine.client().backoff(Duration.ofSeconds(2), Duration.ofSeconds(1)).build()).getMessage().contains("backoff"));
    }

    @Test
    void tenThousandCallsAtOnceStayWithinTheBounds() {
        try (LeafsealClient bounded = engine.client().requestsInFlightMax(16).connectionsMax(2).bytesInFlightMax(1 << 16).build()) {
            List<CompletableFuture<String>> futures = new ArrayList<>();
            int most = 0;
            for (int index = 0; index < 10_000; index++) {
                futures.add(bounded.encryptAsync("value " + index, ENCRYPT));
                List<Integer> load = bounded.calls().load();
                assertTrue(load.size() <= 2);
                most = Math.max(most, load.stream().mapToInt(Integer::intValue).max().orElse(0));
            }
            assertTrue(most > 0 && most <= 16, "at most " + most);
            List<String> sealed = futures.stream().map(CompletableFuture::join).toList();
            assertEquals(IntStream.range(0, 10_000).mapToObj(index -> "value " + index).toList(), bounded.decryptAll(sealed));
            until("no call is left", () -> bounded.callsInFlight() == 0);
            assertEquals(0, bounded.calls().bytesInFlight());
        }
    }

    @Test
    void moreCallsThanMayWaitAreRefusedAndTheOthersFinish() {
        try (LeafsealClient bounded = engine.client().requestsWaitingMax(100).requestsInFlightMax(4).connectionsMax(1).build();
                LeafsealClient heavy = engine.client().bytesWaitingMax(1000).requestsInFlightMax(1).connectionsMax(1).build()) {
            List<CompletableFuture<String>> futures = IntStream.range(0, 1000).mapToObj(index -> bounded.encryptAsync("x", ENCRYPT)).toList();
            check(futures, 100);
            // Before the connection is open, each call waits: one of any size, others as far as there is room.
            List<CompletableFuture<String>> large = IntStream.range(0, 10).mapToObj(index -> heavy.encryptAsync("x".repeat(5000), ENCRYPT)).toList();
            check(large, 1);
            assertEquals("again", bounded.decrypt(bounded.encrypt("again")));
        }
    }

    private static void check(List<CompletableFuture<String>> futures, int least) {
        int done = 0;
        for (CompletableFuture<String> future : futures) {
            LeafsealException error = future.handle((value, failure) -> (LeafsealException) failure).join();
            if (error == null) {
                done++;
            } else {
                assertEquals("busy", error.code());
                assertEquals(Retry.LATER, error.retry());
            }
        }
        assertTrue(done >= least && done < futures.size(), done + " succeeded");
    }
}
