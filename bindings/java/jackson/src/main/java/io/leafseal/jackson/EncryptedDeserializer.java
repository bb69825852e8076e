package io.leafseal.jackson;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.BeanProperty;
import com.fasterxml.jackson.databind.DeserializationConfig;
import com.fasterxml.jackson.databind.DeserializationContext;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.JsonDeserializer;
import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.annotation.JsonDeserialize;
import com.fasterxml.jackson.databind.deser.ContextualDeserializer;
import com.fasterxml.jackson.databind.deser.SettableBeanProperty;
import com.fasterxml.jackson.databind.deser.UnresolvedForwardReference;
import com.fasterxml.jackson.databind.deser.impl.ObjectIdReader;
import com.fasterxml.jackson.databind.deser.std.StdDelegatingDeserializer;
import com.fasterxml.jackson.databind.deser.std.StdDeserializer;
import com.fasterxml.jackson.databind.introspect.AnnotatedMember;
import com.fasterxml.jackson.databind.jsontype.TypeDeserializer;
import com.fasterxml.jackson.databind.type.LogicalType;
import com.fasterxml.jackson.databind.util.AccessPattern;
import com.fasterxml.jackson.databind.util.Converter;
import java.io.IOException;
import java.util.Collection;

/**
 * Binds the decrypted value of a property with the deserializer that Jackson would use without this one. A value that {@link
 * BatchDeserializer} has not decrypted yet is decrypted here, in a call of its own.
 */
final class EncryptedDeserializer extends StdDeserializer<Object> implements ContextualDeserializer {
    private static final long serialVersionUID = 1;
    private final transient Sealing sealing;
    private final String role;
    private final transient BeanProperty property;
    /** Set while the class with {@link Bound} is being built. */
    private transient RecordBinding binding;
    /** Null until the property's type is resolved: while a class is being built, its own deserializer cannot be found. */
    private transient volatile JsonDeserializer<Object> real;

    EncryptedDeserializer(Sealing sealing, String role) {
        this(sealing, role, null);
    }

    private EncryptedDeserializer(Sealing sealing, String role, BeanProperty property) {
        super(Object.class);
        this.sealing = sealing;
        this.role = role;
        this.property = property;
    }

    /** Called for a property when its class is built, and again when all properties of the class are known. */
    @Override
    public JsonDeserializer<?> createContextual(DeserializationContext context, BeanProperty of) throws JsonMappingException {
        if (of == null) {
            return this;
        }
        EncryptedDeserializer own = new EncryptedDeserializer(sealing, role, of);
        own.binding = binding;
        if (property != null) {
            own.real = own.find(context);
        }
        return own;
    }

    private JsonDeserializer<Object> real(DeserializationContext context) throws JsonMappingException {
        JsonDeserializer<Object> known = real;
        if (known == null) {
            known = find(context);
            real = known;
        }
        return known;
    }

    /** Finds what Jackson would: `@JsonDeserialize(using)`, the type's own, `@JsonDeserialize(converter)`, that of the type. */
    private JsonDeserializer<Object> find(DeserializationContext context) throws JsonMappingException {
        JavaType type = property.getType();
        AnnotatedMember member = property.getMember();
        JsonDeserialize annotation = member == null ? null : member.getAnnotation(JsonDeserialize.class);
        JsonDeserializer<Object> found = annotation == null || annotation.using() == JsonDeserializer.None.class
                ? null : context.deserializerInstance(member, annotation.using());
        if (found == null) {
            found = type.getValueHandler();
        }
        Object definition = found != null || member == null
                ? null : context.getAnnotationIntrospector().findDeserializationConverter(member);
        if (definition != null) {
            Converter<Object, Object> converter = context.converterInstance(member, definition);
            JavaType input = converter.getInputType(context.getTypeFactory());
            found = new StdDelegatingDeserializer<>(converter, input, context.findNonContextualValueDeserializer(input));
        }
        return contextual(context, found == null ? context.findNonContextualValueDeserializer(type) : found, type);
    }

    @SuppressWarnings("unchecked")
    private JsonDeserializer<Object> contextual(DeserializationContext context, JsonDeserializer<?> found,
            JavaType type) throws JsonMappingException {
        JsonDeserializer<?> known = context.handlePrimaryContextualization(found, property, type);
        // Inside of the decrypted value, all encrypted properties cross together once more.
        return (JsonDeserializer<Object>) (found instanceof BatchDeserializer && !(known instanceof BatchDeserializer)
                ? new BatchDeserializer(known, ((BatchDeserializer) found).isBound()) : known);
    }

    /** The deserializer that binds a value. */
    private interface Binding {
        Object bind(JsonDeserializer<Object> deserializer, JsonParser parser) throws IOException;
    }

    @Override
    public Object deserialize(JsonParser parser, DeserializationContext context) throws IOException {
        return bind(parser, context, (deserializer, value) -> deserializer.deserialize(value, context));
    }

    @Override
    public Object deserialize(JsonParser parser, DeserializationContext context, Object into) throws IOException {
        return bind(parser, context, (deserializer, value) -> deserializer.deserialize(value, context, into));
    }

    @Override
    public Object deserializeWithType(JsonParser parser, DeserializationContext context, TypeDeserializer types) throws IOException {
        return bind(parser, context, (deserializer, value) -> deserializer.deserializeWithType(value, context, types));
    }

    @Override
    public Object deserializeWithType(JsonParser parser, DeserializationContext context, TypeDeserializer types,
            Object into) throws IOException {
        return bind(parser, context, (deserializer, value) -> deserializer.deserializeWithType(value, context, types, into));
    }

    private Object bind(JsonParser parser, DeserializationContext context, Binding binding) throws IOException {
        JsonDeserializer<Object> deserializer = real(context);
        Sealing.Slot slot = embedded(parser);
        if (slot == null) {
            slot = single(parser);
        }
        try (JsonParser value = slot.parser(parser)) {
            return binding.bind(deserializer, value);
        } catch (UnresolvedForwardReference reference) {
            throw reference;
        } catch (JsonProcessingException | RuntimeException error) {
            // Its message quotes the value, and so does that of its cause.
            throw JsonMappingException.from(parser, "the decrypted value of \"" + property.getName() + "\" cannot be bound to its type");
        }
    }

    /** The slot of a value that was decrypted with others. No input can contain one. */
    static Sealing.Slot embedded(JsonParser parser) throws IOException {
        boolean isEmbedded = parser.currentToken() == JsonToken.VALUE_EMBEDDED_OBJECT;
        return isEmbedded && parser.getEmbeddedObject() instanceof Sealing.Slot slot ? slot : null;
    }

    /** Binds the property to its record. */
    void bind(RecordBinding of) {
        binding = of;
    }

    /** Adds the value at the parser to a batch, and moves the parser to its end. `record` is what the value is in, if its class has a binding. */
    Sealing.Slot add(Sealing.Batch batch, RecordBinding.RecordId record, JsonParser parser) throws IOException {
        if (binding == null) {
            return batch.add(role, null, parser);
        }
        String name = property.getName();
        if (record == null || !record.binding().equals(binding)) {
            throw JsonMappingException.from(parser, "the value of \"" + name + "\" is bound to its record, whose id cannot be read here: "
                    + "an object must contain it");
        }
        return batch.add(role, () -> record.context(name), parser);
    }

    RecordBinding binding() {
        return binding;
    }

    Sealing sealing() {
        return sealing;
    }

    private Sealing.Slot single(JsonParser parser) throws IOException {
        Sealing.Batch batch = sealing.new Batch(Sealing.Direction.DECRYPT);
        Sealing.Slot slot = add(batch, null, parser);
        BatchDeserializer.finish(batch, parser);
        return slot;
    }

    @Override
    public Object getNullValue(DeserializationContext context) throws JsonMappingException {
        return real(context).getNullValue(context);
    }

    @Override
    public AccessPattern getNullAccessPattern() {
        return AccessPattern.DYNAMIC;
    }

    @Override
    public Object getAbsentValue(DeserializationContext context) throws JsonMappingException {
        return real(context).getAbsentValue(context);
    }

    @Override
    public Object getEmptyValue(DeserializationContext context) throws JsonMappingException {
        return real(context).getEmptyValue(context);
    }

    @Override
    public AccessPattern getEmptyAccessPattern() {
        return AccessPattern.DYNAMIC;
    }

    @Override
    public Boolean supportsUpdate(DeserializationConfig config) {
        return real == null ? null : real.supportsUpdate(config);
    }

    @Override
    public ObjectIdReader getObjectIdReader() {
        return real == null ? null : real.getObjectIdReader();
    }

    @Override
    public SettableBeanProperty findBackReference(String name) {
        return real == null ? super.findBackReference(name) : real.findBackReference(name);
    }

    @Override
    public Collection<Object> getKnownPropertyNames() {
        return real == null ? null : real.getKnownPropertyNames();
    }

    @Override
    public LogicalType logicalType() {
        return real == null ? null : real.logicalType();
    }
}
