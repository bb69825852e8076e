package io.leafseal.jackson;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.annotation.JsonAutoDetect;
import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.annotation.PropertyAccessor;
import com.fasterxml.jackson.core.Base64Variants;
import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.StreamWriteFeature;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.InjectableValues;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.MapperFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectWriter;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.jsontype.BasicPolymorphicTypeValidator;
import com.fasterxml.jackson.databind.ser.impl.SimpleBeanPropertyFilter;
import com.fasterxml.jackson.databind.ser.impl.SimpleFilterProvider;
import com.fasterxml.jackson.databind.util.TokenBuffer;
import com.fasterxml.jackson.dataformat.cbor.CBORFactory;
import com.fasterxml.jackson.dataformat.yaml.YAMLFactory;
import com.fasterxml.jackson.dataformat.yaml.YAMLGenerator;
import com.fasterxml.jackson.datatype.jdk8.Jdk8Module;
import com.fasterxml.jackson.datatype.jsr310.JavaTimeModule;
import io.leafseal.client.EncryptOptions;
import io.leafseal.client.Keying;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

/**
 * Annotations of Jackson, types, formats and settings of the mapper, with the module and without: nothing differs but encrypted values, and
 * these are what is written without the module once they are decrypted.
 */
class DifferentialTest extends WithEngine {
    private static final int SHOWN_MAX = 40;
    /** Each fifth combination, and all of them for a million cases. */
    private static final int STEP = Integer.getInteger("cases", 0) >= 1_000_000 ? 1 : 5;


    private final List<String> differences = new ArrayList<>();
    private final Map<String, Integer> counts = new TreeMap<>();

    /** Mappers that differ only in the module. Exact ones write JSON text, of which every byte is compared. */
    private record Mappers(ObjectMapper plain, ObjectMapper sealing, boolean isExact, boolean isBuffering) {}

    private static Mappers mappers(JsonFactory factory, boolean isExact, Consumer<ObjectMapper> settings) {
        ObjectMapper plain = mapper(factory, settings);
        ObjectMapper sealing = mapper(factory, settings);
        sealing.registerModule(LeafsealModule.builder(client).encryption(EncryptOptions.defaults().keying(Keying.SESSION)).build());
        return new Mappers(plain, sealing, isExact, factory.getFormatName().equals("JSON"));
    }

    private static ObjectMapper mapper(JsonFactory factory, Consumer<ObjectMapper> settings) {
        ObjectMapper mapper = new ObjectMapper(factory.copy());
        mapper.registerModule(new Jdk8Module()).registerModule(new JavaTimeModule());
        mapper.setFilterProvider(new SimpleFilterProvider().addFilter("hidden", SimpleBeanPropertyFilter.serializeAllExcept("hidden")));
        mapper.setInjectableValues(new InjectableValues.Std().addValue("injected", "injected"));
        settings.accept(mapper);
        return mapper;
    }

    private interface Action {
        Object run() throws Exception;
    }

    /** A value, or the class of the error. */
    private record Outcome(Object value, Throwable error) {
        static Outcome of(Action action) {
            try {
                return new Outcome(action.run(), null);
            } catch (Exception | StackOverflowError | AssertionError error) {
                return new Outcome(null, error);
            }
        }
    }

    private void count(String what) {
        counts.merge(what, 1, Integer::sum);
    }

    private void compare(String name, Mappers mappers, Class<?> shape, Values.Value value) throws ReflectiveOperationException {
        JavaType inner = mappers.plain.constructType(value.type());
        JavaType type = shape == null ? inner : mappers.plain.getTypeFactory().constructParametricType(shape, inner);
        Object instance = shape == null ? value.value() : Shapes.of(shape, value.value());
        String whole = name + " " + (shape == null ? "itself" : shape.getSimpleName()) + " " + value.name();
        boolean isUntyped = shape != null && Shapes.UNTYPED.contains(shape);
        compareWritten(whole, mappers, type, instance, isUntyped);
        if (mappers.isBuffering && shape != Shapes.Raw.class) {
            compareTrees(whole, mappers, type, instance, isUntyped);
        }
    }

    private static byte[] write(ObjectMapper mapper, JavaType type, Object value) throws IOException {
        ObjectWriter writer = mapper.writerFor(type);
        return writer.writeValueAsBytes(value);
    }

    private void compareWritten(String name, Mappers mappers, JavaType type, Object instance, boolean isUntyped) {
        Outcome plain = Outcome.of(() -> write(mappers.plain, type, instance));
        Outcome sealed = Outcome.of(() -> write(mappers.sealing, type, instance));
        if (!sameOutcome(name + " written", plain, sealed)) {
            return;
        }
        byte[] expected = (byte[]) plain.value();
        byte[] actual = (byte[]) sealed.value();
        Outcome same = Outcome.of(() -> {
            assertNull(Events.difference(client, mappers.plain.createParser(expected), mappers.plain.createParser(actual)));
            if (mappers.isExact) {
                assertEquals(new String(expected, StandardCharsets.UTF_8), Events.open(client, new String(actual, StandardCharsets.UTF_8)));
            }
            return null;
        });
        difference(name + " written", same.error());
        Outcome read = Outcome.of(() -> dump(mappers.plain.readValue(expected, type)));
        Outcome opened = Outcome.of(() -> dump(mappers.sealing.readValue(actual, type)));
        if (!isUntyped || mappers.isBuffering) {
            compareRead(name + " read", read, opened, isUntyped);
        }
    }

    /** Properties of maps have no annotation: they stay sealed. */
    private void compareRead(String name, Outcome plain, Outcome sealed, boolean isUntyped) {
        if (isUntyped && sealed.error() == null && sealed.value().toString().contains("\"ev:")) {
            count("read as maps");
        } else if (sameOutcome(name, plain, sealed)) {
            difference(name, Outcome.of(() -> {
                assertEquals(numbers(plain.value(), isUntyped), numbers(sealed.value(), isUntyped));
                return null;
            }).error());
        }
    }

    /** In maps, decimals that were JSON text have become binary numbers. */
    private static String numbers(Object dump, boolean isUntyped) {
        return isUntyped ? dump.toString().replaceAll("(\\.[0-9]*?)0+(?=[,}\\]])", "$1") : dump.toString();
    }

    private void compareTrees(String name, Mappers mappers, JavaType type, Object instance, boolean isUntyped) {
        Outcome plain = Outcome.of(() -> tokens(mappers.plain, type, instance));
        Outcome sealed = Outcome.of(() -> tokens(mappers.sealing, type, instance));
        if (sameOutcome(name + " buffered", plain, sealed)) {
            difference(name + " buffered", Outcome.of(() -> {
                assertNull(Events.difference(client, ((TokenBuffer) plain.value()).asParser(), ((TokenBuffer) sealed.value()).asParser()));
                return null;
            }).error());
        }
        Outcome converted = Outcome.of(() -> dump(mappers.plain.convertValue(instance, type)));
        Outcome through = Outcome.of(() -> dump(mappers.sealing.convertValue(instance, type)));
        compareRead(name + " converted", converted, through, isUntyped);
    }

    private static TokenBuffer tokens(ObjectMapper mapper, JavaType type, Object instance) throws IOException {
        TokenBuffer buffer = new TokenBuffer(mapper, false);
        mapper.writerFor(type).writeValue(buffer, instance);
        return buffer;
    }

    private void difference(String name, Throwable error) {
        if (error != null) {
            differences.add(name + ": " + error);
        } else {
            count("equal");
        }
    }

    private boolean sameOutcome(String name, Outcome plain, Outcome sealed) {
        if (plain.error() == null && sealed.error() == null) {
            return true;
        }
        boolean isRefused = sealed.error() != null && String.valueOf(sealed.error().getMessage()).contains("@Encrypted on");
        if (isRefused) {
            count("refused");
            return false;
        }
        if (plain.error() == null || sealed.error() == null) {
            differences.add(name + ": " + plain + " but " + sealed);
        } else {
            count("both fail");
        }
        return false;
    }

    /** A value as its fields, whatever its annotations are. */
    private static String dump(Object value) throws IOException {
        return DUMP.writeValueAsString(new Object[] {value});
    }

    private static final ObjectMapper DUMP = JsonMapper.builder().disable(MapperFeature.USE_ANNOTATIONS)
            .disable(SerializationFeature.FAIL_ON_EMPTY_BEANS)
            .enable(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS).disable(SerializationFeature.FAIL_ON_SELF_REFERENCES)
            .addModule(new Jdk8Module()).addModule(new JavaTimeModule()).build();

    private void report(int atLeast) {
        System.out.println("jackson: " + counts);
        assertEquals(List.of(), differences.subList(0, Math.min(differences.size(), SHOWN_MAX)), () -> differences.size() + " differences");
        assertTrue(counts.getOrDefault("equal", 0) >= atLeast, counts::toString);
        assertNull(counts.get("refused"));
    }

    private void compareAll(String name, Mappers mappers, List<Class<?>> shapes) throws ReflectiveOperationException {
        int row = 0;
        for (Values.Value value : Values.all()) {
            compare(name, mappers, null, value);
            int place = row++;
            for (Class<?> shape : shapes) {
                if (place++ % STEP == 0) {
                    compare(name, mappers, shape, value);
                }
            }
        }
    }

    @Test
    void annotationsTypesAndFormats() throws Exception {
        compareAll("json", mappers(new JsonFactory(), true, mapper -> { }), Shapes.ALL);
        compareAll("cbor", mappers(new CBORFactory(), false, mapper -> { }), Shapes.ALL);
        // Type ids of encrypted values are JSON, in which formats have none of their own.
        YAMLFactory yaml = new YAMLFactory().disable(YAMLGenerator.Feature.USE_NATIVE_TYPE_ID);
        compareAll("yaml", mappers(yaml, false, mapper -> { }), Shapes.ALL);
        compareAll("native yaml", mappers(new YAMLFactory(), false, mapper -> { }),
                List.of(Shapes.Open.class, Shapes.AnyFields.class, Shapes.AnyMap.class));
        report(2000);
    }

    private static final Map<String, Consumer<ObjectMapper>> SETTINGS = settings();

    @SuppressWarnings("deprecation")
    private static Map<String, Consumer<ObjectMapper>> settings() {
        Map<String, Consumer<ObjectMapper>> settings = new LinkedHashMap<>();
        settings.put("exact indented", mapper -> mapper.enable(SerializationFeature.INDENT_OUTPUT));
        settings.put("exact wrapped", mapper -> mapper.enable(SerializationFeature.WRAP_ROOT_VALUE)
                .enable(DeserializationFeature.UNWRAP_ROOT_VALUE));
        settings.put("exact view", mapper -> {
            mapper.setConfig(mapper.getSerializationConfig().withView(Shapes.Seen.class));
            mapper.setConfig(mapper.getDeserializationConfig().withView(Shapes.Seen.class));
        });
        settings.put("exact not null", mapper -> mapper.setSerializationInclusion(JsonInclude.Include.NON_NULL));
        settings.put("exact not default", mapper -> mapper.setSerializationInclusion(JsonInclude.Include.NON_DEFAULT));
        settings.put("exact names", mapper -> mapper.setPropertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE));
        settings.put("exact base64", mapper -> mapper.setBase64Variant(Base64Variants.MODIFIED_FOR_URL));
        settings.put("exact dates", mapper -> mapper.disable(SerializationFeature.WRITE_DATES_AS_TIMESTAMPS));
        settings.put("exact enums", mapper -> mapper.enable(SerializationFeature.WRITE_ENUMS_USING_INDEX));
        settings.put("exact arrays", mapper -> mapper.enable(SerializationFeature.WRITE_SINGLE_ELEM_ARRAYS_UNWRAPPED)
                .enable(DeserializationFeature.ACCEPT_SINGLE_VALUE_AS_ARRAY).enable(SerializationFeature.WRITE_CHAR_ARRAYS_AS_JSON_ARRAYS));
        settings.put("exact typing", mapper -> mapper.activateDefaultTyping(
                BasicPolymorphicTypeValidator.builder().allowIfBaseType(Object.class).build(), ObjectMapper.DefaultTyping.NON_FINAL));
        settings.put("exact fields", mapper -> mapper.setVisibility(PropertyAccessor.FIELD, JsonAutoDetect.Visibility.ANY)
                .setVisibility(PropertyAccessor.GETTER, JsonAutoDetect.Visibility.NONE));
        settings.put("exact static", mapper -> mapper.configure(MapperFeature.USE_STATIC_TYPING, true));
        settings.put("exact decimals", mapper -> mapper.enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
                .enable(DeserializationFeature.USE_BIG_INTEGER_FOR_INTS));
        settings.put("exact lenient", mapper -> mapper.configure(MapperFeature.ACCEPT_CASE_INSENSITIVE_PROPERTIES, true)
                .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
                .enable(DeserializationFeature.ACCEPT_EMPTY_STRING_AS_NULL_OBJECT));
        settings.put("escaped", mapper -> mapper.configure(JsonWriteFeature.ESCAPE_NON_ASCII.mappedFeature(), true));
        settings.put("exact numbers", mapper -> mapper.configure(JsonWriteFeature.WRITE_NUMBERS_AS_STRINGS.mappedFeature(), true));
        settings.put("exact plain decimals", mapper -> mapper.configure(StreamWriteFeature.WRITE_BIGDECIMAL_AS_PLAIN.mappedFeature(),
                true));
        settings.put("duplicates", mapper -> mapper.configure(StreamWriteFeature.STRICT_DUPLICATE_DETECTION.mappedFeature(), true)
                .enable(JsonParser.Feature.STRICT_DUPLICATE_DETECTION));
        return settings;
    }

    @Test
    void settingsOfTheMapper() throws Exception {
        for (Map.Entry<String, Consumer<ObjectMapper>> setting : SETTINGS.entrySet()) {
            compareAll(setting.getKey(), mappers(new JsonFactory(), setting.getKey().startsWith("exact"), setting.getValue()),
                    List.of(Shapes.Fields.class, Shapes.AsArray.class, Shapes.Typed.class, Shapes.Viewed.class));
        }
        report(2000);
    }
}
