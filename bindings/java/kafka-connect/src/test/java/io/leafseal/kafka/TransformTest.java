package io.leafseal.kafka;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertThrowsExactly;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.leafseal.client.testing.Engine;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.connect.data.Date;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Time;
import org.apache.kafka.connect.data.Timestamp;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.transforms.Transformation;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Records of every shape through the transforms and a real engine, and records that must fail. */
class TransformTest {
    private static Engine engine;

    @BeforeAll
    static void start() {
        Engine first = Engine.start();
        first.command("keys", "create", "paused");
        first.command("keys", "disable", "paused");
        first.command("certs", "issue", "anyone", "--all-apps", "--allow", "encrypt", "--allow", "decrypt");
        first.kill();
        // Started again, it knows all of that at once.
        engine = Engine.start(first.folder, 0);
    }

    @AfterAll
    static void stop() {
        if (engine != null) {
            engine.close();
        }
    }

    private static Map<String, String> settings(String... pairs) {
        Map<String, String> settings = new HashMap<>(Map.of(
                "engine.addresses", engine.address, "engine.ca", engine.file("ca.pem").toString(), "engine.certificate", engine.file("dev.pem").toString(),
                "engine.key", engine.file("dev.key").toString(), "app", Engine.APP));
        for (int index = 0; index < pairs.length; index += 2) {
            settings.put(pairs[index], pairs[index + 1]);
        }
        return settings;
    }

    /** Settings of a client that may use every app, for which the engine distinguishes unknown apps from forbidden ones. */
    private static String[] anyone(String... pairs) {
        List<String> all = new ArrayList<>(List.of(pairs));
        all.addAll(List.of("engine.certificate", engine.file("anyone.pem").toString(), "engine.key", engine.file("anyone.key").toString()));
        return all.toArray(String[]::new);
    }

    private static SourceRecord through(Transformation<SourceRecord> transformation, SourceRecord record, String... pairs) {
        try (transformation) {
            transformation.configure(settings(pairs));
            return transformation.apply(record);
        }
    }

    private static SourceRecord encrypt(SourceRecord record, String... pairs) {
        return through(new EncryptFields.Value<>(), record, pairs);
    }

    private static SourceRecord decrypt(SourceRecord record, String... pairs) {
        return through(new DecryptFields.Value<>(), record, pairs);
    }

    private static SourceRecord record(Schema schema, Object value) {
        return new SourceRecord(Map.of(), Map.of(), "topic", 0, Schema.STRING_SCHEMA, "key", schema, value, 17L);
    }

    private static SourceRecord of(String topic, Object key, Object value) {
        return new SourceRecord(Map.of(), Map.of(), topic, 0, null, key, null, value, 17L);
    }

    /** A value that is bound to its topic, or to topic and key, opens there alone. */
    @Test
    void valuesAreBoundToTheirTopicAndKey() {
        String[] seal = {"fields", "card", "scheme", "symmetric", "context", "topic,key"};
        String[] open = {"fields", "card", "context", "topic,key"};
        Map<String, Object> row = Map.of("card", "4242", "id", 7L);
        for (Object key : List.of("7", 7, 7L, (byte) 7, "ä", "7".getBytes(StandardCharsets.UTF_8), ByteBuffer.wrap("7".getBytes(StandardCharsets.UTF_8)))) {
            SourceRecord sealed = encrypt(of("orders", key, row), seal);
            Object envelope = ((Map<?, ?>) sealed.value()).get("card");
            assertTrue(((String) envelope).startsWith("ev:WEFF:"), () -> envelope + " of " + key);
            assertEquals(row, decrypt(sealed, open).value());
            for (SourceRecord copied : List.of(of("orders", "8", sealed.value()), of("refunds", key, sealed.value()))) {
                assertThrowsExactly(DataException.class, () -> decrypt(copied, open));
            }
            assertThrowsExactly(DataException.class, () -> decrypt(sealed, "fields", "card", "context", "topic"));
            assertThrowsExactly(DataException.class, () -> decrypt(sealed, "fields", "card"));
        }
        SourceRecord byTopic = encrypt(of("orders", null, "{\"card\":\"4242\"}"), "select", "$.card", "scheme", "symmetric", "context", "topic");
        assertEquals("{\"card\":\"4242\"}", decrypt(byTopic, "select", "$.card", "context", "topic").value());
        assertThrowsExactly(DataException.class, () -> decrypt(of("refunds", null, byTopic.value()), "select", "$.card", "context", "topic"));
        byte[] binary = {(byte) 0xff};
        for (Object key : Arrays.asList(null, 1.5, true, binary, "x".repeat(1_020), Map.of())) {
            assertThrowsExactly(DataException.class, () -> encrypt(of("orders", key, row), seal), () -> "a key " + key);
        }
        // Anyone with the public key could have made it.
        SourceRecord anyone = encrypt(of("orders", "7", row), "fields", "card", "scheme", "public-key");
        assertThrowsExactly(DataException.class, () -> decrypt(anyone, open));
        assertThrowsExactly(DataException.class, () -> decrypt(anyone, "fields", "card", "accept", "symmetric"));
        assertEquals(row, decrypt(anyone, "fields", "card", "accept", "public-key,symmetric").value());
        for (String[] wrong : List.of(new String[] {"context", "key"}, new String[] {"scheme", "xaes"})) {
            assertThrows(ConfigException.class, () -> encrypt(of("orders", "7", row), "fields", "card", wrong[0], wrong[1]));
        }
        assertThrows(ConfigException.class, () -> decrypt(anyone, "fields", "card", "accept", "symetric"));
        assertThrows(ConfigException.class, () -> through(new EncryptFields.Key<>(), of("orders", Map.of("card", "1"), null), seal));
    }

    private static boolean isEnvelope(Object value) {
        return value instanceof String text && text.startsWith("ev:") && text.endsWith(":$");
    }

    private static final Schema CARD = SchemaBuilder.struct().name("card").version(3).doc("a card").field("number", Schema.STRING_SCHEMA)
            .field("limit", Decimal.builder(2).optional().parameter("own", "x").build()).field("tags", SchemaBuilder.array(Schema.STRING_SCHEMA).optional().build())
            .optional().build();

    private static Schema everything() {
        return SchemaBuilder.struct().name("everything").field("i8", Schema.INT8_SCHEMA).field("i16", Schema.INT16_SCHEMA).field("i32", Schema.INT32_SCHEMA)
                .field("i64", Schema.INT64_SCHEMA).field("f32", Schema.FLOAT32_SCHEMA).field("f64", Schema.FLOAT64_SCHEMA)
                .field("flag", Schema.BOOLEAN_SCHEMA).field("text", Schema.STRING_SCHEMA).field("bytes", Schema.BYTES_SCHEMA)
                .field("buffer", Schema.OPTIONAL_BYTES_SCHEMA).field("decimal", Decimal.schema(4)).field("day", Date.SCHEMA).field("time", Time.SCHEMA)
                .field("moment", Timestamp.SCHEMA).field("nothing", Schema.OPTIONAL_INT32_SCHEMA)
                .field("absent", SchemaBuilder.int32().defaultValue(7).build()).field("named", SchemaBuilder.string().name("my.Enum").version(2).parameter("allowed", "a,b").build())
                .field("card", CARD).field("cards", SchemaBuilder.array(CARD).build())
                .field("map", SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.INT64_SCHEMA).build()).field("open", Schema.STRING_SCHEMA).build();
    }

    private static Struct card(String number) {
        return new Struct(CARD).put("number", number).put("limit", new BigDecimal("12.50")).put("tags", List.of("a", "b"));
    }

    private static Struct value() {
        return new Struct(everything()).put("i8", (byte) -128).put("i16", Short.MAX_VALUE).put("i32", Integer.MIN_VALUE).put("i64", Long.MAX_VALUE)
                .put("f32", 0.1f).put("f64", 1e-300).put("flag", true).put("text", "Zoë 😀").put("bytes", new byte[] {0, -1})
                .put("buffer", ByteBuffer.wrap(new byte[] {1, 2, 3})).put("decimal", new BigDecimal("-99999999999999999999.0100"))
                .put("day", new java.util.Date(86_400_000L * 20_000)).put("time", new java.util.Date(12_345)).put("moment", new java.util.Date(1_764_000_000_123L))
                .put("named", "a").put("card", card("4111")).put("cards", List.of(card("1"), card("2"))).put("map", Map.of("x", 1L, "y", 2L)).put("open", "open");
    }

    @Test
    void everyTypeOfASchemaComesBack() {
        String fields = "i8,i16,i32,i64,f32,f64,flag,text,bytes,buffer,decimal,day,time,moment,nothing,absent,named,card.number,card.limit,cards.number,map.*";
        SourceRecord before = record(everything(), value());
        SourceRecord sealed = encrypt(before, "fields", fields, "keying", "session");
        Struct struct = (Struct) sealed.value();
        struct.validate();
        for (String name : List.of("i8", "i64", "f32", "flag", "text", "bytes", "decimal", "day", "moment", "absent", "named")) {
            assertTrue(isEnvelope(struct.get(name)), name);
            assertEquals(Schema.Type.STRING, sealed.valueSchema().field(name).schema().type());
            assertNull(sealed.valueSchema().field(name).schema().defaultValue());
        }
        assertNull(struct.get("nothing"));
        assertEquals("open", struct.get("open"));
        assertTrue(isEnvelope(((Struct) struct.getArray("cards").get(1)).get("number")));
        assertEquals(List.of("a", "b"), struct.getStruct("card").get("tags"));
        assertTrue(struct.getMap("map").values().stream().allMatch(TransformTest::isEnvelope));
        assertFalse(struct.toString().contains("{number=4111") || struct.toString().contains("=4111,") || struct.toString().contains("Zoë"));
        assertEquals("everything", sealed.valueSchema().name());
        assertEquals(17L, sealed.timestamp());

        SourceRecord opened = decrypt(sealed, "fields", fields);
        Struct after = (Struct) opened.value();
        after.validate();
        for (org.apache.kafka.connect.data.Field field : everything().fields()) {
            Object expected = value().get(field);
            Object actual = after.get(field.name());
            if (expected instanceof byte[] bytes) {
                assertArrayEquals(bytes, (byte[]) actual);
            } else if (expected instanceof ByteBuffer buffer) {
                assertArrayEquals(buffer.array(), (byte[]) actual);
            } else {
                assertEquals(expected, actual, field.name());
            }
            if (!field.name().equals("absent")) {
                assertEquals(field.schema(), opened.valueSchema().field(field.name()).schema(), field.name());
            }
        }
    }

    @Test
    void floatsOfEveryKindComeBack() {
        Schema schema = SchemaBuilder.struct().field("f32", Schema.FLOAT32_SCHEMA).field("f64", Schema.FLOAT64_SCHEMA).build();
        Random random = new Random(3);
        try (Transformation<SourceRecord> sealing = new EncryptFields.Value<>(); Transformation<SourceRecord> opening = new DecryptFields.Value<>()) {
            sealing.configure(settings("fields", "f32,f64"));
            opening.configure(settings("fields", "f32,f64"));
            for (int round = 0; round < 500; round++) {
                float single = round == 0 ? Float.NaN : round == 1 ? -0.0f : round == 2 ? Float.NEGATIVE_INFINITY : Float.intBitsToFloat(random.nextInt());
                double real = round == 0 ? -0.0 : round == 1 ? Double.NaN : round == 2 ? Double.MIN_VALUE : Double.longBitsToDouble(random.nextLong());
                Struct after = (Struct) opening.apply(sealing.apply(record(schema, new Struct(schema).put("f32", single).put("f64", real)))).value();
                assertEquals(Float.floatToIntBits(single), Float.floatToIntBits(after.getFloat32("f32")));
                assertEquals(Double.doubleToLongBits(real), Double.doubleToLongBits(after.getFloat64("f64")));
            }
        }
    }

    @Test
    void mapsWithoutASchema() {
        Map<String, Object> card = new HashMap<>(Map.of("number", "4111", "cvc", 123L, "nested", List.of(Map.of("a", 1.5), Map.of("a", true)), "a.b", "dot"));
        card.put("none", null);
        Map<String, Object> value = Map.of("card", card, "open", "x", "cards", List.of(Map.of("number", "1"), Map.of("number", "2")));
        SourceRecord sealed = encrypt(record(null, value), "fields", "card,cards.number", "role", "support");
        Map<?, ?> sealedCard = (Map<?, ?>) ((Map<?, ?>) sealed.value()).get("card");
        assertTrue(isEnvelope(sealedCard.get("number")) && isEnvelope(sealedCard.get("cvc")) && sealedCard.containsKey("none"));
        assertTrue(sealedCard.get("nested").toString().startsWith("[{a=ev:"));
        assertEquals(value, decrypt(sealed, "fields", "card,cards.number", "role", "support").value());
        assertThrows(DataException.class, () -> decrypt(sealed, "fields", "card", "role", "other"));
        SourceRecord dotted = encrypt(record(null, value), "fields", "card.a\\.b");
        assertTrue(isEnvelope(((Map<?, ?>) ((Map<?, ?>) dotted.value()).get("card")).get("a.b")));
        assertEquals(value, decrypt(dotted, "fields", "card.a\\.b").value());
        SourceRecord all = encrypt(record(null, value), "fields", "*");
        assertTrue(isEnvelope(((Map<?, ?>) all.value()).get("open")));
        assertEquals(value, decrypt(all, "fields", "*").value());
    }

    @Test
    void jsonTextKeepsEveryOtherByte() {
        String json = "{ \"card\": {\"number\": \"4111\", \"cvc\": 123}, \"a,b\": 1.50 }";
        String select = "$.card['number','cvc'], $['a,b']";
        for (Object value : List.of(json, json.getBytes())) {
            Schema schema = value instanceof String ? Schema.STRING_SCHEMA : null;
            SourceRecord sealed = encrypt(record(schema, value), "select", select);
            String text = sealed.value() instanceof byte[] bytes ? new String(bytes) : (String) sealed.value();
            assertTrue(text.startsWith("{ \"card\": {\"number\": \"ev:") && !text.contains("\"4111\"") && !text.contains("1.50"), text);
            Object opened = decrypt(sealed, "select", select).value();
            assertEquals(json, opened instanceof byte[] bytes ? new String(bytes) : opened);
        }
        assertThrows(DataException.class, () -> encrypt(record(null, json), "select", "$.Card"));
        assertThrows(DataException.class, () -> encrypt(record(null, "{\"card\":1,\"CARD\":2}"), "select", "$.card"));
        assertThrows(DataException.class, () -> encrypt(record(null, "no json"), "select", "$.card"));
        assertThrows(DataException.class, () -> encrypt(record(null, Map.of("card", 1)), "select", "$.card"));
    }

    @Test
    void wholeKeysAndValuesAndTombstones() {
        SourceRecord record = record(Schema.STRING_SCHEMA, "value");
        SourceRecord sealed = through(new EncryptFields.Key<>(), record, "fields", ".");
        assertTrue(isEnvelope(sealed.key()));
        assertEquals("value", sealed.value());
        assertEquals("key", through(new DecryptFields.Key<>(), sealed, "fields", ".").key());
        assertEquals(5L, decrypt(encrypt(record(Schema.INT64_SCHEMA, 5L), "fields", "."), "fields", ".").value());
        SourceRecord tombstone = record(null, null);
        assertSame(tombstone, encrypt(tombstone, "fields", "card"));
        // An optional struct that is absent.
        Schema schema = SchemaBuilder.struct().field("card", CARD).build();
        SourceRecord absent = encrypt(record(schema, new Struct(schema)), "fields", "card.number");
        assertNull(((Struct) absent.value()).get("card"));
        assertNull(((Struct) decrypt(absent, "fields", "card.number").value()).get("card"));
    }

    @Test
    void schemasWhoseParametersWereLostBecomeStrings() {
        SourceRecord sealed = encrypt(record(Schema.INT64_SCHEMA, 5L), "fields", ".");
        SourceRecord opened = decrypt(record(Schema.STRING_SCHEMA, sealed.value()), "fields", ".");
        assertEquals("5", opened.value());
        assertEquals(Schema.STRING_SCHEMA, opened.valueSchema());
        Schema damaged = SchemaBuilder.string().parameter("io.leafseal.type", "STRUCT").build();
        assertThrows(DataException.class, () -> decrypt(record(damaged, sealed.value()), "fields", "."));
        Schema wrong = SchemaBuilder.string().parameter("io.leafseal.type", "BOOLEAN").build();
        DataException error = assertThrows(DataException.class, () -> decrypt(record(wrong, sealed.value()), "fields", "."));
        assertFalse(error.getMessage().contains("5"), error.getMessage());
    }

    @Test
    void aRecordToWhichTheSelectionCannotBeAppliedFails() {
        SourceRecord struct = record(everything(), value());
        SourceRecord map = record(null, Map.of("card", Map.of("number", "4111"), "Iban", "x"));
        List<Object[]> cases = List.of(
                new Object[] {struct, "card.nubmer"}, new Object[] {struct, "Card"}, new Object[] {struct, "text.below"}, new Object[] {struct, "map.x"},
                new Object[] {map, "card.missing"}, new Object[] {map, "iban"}, new Object[] {map, "card.number.below"},
                new Object[] {record(null, "text"), "card"}, new Object[] {record(null, List.of("a")), "card"},
                new Object[] {record(null, Map.of("a", new Object())), "a"}, new Object[] {record(null, Map.of("a", new byte[1])), "a"},
                new Object[] {record(null, Map.of("a", new BigDecimal("0.12345678901234567890123"))), "a"},
                new Object[] {record(null, Map.of("a", "\ud800")), "a"});
        for (Object[] row : cases) {
            DataException error = assertThrows(DataException.class, () -> encrypt((SourceRecord) row[0], "fields", (String) row[1]), (String) row[1]);
            assertFalse(error.getMessage().contains("4111"));
        }
        // Fields that are missing or differ in case may be allowed.
        SourceRecord lenient = encrypt(map, "fields", "iban,card.number", "on.missing", "ignore", "other.case", "other");
        assertEquals("x", ((Map<?, ?>) lenient.value()).get("Iban"));
        assertTrue(isEnvelope(((Map<?, ?>) ((Map<?, ?>) lenient.value()).get("card")).get("number")));
        assertThrows(DataException.class, () -> encrypt(map, "fields", "iban", "on.missing", "ignore"));
    }

    @Test
    void plaintextIsNotPassedOnByDecryption() {
        for (Object value : Arrays.asList("4111", 4111L, true, "ev:no:$", "ev:")) {
            DataException error = assertThrows(DataException.class, () -> decrypt(record(null, Map.of("a", value)), "fields", "a"), String.valueOf(value));
            assertFalse(error.getMessage().contains("4111"));
            if (!value.equals("ev:no:$")) {
                assertEquals(Map.of("a", value), decrypt(record(null, Map.of("a", value)), "fields", "a", "plaintext.allowed", "true").value());
            }
        }
        assertThrows(DataException.class, () -> decrypt(record(Schema.INT64_SCHEMA, 4111L), "fields", "."));
        assertEquals(4111L, decrypt(record(Schema.INT64_SCHEMA, 4111L), "fields", ".", "plaintext.allowed", "true").value());
    }

    @Test
    void anEngineThatIsAwayIsARetriableError() {
        SourceRecord record = record(null, Map.of("a", "x"));
        assertThrows(RetriableException.class, () -> encrypt(record, "fields", "a", "engine.addresses", "127.0.0.1:1", "timeout.ms", "200"));
        assertThrows(RetriableException.class, () -> encrypt(record, "fields", "a", "engine.ca", "no such file"));
    }

    @Test
    void whatMayBeMendedAtTheEngineIsARetriableError() {
        SourceRecord record = record(null, Map.of("a", "x"));
        RetriableException forbidden = assertThrows(RetriableException.class, () -> encrypt(record, "fields", "a", "app", "unknown"));
        assertTrue(forbidden.getMessage().contains("forbidden"));
        RetriableException disabled = assertThrows(RetriableException.class, () -> encrypt(record, anyone("fields", "a", "app", "paused")));
        assertTrue(disabled.getMessage().contains("app_disabled"));
    }

    @Test
    void anErrorOfTheSettingsIsNotRetriable() {
        SourceRecord json = record(null, "{\"a\": \"x\"}");
        Map<String[], String> codes = Map.of(
                new String[] {"select", "$.a[x]"}, "invalid_selector",
                new String[] {"select", "$[?length(@)]"}, "invalid_selector",
                new String[] {"select", "$.a", "app", "x".repeat(200)}, "invalid_params",
                anyone("select", "$.a", "app", "unknown"), "unknown_app");
        codes.forEach((pairs, code) -> {
            for (boolean isSealing : List.of(true, false)) {
                Transformation<SourceRecord> transformation = isSealing ? new EncryptFields.Value<>() : new DecryptFields.Value<>();
                ConnectException error = assertThrowsExactly(ConnectException.class, () -> through(transformation, json, pairs), code);
                assertTrue(error.getMessage().contains(code), error.getMessage());
            }
        });
    }

    @Test
    void settingsAreChecked() {
        for (String[] pairs : List.of(
                new String[] {}, new String[] {"fields", "a", "select", "$.a"}, new String[] {"fields", "a..b"}, new String[] {"fields", "a."},
                new String[] {"fields", "a", "curve", "p256"}, new String[] {"fields", "a", "keying", "never"}, new String[] {"fields", "a", "role", "Not a role"},
                new String[] {"fields", "a", "on.missing", "maybe"}, new String[] {"fields", "a", "timeout.ms", "0"}, new String[] {"fields", "a", "engine.addresses", ""},
                new String[] {"select", "$.a["}, new String[] {"select", "$.a]"}, new String[] {"select", "$['a]"},
                new String[] {"select", "$[?(@.a]"}, new String[] {"select", "a"},
                new String[] {"select", "$.a,b"}, new String[] {"select", ","},
                new String[] {"fields", "a", "engine.addresses", "a:b:c"}, new String[] {"fields", "a", "app", ""}, new String[] {"fields", "a", "engine.ca", ""})) {
            assertThrows(ConfigException.class, () -> through(new EncryptFields.Value<>(), record(null, null), pairs), Arrays.toString(pairs));
        }
        for (var definition : List.of(Config.ENCRYPT, Config.DECRYPT)) {
            definition.configKeys().values().forEach(key -> assertFalse(key.documentation.isBlank(), key.name));
        }
    }
}
