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
import com.fasterxml.jackson.databind.util.TokenBuffer;
import java.io.IOException;

/** Serialises root values that may contain encrypted properties through a {@link Recording}, so that all of these cross together. */
final class SealingProvider extends DefaultSerializerProvider {
    private static final long serialVersionUID = 1;
    private final transient Sealing sealing;
    private final transient Reach reach;

    SealingProvider(DefaultSerializerProvider blueprint, Sealing sealing) {
        super(blueprint);
        this.sealing = sealing;
        this.reach = new Reach();
    }

    private SealingProvider(SealingProvider blueprint, CacheProvider caches) {
        super(blueprint, caches);
        this.sealing = blueprint.sealing;
        this.reach = new Reach();
    }

    private SealingProvider(SealingProvider blueprint, SerializationConfig config, SerializerFactory factory) {
        super(blueprint, config, factory);
        this.sealing = blueprint.sealing;
        this.reach = blueprint.reach;
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

    private void sealed(JsonGenerator generator, Object value, JavaType declared, Serializing serializing) throws IOException {
        if (value == null || generator instanceof Recording || !mayContain(value, declared)) {
            serializing.serialize(generator);
            return;
        }
        Recording recording = generator instanceof TokenBuffer buffer ? new SealingBuffer(buffer, sealing)
                : new SealingGenerator(generator, sealing);
        boolean isWritten = false;
        try {
            serializing.serialize((JsonGenerator) recording);
            isWritten = true;
        } finally {
            if (!isWritten) {
                recording.abandon();
            }
        }
        try {
            recording.finish();
        } catch (JsonMappingException error) {
            throw error;
        } catch (IOException error) {
            throw JsonMappingException.from(generator, error.getMessage(), error);
        }
    }

    /** Values of other types are written as if there were no module. */
    private boolean mayContain(Object value, JavaType declared) {
        boolean isDeclared = declared != null && (declared.isContainerType() || declared.hasGenericTypes());
        return reach.of(isDeclared ? declared : _config.constructType(value.getClass()), _config::introspect) != Reach.Answer.NO;
    }

    @Override
    public void serializeValue(JsonGenerator generator, Object value) throws IOException {
        sealed(generator, value, null, recording -> super.serializeValue(recording, value));
    }

    @Override
    public void serializeValue(JsonGenerator generator, Object value, JavaType type) throws IOException {
        sealed(generator, value, type, recording -> super.serializeValue(recording, value, type));
    }

    @Override
    public void serializeValue(JsonGenerator generator, Object value, JavaType type, JsonSerializer<Object> serializer) throws IOException {
        sealed(generator, value, type, recording -> super.serializeValue(recording, value, type, serializer));
    }

    @Override
    public void serializePolymorphic(
            JsonGenerator generator, Object value, JavaType type, JsonSerializer<Object> serializer, TypeSerializer typeSerializer)
            throws IOException {
        sealed(generator, value, type, recording -> super.serializePolymorphic(recording, value, type, serializer, typeSerializer));
    }
}
