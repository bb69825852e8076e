package io.leafseal.jackson;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.annotation.JsonAlias;
import com.fasterxml.jackson.annotation.JsonFormat;
import com.fasterxml.jackson.annotation.JsonIgnore;
import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.annotation.JsonPropertyOrder;
import com.fasterxml.jackson.annotation.JsonSubTypes;
import com.fasterxml.jackson.annotation.JsonTypeInfo;
import com.fasterxml.jackson.annotation.JsonUnwrapped;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.DeserializationContext;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonDeserializer;
import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.MapperFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.annotation.JsonDeserialize;
import com.fasterxml.jackson.databind.annotation.JsonPOJOBuilder;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.dataformat.cbor.databind.CBORMapper;
import com.fasterxml.jackson.dataformat.yaml.YAMLMapper;
import io.leafseal.client.DecryptOptions;
import io.leafseal.client.EncryptOptions;
import io.leafseal.client.Scheme;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Values of classes with {@link Bound} open in their own record and property, and in no other. */
class BoundTest extends WithEngine {
    private static final DecryptOptions DECRYPT = DecryptOptions.defaults();

    private static ObjectMapper mapper;

    @BeforeAll
    static void start() {
        mapper = new ObjectMapper().registerModule(LeafsealModule.of(client));
    }

    /** The id comes after what is bound to it. */
    @Bound(model = "account")
    @JsonPropertyOrder({"iban", "note", "owner", "id"})
    public record Account(String id, @Encrypted String iban, @Encrypted(role = "support") String note, String owner) {}

    @Bound(model = "card", id = "card_no")
    public static class Card {
        @JsonProperty("card_no")
        public long number;
        @Encrypted
        public Map<String, Object> data = new LinkedHashMap<>();
        @Encrypted
        @JsonProperty("limit_eur")
        public Integer limit;
        public List<Card> others;

        public Card() {}

        Card(long number, Map<String, Object> data, Integer limit) {
            this.number = number;
            this.data = data;
            this.limit = limit;
        }
    }

    private static ObjectNode tree(Object value) throws Exception {
        return (ObjectNode) new ObjectMapper().readTree(mapper.writeValueAsString(value));
    }

    private static String refusal(Executable call) {
        return assertThrows(JsonMappingException.class, call).getMessage();
    }

    private static void refuses(String words, Executable call) {
        String message = refusal(call);
        assertTrue(message.contains(words), message);
    }

    @Test
    void theContextIsModelIdAndProperty() throws Exception {
        for (String id : List.of("7", "a/b", "\"quoted\" \\ ü 😀\n", " ")) {
            Account account = new Account(id, "DE02", "n", "Ada");
            ObjectNode tree = tree(account);
            assertEquals("DE02", client.decrypt(tree.get("iban").textValue(), DECRYPT.context("account/" + id + "/iban")));
            assertEquals("n", client.decrypt(tree.get("note").textValue(), DECRYPT.role("support").context("account/" + id + "/note")));
            assertEquals(account, mapper.readValue(tree.toString(), Account.class));
        }
        ObjectNode tree = tree(new Card(Long.MAX_VALUE, Map.of("a", List.of(1)), 5));
        assertEquals(5L, client.decrypt(tree.get("limit_eur").textValue(), DECRYPT.context("card/9223372036854775807/limit_eur")));
        String inner = tree.get("data").get("a").get(0).textValue();
        assertEquals(1L, client.decrypt(inner, DECRYPT.context("card/9223372036854775807/data")));
        assertEquals(5, mapper.readValue(tree.toString(), Card.class).limit);
    }

    @Test
    void aDocumentOfRecordsIsStillOneCallForEachRole() throws Exception {
        List<Card> cards = IntStream.range(0, 50).mapToObj(index -> {
            Card card = new Card(index, Map.of("n", index, "s", "x" + index), index);
            card.others = List.of(new Card(1000 + index, Map.of("n", "inner"), null));
            return card;
        }).toList();
        String json = mapper.writeValueAsString(cards);
        assertEquals("encrypt_document", calls());
        forgetCalls();
        List<Card> read = mapper.readValue(json, new TypeReference<>() {});
        assertEquals("decrypt_document", calls());
        for (int index = 0; index < 50; index++) {
            assertEquals(Map.of("n", index, "s", "x" + index), read.get(index).data);
            assertEquals(Map.of("n", "inner"), read.get(index).others.get(0).data);
            assertEquals(index, read.get(index).limit);
        }
    }

    @Test
    void aValueOfAnotherRecordOrPropertyDoesNotOpen() throws Exception {
        ObjectNode one = tree(new Account("1", "DE01", "n", "Ada"));
        ObjectNode two = tree(new Account("2", "DE02", "m", "Eve"));
        String own = one.toString();
        String symmetric = client.encrypt("DE03", EncryptOptions.defaults().scheme(Scheme.SYMMETRIC));
        String publicKey = client.encrypt("DE03", EncryptOptions.defaults().scheme(Scheme.PUBLIC_KEY));
        String ofOtherModel = client.encrypt("DE03", EncryptOptions.defaults().scheme(Scheme.SYMMETRIC).context("card/1/iban"));
        for (String text : List.of(two.get("iban").textValue(), one.get("note").textValue(), symmetric, publicKey, ofOtherModel)) {
            one.put("iban", text);
            refuses("decrypt_failed", () -> mapper.readValue(one.toString(), Account.class));
            refuses("decrypt_failed", () -> mapper.readValue("[" + own + "," + one + "]", Account[].class));
        }
        one.put("iban", "DE03");
        refuses("no envelope", () -> mapper.readValue(one.toString(), Account.class));
        // The whole record under another id.
        two.put("id", "3");
        refuses("decrypt_failed", () -> mapper.readValue(two.toString(), Account.class));
        assertEquals("DE01", mapper.readValue(own, Account.class).iban());
    }

    @Bound(model = "m")
    public static class Aliased {
        @JsonAlias("key")
        public String id;
        @Encrypted
        public String value;
    }

    @Test
    void theDocumentMustContainTheIdOnce() throws Exception {
        String account = tree(new Account("1", "DE01", null, null)).toString();
        for (String other : List.of("null", "{}", "[\"1\"]", "1.0", "true", "\"\"")) {
            refuses("must contain once", () -> mapper.readValue(account.replace("\"id\":\"1\"", "\"id\":" + other), Account.class));
        }
        refuses("must contain once", () -> mapper.readValue(account.replace("\"id\":\"1\"", "\"ID\":\"1\""), Account.class));
        // An integer is the same text, and binds as before.
        assertEquals("1", mapper.readValue(account.replace("\"id\":\"1\"", "\"id\":1"), Account.class).id());
        // Whichever of two Jackson would take: the record that is read must be the one that its values are bound to.
        refuses("must contain once", () -> mapper.readValue(account.replace("\"id\":", "\"id\":\"2\",\"id\":"), Account.class));
        Aliased value = new Aliased();
        value.id = "1";
        value.value = "v";
        String json = tree(value).toString();
        assertEquals("v", mapper.readValue(json, Aliased.class).value);
        refuses("must contain once", () -> mapper.readValue(json.replace("\"id\"", "\"key\""), Aliased.class));
        refuses("must contain once", () -> mapper.readValue(json.replace("}", ",\"key\":\"2\"}"), Aliased.class));
        ObjectMapper anyCase = JsonMapper.builder().enable(MapperFeature.ACCEPT_CASE_INSENSITIVE_PROPERTIES)
                .addModule(LeafsealModule.of(client)).build();
        assertEquals("v", anyCase.readValue(json, Aliased.class).value);
        refuses("must contain once", () -> anyCase.readValue(json.replace("}", ",\"ID\":\"2\"}"), Aliased.class));
        assertNull(mapper.readValue("{\"value\":null}", Aliased.class).value);
    }

    @Test
    void anIdThatIsNotYetSetIsRefused() throws Exception {
        refuses("must be set", () -> mapper.writeValueAsString(new Account(null, "DE01", null, null)));
        refuses("must be set", () -> mapper.writeValueAsString(List.of(new Account("1", "DE01", null, null), new Account("", "DE01", null, null))));
        assertTrue(calls().isEmpty(), "nothing left the process");
        String nothing = mapper.writeValueAsString(new Account(null, null, null, "Ada"));
        assertEquals("Ada", mapper.readValue(nothing, Account.class).owner());
    }

    @Bound(model = "m")
    @JsonInclude(JsonInclude.Include.NON_DEFAULT)
    public static class Omitting {
        public int id;
        @Encrypted
        public String value;
    }

    @Bound(model = "m")
    public record OfUuid(UUID id, @Encrypted String value) {}

    @Bound(model = "m")
    public record OfUuidText(@JsonFormat(shape = JsonFormat.Shape.STRING) UUID id, @Encrypted String value) {}

    @Test
    void theIdIsWhatTheDocumentHas() throws Exception {
        Omitting omitting = new Omitting();
        omitting.value = "v";
        refuses("must be set", () -> mapper.writeValueAsString(omitting));
        omitting.id = 1;
        assertEquals("v", mapper.readValue(mapper.writeValueAsString(omitting), Omitting.class).value);
        OfUuid value = new OfUuid(UUID.randomUUID(), "v");
        String envelope = tree(value).get("value").textValue();
        assertEquals("v", client.decrypt(envelope, DECRYPT.context("m/" + value.id() + "/value")));
        assertEquals(value, mapper.readValue(mapper.writeValueAsString(value), OfUuid.class));
        assertEquals(value, mapper.treeToValue(mapper.valueToTree(value), OfUuid.class));
        assertEquals(value, mapper.convertValue(mapper.convertValue(value, Map.class), OfUuid.class));
        // CBOR has bytes for it, which are no text.
        ObjectMapper cbor = new CBORMapper().registerModule(LeafsealModule.of(client));
        refuses("must be set", () -> cbor.writeValueAsBytes(value));
        OfUuidText text = new OfUuidText(value.id(), "v");
        assertEquals(text, cbor.readValue(cbor.writeValueAsBytes(text), OfUuidText.class));
        for (ObjectMapper other : List.of(cbor, new YAMLMapper().registerModule(LeafsealModule.of(client)))) {
            Card card = new Card(7, Map.of("a", "b"), 1);
            byte[] bytes = other.writeValueAsBytes(List.of(card, new Card(8, Map.of("a", "c"), 2)));
            List<Card> read = other.readValue(bytes, new TypeReference<>() {});
            assertEquals(List.of(Map.of("a", "b"), Map.of("a", "c")), read.stream().map(one -> one.data).toList());
        }
        ObjectMapper snake = mapper.copy();
        snake.setPropertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE);
        Named named = new Named("n1", "v");
        String json = snake.writeValueAsString(named);
        assertEquals(named, snake.readValue(json, Named.class));
        assertEquals("v", client.decrypt(new ObjectMapper().readTree(json).get("secret_value").textValue(), DECRYPT.context("named/n1/secret_value")));
    }

    @Bound(model = "named", id = "record_id")
    public record Named(String recordId, @Encrypted String secretValue) {}

    @JsonTypeInfo(use = JsonTypeInfo.Id.NAME)
    @JsonSubTypes({@JsonSubTypes.Type(value = ByProperty.class, name = "p"), @JsonSubTypes.Type(value = Plain.class, name = "q")})
    public interface Shape {}

    @JsonTypeInfo(use = JsonTypeInfo.Id.NAME, include = JsonTypeInfo.As.WRAPPER_ARRAY)
    @JsonSubTypes(@JsonSubTypes.Type(value = InArray.class, name = "a"))
    public interface Wrapped {}

    @JsonTypeInfo(use = JsonTypeInfo.Id.NAME, include = JsonTypeInfo.As.WRAPPER_OBJECT)
    @JsonSubTypes(@JsonSubTypes.Type(value = InObject.class, name = "o"))
    public interface Enclosed {}

    @Bound(model = "m")
    public record ByProperty(@Encrypted String value, Shape next, String id) implements Shape {}

    public record Plain(String id, @Encrypted String value) implements Shape {}

    @Bound(model = "m")
    public record InArray(@Encrypted String value, Wrapped next, String id) implements Wrapped {}

    @Bound(model = "m")
    public record InObject(@Encrypted String value, Enclosed next, String id) implements Enclosed {}

    public record Shapes(List<Shape> shapes, Wrapped wrapped, List<Wrapped> more, Enclosed enclosed, Map<String, Enclosed> map) {}

    @Test
    void polymorphicRecordsAreBoundAsWell() throws Exception {
        InArray array = new InArray("a", new InArray("a2", null, "2"), "1");
        InObject object = new InObject("o", new InObject("o2", null, "2"), "1");
        Shapes shapes = new Shapes(List.of(new ByProperty("p", new ByProperty("p2", new Plain("x", "q"), "2"), "1"), new Plain("9", "r")), array,
                List.of(array, array), object, Map.of("k", object));
        String json = mapper.writeValueAsString(shapes);
        assertEquals(shapes, mapper.readValue(json, Shapes.class));
        JsonNode tree = new ObjectMapper().readTree(json);
        ((ObjectNode) tree.get("wrapped").get(1)).put("id", "3");
        refuses("decrypt_failed", () -> mapper.readValue(tree.toString(), Shapes.class));
    }

    /** Reads a record inside of an object of its own. */
    public static class Own extends JsonDeserializer<Account> {
        @Override
        public Account deserialize(JsonParser parser, DeserializationContext context) throws IOException {
            parser.nextToken();
            parser.nextToken();
            Account account = context.readValue(parser, Account.class);
            parser.nextToken();
            return account;
        }
    }

    public static class Owner {
        @JsonDeserialize(using = Own.class)
        public Account read;
    }

    @Bound(model = "built")
    @JsonDeserialize(builder = Built.Builder.class)
    public record Built(String id, @Encrypted String value) {
        @JsonPOJOBuilder(withPrefix = "")
        public static class Builder {
            private String id;
            private String value;

            public Builder id(String of) {
                id = of;
                return this;
            }

            public Builder value(String of) {
                value = of;
                return this;
            }

            public Built build() {
                return new Built(id, value);
            }
        }
    }

    @Test
    void buildersAndDeserializersOfTheCaller() throws Exception {
        Built built = new Built("1", "v");
        ObjectNode tree = tree(built);
        assertEquals(built, mapper.readValue(tree.toString(), Built.class));
        refuses("decrypt_failed", () -> mapper.readValue(tree.toString().replace("\"1\"", "\"2\""), Built.class));
        Account account = new Account("1", "DE01", "n", null);
        String json = "{\"read\":{\"account\":" + mapper.writeValueAsString(account) + "}}";
        assertEquals(account, mapper.readValue(json, Owner.class).read);
        refuses("decrypt_failed", () -> mapper.readValue(json.replace("\"1\"", "\"2\""), Owner.class));
    }

    public static class Base {
        @Encrypted
        public String inherited;
        public String id = "1";
    }

    @Bound(model = "sub")
    public static class Sub extends Base {}

    public static class SubSub extends Sub {}

    @Test
    void propertiesOfParentsAreBoundToo() throws Exception {
        SubSub value = new SubSub();
        value.inherited = "v";
        ObjectNode tree = tree(value);
        assertEquals("v", client.decrypt(tree.get("inherited").textValue(), DECRYPT.context("sub/1/inherited")));
        assertEquals("v", mapper.readValue(tree.toString(), SubSub.class).inherited);
        refuses("decrypt_failed", () -> mapper.readValue(tree.toString(), Base.class));
        Base base = new Base();
        base.inherited = "w";
        refuses("decrypt_failed", () -> mapper.readValue(tree(base).toString(), Sub.class));
        refuses("written as a type without it", () -> mapper.writerFor(Base.class).writeValueAsString(value));
    }

    @Bound(model = "")
    public record WithoutModel(String id, @Encrypted String value) {}

    @Bound(model = "a/b")
    public record WithSlash(String id, @Encrypted String value) {}

    @Bound(model = "m")
    public record WithoutId(@Encrypted String value) {}

    @Bound(model = "m")
    public record HidingId(@JsonIgnore String id, @Encrypted String value) {}

    @Bound(model = "m")
    public record EncryptedId(@Encrypted String id, @Encrypted String value) {}

    @Bound(model = "m")
    public record SlashedName(String id, @Encrypted @JsonProperty("a/b") String value) {}

    @Bound(model = "m")
    @JsonFormat(shape = JsonFormat.Shape.ARRAY)
    public record AsArray(String id, @Encrypted String value) {}

    public static class Unwrapping {
        @JsonUnwrapped(prefix = "x")
        public Aliased record;
    }

    @Test
    void whatCannotBeBoundIsRefused() throws Exception {
        refuses("without a slash", () -> mapper.writeValueAsString(new WithoutModel("1", "v")));
        refuses("without a slash", () -> mapper.writeValueAsString(new WithSlash("1", "v")));
        refuses("no property \"id\" that is written", () -> mapper.writeValueAsString(new WithoutId("v")));
        refuses("no property \"id\" that is written", () -> mapper.writeValueAsString(new HidingId("1", "v")));
        refuses("whose id it is", () -> mapper.writeValueAsString(new EncryptedId("1", "v")));
        refuses("whose id it is", () -> mapper.readValue("{}", EncryptedId.class));
        refuses("has a slash", () -> mapper.writeValueAsString(new SlashedName("1", "v")));
        refuses("as an array", () -> mapper.writeValueAsString(new AsArray("1", "v")));
        Unwrapping unwrapping = new Unwrapping();
        unwrapping.record = new Aliased();
        unwrapping.record.id = "1";
        unwrapping.record.value = "v";
        refuses("cannot be unwrapped", () -> mapper.writeValueAsString(unwrapping));
        // Forms in which Jackson reads a record without its names do not lead around the binding.
        String envelope = client.encrypt("DE03", EncryptOptions.defaults().scheme(Scheme.SYMMETRIC));
        refuses("cannot be read here", () -> mapper.readValue("[\"1\",\"" + envelope + "\"]", AsArray.class));
        refuses("cannot be read here", () -> mapper.readValue("{\"xid\":\"1\",\"xvalue\":\"" + envelope + "\"}", Unwrapping.class));
        ObjectMapper unwrappingArrays = mapper.copy().enable(DeserializationFeature.UNWRAP_SINGLE_VALUE_ARRAYS);
        refuses("cannot be read here", () -> unwrappingArrays.readValue("[{\"id\":\"1\",\"iban\":\"" + envelope + "\"}]", Account.class));
        assertFalse(calls().contains("decrypt_document"));
        // A value with the name of the member that the module adds.
        refuses("invalid", () -> mapper.writeValueAsString(new Card(1, Map.of("leafseal_context", "card/2/data"), null)));
    }
}
