package io.leafseal.jackson;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.BeanProperty;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.JsonSerializer;
import com.fasterxml.jackson.databind.SerializerProvider;
import com.fasterxml.jackson.databind.annotation.JsonSerialize;
import com.fasterxml.jackson.databind.jsontype.TypeSerializer;
import com.fasterxml.jackson.databind.ser.ContextualSerializer;
import com.fasterxml.jackson.databind.ser.std.StdSerializer;
import java.io.IOException;

/** Serialises the value of an encrypted property with the serializer of its type, and leaves the result to the batch of the document. */
final class EncryptedSerializer extends StdSerializer<Object> implements ContextualSerializer {
    private static final long serialVersionUID = 1;
    private final transient Sealing sealing;
    private final String role;
    private final transient BeanProperty property;
    /** Null if the serializer depends on the value's class. */
    private final transient JsonSerializer<Object> real;

    EncryptedSerializer(Sealing sealing, String role, BeanProperty property, JsonSerializer<Object> real) {
        super(Object.class);
        this.sealing = sealing;
        this.role = role;
        this.property = property;
        this.real = real;
    }

    @Override
    public JsonSerializer<?> createContextual(SerializerProvider provider, BeanProperty of) throws JsonMappingException {
        if (of == null) {
            return this;
        }
        JsonSerialize other = of.getAnnotation(JsonSerialize.class);
        if (other != null && other.using() != JsonSerializer.None.class) {
            return provider.reportBadDefinition(of.getType(), "@Encrypted cannot be combined with @JsonSerialize(using) on " + of.getName());
        }
        JavaType type = of.getType();
        boolean isKnown = type.isFinal() || type.isContainerType();
        return new EncryptedSerializer(sealing, role, of, isKnown ? provider.findValueSerializer(type, of) : null);
    }

    @Override
    public boolean isEmpty(SerializerProvider provider, Object value) {
        try {
            return serializer(value, provider).isEmpty(provider, value);
        } catch (JsonMappingException error) {
            return false;
        }
    }

    @Override
    public void serialize(Object value, JsonGenerator generator, SerializerProvider provider) throws IOException {
        JsonSerializer<Object> serializer = serializer(value, provider);
        write(generator, json -> serializer.serialize(value, json, provider));
    }

    @Override
    public void serializeWithType(Object value, JsonGenerator generator, SerializerProvider provider, TypeSerializer types) throws IOException {
        JsonSerializer<Object> serializer = serializer(value, provider);
        write(generator, json -> serializer.serializeWithType(value, json, provider, types));
    }

    private JsonSerializer<Object> serializer(Object value, SerializerProvider provider) throws JsonMappingException {
        return real != null ? real : provider.findValueSerializer(value.getClass(), property);
    }

    private void write(JsonGenerator generator, Sealing.Writing writing) throws IOException {
        if (generator instanceof SealingGenerator recording) {
            recording.seal(role, json -> withCodec(json, generator, writing));
            return;
        }
        // Some serializer has put a generator of its own between, or this value is inside another encrypted one.
        Sealing.Batch single = sealing.new Batch(Sealing.Direction.ENCRYPT);
        Sealing.Slot slot = single.add(role, json -> withCodec(json, generator, writing));
        single.finish();
        try (JsonParser value = slot.parser(null)) {
            generator.copyCurrentStructure(value);
        }
    }

    private static void withCodec(JsonGenerator json, JsonGenerator outer, Sealing.Writing writing) throws IOException {
        json.setCodec(outer.getCodec());
        writing.write(json);
    }
}
