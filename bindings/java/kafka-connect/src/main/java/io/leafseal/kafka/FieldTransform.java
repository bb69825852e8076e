package io.leafseal.kafka;

import io.leafseal.client.ErrorCode;
import io.leafseal.client.LeafsealClient;
import io.leafseal.client.LeafsealException;
import io.leafseal.client.Retry;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.cache.LRUCache;
import org.apache.kafka.common.cache.SynchronizedCache;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.transforms.Transformation;

/**
 * Shared by both transforms: walks a key or value, has all selected scalars of a record transformed in one call, and rebuilds it.
 *
 * <p>A record to which the selection cannot be applied fails; it never passes unchanged.
 */
abstract class FieldTransform<R extends ConnectRecord<R>> implements Transformation<R>, Versioned {
    /**
     * Codes of calls that the same settings may serve later, although the client does not retry them: a grant is given, an app enabled, a
     * file of a certificate renewed; or the task stops.
     */
    private static final Set<String> CODES_THAT_PASS = Set.of(
            ErrorCode.FORBIDDEN, ErrorCode.APP_DISABLED, ErrorCode.TLS_FAILED, ErrorCode.CANCELLED, ErrorCode.CLOSED);
    private static final int SCHEMAS_MAX = 64;
    /** Bytes of the longest context. */
    private static final int CONTEXT_SIZE_MAX = 1024;

    private final SynchronizedCache<Schema, Schema> schemas = new SynchronizedCache<>(new LRUCache<>(SCHEMAS_MAX));
    private Config config;
    private LeafsealClient client;

    /** Which part of a record is transformed. */
    enum Part { KEY, VALUE }

    abstract Part part();

    /** The schema of a transformed scalar. */
    abstract Schema leafSchema(Schema schema);

    /** A scalar as a value of the engine; the schema is null without one. */
    abstract Object toEngine(Schema schema, Object value);

    /** A value of the engine as a scalar with the transformed schema, which is null without one. */
    abstract Object fromEngine(Schema schema, Object value);

    /** The context is null where values are bound to none. */
    abstract List<?> transform(LeafsealClient engine, String context, List<Object> values);

    abstract byte[] transform(LeafsealClient engine, String context, byte[] json);

    abstract String transform(LeafsealClient engine, String context, String json);

    abstract void configure(Config checked);

    abstract ConfigDef definition();

    @Override
    public void configure(Map<String, ?> settings) {
        config = new Config(definition(), settings);
        if (config.isBoundToKey && part() == Part.KEY) {
            throw new ConfigException("context", "topic,key", "a key cannot be bound to itself, which is changed; set topic");
        }
        configure(config);
        client = config.client();
    }

    @Override
    public String version() {
        String version = FieldTransform.class.getPackage().getImplementationVersion();
        return version == null ? "unknown" : version;
    }

    @Override
    public ConfigDef config() {
        return definition();
    }

    @Override
    public void close() {
        if (client != null) {
            client.closeNow();
        }
    }

    @Override
    public R apply(R record) {
        boolean isKey = part() == Part.KEY;
        Schema schema = isKey ? record.keySchema() : record.valueSchema();
        Object value = isKey ? record.key() : record.value();
        // A converter writes the default of a schema in place of null.
        if (value == null && (schema == null || schema.defaultValue() == null)) {
            return record;
        }
        Result result;
        try {
            String context = context(record);
            result = config.select.isEmpty() ? structured(schema, value, context) : text(schema, value, context);
        } catch (LeafsealException error) {
            throw failed(error);
        }
        return isKey
                ? record.newRecord(record.topic(), record.kafkaPartition(), result.schema, result.value, record.valueSchema(), record.value(), record.timestamp())
                : record.newRecord(record.topic(), record.kafkaPartition(), record.keySchema(), record.key(), result.schema, result.value, record.timestamp());
    }

    private record Result(Schema schema, Object value) {}

    /** What the values of a record are bound to, or null. A topic has no slash in its name. */
    private String context(R record) {
        if (!config.isBoundToTopic) {
            return null;
        }
        String context = config.isBoundToKey ? record.topic() + "/" + keyText(record.key()) : record.topic();
        if (context.getBytes(StandardCharsets.UTF_8).length > CONTEXT_SIZE_MAX) {
            throw new DataException("topic and key are longer than " + CONTEXT_SIZE_MAX + " bytes, so that no value can be bound to them");
        }
        return context;
    }

    private static String keyText(Object key) {
        if (key instanceof String || key instanceof Byte || key instanceof Short || key instanceof Integer || key instanceof Long) {
            return key.toString();
        }
        if (key instanceof byte[] || key instanceof ByteBuffer) {
            ByteBuffer bytes = key instanceof ByteBuffer buffer ? buffer.duplicate() : ByteBuffer.wrap((byte[]) key);
            try {
                // Bytes that are no UTF-8 would all become the same character.
                return StandardCharsets.UTF_8.newDecoder().decode(bytes).toString();
            } catch (CharacterCodingException error) {
                throw new DataException("the key is not UTF-8, so that no value can be bound to it", error);
            }
        }
        throw new DataException("values are bound to the key, but the key is " + (key == null ? "null" : key.getClass().getName())
                + "; it must be a string, an integer or bytes in UTF-8");
    }

    private RuntimeException failed(LeafsealException error) {
        String message = "leafseal: " + error.code() + ": " + error.getMessage();
        // A value of a record that no envelope can hold is refused before anything is sent; what the engine refuses are settings.
        boolean isValue = error.code().equals(ErrorCode.INVALID_PARAMS) && error.source() == LeafsealException.Source.CLIENT;
        boolean isData = ErrorCode.CAUSED_BY_DATA.contains(error.code()) || isValue
                || (error.code().equals(ErrorCode.FORBIDDEN) && isDataForbidden());
        if (error.retry() != Retry.NEVER || (!isData && CODES_THAT_PASS.contains(error.code()))) {
            return new RetriableException(message, error);
        }
        if (isData) {
            return new DataException(message, error);
        }
        // Retried, it would keep the task waiting forever.
        return new ConnectException(message + "; correct the settings of the transform", error);
    }

    /** Whether `forbidden` may be the fault of a record. */
    abstract boolean isDataForbidden();

    private Result text(Schema schema, Object present, String context) {
        Object value = withDefault(schema, present);
        Schema target = schema;
        if (schema != null && schema.defaultValue() != null) {
            SchemaBuilder builder = SchemaBuilder.type(schema.type());
            target = copyBasics(builder, schema);
        }
        if (value == null) {
            return new Result(target, null);
        }
        if (value instanceof String json) {
            return new Result(target, transform(client, context, json));
        }
        if (value instanceof byte[] json) {
            return new Result(target, transform(client, context, json));
        }
        if (value instanceof ByteBuffer json) {
            return new Result(target, ByteBuffer.wrap(transform(client, context, Leaf.bytes(json))));
        }
        throw new DataException("select is for JSON text, but the " + noun() + " is " + value.getClass().getName() + "; set fields for structs and maps");
    }

    /** Null as the default of its schema, as the converters of Connect write it. A required field has no other meaning of null. */
    private Object withDefault(Schema schema, Object value) {
        if (value != null || schema == null) {
            return value;
        }
        return config.replacesNull || !schema.isOptional() ? schema.defaultValue() : null;
    }

    private String noun() {
        return part() == Part.KEY ? "key" : "value";
    }

    private Result structured(Schema schema, Object value, String context) {
        Schema target = schema == null ? null : schemas.get(schema);
        if (schema != null && target == null) {
            target = schemaOf(schema, config.fields, noun());
            schemas.put(schema, target);
        }
        List<Object> collected = new ArrayList<>();
        rebuild(schema, target, value, config.fields, noun(), (from, to, leaf) -> {
            collected.add(toEngine(from, leaf));
            return null;
        }, Mode.COLLECT);
        if (collected.isEmpty()) {
            return new Result(target, rebuild(schema, target, value, config.fields, noun(), (from, to, leaf) -> null, Mode.REPLACE));
        }
        Iterator<?> transformed = transform(client, context, Collections.unmodifiableList(collected)).iterator();
        Object result = rebuild(schema, target, value, config.fields, noun(), (from, to, leaf) -> fromEngine(to, transformed.next()), Mode.REPLACE);
        return new Result(target, result);
    }

    private enum Mode { COLLECT, REPLACE }

    private interface Leaves {
        Object leaf(Schema from, Schema to, Object value);
    }

    private Schema schemaOf(Schema schema, Paths paths, String where) {
        if (paths == null) {
            return schema;
        }
        switch (schema.type()) {
            case STRUCT:
                return structOf(schema, paths, where);
            case ARRAY:
                return copyBasics(SchemaBuilder.array(schemaOf(schema.valueSchema(), paths, where)), schema);
            case MAP:
                return copyBasics(SchemaBuilder.map(schema.keySchema(), mapValueSchema(schema, paths, where)), schema);
            default:
                if (!paths.isSelected()) {
                    throw new DataException(where + " is no struct or map, but fields below it are selected");
                }
                return leafSchema(schema);
        }
    }

    private Schema structOf(Schema schema, Paths paths, String where) {
        checkNames(schema.fields().stream().map(Field::name).toList(), paths, where);
        SchemaBuilder builder = SchemaBuilder.struct();
        for (Field field : schema.fields()) {
            builder.field(field.name(), schemaOf(field.schema(), paths.child(field.name()), where + "." + field.name()));
        }
        return copyBasics(builder, schema);
    }

    /** All values of a map have one schema, so either all are selected in the same way, or they are strings before and after. */
    private Schema mapValueSchema(Schema schema, Paths paths, String where) {
        Schema value = schema.valueSchema();
        boolean isUniform = paths.isSelected() || !paths.names().iterator().hasNext();
        if (isUniform) {
            return schemaOf(value, paths.child("*"), where + ".*");
        }
        if (value.type() != Schema.Type.STRING || value.name() != null) {
            throw new DataException(where + ": single keys can be selected only in maps of strings; select all by *");
        }
        return value;
    }

    /** Without a default value, which would be plaintext and does not fit the new schema, unless it is empty. */
    private static Schema copyBasics(SchemaBuilder builder, Schema schema) {
        builder.name(schema.name()).version(schema.version()).doc(schema.doc());
        if (schema.parameters() != null) {
            builder.parameters(schema.parameters());
        }
        Object value = schema.defaultValue();
        boolean isEmpty = (value instanceof List<?> list && list.isEmpty()) || (value instanceof Map<?, ?> map && map.isEmpty());
        if (isEmpty) {
            builder.defaultValue(value);
        }
        return schema.isOptional() ? builder.optional().build() : builder.build();
    }

    /** Returns the value with its leaves replaced. With {@link Mode#COLLECT} only leaves are visited, in the same order. */
    private Object rebuild(Schema schema, Schema target, Object present, Paths paths, String where, Leaves leaves, Mode mode) {
        Object value = paths == null ? present : withDefault(schema, present);
        if (value == null || paths == null) {
            return value;
        }
        if (value instanceof Struct struct) {
            return struct(struct, target, paths, where, leaves, mode);
        }
        if (value instanceof Map<?, ?> map) {
            return map(map, schema, target, paths, where, leaves, mode);
        }
        if (value instanceof List<?> list) {
            List<Object> elements = new ArrayList<>(list.size());
            for (Object element : list) {
                elements.add(rebuild(schema == null ? null : schema.valueSchema(), target == null ? null : target.valueSchema(), element, paths, where, leaves, mode));
            }
            return elements;
        }
        if (!paths.isSelected()) {
            throw new DataException(where + " is no struct or map, but fields below it are selected");
        }
        return leaves.leaf(schema, target, value);
    }

    private Object struct(Struct struct, Schema target, Paths paths, String where, Leaves leaves, Mode mode) {
        Struct result = mode == Mode.REPLACE ? new Struct(target) : null;
        for (Field field : struct.schema().fields()) {
            Schema to = target == null ? null : target.field(field.name()).schema();
            Object present = struct.getWithoutDefault(field.name());
            Object value = rebuild(field.schema(), to, present, paths.child(field.name()), where + "." + field.name(), leaves, mode);
            // A struct accepts null for an absent field with a default only if it is not put.
            if (result != null && value != null) {
                result.put(field.name(), value);
            }
        }
        return result;
    }

    private Object map(Map<?, ?> map, Schema schema, Schema target, Paths paths, String where, Leaves leaves, Mode mode) {
        List<String> names = map.keySet().stream().map(String::valueOf).toList();
        checkNames(names, paths, where);
        Map<Object, Object> result = new LinkedHashMap<>();
        Schema from = schema == null ? null : schema.valueSchema();
        Schema to = target == null ? null : target.valueSchema();
        map.forEach((key, value) -> {
            String name = String.valueOf(key);
            result.put(key, rebuild(from, to, value, paths.child(name), where + "." + name, leaves, mode));
        });
        return result;
    }

    /** Refuses what lacks a selected name, or has one that differs only in case. */
    private void checkNames(List<String> present, Paths paths, String where) {
        if (paths.isSelected()) {
            return;
        }
        for (String name : paths.names()) {
            if (config.failsOnMissing && !present.contains(name)) {
                throw new DataException(where + " has no field " + name + ", which is selected; set on.missing=ignore if it is optional");
            }
            for (String other : present) {
                if (config.refusesOtherCase && other.equalsIgnoreCase(name) && !other.equals(name)) {
                    throw new DataException(where + " has a field " + other + ", which differs from the selected " + name + " only in case");
                }
            }
        }
    }
}
