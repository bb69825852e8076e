package io.leafseal.jackson;

import com.fasterxml.jackson.databind.BeanProperty;
import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.JsonSerializer;
import com.fasterxml.jackson.databind.SerializerProvider;
import com.fasterxml.jackson.databind.ser.BeanSerializer;
import com.fasterxml.jackson.databind.ser.PropertyWriter;
import java.util.Iterator;

/** The serializer of a class with {@link Bound}: a property that has the class must not leave out its id. */
final class BoundSerializer extends BeanSerializer {
    private static final long serialVersionUID = 1;
    private final transient RecordBinding binding;

    BoundSerializer(BeanSerializer serializer, RecordBinding binding) {
        super(serializer);
        this.binding = binding;
    }

    /** What Jackson makes of it for a property, with the annotations of that. */
    @Override
    public JsonSerializer<?> createContextual(SerializerProvider provider, BeanProperty property) throws JsonMappingException {
        JsonSerializer<?> contextual = super.createContextual(provider, property);
        boolean hasId = false;
        boolean hasBound = false;
        for (Iterator<PropertyWriter> writers = contextual.properties(); writers.hasNext();) {
            PropertyWriter writer = writers.next();
            hasId |= writer.getName().equals(binding.id());
            hasBound |= writer instanceof EncryptedWriter;
        }
        if (hasBound && !hasId) {
            throw JsonMappingException.from(provider, binding.lacksId(handledType(), "written"));
        }
        return contextual;
    }
}
