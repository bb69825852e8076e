package io.leafseal.jackson;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.annotation.JacksonInject;
import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonIgnore;
import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.annotation.JsonIncludeProperties;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.annotation.JsonProperty.Access;
import com.fasterxml.jackson.annotation.JsonView;
import com.fasterxml.jackson.annotation.OptBoolean;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.InjectableValues;
import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.annotation.JsonDeserialize;
import com.fasterxml.jackson.databind.annotation.JsonPOJOBuilder;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.leafseal.client.EncryptOptions;
import io.leafseal.client.Scheme;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.function.Executable;

/**
 * The id of a class with {@link Bound} must be in the document both ways. Whether it is depends on Jackson's own annotations, so a mapper
 * without the module decides: where it does not write, or does not read the id, the module refuses the class, and says so.
 */
class BoundIdTest extends WithEngine {
    private static final InjectableValues OF_THE_CALLER = new InjectableValues.Std().addValue("id", "injected");
    private static final ObjectMapper PLAIN = mapper();

    private static ObjectMapper mapper;

    @BeforeAll
    static void start() {
        mapper = mapper().registerModule(LeafsealModule.of(client));
    }

    private static ObjectMapper mapper() {
        ObjectMapper made = JsonMapper.builder().disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES).build();
        made.setInjectableValues(OF_THE_CALLER);
        return made;
    }

    /** A class to try. */
    public interface Kept {
        /** The id that the object has. */
        String key();

        /** The encrypted value. */
        String secret();
    }

    @Bound(model = "m")
    public static class Usual implements Kept {
        public String id = "7";
        @Encrypted
        public String value = "v";

        @Override
        public String key() {
            return id;
        }

        @Override
        public String secret() {
            return value;
        }
    }

    @Bound(model = "m")
    public static class ReadWrite extends Hidden {
        @JsonProperty(access = Access.READ_WRITE)
        public String id = "7";

        @Override
        public String key() {
            return id;
        }
    }

    @Bound(model = "m")
    public static class ReadOnly extends Hidden {
        @JsonProperty(access = Access.READ_ONLY)
        public String id = "7";

        @Override
        public String key() {
            return id;
        }
    }

    /** Its id has a getter and a setter, on which classes put annotations. */
    public abstract static class WithMethods extends Hidden {
        private String id = "7";

        public String getId() {
            return id;
        }

        public void setId(String of) {
            id = of;
        }

        @Override
        public String key() {
            return id;
        }
    }

    @Bound(model = "m")
    public static class ReadOnlyGetter extends WithMethods {
        @Override
        @JsonProperty(access = Access.READ_ONLY)
        public String getId() {
            return super.getId();
        }
    }

    @Bound(model = "m", id = "account_id")
    public static class ReadOnlyUnderAnotherName extends Hidden {
        @JsonProperty(value = "account_id", access = Access.READ_ONLY)
        public String id = "7";

        @Override
        public String key() {
            return id;
        }
    }

    @Bound(model = "m")
    public static class WriteOnly extends Hidden {
        @JsonProperty(access = Access.WRITE_ONLY)
        public String id = "7";

        @Override
        public String key() {
            return id;
        }
    }

    @Bound(model = "m")
    public static class Ignored extends Hidden {
        @JsonIgnore
        public String id = "7";

        @Override
        public String key() {
            return id;
        }
    }

    /** Written by its getter, and not read by its setter. */
    @Bound(model = "m")
    public static class IgnoredSetter extends WithMethods {
        @Override
        @JsonProperty
        public String getId() {
            return super.getId();
        }

        @Override
        @JsonIgnore
        public void setId(String of) {
            super.setId(of);
        }
    }

    @Bound(model = "m")
    @JsonIgnoreProperties("id")
    public static class IgnoredByClass extends OfClass {}

    @Bound(model = "m")
    @JsonIgnoreProperties(value = "id", allowGetters = true)
    public static class ReadOnlyByClass extends OfClass {}

    @Bound(model = "m")
    @JsonIgnoreProperties(value = "id", allowSetters = true)
    public static class WriteOnlyByClass extends OfClass {}

    @Bound(model = "m")
    public static class Injected extends Hidden {
        @JacksonInject(value = "id", useInput = OptBoolean.FALSE)
        public String id = "7";

        @Override
        public String key() {
            return id;
        }
    }

    @Bound(model = "m")
    public static class Getter extends Hidden {
        public String getId() {
            return "7";
        }

        @Override
        public String key() {
            return null;
        }
    }

    @Bound(model = "m")
    public static class Without extends Hidden {
        @Override
        public String key() {
            return null;
        }
    }

    @Bound(model = "m")
    public static class Creator extends Hidden {
        private final String id;

        @JsonCreator
        public Creator(@JsonProperty(value = "id", access = Access.READ_ONLY) String id) {
            this.id = id;
        }

        public String getId() {
            return id;
        }

        @Override
        public String key() {
            return id;
        }
    }

    @Bound(model = "m")
    public record OfRecord(String id, @Encrypted String value) implements Kept {
        @Override
        public String key() {
            return id;
        }

        @Override
        public String secret() {
            return value;
        }
    }

    @Bound(model = "m")
    public record ReadOnlyRecord(@JsonProperty(access = Access.READ_ONLY) String id, @Encrypted String value) implements Kept {
        @Override
        public String key() {
            return id;
        }

        @Override
        public String secret() {
            return value;
        }
    }

    @Bound(model = "m")
    public record IgnoredRecord(@JsonIgnore String id, @Encrypted String value) implements Kept {
        @Override
        public String key() {
            return id;
        }

        @Override
        public String secret() {
            return value;
        }
    }

    @Bound(model = "m")
    @JsonDeserialize(builder = Built.Builder.class)
    public record Built(String id, @Encrypted String value) implements Kept {
        @Override
        public String key() {
            return id;
        }

        @Override
        public String secret() {
            return value;
        }

        /** It reads no id. */
        @JsonPOJOBuilder(withPrefix = "")
        public static class Builder {
            private String value;

            public Builder value(String of) {
                value = of;
                return this;
            }

            public Built build() {
                return new Built("made up", value);
            }
        }
    }

    /** The encrypted value of a class whose id is declared in it. */
    public abstract static class Hidden implements Kept {
        @Encrypted
        public String value = "v";

        @Override
        public String secret() {
            return value;
        }
    }

    /** Both of them, for annotations of the class. */
    public static class OfClass extends Hidden {
        public String id = "7";

        @Override
        public String key() {
            return id;
        }
    }

    private static final List<Kept> ALL = List.of(new Usual(), new ReadWrite(), new ReadOnly(), new ReadOnlyGetter(),
            new ReadOnlyUnderAnotherName(), new WriteOnly(), new Ignored(), new IgnoredSetter(), new IgnoredByClass(), new ReadOnlyByClass(),
            new WriteOnlyByClass(), new Injected(), new Getter(), new Without(), new Creator("7"), new OfRecord("7", "v"),
            new ReadOnlyRecord("7", "v"), new IgnoredRecord("7", "v"), new Built("7", "v"));

    /** Those whose properties say that they are not read. Others may be classes that are only written. */
    private static boolean declaresReadOnly(Kept value) {
        return value.getClass().getSimpleName().startsWith("ReadOnly");
    }

    private static String name(Kept value) {
        return value.getClass().getAnnotation(Bound.class).id();
    }

    @TestFactory
    List<DynamicTest> anIdThatJacksonDoesNotWriteAndReadIsRefused() {
        return ALL.stream().map(value -> DynamicTest.dynamicTest(value.getClass().getSimpleName(), () -> tryBothWays(value))).toList();
    }

    private static void tryBothWays(Kept value) throws Exception {
        String id = name(value);
        boolean isWritten = PLAIN.valueToTree(value).has(id);
        boolean isRead = "8".equals(PLAIN.readValue("{\"" + id + "\":\"8\",\"value\":\"v\"}", value.getClass()).key());
        if (isWritten && (isRead || !declaresReadOnly(value))) {
            ObjectNode tree = (ObjectNode) PLAIN.readTree(mapper.writeValueAsString(value));
            assertTrue(isEnvelope(tree.get("value")));
        } else {
            refuses(id, isWritten ? "read" : "written", () -> mapper.writeValueAsString(value));
        }
        String envelope = client.encrypt("v", EncryptOptions.defaults().scheme(Scheme.SYMMETRIC).context("m/8/value"));
        String json = "{\"value\":\"" + envelope + "\",\"" + id + "\":\"8\"}";
        forgetCalls();
        if (isRead) {
            Kept read = mapper.readValue(json, value.getClass());
            assertEquals(List.of("8", "v"), List.of(read.key(), read.secret()));
        } else {
            refuses(id, "read", () -> mapper.readValue(json, value.getClass()));
            refuses(id, "read", () -> mapper.readValue("[" + json + "]", mapper.getTypeFactory().constructCollectionType(List.class, value.getClass())));
            assertEquals("", calls(), "refused before anything is opened");
        }
    }

    private static void refuses(String id, String how, Executable call) {
        String message = assertThrows(JsonMappingException.class, call).getMessage();
        assertTrue(message.contains("in the document both ways") && message.contains("no property \"" + id + "\" that is " + how), message);
    }

    /** The class is sound, and what contains it leaves the id out. */
    public static class Holder {
        @JsonIgnoreProperties(value = "id", allowGetters = true)
        public Usual one = new Usual();
        @JsonIgnoreProperties(value = "id", allowGetters = true)
        public List<Usual> many = List.of(new Usual());
    }

    @Test
    void anIdThatIsIgnoredWhereTheRecordIsUsedIsRefused() throws Exception {
        Usual plain = PLAIN.readValue("{\"one\":{\"id\":\"8\"}}", Holder.class).one;
        assertEquals("7", plain.id, "Jackson does not read it");
        String json = mapper.writeValueAsString(new Holder());
        forgetCalls();
        refuses("id", "read", () -> mapper.readValue(json, Holder.class));
        String many = PLAIN.readTree(json).get("many").toString();
        refuses("id", "read", () -> mapper.readValue("{\"one\":null,\"many\":" + many + "}", Holder.class));
        assertEquals("", calls());
        assertEquals("v", mapper.readValue(many, Usual[].class)[0].value);
    }

    public static class Hiding {
        @JsonIgnoreProperties("id")
        public Usual one = new Usual();
    }

    public static class HidingInList {
        @JsonIncludeProperties("value")
        public List<Usual> many = List.of(new Usual());
    }

    @Test
    void anIdThatIsLeftOutWhereTheRecordIsWrittenIsRefused() throws Exception {
        for (Object holder : List.of(new Hiding(), new HidingInList())) {
            assertTrue(PLAIN.valueToTree(holder).findValue("id") == null, "Jackson does not write it");
            refuses("id", "written", () -> mapper.writeValueAsString(holder));
        }
        assertEquals("", calls(), "nothing left the process");
        // The class by itself is as before.
        assertTrue(PLAIN.readTree(mapper.writeValueAsString(new Usual())).has("id"));
    }

    public interface Small {}

    public interface Large extends Small {}

    @Bound(model = "m")
    public static class Viewed {
        @JsonView(Large.class)
        public String id = "7";
        @JsonView(Small.class)
        @Encrypted
        public String value = "v";
    }

    @Test
    void aViewThatHidesTheIdIsRefused() throws Exception {
        Viewed value = new Viewed();
        assertEquals(Map.of("value", "v"), PLAIN.readValue(PLAIN.writerWithView(Small.class).writeValueAsString(value), Map.class));
        refuses("id", "written", () -> mapper.writerWithView(Small.class).writeValueAsString(value));
        String json = mapper.writerWithView(Large.class).writeValueAsString(value);
        assertTrue(PLAIN.readTree(json).has("id"));
        assertEquals("v", mapper.readerWithView(Large.class).readValue(json, Viewed.class).value);
        assertEquals("v", mapper.readValue(json, Viewed.class).value);
        forgetCalls();
        refuses("id", "read", () -> mapper.readerWithView(Small.class).readValue(json, Viewed.class));
        assertEquals("", calls());
    }
}
