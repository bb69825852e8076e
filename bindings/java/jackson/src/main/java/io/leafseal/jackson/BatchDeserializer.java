package io.leafseal.jackson;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.DeserializationContext;
import com.fasterxml.jackson.databind.JsonDeserializer;
import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.deser.BeanDeserializerBase;
import com.fasterxml.jackson.databind.deser.SettableBeanProperty;
import com.fasterxml.jackson.databind.deser.std.ContainerDeserializerBase;
import com.fasterxml.jackson.databind.deser.std.DelegatingDeserializer;
import com.fasterxml.jackson.databind.util.TokenBuffer;
import java.io.IOException;

/**
 * Reads a value once before it is bound: follows its deserializers, collects the values of encrypted properties, and has all of them
 * decrypted together. What it cannot follow, such as polymorphic values, is left to {@link EncryptedDeserializer}.
 *
 * <p>Properties without the annotation are never decrypted, whatever they contain: otherwise whoever can write such a property could have an
 * envelope of someone else opened.
 */
final class BatchDeserializer extends DelegatingDeserializer {
    private static final long serialVersionUID = 1;
    /** The attribute of the context that holds the parser of a prepared value. */
    private static final Object PREPARED = BatchDeserializer.class;

    BatchDeserializer(JsonDeserializer<?> delegatee) {
        super(delegatee);
    }

    @Override
    protected JsonDeserializer<?> newDelegatingInstance(JsonDeserializer<?> newDelegatee) {
        return new BatchDeserializer(newDelegatee);
    }

    @Override
    public Object deserialize(JsonParser parser, DeserializationContext context) throws IOException {
        Object outer = context.getAttribute(PREPARED);
        if (outer == parser || !(parser.isExpectedStartObjectToken() || parser.isExpectedStartArrayToken())) {
            return super.deserialize(parser, context);
        }
        try (TokenBuffer prepared = prepare(parser, context); JsonParser tokens = prepared.asParser(parser)) {
            tokens.nextToken();
            context.setAttribute(PREPARED, tokens);
            return super.deserialize(tokens, context);
        } finally {
            context.setAttribute(PREPARED, outer);
        }
    }

    private TokenBuffer prepare(JsonParser parser, DeserializationContext context) throws IOException {
        TokenBuffer out = context.bufferForInputBuffering(parser);
        Walk walk = new Walk(parser, out);
        walk.copy(_delegatee);
        if (walk.batch != null) {
            finish(walk.batch, parser);
        }
        return out;
    }

    static void finish(Sealing.Batch batch, JsonParser parser) throws IOException {
        try {
            batch.finish();
        } catch (IOException error) {
            throw JsonMappingException.from(parser, error.getMessage(), error);
        }
    }

    /** Copies a value, with slots in place of encrypted ones. The recursion is as deep as the format allows documents to be. */
    private static final class Walk {
        private final JsonParser parser;
        private final TokenBuffer out;
        private Sealing.Batch batch;

        Walk(JsonParser parser, TokenBuffer out) {
            this.parser = parser;
            this.out = out;
        }

        private void copy(JsonDeserializer<?> deserializer) throws IOException {
            JsonDeserializer<?> inner = deserializer;
            while (inner instanceof DelegatingDeserializer delegating) {
                inner = delegating.getDelegatee();
            }
            if (inner instanceof EncryptedDeserializer encrypted && parser.currentToken() != JsonToken.VALUE_NULL
                    && EncryptedDeserializer.embedded(parser) == null) {
                seal(encrypted);
            } else if (inner instanceof BeanDeserializerBase bean && parser.currentToken() == JsonToken.START_OBJECT) {
                object(name -> valueDeserializer(bean.findProperty(name)));
            } else if (inner instanceof ContainerDeserializerBase<?> container && parser.currentToken() == JsonToken.START_OBJECT) {
                object(name -> container.getContentDeserializer());
            } else if (inner instanceof ContainerDeserializerBase<?> container && parser.currentToken() == JsonToken.START_ARRAY) {
                array(container.getContentDeserializer());
            } else {
                out.copyCurrentStructure(parser);
            }
        }

        private interface Members {
            JsonDeserializer<?> of(String name);
        }

        private static JsonDeserializer<?> valueDeserializer(SettableBeanProperty property) {
            return property == null || (property.getValueTypeDeserializer() != null && !(property.getValueDeserializer() instanceof EncryptedDeserializer))
                    ? null : property.getValueDeserializer();
        }

        private void object(Members members) throws IOException {
            out.writeStartObject();
            while (parser.nextToken() == JsonToken.FIELD_NAME) {
                String name = parser.currentName();
                out.writeFieldName(name);
                parser.nextToken();
                copy(members.of(name));
            }
            out.writeEndObject();
        }

        private void array(JsonDeserializer<?> content) throws IOException {
            out.writeStartArray();
            while (parser.nextToken() != JsonToken.END_ARRAY) {
                copy(content);
            }
            out.writeEndArray();
        }

        private void seal(EncryptedDeserializer encrypted) throws IOException {
            if (batch == null) {
                batch = encrypted.sealing().new Batch(Sealing.Direction.DECRYPT);
            }
            out.writeEmbeddedObject(encrypted.add(batch, parser));
        }
    }
}
