package io.leafseal.jackson;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonSubTypes;
import com.fasterxml.jackson.annotation.JsonTypeInfo;
import com.fasterxml.jackson.annotation.JsonValue;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.lang.reflect.Type;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.URI;
import java.time.Duration;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Currency;
import java.util.Date;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicReference;

/** Values of every kind of type that Jackson distinguishes. */
final class Values {
    private Values() {}

    record Value(String name, Type type, Object value) {}

    public enum Level { LOW, HIGH }

    public enum Code {
        A, B;

        @JsonValue
        public String code() {
            return "code-" + name();
        }
    }

    public record Point(int x, String y) {}

    public record Holder(@Encrypted String name, UUID id) {}

    public static class Base {
        public int base = 1;
    }

    public static class Derived extends Base {
        @Encrypted
        public String derived = "d";
    }

    public record Pan(@JsonValue String number) {
        @JsonCreator(mode = JsonCreator.Mode.DELEGATING)
        public Pan {}
    }

    public record Pair<T>(T left, T right) {}

    @JsonTypeInfo(use = JsonTypeInfo.Id.NAME, property = "kind")
    @JsonSubTypes({@JsonSubTypes.Type(value = Bank.class, name = "bank"), @JsonSubTypes.Type(value = Cash.class, name = "cash")})
    public interface Means {}

    public static class Bank implements Means {
        @Encrypted
        public String iban = "DE02";
        public UUID id = Shapes.ID;
    }

    public static class Cash implements Means {
        public byte[] coins = {62, -1};
    }

    @JsonTypeInfo(use = JsonTypeInfo.Id.NAME, include = JsonTypeInfo.As.WRAPPER_OBJECT)
    @JsonSubTypes(@JsonSubTypes.Type(value = Box.class, name = "box"))
    public interface Boxed {}

    public static class Box implements Boxed {
        public int size = 1;
        @Encrypted
        public int inside = 2;
    }

    @JsonTypeInfo(use = JsonTypeInfo.Id.DEDUCTION)
    @JsonSubTypes({@JsonSubTypes.Type(Circle.class), @JsonSubTypes.Type(Square.class)})
    public interface Figure {}

    public static class Circle implements Figure {
        public int radius = 1;
    }

    public static class Square implements Figure {
        @Encrypted
        public int side = 2;
    }

    @JsonTypeInfo(use = JsonTypeInfo.Id.NAME, include = JsonTypeInfo.As.EXISTING_PROPERTY, property = "kind")
    @JsonSubTypes(@JsonSubTypes.Type(value = Known.class, name = "known"))
    public interface Existing {}

    public static class Known implements Existing {
        public String kind = "known";
        @Encrypted
        public String inside = "x";
    }

    private static Value value(TypeReference<?> type, Object value) {
        return new Value(type.getType().getTypeName() + "=" + (value == null ? "null" : value.getClass().getSimpleName()), type.getType(),
                value);
    }

    private static Map<String, Object> untyped() {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("a", List.of(1, "x", 2.5, true, List.of()));
        map.put("b", -0.25);
        map.put("c", null);
        return map;
    }

    static List<Value> all() {
        List<Value> values = new ArrayList<>(List.of(
                value(new TypeReference<String>() {}, "text \"ö\""), value(new TypeReference<String>() {}, null),
                        value(new TypeReference<Integer>() {}, -5),
                value(new TypeReference<Long>() {}, Long.MAX_VALUE), value(new TypeReference<Short>() {}, (short) 7),
                        value(new TypeReference<Double>() {}, 0.1),
                value(new TypeReference<Double>() {}, Double.NaN), value(new TypeReference<Float>() {}, 1.5f),
                        value(new TypeReference<Boolean>() {}, true),
                value(new TypeReference<BigDecimal>() {}, new BigDecimal("12.500")),
                        value(new TypeReference<BigInteger>() {}, BigInteger.TEN.pow(30)),
                value(new TypeReference<Character>() {}, 'c'), value(new TypeReference<byte[]>() {}, new byte[] {62, -1, 63, 1}),
                value(new TypeReference<char[]>() {}, "chars".toCharArray()), value(new TypeReference<int[]>() {}, new int[] {1, 2}),
                value(new TypeReference<double[]>() {}, new double[] {1.5}),
                        value(new TypeReference<String[]>() {}, new String[] {"a", null}),
                value(new TypeReference<UUID>() {}, Shapes.ID), value(new TypeReference<Date>() {}, new Date(1_700_000_000_123L)),
                value(new TypeReference<LocalDate>() {}, LocalDate.of(2026, 11, 24)),
                        value(new TypeReference<Duration>() {}, Duration.ofMillis(1500)),
                value(new TypeReference<URI>() {}, URI.create("urn:x")), value(new TypeReference<Locale>() {}, Locale.GERMANY),
                value(new TypeReference<Currency>() {}, Currency.getInstance("EUR")), value(new TypeReference<Level>() {}, Level.HIGH),
                value(new TypeReference<Code>() {}, Code.B), value(new TypeReference<Class<?>>() {}, String.class),
                value(new TypeReference<Optional<String>>() {}, Optional.of("x")),
                        value(new TypeReference<Optional<UUID>>() {}, Optional.empty()),
                value(new TypeReference<OptionalInt>() {}, OptionalInt.of(3)),
                        value(new TypeReference<AtomicReference<Point>>() {}, new AtomicReference<>(new Point(1, "r"))),
                value(new TypeReference<Point>() {}, new Point(1, "y")), value(new TypeReference<Pair<UUID>>() {},
                        new Pair<>(Shapes.ID, null)),
                value(new TypeReference<Pan>() {}, new Pan("4111"))));
        values.addAll(containers());
        values.addAll(polymorphic());
        return values;
    }

    private static List<Value> containers() {
        return List.of(
                value(new TypeReference<List<String>>() {}, List.of("a", "b")), value(new TypeReference<List<String>>() {}, List.of()),
                value(new TypeReference<Set<Integer>>() {}, Set.of(5)), value(new TypeReference<List<List<BigDecimal>>>() {},
                        List.of(List.of(new BigDecimal("1.0")))),
                value(new TypeReference<Map<String, Integer>>() {}, Map.of("k", 1)),
                        value(new TypeReference<Map<UUID, byte[]>>() {}, Map.of(Shapes.ID, new byte[] {-1})),
                value(new TypeReference<Map<Level, Point>>() {}, new EnumMap<>(Map.of(Level.LOW, new Point(2, null)))),
                value(new TypeReference<List<Pan>>() {}, List.of(new Pan("1"), new Pan("2"))),
                        value(new TypeReference<List<Object>>() {}, Arrays.asList(1, "a", null)),
                value(new TypeReference<Map<String, Object>>() {}, untyped()), value(new TypeReference<Object>() {}, untyped()),
                        value(new TypeReference<Object>() {}, 1L),
                value(new TypeReference<JsonNode>() {}, JsonNodeFactory.instance.objectNode().put("n", 1.5).put("t", "x").putNull("z")),
                value(new TypeReference<JsonNode>() {}, JsonNodeFactory.instance.arrayNode().add(true)),
                value(new TypeReference<Optional<List<Point>>>() {}, Optional.of(List.of(new Point(3, "o")))));
    }

    private static List<Value> polymorphic() {
        return List.of(
                value(new TypeReference<Holder>() {}, new Holder("n", Shapes.ID)),
                        value(new TypeReference<List<Holder>>() {}, List.of(new Holder("n", Shapes.ID))),
                value(new TypeReference<Map<String, Holder>>() {}, Map.of("h", new Holder(null, null))),
                        value(new TypeReference<Holder[]>() {}, new Holder[] {new Holder("a", null)}),
                value(new TypeReference<Optional<Holder>>() {}, Optional.of(new Holder("o", Shapes.ID))),
                        value(new TypeReference<Base>() {}, new Derived()),
                value(new TypeReference<Means>() {}, new Bank()), value(new TypeReference<Means>() {}, new Cash()),
                value(new TypeReference<List<Means>>() {}, List.of(new Bank(), new Cash())),
                        value(new TypeReference<Means[]>() {}, new Means[] {new Bank()}),
                value(new TypeReference<Map<String, Means>>() {}, Map.of("m", new Bank())),
                        value(new TypeReference<Optional<Means>>() {}, Optional.of(new Bank())),
                value(new TypeReference<Boxed>() {}, new Box()), value(new TypeReference<List<Boxed>>() {}, List.of(new Box())),
                value(new TypeReference<Figure>() {}, new Square()), value(new TypeReference<List<Figure>>() {},
                        List.of(new Circle(), new Square())),
                value(new TypeReference<Existing>() {}, new Known()));
    }
}
