package io.leafseal.jackson;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.JsonSerializer;
import com.fasterxml.jackson.databind.SerializationConfig;
import com.fasterxml.jackson.databind.cfg.CacheProvider;
import com.fasterxml.jackson.databind.jsontype.TypeSerializer;
import com.fasterxml.jackson.databind.ser.DefaultSerializerProvider;
import com.fasterxml.jackson.databind.ser.SerializerFactory;
import java.io.IOException;

/** Serialises each root value through a {@link SealingGenerator}, so that its encrypted properties cross together. */
final class SealingProvider extends DefaultSerializerProvider {
    private static final long serialVersionUID = 1;
    private final transient Sealing sealing;

    SealingProvider(DefaultSerializerProvider blueprint, Sealing sealing) {
        super(blueprint);
        this.sealing = sealing;
    }

    private SealingProvider(SealingProvider blueprint, CacheProvider caches) {
        super(blueprint, caches);
        this.sealing = blueprint.sealing;
    }

    private SealingProvider(SealingProvider blueprint, SerializationConfig config, SerializerFactory factory) {
        super(blueprint, config, factory);
        this.sealing = blueprint.sealing;
    }

    @Override
    public DefaultSerializerProvider copy() {
        return new SealingProvider(this, sealing);
    }

    @Override
    public DefaultSerializerProvider withCaches(CacheProvider caches) {
        return new SealingProvider(this, caches);
    }

    @Override
    public DefaultSerializerProvider createInstance(SerializationConfig config, SerializerFactory factory) {
        return new SealingProvider(this, config, factory);
    }

    private interface Serializing {
        void serialize(JsonGenerator generator) throws IOException;
    }

    private void sealed(JsonGenerator generator, Serializing serializing) throws IOException {
        if (generator instanceof SealingGenerator) {
            serializing.serialize(generator);
            return;
        }
        SealingGenerator recording = new SealingGenerator(generator, sealing);
        serializing.serialize(recording);
        try {
            recording.finish();
        } catch (JsonMappingException error) {
            throw error;
        } catch (IOException error) {
            throw JsonMappingException.from(generator, error.getMessage(), error);
        }
    }

    @Override
    public void serializeValue(JsonGenerator generator, Object value) throws IOException {
        sealed(generator, recording -> super.serializeValue(recording, value));
    }

    @Override
    public void serializeValue(JsonGenerator generator, Object value, JavaType type) throws IOException {
        sealed(generator, recording -> super.serializeValue(recording, value, type));
    }

    @Override
    public void serializeValue(JsonGenerator generator, Object value, JavaType type, JsonSerializer<Object> serializer) throws IOException {
        sealed(generator, recording -> super.serializeValue(recording, value, type, serializer));
    }

    @Override
    public void serializePolymorphic(
            JsonGenerator generator, Object value, JavaType type, JsonSerializer<Object> serializer, TypeSerializer typeSerializer) throws IOException {
        sealed(generator, recording -> super.serializePolymorphic(recording, value, type, serializer, typeSerializer));
    }
}
