package io.leafseal.jackson;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.util.TokenBuffer;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;

/**
 * Stands in for a token buffer, into which trees and conversions are written: some serializers of Jackson write other things into a token
 * buffer than into any other generator.
 */
final class SealingBuffer extends TokenBuffer implements Recording {
    private static final String SLOT = "leafseal-slot-";

    private final TokenBuffer target;
    private final Sealing sealing;
    private Sealing.Batch batch;
    private int slots;

    SealingBuffer(TokenBuffer target, Sealing sealing) {
        super(target.getCodec(), target.canWriteTypeId() || target.canWriteObjectId());
        this.target = target;
        this.sealing = sealing;
        overrideStdFeatures(target.getFeatureMask(), -1);
        if (target.getCodec() instanceof ObjectMapper mapper) {
            forceUseOfBigDecimal(mapper.isEnabled(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS));
        }
    }

    @Override
    public Sealing sealing() {
        return sealing;
    }

    @Override
    public Sealing.Batch batch() {
        if (batch == null) {
            batch = sealing.new Batch(Sealing.Direction.ENCRYPT);
        }
        return batch;
    }

    @Override
    public void put(Sealing.Slot slot) throws IOException {
        if (getOutputContext().inObject()) {
            writeFieldName(SLOT + slots++);
        }
        writeEmbeddedObject(slot);
    }

    @Override
    public void finish() throws IOException {
        if (batch != null) {
            batch.finish();
        }
        try (JsonParser tokens = asParser()) {
            while (tokens.nextToken() != null) {
                ids(tokens);
                copy(tokens);
            }
        }
    }

    @Override
    public void abandon() {
        if (batch != null) {
            batch.wipe();
        }
    }

    private void ids(JsonParser tokens) throws IOException {
        Object type = tokens.getTypeId();
        if (type != null) {
            target.writeTypeId(type);
        }
        Object object = tokens.getObjectId();
        if (object != null) {
            target.writeObjectId(object);
        }
    }

    private void copy(JsonParser tokens) throws IOException {
        JsonToken token = tokens.currentToken();
        if (token == JsonToken.FIELD_NAME) {
            if (!tokens.currentName().startsWith(SLOT)) {
                target.writeFieldName(tokens.currentName());
                return;
            }
            String name = tokens.currentName();
            if (tokens.nextToken() == JsonToken.VALUE_EMBEDDED_OBJECT && tokens.getEmbeddedObject() instanceof Sealing.Slot) {
                copy(tokens);
                return;
            }
            target.writeFieldName(name);
            copy(tokens);
        } else if (token == JsonToken.VALUE_EMBEDDED_OBJECT) {
            if (tokens.getEmbeddedObject() instanceof Sealing.Slot slot) {
                slot.writeTo(target);
            } else {
                target.writeEmbeddedObject(tokens.getEmbeddedObject());
            }
        } else if (token.isNumeric()) {
            number(tokens.getNumberValueDeferred(), token == JsonToken.VALUE_NUMBER_INT);
        } else {
            target.copyCurrentEvent(tokens);
        }
    }

    /** Numbers keep their class: conversions to untyped values show it. */
    private void number(Object number, boolean isInteger) throws IOException {
        if (number instanceof Integer value) {
            target.writeNumber((int) value);
        } else if (number instanceof Long value) {
            target.writeNumber((long) value);
        } else if (number instanceof Double value) {
            target.writeNumber((double) value);
        } else if (number instanceof Float value) {
            target.writeNumber((float) value);
        } else if (number instanceof Short value) {
            target.writeNumber((short) value);
        } else if (number instanceof BigDecimal value) {
            target.writeNumber(value);
        } else if (number instanceof BigInteger value) {
            target.writeNumber(value);
        } else {
            target.writeNumber(number.toString(), isInteger);
        }
    }
}
