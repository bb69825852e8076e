package io.leafseal.kafka;

import io.leafseal.client.DecryptOptions;
import io.leafseal.client.LeafsealClient;
import java.util.List;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.DataException;

/**
 * Decrypts selected fields of keys or values. A record to which the selection cannot be applied fails.
 *
 * @param <R> the kind of record
 */
public abstract class DecryptFields<R extends ConnectRecord<R>> extends FieldTransform<R> {
    private DecryptOptions options;
    private DecryptOptions documents;
    private boolean isPlaintextAllowed;

    DecryptFields() {}

    @Override
    ConfigDef definition() {
        return Config.DECRYPT;
    }

    @Override
    void configure(Config config) {
        options = config.decryption();
        documents = options.select(config.select).strict(config.failsOnMissing).otherCase(config.otherCase());
        isPlaintextAllowed = config.getBoolean("plaintext.allowed");
    }

    @Override
    boolean isDataForbidden() {
        // An envelope with another role.
        return true;
    }

    @Override
    Schema leafSchema(Schema schema) {
        if (schema.type() != Schema.Type.STRING) {
            if (isPlaintextAllowed) {
                return schema;
            }
            throw notSealed();
        }
        return Leaf.opened(schema);
    }

    private static DataException notSealed() {
        return new DataException("a selected field is no envelope; set plaintext.allowed=true to pass such values on");
    }

    @Override
    Object toEngine(Schema schema, Object value) {
        boolean isEnvelope = value instanceof String text && text.startsWith("ev:") && text.endsWith(":$");
        if (!isEnvelope && !isPlaintextAllowed) {
            throw notSealed();
        }
        return schema != null && schema.type() != Schema.Type.STRING ? Leaf.toEngine(schema, value) : Leaf.toEngine(value);
    }

    @Override
    Object fromEngine(Schema schema, Object value) {
        return schema == null ? value : Leaf.fromEngine(schema, value);
    }

    @Override
    List<?> transform(LeafsealClient engine, String context, List<Object> values) {
        List<Object> opened = engine.decryptAll(values, within(options, context));
        for (int index = 0; index < opened.size() && !isPlaintextAllowed; index++) {
            // The engine returns what is no envelope.
            if (opened.get(index).equals(values.get(index))) {
                throw notSealed();
            }
        }
        return opened;
    }

    @Override
    byte[] transform(LeafsealClient engine, String context, byte[] json) {
        return engine.decryptDocument(json, within(documents, context));
    }

    @Override
    String transform(LeafsealClient engine, String context, String json) {
        return engine.decryptDocument(json, within(documents, context));
    }

    private static DecryptOptions within(DecryptOptions options, String context) {
        return context == null ? options : options.context(context);
    }

    /**
     * Decrypts fields of keys.
     *
     * @param <R> the kind of record
     */
    public static final class Key<R extends ConnectRecord<R>> extends DecryptFields<R> {
        @Override
        Part part() {
            return Part.KEY;
        }
    }

    /**
     * Decrypts fields of values.
     *
     * @param <R> the kind of record
     */
    public static final class Value<R extends ConnectRecord<R>> extends DecryptFields<R> {
        @Override
        Part part() {
            return Part.VALUE;
        }
    }
}
