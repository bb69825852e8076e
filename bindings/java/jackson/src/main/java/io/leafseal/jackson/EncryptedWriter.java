package io.leafseal.jackson;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.util.JsonGeneratorDelegate;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.JsonSerializer;
import com.fasterxml.jackson.databind.MapperFeature;
import com.fasterxml.jackson.databind.SerializationConfig;
import com.fasterxml.jackson.databind.SerializerProvider;
import com.fasterxml.jackson.databind.jsontype.TypeSerializer;
import com.fasterxml.jackson.databind.ser.BeanPropertyWriter;
import com.fasterxml.jackson.databind.util.NameTransformer;
import com.fasterxml.jackson.databind.util.TokenBuffer;
import java.io.IOException;
import java.util.Arrays;

/**
 * Writes an encrypted property: Jackson's own writer of the property writes it as JSON, whatever its annotations are, and the scalars of
 * that are encrypted.
 */
final class EncryptedWriter extends BeanPropertyWriter {
    private static final long serialVersionUID = 1;
    private final transient Sealing sealing;
    private final String role;
    private final BeanPropertyWriter writer;
    /** What the property is bound to; null if it is bound to nothing. */
    private final transient RecordBinding binding;
    /** What writes the id of a bound property, unless it is unwrapped. */
    private final BeanPropertyWriter id;

    EncryptedWriter(Sealing sealing, String role, BeanPropertyWriter writer, RecordBinding binding, BeanPropertyWriter id) {
        super(writer);
        this.sealing = sealing;
        this.role = role;
        this.writer = writer;
        this.binding = binding;
        this.id = id;
    }

    @Override
    public BeanPropertyWriter rename(NameTransformer transformer) {
        return new EncryptedWriter(sealing, role, writer.rename(transformer), binding, null);
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
        seal(bean, generator, true, provider, json -> writer.serializeAsField(bean, json, provider));
    }

    @Override
    public void serializeAsElement(Object bean, JsonGenerator generator, SerializerProvider provider) throws Exception {
        seal(bean, generator, false, provider, json -> writer.serializeAsElement(bean, json, provider));
    }

    /** What the value is bound to: the id is written as the document has it, because that is what will be read. */
    private Sealing.BoundContext context(Object bean, JsonGenerator generator, boolean isProperty, SerializerProvider provider) throws Exception {
        if (binding == null) {
            if (bean.getClass().isAnnotationPresent(Bound.class)) {
                throw JsonMappingException.from(generator, bean.getClass().getName() + " has @Bound, and is written as a type without it");
            }
            return null;
        }
        if (id == null) {
            throw JsonMappingException.from(generator, "a class with @Bound cannot be unwrapped: its values are bound to the names in it");
        }
        if (!isProperty) {
            throw JsonMappingException.from(generator, "a class with @Bound cannot be written as an array, which has no id by its name");
        }
        if (!isIdVisible(provider)) {
            throw JsonMappingException.from(generator, binding.lacksId(bean.getClass(), "written"));
        }
        try (TokenBuffer tokens = new TokenBuffer(generator.getCodec(), false)) {
            tokens.overrideStdFeatures(generator.getFeatureMask(), -1);
            tokens.writeStartObject(bean);
            id.serializeAsField(bean, generator instanceof TokenBuffer ? tokens : new Likeness(tokens, generator), provider);
            tokens.writeEndObject();
            String text = null;
            try (JsonParser parser = tokens.asParser()) {
                parser.nextToken();
                if (parser.nextToken() == JsonToken.FIELD_NAME && parser.currentName().equals(binding.id())) {
                    parser.nextToken();
                    text = RecordBinding.idText(parser);
                }
            }
            String idText = text;
            return () -> boundTo(idText);
        }
    }

    /** Whether the view in use, if there is one, has the id: the writer that the module knows does not look at views. */
    private boolean isIdVisible(SerializerProvider provider) {
        Class<?> view = provider.getActiveView();
        if (view == null) {
            return true;
        }
        Class<?>[] views = id.getViews();
        boolean isInAll = views == null || views.length == 0;
        return isInAll ? provider.isEnabled(MapperFeature.DEFAULT_VIEW_INCLUSION)
                : Arrays.stream(views).anyMatch(one -> one.isAssignableFrom(view));
    }

    /** The context of a record with this id. Without one only a property that has nothing to encrypt can be written. */
    private String boundTo(String idText) throws IOException {
        if (idText == null) {
            throw new IOException("the value of \"" + getName() + "\" is bound to \"" + binding.id() + "\", which must be set, to a string or an "
                    + "integer, before the record is written: use an id that this program makes, such as a UUID, not one of the database");
        }
        return binding.context(idText, getName());
    }

    /** A token buffer into which is written what would be written to the document: a format may have binary data, as CBOR for a UUID. */
    private static final class Likeness extends JsonGeneratorDelegate {
        private final JsonGenerator original;

        Likeness(TokenBuffer tokens, JsonGenerator original) {
            super(tokens, false);
            this.original = original;
        }

        @Override
        public boolean canWriteBinaryNatively() {
            return original.canWriteBinaryNatively();
        }
    }

    private void seal(Object bean, JsonGenerator generator, boolean isProperty, SerializerProvider provider, Sealing.Writing writing)
            throws Exception {
        boolean isGathering = generator instanceof Recording known && known.sealing() == sealing;
        Sealing.Batch batch = isGathering ? ((Recording) generator).batch() : sealing.new Batch(Sealing.Direction.ENCRYPT);
        Sealing.Slot slot = batch.add(role, context(bean, generator, isProperty, provider), generator, bean, isProperty, writing);
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
