package io.leafseal.jackson;

import com.fasterxml.jackson.annotation.JacksonInject;
import com.fasterxml.jackson.annotation.JsonAlias;
import com.fasterxml.jackson.annotation.JsonAnyGetter;
import com.fasterxml.jackson.annotation.JsonAnySetter;
import com.fasterxml.jackson.annotation.JsonBackReference;
import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonFilter;
import com.fasterxml.jackson.annotation.JsonFormat;
import com.fasterxml.jackson.annotation.JsonIdentityInfo;
import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.annotation.JsonManagedReference;
import com.fasterxml.jackson.annotation.JsonMerge;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.annotation.JsonPropertyOrder;
import com.fasterxml.jackson.annotation.JsonRawValue;
import com.fasterxml.jackson.annotation.JsonRootName;
import com.fasterxml.jackson.annotation.JsonSetter;
import com.fasterxml.jackson.annotation.JsonTypeInfo;
import com.fasterxml.jackson.annotation.JsonUnwrapped;
import com.fasterxml.jackson.annotation.JsonView;
import com.fasterxml.jackson.annotation.Nulls;
import com.fasterxml.jackson.annotation.ObjectIdGenerators;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.annotation.JsonAppend;
import com.fasterxml.jackson.databind.annotation.JsonDeserialize;
import com.fasterxml.jackson.databind.annotation.JsonNaming;
import com.fasterxml.jackson.databind.annotation.JsonPOJOBuilder;
import com.fasterxml.jackson.databind.annotation.JsonSerialize;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/**
 * Classes with every annotation of Jackson, around values of any type. Most have an encrypted property before the annotated ones, and the
 * annotated ones once open and once encrypted.
 */
final class Shapes {
    static final UUID ID = new UUID(0x0123456789abcdefL, 0x8fedcba987654321L);

    private Shapes() {}

    /** The views of the mapper are those of this interface. */
    public interface Seen {}

    public interface Unseen {}

    public static class Open<T> {
        public int first = 1;
        public T value;
        public UUID last = ID;
        public byte[] bytes = {1, -1, 62};
    }

    public static class Fields<T> {
        public int first = 1;
        @Encrypted
        public String secret = "s";
        public T value;
        @Encrypted
        public T sealed;
        public UUID last = ID;
        public byte[] bytes = {1, -1, 62};
    }

    public static class Accessors<T> {
        private T value;
        private T sealed;

        public T getValue() {
            return value;
        }

        public void setValue(T other) {
            value = other;
        }

        @Encrypted
        public T getSealed() {
            return sealed;
        }

        public void setSealed(T other) {
            sealed = other;
        }
    }

    public record Component<T>(@Encrypted String secret, T value, @Encrypted T sealed, UUID last) {
        public static <T> Component<T> of(T value) {
            return new Component<>("s", value, value, ID);
        }
    }

    public static class Created<T> {
        private final T value;
        private final T sealed;

        @JsonCreator
        public Created(@JsonProperty("value") T value, @JsonProperty("sealed") @Encrypted T sealed) {
            this.value = value;
            this.sealed = sealed;
        }

        public static <T> Created<T> of(T value) {
            return new Created<>(value, value);
        }

        public T getValue() {
            return value;
        }

        public T getSealed() {
            return sealed;
        }
    }

    public static class FromFactory<T> {
        private T value;
        private T sealed;

        @JsonCreator
        public static <T> FromFactory<T> create(@JsonProperty("sealed") @Encrypted T sealed) {
            FromFactory<T> created = new FromFactory<>();
            created.sealed = sealed;
            return created;
        }

        public static <T> FromFactory<T> of(T value) {
            FromFactory<T> created = create(value);
            created.value = value;
            return created;
        }

        public T getSealed() {
            return sealed;
        }

        public T getValue() {
            return value;
        }

        public void setValue(T other) {
            value = other;
        }
    }

    @JsonDeserialize(builder = Built.Builder.class)
    public static class Built<T> {
        private T value;
        private T sealed;

        public T getValue() {
            return value;
        }

        @Encrypted
        public T getSealed() {
            return sealed;
        }

        public static <T> Built<T> of(T value) {
            return new Builder<T>().withValue(value).withSealed(value).build();
        }

        @JsonPOJOBuilder
        public static class Builder<T> {
            private final Built<T> built = new Built<>();

            public Builder<T> withValue(T value) {
                built.value = value;
                return this;
            }

            public Builder<T> withSealed(T value) {
                built.sealed = value;
                return this;
            }

            public Built<T> build() {
                return built;
            }
        }
    }

    public static class AnyFields<T> {
        @Encrypted
        public String secret = "s";
        private final Map<String, T> others = new LinkedHashMap<>();

        public static <T> AnyFields<T> of(T value) {
            AnyFields<T> any = new AnyFields<>();
            any.others.put("a", value);
            any.others.put("b", value);
            return any;
        }

        @JsonAnyGetter
        public Map<String, T> others() {
            return others;
        }

        @JsonAnySetter
        public void set(String name, T value) {
            others.put(name, value);
        }
    }

    public static class AnyMap<T> {
        @Encrypted
        public String secret = "s";
        @JsonAnySetter
        @JsonAnyGetter
        public Map<String, T> others = new LinkedHashMap<>();

        public static <T> AnyMap<T> of(T value) {
            AnyMap<T> any = new AnyMap<>();
            any.others.put("a", value);
            return any;
        }
    }

    public static class Unwrapping<T> {
        public int before = 1;
        @JsonUnwrapped
        public Fields<T> inner;
        @JsonUnwrapped(prefix = "p_", suffix = "_s")
        public Fields<T> second;
        @Encrypted
        public String own = "o";

        public static <T> Unwrapping<T> of(T value) {
            Unwrapping<T> unwrapping = new Unwrapping<>();
            unwrapping.inner = fields(value);
            unwrapping.second = fields(value);
            return unwrapping;
        }
    }

    static <T> Fields<T> fields(T value) {
        Fields<T> fields = new Fields<>();
        fields.value = value;
        fields.sealed = value;
        return fields;
    }

    public static class Viewed<T> {
        @JsonView(Seen.class)
        @Encrypted
        public String secret = "s";
        @JsonView(Unseen.class)
        @Encrypted
        public String unseen = "u";
        @JsonView(Seen.class)
        public T value;
        @JsonView({Seen.class, Unseen.class})
        @Encrypted
        public T sealed;
    }

    public static class Formatted<T> {
        @Encrypted
        public String secret = "s";
        @JsonFormat(shape = JsonFormat.Shape.STRING)
        public T value;
        @JsonFormat(shape = JsonFormat.Shape.STRING)
        @Encrypted
        public T sealed;
    }

    @JsonFormat(shape = JsonFormat.Shape.ARRAY)
    @JsonPropertyOrder({"secret", "value", "sealed", "last"})
    public static class AsArray<T> {
        @Encrypted
        public String secret = "s";
        public T value;
        @Encrypted
        public T sealed;
        public UUID last = ID;
    }

    @JsonFilter("hidden")
    public static class Filtered<T> {
        @Encrypted
        public String hidden = "h";
        @Encrypted
        public T sealed;
        public T value;
    }

    public static class NonNull<T> {
        @JsonInclude(JsonInclude.Include.NON_NULL)
        @Encrypted
        public T sealed;
        @JsonInclude(JsonInclude.Include.NON_NULL)
        public T value;
        public int last = 1;
    }

    @JsonInclude(JsonInclude.Include.NON_EMPTY)
    public static class NonEmpty<T> {
        @Encrypted
        public T sealed;
        public T value;
        @Encrypted
        public String empty = "";
        @Encrypted
        public List<String> none = List.of();
    }

    @JsonInclude(JsonInclude.Include.NON_DEFAULT)
    public static class NonDefault<T> {
        @Encrypted
        public T sealed;
        public T value;
        @Encrypted
        public int number = 5;
    }

    public static class Named<T> {
        @JsonTypeInfo(use = JsonTypeInfo.Id.CLASS)
        public Object value;
        @JsonTypeInfo(use = JsonTypeInfo.Id.CLASS)
        @Encrypted
        public Object sealed;
        public int last = 1;
    }

    public static class Wrapped<T> {
        @Encrypted
        @JsonTypeInfo(use = JsonTypeInfo.Id.CLASS, include = JsonTypeInfo.As.WRAPPER_ARRAY)
        public Object sealed;
        @JsonTypeInfo(use = JsonTypeInfo.Id.CLASS, include = JsonTypeInfo.As.WRAPPER_OBJECT)
        public Object value;
    }

    public static class Contents<T> {
        @JsonTypeInfo(use = JsonTypeInfo.Id.CLASS)
        @Encrypted
        public List<Object> sealed = new ArrayList<>();
        @JsonTypeInfo(use = JsonTypeInfo.Id.CLASS)
        public Map<String, Object> value = new LinkedHashMap<>();

        public static <T> Contents<T> of(T value) {
            Contents<T> contents = new Contents<>();
            contents.sealed.add(value);
            contents.value.put("k", value);
            return contents;
        }
    }

    public static class External<T> {
        @Encrypted
        public String secret = "s";
        @JsonTypeInfo(use = JsonTypeInfo.Id.CLASS, include = JsonTypeInfo.As.EXTERNAL_PROPERTY, property = "kind")
        public Object value;
        @Encrypted
        public T sealed;
    }

    public static class As<T> {
        @JsonSerialize(typing = JsonSerialize.Typing.STATIC)
        public T value;
        @JsonSerialize(typing = JsonSerialize.Typing.STATIC)
        @Encrypted
        public T sealed;
        @JsonSerialize(as = Values.Base.class)
        @Encrypted
        public Values.Derived derived = new Values.Derived();
        @JsonSerialize(contentAs = Values.Base.class)
        @Encrypted
        public List<Values.Derived> list = new ArrayList<>(List.of(new Values.Derived()));
        @JsonSerialize(as = Values.Base.class)
        public Values.Derived open = new Values.Derived();
    }

    public static class Raw<T> {
        @Encrypted
        @JsonRawValue
        public String sealed = "{\"a\":[1,\"x\"]}";
        @JsonRawValue
        public String value = "{ \"b\" : 2 }";
        public int last = 1;
    }

    public static class OpenRaw<T> {
        @Encrypted
        public T sealed;
        @JsonRawValue
        public String value = "{ \"b\" : 2 }";
        public int last = 1;
    }

    @JsonIdentityInfo(generator = ObjectIdGenerators.IntSequenceGenerator.class, property = "@id")
    public static class Identified<T> {
        @Encrypted
        public T sealed;
        public T value;
        public Identified<T> self;

        public static <T> Identified<T> of(T value) {
            Identified<T> identified = new Identified<>();
            identified.sealed = value;
            identified.value = value;
            identified.self = identified;
            return identified;
        }
    }

    public static class Parent<T> {
        @JsonManagedReference
        public List<Child<T>> children = new ArrayList<>();
        @JsonManagedReference("sealed")
        @Encrypted
        public Child<T> sealed = new Child<>();

        public static <T> Parent<T> of(T value) {
            Parent<T> parent = new Parent<>();
            Child<T> child = new Child<>();
            child.value = value;
            child.secret = value;
            parent.children.add(child);
            parent.sealed.value = value;
            return parent;
        }
    }

    public static class Child<T> {
        @JsonBackReference
        public Parent<T> parent;
        @JsonBackReference("sealed")
        public Parent<T> other;
        @Encrypted
        public T secret;
        public T value;
    }

    @JsonNaming(PropertyNamingStrategies.KebabCaseStrategy.class)
    @JsonRootName("root")
    @JsonPropertyOrder(alphabetic = true)
    @JsonIgnoreProperties({"ignored"})
    public static class Renamed<T> {
        @Encrypted
        @JsonAlias("other")
        public T sealedValue;
        public T openValue;
        @Encrypted
        public String ignored = "i";
        @JsonProperty(access = JsonProperty.Access.READ_ONLY)
        @Encrypted
        public String readOnly = "r";
        @JsonProperty(access = JsonProperty.Access.WRITE_ONLY)
        @Encrypted
        public String writeOnly = "w";

        public static <T> Renamed<T> of(T value) {
            Renamed<T> renamed = new Renamed<>();
            renamed.sealedValue = value;
            renamed.openValue = value;
            return renamed;
        }
    }

    public static class Merging<T> {
        @JsonMerge
        @Encrypted
        public Map<String, T> sealed = new LinkedHashMap<>(Map.of());
        @JsonMerge
        public List<T> value = new ArrayList<>();
        @JsonSetter(nulls = Nulls.SKIP, contentNulls = Nulls.SKIP)
        @Encrypted
        public List<T> skipping = new ArrayList<>();
        private final List<T> setterless = new ArrayList<>();

        public static <T> Merging<T> of(T value) {
            Merging<T> merging = new Merging<>();
            merging.sealed.put("k", value);
            merging.value.add(value);
            merging.skipping.add(value);
            merging.setterless.add(value);
            return merging;
        }

        @Encrypted
        public List<T> getSetterless() {
            return setterless;
        }
    }

    public static class Outer<T> {
        @Encrypted
        public String secret = "s";
        public Inner inner = new Inner();

        public static <T> Outer<T> of(T value) {
            Outer<T> outer = new Outer<>();
            outer.inner.value = value;
            outer.inner.sealed = value;
            return outer;
        }

        public class Inner {
            @Encrypted
            public T sealed;
            public T value;
        }
    }

    @JsonAppend(attrs = @JsonAppend.Attr("absent"))
    public static class Appended<T> {
        @Encrypted
        public T sealed;
        public T value;
        @JacksonInject(value = "injected")
        @Encrypted
        public String injected = "i";
    }

    @JsonTypeInfo(use = JsonTypeInfo.Id.NAME, property = "type")
    public static class Typed<T> {
        public T value;
        @Encrypted
        public T sealed;
    }

    static final List<Class<?>> ALL = List.of(
            Open.class, Fields.class, Accessors.class, Component.class, Created.class, FromFactory.class, Built.class, AnyFields.class,
                    AnyMap.class,
            Unwrapping.class, Viewed.class, Formatted.class, AsArray.class, Filtered.class, NonNull.class, NonEmpty.class, NonDefault.class,
                    Named.class,
            Wrapped.class, Contents.class, External.class, As.class, Raw.class, OpenRaw.class, Identified.class, Parent.class,
                    Renamed.class, Merging.class, Outer.class,
            Ways.Using.class, Ways.RawUsing.class, Ways.Converting.class, Appended.class, Typed.class);

    /** Shapes in which Jackson does not know the type of a value's parts, and reads maps and lists. */
    static final List<Class<?>> UNTYPED = List.of(Named.class, Wrapped.class, Contents.class, External.class, Outer.class);

    /** An instance of a shape around a value. */
    static Object of(Class<?> shape, Object value) throws ReflectiveOperationException {
        for (var method : shape.getDeclaredMethods()) {
            if (method.getName().equals("of") && method.getParameterCount() == 1) {
                return method.invoke(null, value);
            }
        }
        Object instance = shape.getDeclaredConstructor().newInstance();
        for (var field : shape.getFields()) {
            if (field.getType() == Object.class) {
                field.set(instance, value);
            }
        }
        if (instance instanceof Accessors<?> accessors) {
            @SuppressWarnings("unchecked")
            Accessors<Object> typed = (Accessors<Object>) accessors;
            typed.setValue(value);
            typed.setSealed(value);
        }
        return instance;
    }
}
