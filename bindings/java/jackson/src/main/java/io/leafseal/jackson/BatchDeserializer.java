package io.leafseal.jackson;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.BeanProperty;
import com.fasterxml.jackson.databind.DeserializationContext;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.JsonDeserializer;
import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.deser.BeanDeserializerBase;
import com.fasterxml.jackson.databind.deser.SettableBeanProperty;
import com.fasterxml.jackson.databind.deser.std.ContainerDeserializerBase;
import com.fasterxml.jackson.databind.deser.std.DelegatingDeserializer;
import com.fasterxml.jackson.databind.util.TokenBuffer;
import java.io.IOException;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.Optional;

/**
 * Reads a value once before it is bound: follows its deserializers, collects the values of encrypted properties, and has all of them
 * decrypted together. What it cannot follow, such as polymorphic values, is left to {@link EncryptedDeserializer}.
 *
 * <p>Properties without the annotation are never decrypted, whatever they contain: otherwise anyone who can write such a property could
 * have an envelope of someone else opened.
 */
final class BatchDeserializer extends DelegatingDeserializer {
    private static final long serialVersionUID = 1;
    /** The attribute of the context that holds the {@link Prepared} value. */
    private static final Object PREPARED = BatchDeserializer.class;

    /** Whether the class has {@link Bound}: its encrypted properties cannot be decrypted one by one, because the id may come after them. */
    private final boolean isBound;

    BatchDeserializer(JsonDeserializer<?> delegatee, boolean isBound) {
        super(delegatee);
        this.isBound = isBound;
    }

    boolean isBound() {
        return isBound;
    }

    /** A value that was prepared; it is complete if the walk followed every part of it. */
    private record Prepared(JsonParser tokens, boolean isComplete) {}

    @Override
    protected JsonDeserializer<?> newDelegatingInstance(JsonDeserializer<?> newDelegatee) {
        return new BatchDeserializer(newDelegatee, isBound);
    }

    /**
     * The deserializer of a property whose type it has stays Jackson's own, which looks for its own classes there: for unwrapped and for
     * inner classes. The value that contains the property decrypts together.
     */
    @Override
    public JsonDeserializer<?> createContextual(DeserializationContext context, BeanProperty property) throws JsonMappingException {
        JsonDeserializer<?> contextual = super.createContextual(context, property);
        boolean isInside = property != null && property.getType() != null && property.getType().hasRawClass(handledType());
        if (isInside && isBound && context.getFactory().findTypeDeserializer(context.getConfig(), property.getType()) != null) {
            // The value that contains the property does not follow it.
            return contextual;
        }
        return isInside && contextual instanceof BatchDeserializer batch ? batch._delegatee : contextual;
    }

    private interface Binding {
        Object bind(JsonParser parser) throws IOException;
    }

    @Override
    public Object deserialize(JsonParser parser, DeserializationContext context) throws IOException {
        return prepared(parser, context, tokens -> super.deserialize(tokens, context));
    }

    @Override
    public Object deserialize(JsonParser parser, DeserializationContext context, Object into) throws IOException {
        return prepared(parser, context, tokens -> super.deserialize(tokens, context, into));
    }

    private Object prepared(JsonParser parser, DeserializationContext context, Binding binding) throws IOException {
        Prepared outer = (Prepared) context.getAttribute(PREPARED);
        // A value that follows its type id begins with the name of a field.
        boolean isStructure = parser.isExpectedStartObjectToken() || parser.isExpectedStartArrayToken()
                || parser.currentToken() == JsonToken.FIELD_NAME;
        boolean isPrepared = outer != null && outer.tokens == parser && (outer.isComplete || !isBound);
        if (isPrepared || !isStructure) {
            return binding.bind(parser);
        }
        TokenBuffer out = context.bufferForInputBuffering(parser);
        boolean isComplete = prepare(parser, context, out);
        try (out; JsonParser tokens = out.asParser(parser)) {
            tokens.nextToken();
            context.setAttribute(PREPARED, new Prepared(tokens, isComplete));
            return binding.bind(tokens);
        } finally {
            context.setAttribute(PREPARED, outer);
        }
    }

    private boolean prepare(JsonParser parser, DeserializationContext context, TokenBuffer out) throws IOException {
        Walk walk = new Walk(parser, context, out);
        walk.copy(_delegatee);
        if (walk.batch != null) {
            finish(walk.batch, parser);
        }
        return walk.isComplete;
    }

    static void finish(Sealing.Batch batch, JsonParser parser) throws IOException {
        try {
            batch.finish();
        } catch (IOException error) {
            throw JsonMappingException.from(parser, error.getMessage(), error);
        }
    }

    /** Whether Jackson sets a property from the document. */
    static boolean isRead(SettableBeanProperty property) {
        return property != null && !property.isInjectionOnly() && !property.isIgnorable();
    }

    /** Copies a value, with slots in place of encrypted ones. The recursion is as deep as the format allows documents to be. */
    private static final class Walk {
        private final JsonParser parser;
        private final DeserializationContext context;
        private final TokenBuffer out;
        private final Map<BeanDeserializerBase, Optional<RecordBinding>> bindings = new IdentityHashMap<>();
        private Sealing.Batch batch;
        /** Of the object that is being copied, if its class has {@link Bound}. */
        private RecordBinding.RecordId record;
        private boolean isComplete = true;

        Walk(JsonParser parser, DeserializationContext context, TokenBuffer out) {
            this.parser = parser;
            this.context = context;
            this.out = out;
        }

        private void copy(JsonDeserializer<?> deserializer) throws IOException {
            JsonDeserializer<?> inner = deserializer;
            while (inner instanceof DelegatingDeserializer delegating) {
                inner = delegating.getDelegatee();
            }
            JsonToken token = parser.currentToken();
            if (inner instanceof EncryptedDeserializer encrypted && token != JsonToken.VALUE_NULL
                    && EncryptedDeserializer.embedded(parser) == null) {
                seal(encrypted);
            } else if (inner instanceof BeanDeserializerBase bean && (token == JsonToken.START_OBJECT || token == JsonToken.FIELD_NAME)) {
                RecordBinding.RecordId outer = record;
                record = bindings.computeIfAbsent(bean, Walk::binding).map(RecordBinding.RecordId::new).orElse(null);
                object(name -> member(bean, name));
                record = outer;
            } else if (inner instanceof ContainerDeserializerBase<?> container && token == JsonToken.START_OBJECT) {
                JsonDeserializer<?> content = content(container);
                object(name -> content);
            } else if (inner instanceof ContainerDeserializerBase<?> container && token == JsonToken.START_ARRAY) {
                array(content(container));
            } else {
                isComplete &= token.isScalarValue();
                out.copyCurrentStructure(parser);
            }
        }

        private static Optional<RecordBinding> binding(BeanDeserializerBase bean) {
            for (Iterator<SettableBeanProperty> properties = bean.properties(); properties.hasNext();) {
                if (properties.next().getValueDeserializer() instanceof EncryptedDeserializer encrypted && encrypted.binding() != null) {
                    return Optional.of(encrypted.binding());
                }
            }
            return Optional.empty();
        }

        /** The deserializer of a member of a bean, at whose value the parser is. The id counts under every name that Jackson reads it by. */
        private JsonDeserializer<?> member(BeanDeserializerBase bean, String name) throws IOException {
            SettableBeanProperty property = bean.findProperty(name);
            if (record != null) {
                String id = record.binding().id();
                if (name.equals(id)) {
                    if (!isRead(property) || !isVisible(property)) {
                        throw JsonMappingException.from(parser, record.binding().lacksId(bean.handledType(), "read"));
                    }
                    record.found(RecordBinding.idText(parser));
                } else if (property != null && property.getName().equals(id)) {
                    record.found(null);
                }
            }
            return valueDeserializer(property);
        }

        private interface Members {
            JsonDeserializer<?> of(String name) throws IOException;
        }

        /** The deserializer of what the bean will bind; null for what it will skip, and for values whose type the document names. */
        private JsonDeserializer<?> valueDeserializer(SettableBeanProperty property) {
            if (!isRead(property) || !isVisible(property)) {
                return null;
            }
            boolean isTyped = property.getValueTypeDeserializer() != null
                    && !(property.getValueDeserializer() instanceof EncryptedDeserializer);
            return isTyped ? null : property.getValueDeserializer();
        }

        private boolean isVisible(SettableBeanProperty property) {
            return context.getActiveView() == null || property.visibleInView(context.getActiveView());
        }

        private JsonDeserializer<?> content(ContainerDeserializerBase<?> container) throws IOException {
            JavaType type = container.getContentType();
            boolean isTyped = type == null || type.getTypeHandler() != null
                    || context.getFactory().findTypeDeserializer(context.getConfig(), type) != null;
            return isTyped ? null : container.getContentDeserializer();
        }

        /** Copies an object; each token as it is, with the ids that formats such as YAML have. */
        private void object(Members members) throws IOException {
            if (parser.currentToken() == JsonToken.FIELD_NAME) {
                out.writeStartObject();
            } else {
                out.copyCurrentEvent(parser);
                parser.nextToken();
            }
            for (; parser.currentToken() == JsonToken.FIELD_NAME; parser.nextToken()) {
                String name = parser.currentName();
                out.copyCurrentEvent(parser);
                parser.nextToken();
                copy(members.of(name));
            }
            checkEnd(JsonToken.END_OBJECT);
            out.writeEndObject();
        }

        private void array(JsonDeserializer<?> content) throws IOException {
            out.copyCurrentEvent(parser);
            for (JsonToken token = parser.nextToken(); token != null && token != JsonToken.END_ARRAY; token = parser.nextToken()) {
                copy(content);
            }
            checkEnd(JsonToken.END_ARRAY);
            out.writeEndArray();
        }

        private void checkEnd(JsonToken end) throws IOException {
            if (parser.currentToken() != end) {
                throw JsonMappingException.from(parser, "the document ends within a value");
            }
        }

        private void seal(EncryptedDeserializer encrypted) throws IOException {
            if (batch == null) {
                batch = encrypted.sealing().new Batch(Sealing.Direction.DECRYPT);
            }
            Sealing.Slot slot = encrypted.add(batch, record, parser);
            out.writeEmbeddedObject(slot);
        }
    }
}
