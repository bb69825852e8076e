package io.leafseal.kafka;

import io.leafseal.client.EncryptOptions;
import io.leafseal.client.LeafsealClient;
import java.util.List;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Schema;

/**
 * Encrypts selected fields of keys or values. A record to which the selection cannot be applied fails.
 *
 * @param <R> the kind of record
 */
public abstract class EncryptFields<R extends ConnectRecord<R>> extends FieldTransform<R> {
    private EncryptOptions options;
    private EncryptOptions documents;

    EncryptFields() {}

    @Override
    ConfigDef definition() {
        return Config.ENCRYPT;
    }

    @Override
    void configure(Config config) {
        options = config.encryption();
        documents = options.select(config.select).strict(config.failsOnMissing).otherCase(config.otherCase());
    }

    @Override
    boolean isDataForbidden() {
        return false;
    }

    @Override
    Schema leafSchema(Schema schema) {
        return Leaf.sealed(schema);
    }

    @Override
    Object toEngine(Schema schema, Object value) {
        return schema == null ? Leaf.toEngine(value) : Leaf.toEngine(schema, value);
    }

    @Override
    Object fromEngine(Schema schema, Object value) {
        return value;
    }

    @Override
    List<?> transform(LeafsealClient engine, String context, List<Object> values) {
        return engine.encryptAll(values, within(options, context));
    }

    @Override
    byte[] transform(LeafsealClient engine, String context, byte[] json) {
        return engine.encryptDocument(json, within(documents, context));
    }

    @Override
    String transform(LeafsealClient engine, String context, String json) {
        return engine.encryptDocument(json, within(documents, context));
    }

    private static EncryptOptions within(EncryptOptions options, String context) {
        return context == null ? options : options.context(context);
    }

    /**
     * Encrypts fields of keys. Equal keys become different envelopes, so that records of one key are spread over partitions.
     *
     * @param <R> the kind of record
     */
    public static final class Key<R extends ConnectRecord<R>> extends EncryptFields<R> {
        @Override
        Part part() {
            return Part.KEY;
        }
    }

    /**
     * Encrypts fields of values.
     *
     * @param <R> the kind of record
     */
    public static final class Value<R extends ConnectRecord<R>> extends EncryptFields<R> {
        @Override
        Part part() {
            return Part.VALUE;
        }
    }
}
