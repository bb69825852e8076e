package io.leafseal.jackson;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.JsonSerializer;
import com.fasterxml.jackson.databind.SerializationConfig;
import com.fasterxml.jackson.databind.SerializerProvider;
import com.fasterxml.jackson.databind.jsontype.TypeSerializer;
import com.fasterxml.jackson.databind.ser.BeanPropertyWriter;
import com.fasterxml.jackson.databind.util.NameTransformer;
import java.io.IOException;

/**
 * Writes an encrypted property: Jackson's own writer of the property writes it as JSON, whatever its annotations are, and the scalars of
 * that are encrypted.
 */
final class EncryptedWriter extends BeanPropertyWriter {
    private static final long serialVersionUID = 1;
    private final transient Sealing sealing;
    private final String role;
    private final BeanPropertyWriter writer;

    EncryptedWriter(Sealing sealing, String role, BeanPropertyWriter writer) {
        super(writer);
        this.sealing = sealing;
        this.role = role;
        this.writer = writer;
    }

    @Override
    public BeanPropertyWriter rename(NameTransformer transformer) {
        return new EncryptedWriter(sealing, role, writer.rename(transformer));
    }

    @Override
    public void assignTypeSerializer(TypeSerializer types) {
        super.assignTypeSerializer(types);
        writer.assignTypeSerializer(types);
    }

    @Override
    public void assignSerializer(JsonSerializer<Object> serializer) {
        super.assignSerializer(serializer);
        writer.assignSerializer(serializer);
    }

    @Override
    public void assignNullSerializer(JsonSerializer<Object> serializer) {
        super.assignNullSerializer(serializer);
        writer.assignNullSerializer(serializer);
    }

    @Override
    public void setNonTrivialBaseType(JavaType type) {
        super.setNonTrivialBaseType(type);
        writer.setNonTrivialBaseType(type);
    }

    @Override
    public void fixAccess(SerializationConfig config) {
        super.fixAccess(config);
        writer.fixAccess(config);
    }

    @Override
    public void serializeAsField(Object bean, JsonGenerator generator, SerializerProvider provider) throws Exception {
        seal(bean, generator, true, json -> writer.serializeAsField(bean, json, provider));
    }

    @Override
    public void serializeAsElement(Object bean, JsonGenerator generator, SerializerProvider provider) throws Exception {
        seal(bean, generator, false, json -> writer.serializeAsElement(bean, json, provider));
    }

    private void seal(Object bean, JsonGenerator generator, boolean isProperty, Sealing.Writing writing) throws Exception {
        boolean isGathering = generator instanceof Recording known && known.sealing() == sealing;
        Sealing.Batch batch = isGathering ? ((Recording) generator).batch() : sealing.new Batch(Sealing.Direction.ENCRYPT);
        Sealing.Slot slot = batch.add(role, generator, bean, isProperty, writing);
        if (!slot.isFilled()) {
            if (isGathering) {
                ((Recording) generator).put(slot);
                return;
            }
            // The type of the root value did not show this property, or the value is inside another encrypted one.
            try {
                batch.finish();
            } catch (IOException error) {
                throw JsonMappingException.from(generator, error.getMessage(), error);
            }
        }
        slot.writeTo(generator);
    }
}
