package io.leafseal.jackson;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.BeanProperty;
import com.fasterxml.jackson.databind.DeserializationContext;
import com.fasterxml.jackson.databind.JsonDeserializer;
import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.annotation.JsonDeserialize;
import com.fasterxml.jackson.databind.deser.ContextualDeserializer;
import com.fasterxml.jackson.databind.deser.std.StdDeserializer;
import com.fasterxml.jackson.databind.jsontype.TypeDeserializer;
import java.io.IOException;

/**
 * Binds the decrypted value of a property with the deserializer of its type. A value that {@link BatchDeserializer} has not decrypted yet is
 * decrypted here, in a call of its own.
 */
final class EncryptedDeserializer extends StdDeserializer<Object> implements ContextualDeserializer {
    private static final long serialVersionUID = 1;
    private final transient Sealing sealing;
    private final String role;
    private final String name;
    private final transient JsonDeserializer<Object> real;

    EncryptedDeserializer(Sealing sealing, String role, String name, JsonDeserializer<Object> real) {
        super(Object.class);
        this.sealing = sealing;
        this.role = role;
        this.name = name;
        this.real = real;
    }

    @Override
    public JsonDeserializer<?> createContextual(DeserializationContext context, BeanProperty property) throws JsonMappingException {
        if (property == null) {
            return this;
        }
        JsonDeserialize other = property.getAnnotation(JsonDeserialize.class);
        if (other != null && other.using() != JsonDeserializer.None.class) {
            return context.reportBadDefinition(property.getType(), "@Encrypted cannot be combined with @JsonDeserialize(using) on " + property.getName());
        }
        return new EncryptedDeserializer(sealing, role, property.getName(), context.findContextualValueDeserializer(property.getType(), property));
    }

    /** What binds a value. */
    private interface Binding {
        Object bind(JsonParser parser) throws IOException;
    }

    @Override
    public Object deserialize(JsonParser parser, DeserializationContext context) throws IOException {
        return bind(parser, context, value -> real.deserialize(value, context));
    }

    @Override
    public Object deserializeWithType(JsonParser parser, DeserializationContext context, TypeDeserializer types) throws IOException {
        return bind(parser, context, value -> real.deserializeWithType(value, context, types));
    }

    private Object bind(JsonParser parser, DeserializationContext context, Binding binding) throws IOException {
        Sealing.Slot slot = embedded(parser);
        if (slot == null) {
            slot = single(parser, context);
        }
        try (JsonParser value = slot.parser(parser)) {
            return binding.bind(value);
        } catch (JsonProcessingException error) {
            // Its message quotes the value, and so does that of its cause.
            throw JsonMappingException.from(parser, "the decrypted value of \"" + name + "\" cannot be bound to its type");
        }
    }

    /** The slot of a value that was decrypted with others. No input can contain one. */
    static Sealing.Slot embedded(JsonParser parser) throws IOException {
        return parser.currentToken() == JsonToken.VALUE_EMBEDDED_OBJECT && parser.getEmbeddedObject() instanceof Sealing.Slot slot ? slot : null;
    }

    /** Adds the value at the parser to a batch, and moves the parser to its end. */
    Sealing.Slot add(Sealing.Batch batch, JsonParser parser) throws IOException {
        return batch.add(role, json -> json.copyCurrentStructure(parser));
    }

    Sealing sealing() {
        return sealing;
    }

    private Sealing.Slot single(JsonParser parser, DeserializationContext context) throws IOException {
        Sealing.Batch batch = sealing.new Batch(Sealing.Direction.DECRYPT);
        Sealing.Slot slot = add(batch, parser);
        BatchDeserializer.finish(batch, parser);
        return slot;
    }

    @Override
    public Object getNullValue(DeserializationContext context) throws JsonMappingException {
        return real.getNullValue(context);
    }

    @Override
    public Object getAbsentValue(DeserializationContext context) throws JsonMappingException {
        return real.getAbsentValue(context);
    }

    @Override
    public Object getEmptyValue(DeserializationContext context) throws JsonMappingException {
        return real.getEmptyValue(context);
    }
}
