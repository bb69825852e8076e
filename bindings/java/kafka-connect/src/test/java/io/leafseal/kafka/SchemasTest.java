package io.leafseal.kafka;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.leafseal.client.testing.Engine;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.kafka.connect.data.Date;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Time;
import org.apache.kafka.connect.data.Timestamp;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.transforms.Transformation;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/**
 * Schemas of every type, optional or not, with a default or without, of values and nulls, at every place of a record: what the JSON
 * converter writes after encryption and decryption is what it writes without the transforms.
 */
class SchemasTest {
    private static final int AT_LEAST = 2000;

    private static Engine engine;
    private final Map<String, Transformation<SourceRecord>> transforms = new HashMap<>();

    @BeforeAll
    static void start() {
        engine = Engine.start();
    }

    @AfterAll
    static void stop() {
        if (engine != null) {
            engine.close();
        }
    }

    private record Type(String name, Supplier<SchemaBuilder> builder, Object value, Object other) {}

    private static List<Type> types() {
        List<Type> types = new ArrayList<>(List.of(
                new Type("int8", SchemaBuilder::int8, (byte) 101, (byte) 102),
                        new Type("int16", SchemaBuilder::int16, (short) 30101, (short) 30102),
                new Type("int32", SchemaBuilder::int32, 70101, 70102), new Type("int64", SchemaBuilder::int64, 9_000_000_000L,
                        9_000_000_001L),
                new Type("float32", SchemaBuilder::float32, 101.5f, 102.5f), new Type("float64", SchemaBuilder::float64, 1.25e-7, 2.25e-7),
                new Type("boolean", SchemaBuilder::bool, true, false), new Type("string", SchemaBuilder::string, "text", "default"),
                new Type("bytes", SchemaBuilder::bytes, new byte[] {1, -1}, new byte[] {2, -2}),
                new Type("buffer", SchemaBuilder::bytes, ByteBuffer.wrap(new byte[] {3, -3}), ByteBuffer.wrap(new byte[] {4, -4})),
                new Type("named", () -> SchemaBuilder.string().name("my.Enum").version(2).parameter("allowed", "a,b").doc("doc"), "a", "b"),
                new Type("decimal", () -> Decimal.builder(2), new BigDecimal("10.10"), new BigDecimal("20.20")),
                new Type("date", () -> SchemaBuilder.int32().name(Date.LOGICAL_NAME).version(1), new java.util.Date(86_400_000L),
                        new java.util.Date(172_800_000L)),
                new Type("time", () -> SchemaBuilder.int32().name(Time.LOGICAL_NAME).version(1), new java.util.Date(5000),
                        new java.util.Date(6000)),
                new Type("timestamp", () -> SchemaBuilder.int64().name(Timestamp.LOGICAL_NAME).version(1), new java.util.Date(7000),
                        new java.util.Date(8000))));
        types.add(new Type("array", () -> SchemaBuilder.array(Schema.OPTIONAL_INT32_SCHEMA), Arrays.asList(70101, null), List.of()));
        types.add(new Type("full array", () -> SchemaBuilder.array(Schema.STRING_SCHEMA), List.of("text"), List.of("default")));
        types.add(new Type("map", () -> SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.STRING_SCHEMA), Map.of("k", "text"), Map.of()));
        return types;
    }

    /** A place for a value, and its path. */
    private record Place(String name, String path, boolean takesAbsent, Wrap wrap) {}

    private interface Wrap {
        SchemaAndValue around(Schema schema, Object value);
    }

    private static SchemaAndValue struct(Schema schema, Object value, boolean isOptional) {
        SchemaBuilder builder = SchemaBuilder.struct().name("s").version(4).field("open", Schema.INT32_SCHEMA).field("value", schema)
                .field("secret", Schema.STRING_SCHEMA).field("plain", SchemaBuilder.int32().optional().defaultValue(5).build());
        Schema whole = isOptional ? builder.optional().build() : builder.build();
        Struct struct = new Struct(whole).put("open", 1).put("secret", "sibling");
        return new SchemaAndValue(whole, value == null ? struct : struct.put("value", value));
    }

    private static List<Place> places() {
        return List.of(
                new Place("field", "value", true, (schema, value) -> struct(schema, value, false)),
                new Place("nested field", "inner.value", true, (schema, value) -> {
                    SchemaAndValue inner = struct(schema, value, true);
                    Schema outer = SchemaBuilder.struct().field("inner", inner.schema()).field("absent", inner.schema()).field("secret",
                            Schema.STRING_SCHEMA).build();
                    return new SchemaAndValue(outer, new Struct(outer).put("inner", inner.value()).put("secret", "sibling"));
                }),
                new Place("elements", "value", false, (schema, value) -> struct(SchemaBuilder.array(schema).build(),
                        Collections.singletonList(value), false)),
                new Place("values of a map", "value.*", false, (schema, value) ->
                        struct(SchemaBuilder.map(Schema.STRING_SCHEMA, schema).optional().build(), Collections.singletonMap("k", value),
                                false)),
                new Place("structs of an array", "value.value", true, (schema, value) -> {
                    SchemaAndValue inner = struct(schema, value, false);
                    return struct(SchemaBuilder.array(inner.schema()).build(), List.of(inner.value(), inner.value()), false);
                }),
                new Place("structs of a map", "value.*.value", true, (schema, value) -> {
                    SchemaAndValue inner = struct(schema, value, false);
                    return struct(SchemaBuilder.map(Schema.STRING_SCHEMA, inner.schema()).build(), Map.of("k", inner.value()), false);
                }),
                new Place("arrays of an array", "value", false, (schema, value) ->
                        struct(SchemaBuilder.array(SchemaBuilder.array(schema).build()).build(), List.of(Collections.singletonList(value)),
                                false)),
                new Place("root", ".", true, SchemaAndValue::new));
    }

    private Transformation<SourceRecord> transform(boolean isSealing, String fields, boolean isReplacing) {
        return transforms.computeIfAbsent(isSealing + fields + isReplacing, key -> {
            Transformation<SourceRecord> transform = isSealing ? new EncryptFields.Value<>() : new DecryptFields.Value<>();
            Map<String, String> settings = new HashMap<>(Map.of(
                    "engine.addresses", engine.address, "engine.ca", engine.file("ca.pem").toString(), "engine.certificate",
                            engine.file("dev.pem").toString(),
                    "engine.key", engine.file("dev.key").toString(), "app", Engine.APP, "fields", fields));
            settings.put("replace.null.with.default", Boolean.toString(isReplacing));
            if (isSealing) {
                settings.put("keying", "session");
            }
            transform.configure(settings);
            return transform;
        });
    }

    /** The converter's output, or the class of its error. */
    private static String json(SourceRecord record, boolean isReplacing) {
        try (JsonConverter converter = new JsonConverter()) {
            converter.configure(Map.of("schemas.enable", "false", "replace.null.with.default", Boolean.toString(isReplacing)), false);
            byte[] bytes = converter.fromConnectData("topic", record.valueSchema(), record.value());
            return bytes == null ? "tombstone" : new String(bytes, StandardCharsets.UTF_8);
        } catch (DataException error) {
            return error.getClass().getName();
        }
    }

    private static SourceRecord record(Schema schema, Object value) {
        return new SourceRecord(Map.of(), Map.of(), "topic", 0, Schema.STRING_SCHEMA, "key", schema, value, 17L);
    }

    @Test
    void everySchemaAtEveryPlace() {
        int count = 0;
        for (Type type : types()) {
            for (Place place : places()) {
                for (int bits = 0; bits < 16; bits++) {
                    boolean isOptional = (bits & 1) != 0;
                    boolean hasDefault = (bits & 2) != 0;
                    boolean isNull = (bits & 4) != 0;
                    boolean isReplacing = (bits & 8) != 0;
                    if (isNull && !isOptional && !(hasDefault && place.takesAbsent)) {
                        continue;
                    }
                    SchemaBuilder builder = type.builder.get();
                    builder = isOptional ? builder.optional() : builder;
                    Schema schema = (hasDefault ? builder.defaultValue(type.other) : builder).build();
                    SchemaAndValue whole = place.wrap.around(schema, isNull ? null : type.value);
                    String name = type.name + ", " + place.name + (isOptional ? ", optional" : "") + (hasDefault ? ", default" : "")
                            + (isNull ? ", null" : "")
                            + (isReplacing ? ", replacing" : "");
                    selected(name, place.path, record(whole.schema(), whole.value()), isReplacing);
                    count++;
                    if (!place.path.equals(".")) {
                        sibling(name, record(whole.schema(), whole.value()), isReplacing);
                        count++;
                    }
                }
            }
        }
        transforms.values().forEach(Transformation::close);
        assertTrue(count >= AT_LEAST, () -> "combinations");
        System.out.println("kafka: " + count + " combinations");
    }

    private void selected(String name, String path, SourceRecord record, boolean isReplacing) {
        SourceRecord sealed = transform(true, path, isReplacing).apply(record);
        if (sealed.value() instanceof Struct struct) {
            struct.validate();
        }
        SourceRecord opened = transform(false, path, isReplacing).apply(sealed);
        String before = json(record, isReplacing);
        // Null of a required field is its default; the converter alone would fail.
        boolean isDefault = isReplacing || before.equals(DataException.class.getName());
        String expected = json(record, isDefault);
        assertEquals(expected, json(opened, isDefault), name);
        if (!expected.contains("true")) {
            for (String plaintext : List.of("text", "default", "101", "102", "9000000", "e-7", "E-7", "10.1", "20.2", ":5000", ":6000",
                    ":7000", ":8000")) {
                assertFalse(json(sealed, true).replaceAll("ev:[^\"]*", "").contains(plaintext), () -> name + ": " + json(sealed, true));
            }
        }
        // Null that stays null is not the default either way.
        if (expected.equals("tombstone")) {
            assertEquals("tombstone", json(sealed, true), name);
        }
    }

    private void sibling(String name, SourceRecord record, boolean isReplacing) {
        SourceRecord sealed = transform(true, "secret", isReplacing).apply(record);
        Struct before = (Struct) record.value();
        Struct after = (Struct) sealed.value();
        for (Field field : record.valueSchema().fields()) {
            if (!field.name().equals("secret")) {
                assertEquals(field.schema(), sealed.valueSchema().field(field.name()).schema(), name);
                assertEquals(before.getWithoutDefault(field.name()), after.getWithoutDefault(field.name()), name);
            }
        }
        assertTrue(after.getString("secret").startsWith("ev:"), name);
        SourceRecord opened = transform(false, "secret", isReplacing).apply(sealed);
        assertEquals(json(record, isReplacing), json(opened, isReplacing), name);
        assertEquals(record.valueSchema().isOptional(), opened.valueSchema().isOptional(), name);
    }

    @Test
    void nullOfAnOptionalFieldStaysNullIfTheSettingSaysSo() {
        Schema schema = SchemaBuilder.struct().field("value", SchemaBuilder.string().optional().defaultValue("default").build()).build();
        Struct sealed = (Struct) transform(true, "value", false).apply(record(schema, new Struct(schema))).value();
        assertNull(sealed.get("value"));
        Struct replaced = (Struct) transform(true, "value", true).apply(record(schema, new Struct(schema))).value();
        assertTrue(replaced.getString("value").startsWith("ev:"));
    }

    @Test
    void aValueThatWasSealedTwiceKeepsItsType() {
        Schema date = SchemaBuilder.int32().name(Date.LOGICAL_NAME).version(1).parameter("own", "x").build();
        for (SchemaAndValue value : List.of(new SchemaAndValue(Schema.INT32_SCHEMA, 5),
                new SchemaAndValue(date, new java.util.Date(86_400_000L)))) {
            SourceRecord record = record(value.schema(), value.value());
            for (int round = 0; round < 3; round++) {
                record = transform(true, ".", true).apply(record);
                assertEquals(Schema.Type.STRING, record.valueSchema().type());
            }
            for (int round = 0; round < 3; round++) {
                record = transform(false, ".", true).apply(record);
            }
            assertEquals(value.schema(), record.valueSchema());
            assertEquals(value.value(), record.value());
        }
    }

    @Test
    void jsonTextInBuffersOfEveryKind() {
        byte[] json = "{\"card\": \"4111\", \"open\": 1}".getBytes(StandardCharsets.UTF_8);
        ByteBuffer whole = ByteBuffer.allocate(json.length + 5);
        whole.position(3);
        whole.put(json).flip().position(3);
        ByteBuffer direct = ByteBuffer.allocateDirect(json.length).put(json).flip();
        for (ByteBuffer buffer : List.of(ByteBuffer.wrap(json), whole, whole.slice(), direct, direct.asReadOnlyBuffer(),
                whole.asReadOnlyBuffer())) {
            for (Schema schema : Arrays.asList(Schema.BYTES_SCHEMA, null,
                    SchemaBuilder.bytes().optional().defaultValue(ByteBuffer.wrap(json)).build())) {
                ByteBuffer untouched = buffer.duplicate();
                Map<String, String> settings = new HashMap<>(Map.of(
                        "engine.addresses", engine.address, "engine.ca", engine.file("ca.pem").toString(), "engine.certificate",
                                engine.file("dev.pem").toString(),
                        "engine.key", engine.file("dev.key").toString(), "app", Engine.APP, "select", "$.card"));
                try (Transformation<SourceRecord> sealing = new EncryptFields.Value<>();
                        Transformation<SourceRecord> opening = new DecryptFields.Value<>()) {
                    sealing.configure(settings);
                    opening.configure(settings);
                    SourceRecord sealed = sealing.apply(record(schema, buffer));
                    assertEquals(untouched.position(), buffer.position());
                    assertEquals(untouched.limit(), buffer.limit());
                    String text = StandardCharsets.UTF_8.decode(((ByteBuffer) sealed.value()).duplicate()).toString();
                    assertTrue(text.startsWith("{\"card\": \"ev:") && text.endsWith(", \"open\": 1}"), text);
                    assertArrayEquals(json, Leaf.bytes(opening.apply(sealed).value()));
                    if (schema != null && schema.defaultValue() != null) {
                        assertNull(sealed.valueSchema().defaultValue());
                        String replaced = StandardCharsets.UTF_8.decode((ByteBuffer) sealing.apply(record(schema,
                                null)).value()).toString();
                        assertTrue(replaced.startsWith("{\"card\": \"ev:"), replaced);
                    }
                }
            }
        }
    }
}
