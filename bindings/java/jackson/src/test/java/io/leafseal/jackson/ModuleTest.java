package io.leafseal.jackson;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonFormat;
import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.annotation.JsonSubTypes;
import com.fasterxml.jackson.annotation.JsonTypeInfo;
import com.fasterxml.jackson.annotation.JsonUnwrapped;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.dataformat.cbor.databind.CBORMapper;
import com.fasterxml.jackson.datatype.jsr310.JavaTimeModule;
import io.leafseal.client.CallOptions;
import io.leafseal.client.LeafsealClient;
import io.leafseal.client.LeafsealException;
import io.leafseal.client.testing.Engine;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Annotated properties through a mapper and a real engine, in both directions. */
class ModuleTest extends WithEngine {
    private static ObjectMapper mapper;

    @BeforeAll
    static void start() {
        mapper = new ObjectMapper().registerModule(new JavaTimeModule()).registerModule(LeafsealModule.of(client));
    }

    /** Every kind of property: fields, getters and setters, a constructor's parameters. */
    public static class Card {
        @Encrypted
        public String number;
        @Encrypted(role = "support")
        public BigDecimal limit;
        public String brand;

        public Card() {}

        Card(String number, String limit, String brand) {
            this.number = number;
            this.limit = limit == null ? null : new BigDecimal(limit);
            this.brand = brand;
        }
    }

    public record Holder(@Encrypted String name, @Encrypted int age, boolean isActive) {}

    public static class Account {
        private String iban;

        @Encrypted
        public String getIban() {
            return iban;
        }

        public void setIban(String value) {
            iban = value;
        }
    }

    public static final class Immutable {
        private final String secret;
        private final String open;

        @JsonCreator
        Immutable(@JsonProperty("secret") @Encrypted String secret, @JsonProperty("open") String open) {
            this.secret = secret;
            this.open = open;
        }

        @JsonProperty
        @Encrypted
        public String secret() {
            return secret;
        }

        @JsonProperty
        public String open() {
            return open;
        }
    }

    private static JsonNode tree(String json) throws Exception {
        return new ObjectMapper().readTree(json);
    }

    @Test
    void fieldsGettersRecordsAndConstructors() throws Exception {
        String json = mapper.writeValueAsString(new Card("4111", "1500.00", "visa"));
        JsonNode tree = tree(json);
        assertTrue(isEnvelope(tree.get("number")) && isEnvelope(tree.get("limit")));
        assertEquals("visa", tree.get("brand").textValue());
        String role = client.inspect(List.of(tree.get("limit").textValue()),
                CallOptions.defaults().app(Engine.APP)).get(0).role().orElseThrow();
        assertEquals("support", role);
        Card card = mapper.readValue(json, Card.class);
        assertEquals("4111", card.number);
        assertEquals(new BigDecimal("1500.00"), card.limit, "every digit");

        Holder holder = new Holder("Zoë 😀", 42, true);
        json = mapper.writeValueAsString(holder);
        assertTrue(isEnvelope(tree(json).get("name")) && isEnvelope(tree(json).get("age")));
        assertEquals(holder, mapper.readValue(json, Holder.class));

        Account account = new Account();
        account.setIban("DE02");
        json = mapper.writeValueAsString(account);
        assertTrue(isEnvelope(tree(json).get("iban")));
        assertEquals("DE02", mapper.readValue(json, Account.class).getIban());

        json = mapper.writeValueAsString(new Immutable("a", "b"));
        assertTrue(isEnvelope(tree(json).get("secret")));
        Immutable immutable = mapper.readValue(json, Immutable.class);
        assertEquals("a b", immutable.secret + " " + immutable.open);
    }

    @Test
    void aDocumentIsOneCallForEachRole() throws Exception {
        List<Card> cards = IntStream.range(0, 100).mapToObj(index -> new Card("4111" + index, null, "visa")).toList();
        String json = mapper.writeValueAsString(Map.of("cards", cards, "note", "x"));
        assertEquals("encrypt_document", calls());
        forgetCalls();
        Map<String, Object> ignored = mapper.readValue(json, new TypeReference<>() {});
        assertEquals("", calls(), "a map without a type is not decrypted");
        assertTrue(ignored.get("cards").toString().contains("ev:"));

        json = mapper.writeValueAsString(cards);
        forgetCalls();
        List<Card> read = mapper.readValue(json, new TypeReference<>() {});
        assertEquals("decrypt_document", calls());
        assertEquals(cards.stream().map(card -> card.number).toList(), read.stream().map(card -> card.number).toList());

        forgetCalls();
        json = mapper.writeValueAsString(List.of(new Card("1", "2", "a"), new Card("3", "4", "b")));
        mapper.readValue(json, Card[].class);
        assertEquals("encrypt_document encrypt_document decrypt_document decrypt_document", calls());

        forgetCalls();
        assertEquals("[]", mapper.writeValueAsString(new Card[0]));
        assertEquals("{\"number\":null,\"limit\":null,\"brand\":null}", mapper.writeValueAsString(new Card()));
        assertNull(mapper.readValue("{\"number\":null}", Card.class).number);
        assertNull(mapper.readValue("{}", Card.class).number);
        assertEquals("", calls(), "nothing to encrypt is no call");
    }

    public record Page<T>(List<T> content, Object first) {}

    @Test
    void genericAndPolymorphicValuesTakeFewCalls() throws Exception {
        List<Card> cards = IntStream.range(0, 20).mapToObj(index -> new Card("4111" + index, null, "visa")).toList();
        String json = mapper.writeValueAsString(new Page<>(cards, cards.get(0)));
        assertEquals("encrypt_document", calls(), "the type of the page does not show what it contains");
        forgetCalls();
        Page<Card> page = mapper.readValue(json, new TypeReference<>() {});
        assertEquals("decrypt_document", calls());
        assertEquals("411119", page.content().get(19).number);
        Wallet wallet = new Wallet();
        wallet.inner = null;
        String means = mapper.writerFor(new TypeReference<List<Means>>() {}).writeValueAsString(List.of(new Bank(), wallet, new Bank()));
        forgetCalls();
        List<Means> read = mapper.readValue(means, new TypeReference<>() {});
        assertEquals("4111", ((Wallet) read.get(1)).card.number);
        assertEquals("decrypt_document decrypt_document decrypt_document", calls(), "one for each value whose type is in the document");
    }

    public enum Level { LOW, HIGH }

    /** A value of every type that Jackson knows. */
    public static class Everything {
        @Encrypted
        public long large = Long.MIN_VALUE;
        @Encrypted
        public BigInteger huge = BigInteger.TEN.pow(50);
        @Encrypted
        public BigDecimal exact = new BigDecimal("0.10000000000000000000000000001");
        @Encrypted
        public double real = 1e-300;
        @Encrypted
        public float single = 0.1f;
        @Encrypted
        public boolean flag = true;
        @Encrypted
        public Level level = Level.HIGH;
        @Encrypted
        public byte[] bytes = {0, -1, 127};
        @Encrypted
        public LocalDate day = LocalDate.of(2026, 11, 24);
        @Encrypted
        @JsonFormat(shape = JsonFormat.Shape.STRING, pattern = "yyyy/MM/dd", timezone = "UTC")
        public Date date = new Date(0);
        @Encrypted
        public List<BigDecimal> list = new ArrayList<>(List.of(new BigDecimal("1.10"), new BigDecimal("2")));
        @Encrypted
        public Map<String, Object> map = new LinkedHashMap<>(Map.of("a", List.of(1, "x", Map.of("b", true))));
        @Encrypted
        public Holder holder = new Holder("nested", 1, false);
        @Encrypted
        public String empty = "";
        @Encrypted
        public List<String> none = new ArrayList<>();
    }

    @Test
    void valuesOfEveryTypeComeBack() throws Exception {
        Everything before = new Everything();
        String json = mapper.writeValueAsString(before);
        assertScalars(tree(json));
        Everything after = mapper.readValue(json, Everything.class);
        assertEquals(new ObjectMapper().registerModule(new JavaTimeModule()).valueToTree(before).toString(),
                new ObjectMapper().registerModule(new JavaTimeModule()).valueToTree(after).toString());
        assertArrayEquals(before.bytes, after.bytes);
        assertEquals(before.exact, after.exact);
        assertEquals(before.single, after.single);
        // One for each property of the encrypted record inside, one for everything, and back: one for everything, one for the record.
        assertEquals("encrypt_document encrypt_document encrypt_document decrypt_document decrypt_document", calls());
    }

    /** Every scalar is an envelope. */
    private static void assertScalars(JsonNode node) {
        if (node.isContainerNode()) {
            node.forEach(ModuleTest::assertScalars);
        } else {
            assertTrue(isEnvelope(node), node::toString);
        }
    }

    @JsonTypeInfo(use = JsonTypeInfo.Id.NAME, property = "kind")
    @JsonSubTypes({@JsonSubTypes.Type(value = Bank.class, name = "bank"), @JsonSubTypes.Type(value = Wallet.class, name = "wallet")})
    public interface Means {}

    public static class Bank implements Means {
        @Encrypted
        public String iban = "DE02";
    }

    public static class Wallet implements Means {
        @Encrypted
        public Means inner = new Bank();
        public Card card = new Card("4111", null, "visa");
    }

    public static class Order {
        public List<Means> means = List.of(new Bank(), new Wallet());
        @JsonUnwrapped(prefix = "main_")
        public Card card = new Card("5500", "7", "mc");
        @JsonInclude(JsonInclude.Include.NON_EMPTY)
        @Encrypted
        public String note = "";
        public JsonNode any;
        public Order parent;
    }

    @Test
    void polymorphicUnwrappedAndRecursiveTypes() throws Exception {
        Order order = new Order();
        order.parent = new Order();
        order.parent.card.number = "parent";
        String json = mapper.writerWithDefaultPrettyPrinter().writeValueAsString(order);
        JsonNode tree = tree(json);
        assertTrue(isEnvelope(tree.at("/main_number")) && isEnvelope(tree.at("/parent/main_number"))
                && isEnvelope(tree.at("/means/0/iban")));
        assertTrue(isEnvelope(tree.at("/means/1/inner/kind")) && isEnvelope(tree.at("/means/1/card/number")));
        assertFalse(tree.has("note"));
        for (String value : List.of("4111", "5500", "DE02")) {
            assertFalse(json.contains("\"" + value + "\""), value);
        }
        Order read = mapper.readValue(json, Order.class);
        assertEquals("5500", read.card.number);
        assertEquals("parent", read.parent.card.number);
        assertEquals("DE02", ((Bank) read.means.get(0)).iban);
        Wallet wallet = (Wallet) read.means.get(1);
        assertEquals("DE02", ((Bank) wallet.inner).iban);
        assertEquals("4111", wallet.card.number);
    }

    @Test
    void otherWaysThroughTheMapper() throws Exception {
        Card card = new Card("4111", null, "visa");
        JsonNode tree = mapper.valueToTree(card);
        assertTrue(isEnvelope(tree.get("number")));
        assertEquals("4111", mapper.treeToValue(tree, Card.class).number);
        assertEquals("4111", mapper.readerFor(Card.class).<Card>readValue(mapper.writer().writeValueAsBytes(card)).number);
        Card target = new Card("old", null, "old");
        mapper.readerForUpdating(target).readValue(mapper.writeValueAsString(card));
        assertEquals("4111 visa", target.number + " " + target.brand);
        try (var lines = mapper.readerFor(Card.class).<Card>readValues(mapper.writeValueAsString(card) + " "
                + mapper.writeValueAsString(card))) {
            assertEquals(2, lines.readAll().size());
        }
        assertEquals("4111", mapper.copy().readValue(mapper.copy().writeValueAsString(card), Card.class).number);
        String wrapped = mapper.copy().enable(SerializationFeature.WRAP_ROOT_VALUE).writeValueAsString(card);
        assertTrue(isEnvelope(tree(wrapped).at("/Card/number")));
        CBORMapper cbor = CBORMapper.builder().addModule(new JavaTimeModule()).addModule(LeafsealModule.of(client)).build();
        byte[] bytes = cbor.writeValueAsBytes(new Everything());
        assertEquals(new Everything().exact, cbor.readValue(bytes, Everything.class).exact);
        // Without the module the annotation has no effect.
        assertEquals("4111", new ObjectMapper().valueToTree(card).get("number").textValue());
    }

    public static class Mixed {
        @Encrypted
        public String secret;
        public String comment;
        @Encrypted
        public int number;
    }

    @Test
    void onlyAnnotatedPropertiesAreDecrypted() throws Exception {
        String envelope = client.encrypt("someone else's value");
        Mixed mixed = mapper.readValue("{\"secret\":\"" + client.encrypt("mine") + "\",\"comment\":\"" + envelope + "\"}", Mixed.class);
        assertEquals("mine", mixed.secret);
        assertEquals(envelope, mixed.comment);
        // An envelope as a value of the caller is encrypted again, and opened once.
        mixed.secret = envelope;
        assertEquals(envelope, mapper.readValue(mapper.writeValueAsString(mixed), Mixed.class).secret);
    }

    @Test
    void plaintextIsRefusedUnlessItIsAllowed() throws Exception {
        for (String value : List.of("\"4111\"", "4111", "true", "[\"" + client.encrypt("x") + "\", \"y\"]", "\"ev:no:$\"")) {
            JsonMappingException error = assertThrows(JsonMappingException.class, () -> mapper.readValue("{\"secret\":" + value + "}",
                    Mixed.class), value);
            assertFalse(error.getMessage().contains("4111"), error.getMessage());
        }
        ObjectMapper lenient = new ObjectMapper().registerModule(LeafsealModule.builder(client).plaintextAllowed(true).build());
        assertEquals("4111", lenient.readValue("{\"secret\":\"4111\"}", Mixed.class).secret);
    }

    @Test
    void aRoleMustBeThatOfTheAnnotation() throws Exception {
        String other = client.encrypt(5);
        JsonMappingException error = assertThrows(JsonMappingException.class, () -> mapper.readValue("{\"limit\":\"" + other + "\"}",
                Card.class));
        LeafsealException cause = (LeafsealException) error.getCause().getCause();
        assertEquals("forbidden", cause.code());
    }

    @Test
    void errorsShowNoValue() throws Exception {
        String text = client.encrypt("secret text");
        Throwable error = assertThrows(JsonMappingException.class, () -> mapper.readValue("{\"number\":\"" + text + "\"}", Mixed.class));
        assertTrue(error.getMessage().contains("number"));
        for (; error != null; error = error.getCause()) {
            assertFalse(error.toString().contains("secret"), error::toString);
        }
        LeafsealClient closed = engine.client().build();
        closed.close();
        ObjectMapper broken = new ObjectMapper().registerModule(LeafsealModule.of(closed));
        JsonMappingException failure = assertThrows(JsonMappingException.class,
                () -> broken.writeValueAsString(new Card("4111", null, "visa")));
        assertFalse(failure.getMessage().contains("4111"));
    }

    @JsonIgnoreProperties("number")
    public static class Ignoring extends Card {}

    @Test
    void otherAnnotations() throws Exception {
        Ignoring ignoring = new Ignoring();
        ignoring.number = "4111";
        assertFalse(tree(mapper.writeValueAsString(ignoring)).has("number"));
    }
}
