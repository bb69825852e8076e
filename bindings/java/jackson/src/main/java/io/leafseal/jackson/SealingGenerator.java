package io.leafseal.jackson;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.util.JsonGeneratorDelegate;
import com.fasterxml.jackson.databind.util.RawValue;
import com.fasterxml.jackson.databind.util.TokenBuffer;
import java.io.IOException;

/**
 * Passes everything on until the first encrypted property. From there on tokens are kept, with a slot in place of each encrypted value, until
 * the engine has encrypted all of them.
 */
final class SealingGenerator extends JsonGeneratorDelegate {
    private final JsonGenerator target;
    private final Sealing sealing;
    private TokenBuffer kept;
    private Sealing.Batch batch;

    SealingGenerator(JsonGenerator target, Sealing sealing) {
        super(target, false);
        this.target = target;
        this.sealing = sealing;
    }

    /** Writes an encrypted value. */
    void seal(String role, Sealing.Writing writing) throws IOException {
        if (batch == null) {
            batch = sealing.new Batch(Sealing.Direction.ENCRYPT);
            kept = new TokenBuffer(target.getCodec(), false);
            delegate = kept;
        }
        Sealing.Slot slot = batch.add(role, writing);
        kept.writeEmbeddedObject(slot);
    }

    /** Ids as part of the content: those of the format would be lost in what is kept. */
    @Override
    public boolean canWriteTypeId() {
        return false;
    }

    @Override
    public boolean canWriteObjectId() {
        return false;
    }

    /** Calls the engine, and writes what was kept. */
    void finish() throws IOException {
        if (batch == null) {
            return;
        }
        batch.finish();
        delegate = target;
        try (JsonParser tokens = kept.asParser()) {
            while (tokens.nextToken() != null) {
                Object embedded = tokens.currentToken() == JsonToken.VALUE_EMBEDDED_OBJECT ? tokens.getEmbeddedObject() : null;
                if (embedded instanceof Sealing.Slot slot) {
                    try (JsonParser value = slot.parser(null)) {
                        target.copyCurrentStructure(value);
                    }
                } else if (embedded instanceof RawValue raw) {
                    raw.serialize(target);
                } else {
                    target.copyCurrentEvent(tokens);
                }
            }
        }
    }
}
