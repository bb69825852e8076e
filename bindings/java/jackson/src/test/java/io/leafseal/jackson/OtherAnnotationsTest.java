package io.leafseal.jackson;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.annotation.JsonAnyGetter;
import com.fasterxml.jackson.annotation.JsonAnySetter;
import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonIdentityInfo;
import com.fasterxml.jackson.annotation.JsonKey;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.annotation.JsonRawValue;
import com.fasterxml.jackson.annotation.JsonTypeId;
import com.fasterxml.jackson.annotation.JsonTypeInfo;
import com.fasterxml.jackson.annotation.JsonUnwrapped;
import com.fasterxml.jackson.annotation.JsonValue;
import com.fasterxml.jackson.annotation.ObjectIdGenerators;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.json.UTF8JsonGenerator;
import com.fasterxml.jackson.databind.DeserializationContext;
import com.fasterxml.jackson.databind.JsonDeserializer;
import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.JsonSerializer;
import com.fasterxml.jackson.databind.MapperFeature;
import com.fasterxml.jackson.databind.Module;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.SerializerProvider;
import com.fasterxml.jackson.databind.annotation.JsonDeserialize;
import com.fasterxml.jackson.databind.annotation.JsonPOJOBuilder;
import com.fasterxml.jackson.databind.annotation.JsonSerialize;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.module.SimpleModule;
import com.fasterxml.jackson.databind.util.StdConverter;
import com.fasterxml.jackson.databind.util.TokenBuffer;
import com.fasterxml.jackson.dataformat.cbor.databind.CBORMapper;
import com.fasterxml.jackson.dataformat.csv.CsvMapper;
import com.fasterxml.jackson.dataformat.csv.CsvSchema;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Cases that users of Jackson have reported: values after encrypted ones, trees, and annotations beside {@link Encrypted}. */
class OtherAnnotationsTest extends WithEngine {
    private static ObjectMapper mapper;
    private static final ObjectMapper PLAIN = new ObjectMapper();

    @BeforeAll
    static void start() {
        mapper = new ObjectMapper().registerModule(LeafsealModule.of(client));
    }

    private static Module module() {
        return LeafsealModule.of(client);
    }

    public static class Ids {
        public UUID id = Shapes.ID;
        public byte[] bytes = {62, -1, 63};
    }

    @Test
    void typesWithoutEncryptedPropertiesAreNotTouched() throws Exception {
        Ids ids = new Ids();
        for (Object value : List.of(ids, List.of(ids), Map.of("k", ids), new Object[] {ids, Shapes.ID}, Shapes.ID)) {
            assertEquals(PLAIN.valueToTree(value), mapper.<JsonNode>valueToTree(value));
            assertEquals(PLAIN.writeValueAsString(PLAIN.convertValue(value, Object.class)),
                    PLAIN.writeValueAsString(mapper.convertValue(value, Object.class)));
        }
        List<Class<?>> seen = new ArrayList<>();
        SimpleModule casting = new SimpleModule().addSerializer(Ids.class, new JsonSerializer<>() {
            @Override
            public void serialize(Ids value, JsonGenerator json, SerializerProvider provider) throws IOException {
                seen.add(json.getClass());
                json.writeNull();
            }
        });
        ObjectMapper own = new ObjectMapper().registerModule(module()).registerModule(casting);
        own.writeValueAsBytes(ids);
        own.valueToTree(ids);
        assertEquals(UTF8JsonGenerator.class, seen.get(0));
        assertTrue(TokenBuffer.class.isAssignableFrom(seen.get(1)));
    }

    public static class After {
        @Encrypted
        public String secret = "s";
        public UUID id = Shapes.ID;
        public byte[] bytes = {62, -1, 63};
    }

    @Test
    void valuesAfterAnEncryptedOneAreWrittenAsTheFormatDoes() throws Exception {
        assertEquals("\"" + Shapes.ID + "\"", mapper.readTree(mapper.writeValueAsBytes(new After())).get("id").toString());
        JsonNode tree = mapper.valueToTree(new After());
        assertEquals(PLAIN.valueToTree(new After()).get("id"), tree.get("id"));
        assertEquals(PLAIN.valueToTree(new After()).get("bytes"), tree.get("bytes"));
        assertTrue(isEnvelope(tree.get("secret")));
        CBORMapper cbor = CBORMapper.builder().addModule(module()).build();
        JsonNode binary = cbor.readTree(cbor.writeValueAsBytes(new After()));
        assertTrue(binary.get("id").isBinary() && binary.get("bytes").isBinary());
        for (int round = 0; round < 2; round++) {
            ObjectMapper url = new ObjectMapper().setBase64Variant(com.fasterxml.jackson.core.Base64Variants.MODIFIED_FOR_URL);
            ObjectMapper known = round == 0 ? url : url.registerModule(module());
            assertEquals("Pv8_", known.readTree(known.writeValueAsBytes(new After())).get("bytes").textValue());
        }
    }

    public static class Poly {
        @Encrypted
        public List<Values.Means> list = List.of(new Values.Bank(), new Values.Cash());
        @Encrypted
        public Map<String, Values.Means> map = Map.of("k", new Values.Bank());
        @Encrypted
        public Values.Means[] array = {new Values.Bank()};
        @Encrypted
        @JsonTypeInfo(use = JsonTypeInfo.Id.CLASS)
        public List<Object> open = List.of(new Values.Bank());
    }

    @Test
    void polymorphicValuesInEncryptedContainersComeBack() throws Exception {
        String json = mapper.writeValueAsString(new Poly());
        assertFalse(json.contains("bank") || json.contains("DE02"), json);
        Poly read = mapper.readValue(json, Poly.class);
        assertEquals("DE02", ((Values.Bank) read.list.get(0)).iban);
        assertEquals(Values.Cash.class, read.list.get(1).getClass());
        assertEquals("DE02", ((Values.Bank) read.map.get("k")).iban);
        assertEquals("DE02", ((Values.Bank) read.array[0]).iban);
        assertEquals("DE02", ((Values.Bank) read.open.get(0)).iban);
    }

    public static class Node {
        @Encrypted
        public Node next;
        @Encrypted
        public String name = "n";
    }

    public record Line(int number, @Encrypted String secret, UUID id) {}

    @Test
    void recursiveTypesAndRows() throws Exception {
        Node node = new Node();
        node.next = new Node();
        node.next.name = "inner";
        assertEquals("inner", mapper.readValue(mapper.writeValueAsString(node), Node.class).next.name);
        CsvMapper csv = CsvMapper.builder().addModule(module()).build();
        CsvSchema schema = csv.schemaFor(Line.class).withHeader();
        String text = csv.writer(schema).writeValueAsString(List.of(new Line(1, "a", Shapes.ID), new Line(2, null, null)));
        assertTrue(text.matches("id,number,secret\n\"" + Shapes.ID + "\",1,\"ev:[^,]*:\\$\"\n,2,\n"), text);
    }

    @JsonDeserialize(builder = Account.Builder.class)
    public static final class Account {
        private final String iban;

        Account(String iban) {
            this.iban = iban;
        }

        @Encrypted(role = "support")
        public String getIban() {
            return iban;
        }

        @JsonPOJOBuilder(withPrefix = "")
        public static final class Builder {
            private String known;

            public Builder iban(String value) {
                known = value;
                return this;
            }

            public Account build() {
                return new Account(known);
            }
        }
    }

    @Test
    void aBuilderDecryptsWhatTheClassEncrypts() throws Exception {
        String json = mapper.writeValueAsString(new Account("DE02"));
        assertTrue(isEnvelope(PLAIN.readTree(json).get("iban")));
        assertEquals("DE02", mapper.readValue(json, Account.class).getIban());
        String other = "{\"iban\":\"" + client.encrypt("DE02") + "\"}";
        assertThrows(JsonMappingException.class, () -> mapper.readValue(other, Account.class), "the role of the class");
    }

    public record Hostile(@JsonRawValue @Encrypted String raw, @Encrypted String after) {}

    @Test
    void rawTextCannotReachOtherValues() throws Exception {
        JsonNode tree = PLAIN.readTree(mapper.writeValueAsString(new Hostile("{\"a\":[1]}", "b")));
        assertTrue(isEnvelope(tree.at("/raw/a/0")) && isEnvelope(tree.get("after")));
        for (String raw : List.of("1},{\"after\":\"x\"", "1,\"after\":\"x\"", "1]", "", "1 2", "{", "tru", "\"secret")) {
            JsonMappingException error = assertThrows(JsonMappingException.class, () -> mapper.writeValueAsString(new Hostile(raw, "b")),
                    raw);
            assertFalse(error.getMessage().contains("secret"), error.getMessage());
        }
    }

    public static class AnyGetter {
        @JsonAnyGetter
        @Encrypted
        public Map<String, String> any() {
            return Map.of("k", "v");
        }
    }

    public static class AnySetter {
        @JsonAnySetter
        @Encrypted
        public Map<String, String> any = new LinkedHashMap<>();
    }

    public static class Unwrapped {
        @JsonUnwrapped
        @Encrypted
        public Ids ids = new Ids();
    }

    public static class External {
        @JsonTypeInfo(use = JsonTypeInfo.Id.CLASS, include = JsonTypeInfo.As.EXTERNAL_PROPERTY, property = "kind")
        @Encrypted
        public Object value = new Ids();
    }

    public record ValueClass(@JsonValue @Encrypted String value) {}

    public static class HiddenValue {
        @Encrypted
        public String value = "v";

        @JsonValue
        public String text() {
            return value;
        }
    }

    public static class Delegating {
        private final String value;

        @JsonCreator(mode = JsonCreator.Mode.DELEGATING)
        public Delegating(@Encrypted String value) {
            this.value = value;
        }

        @JsonProperty
        public String value() {
            return value;
        }
    }

    public static class DelegatingMap {
        @Encrypted
        public String value = "v";

        public DelegatingMap() {}

        @JsonCreator(mode = JsonCreator.Mode.DELEGATING)
        public DelegatingMap(Map<String, String> map) {
            value = map.get("value");
        }
    }

    public interface Face {
        String getNumber();
    }

    @JsonSerialize(as = Face.class)
    public static class Faced implements Face {
        @Override
        @Encrypted
        public String getNumber() {
            return "4111";
        }
    }

    @JsonSerialize(using = ToText.class)
    @JsonDeserialize(using = FromText.class)
    public static class Custom {
        @Encrypted
        public String number = "4111";
    }

    public static final class ToText extends JsonSerializer<Custom> {
        @Override
        public void serialize(Custom value, JsonGenerator json, SerializerProvider provider) throws IOException {
            json.writeString(value.number);
        }
    }

    public static final class FromText extends JsonDeserializer<Custom> {
        @Override
        public Custom deserialize(JsonParser parser, DeserializationContext context) {
            return new Custom();
        }
    }

    @JsonSerialize(converter = ToIds.class)
    public static class Converted {
        @Encrypted
        public String number = "4111";
    }

    public static final class ToIds extends StdConverter<Converted, Ids> {
        @Override
        public Ids convert(Converted value) {
            return new Ids();
        }
    }

    @JsonIdentityInfo(generator = ObjectIdGenerators.PropertyGenerator.class, property = "id")
    public static class Identified {
        @Encrypted
        public String id = "4111";
    }

    @JsonTypeInfo(use = JsonTypeInfo.Id.NAME, include = JsonTypeInfo.As.EXISTING_PROPERTY, property = "kind")
    public static class Kinded {
        @Encrypted
        public String kind = "k";
    }

    @JsonTypeInfo(use = JsonTypeInfo.Id.NAME)
    public static class OwnTypeId {
        @JsonTypeId
        @Encrypted
        public String kind = "k";
    }

    public static class OwnKey {
        @JsonKey
        @Encrypted
        public String key = "4111";
    }

    @Test
    void annotationsThatCannotHaveTheirEffectAreRefused() {
        List<Object> written = List.of(new AnyGetter(), new Unwrapped(), new External(), new ValueClass("4111"), new HiddenValue(),
                new Faced(), new Custom(), new Converted(), new Identified(), new Kinded(), new OwnTypeId(), Map.of(new OwnKey(), 1),
                List.of(new ValueClass("4111")), Map.of("k", new Faced()));
        for (Object value : written) {
            for (int round = 0; round < 2; round++) {
                JsonMappingException error = assertThrows(JsonMappingException.class, () -> mapper.writeValueAsString(value),
                        value.getClass().getName());
                assertTrue(error.getMessage().contains("@Encrypted on") && !error.getMessage().contains("4111"), error.getMessage());
            }
            assertThrows(IllegalArgumentException.class, () -> mapper.valueToTree(value), value.getClass().getName());
        }
        for (Class<?> type : List.of(AnySetter.class, Unwrapped.class, External.class, ValueClass.class, Delegating.class,
                DelegatingMap.class, Custom.class)) {
            JsonMappingException error = assertThrows(JsonMappingException.class, () -> mapper.readValue("{}", type), type.getName());
            assertTrue(error.getMessage().contains("@Encrypted on"), error.getMessage());
        }
    }

    public static class PrivateField {
        @Encrypted
        private String number = "4111";

        public String getNumber() {
            return number;
        }

        public void setNumber(String value) {
            number = value;
        }
    }

    @Test
    void anAnnotationOrModuleThatJacksonWouldIgnoreIsRefused() throws Exception {
        assertTrue(isEnvelope(PLAIN.readTree(mapper.writeValueAsString(new PrivateField())).get("number")));
        ObjectMapper strict = JsonMapper.builder().disable(MapperFeature.INFER_PROPERTY_MUTATORS).addModule(module()).build();
        assertThrows(JsonMappingException.class, () -> strict.writeValueAsString(new PrivateField()));
        Module other = LeafsealModule.builder(client).plaintextAllowed(true).build();
        assertThrows(IllegalStateException.class, () -> mapper.registerModule(other));
        ObjectMapper blind = JsonMapper.builder().disable(MapperFeature.USE_ANNOTATIONS).build();
        assertThrows(IllegalStateException.class, () -> blind.registerModule(other));
    }

    public static class Incoming {
        private String secret;

        @Encrypted
        public void setSecret(String value) {
            secret = value;
        }
    }

    @Test
    void aClassThatIsOnlyReadHasNothingToWrite() throws Exception {
        Incoming incoming = mapper.readValue("{\"secret\":\"" + client.encrypt("4111") + "\"}", Incoming.class);
        assertEquals("4111", incoming.secret);
        assertEquals("{}", mapper.writer().without(SerializationFeature.FAIL_ON_EMPTY_BEANS).writeValueAsString(incoming));
    }

    public record Pan(@JsonValue String number) {
        @JsonCreator(mode = JsonCreator.Mode.DELEGATING)
        public Pan {}
    }

    public record Cards(@Encrypted Pan main, @Encrypted List<Pan> others, Pan open) {}

    @Test
    void propertiesOfValueClassesAreSealedOnce() throws Exception {
        Cards cards = new Cards(new Pan("1"), List.of(new Pan("2")), new Pan("3"));
        String json = mapper.writeValueAsString(cards);
        assertEquals("1", client.decrypt(PLAIN.readTree(json).get("main").textValue()));
        assertEquals(cards, mapper.readValue(json, Cards.class));
    }
}
