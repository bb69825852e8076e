package io.leafseal.kafka;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.connect.data.Date;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Time;
import org.apache.kafka.connect.data.Timestamp;
import org.apache.kafka.connect.errors.DataException;

/**
 * Scalars of Connect as values of the engine and back, and their schemas. The schema of an encrypted field is a string with the original type in
 * its parameters, by which decryption restores it. Messages contain no values.
 */
final class Leaf {
    private static final String PREFIX = "io.leafseal.";
    private static final String TYPE = PREFIX + "type";
    private static final String NAME = PREFIX + "name";
    private static final String VERSION = PREFIX + "version";
    /** Parameters of a value that was sealed before it was sealed again. */
    private static final String INNER = PREFIX + "inner.";

    private Leaf() {}

    /** The schema of the envelope of a value. A default value is dropped: it would be plaintext. */
    static Schema sealed(Schema schema) {
        SchemaBuilder builder = SchemaBuilder.string();
        if (schema.parameters() != null) {
            schema.parameters().forEach((key, value) ->
                    builder.parameter(key.startsWith(PREFIX) ? INNER + key.substring(PREFIX.length()) : key, value));
        }
        builder.parameter(TYPE, schema.type().name());
        if (schema.name() != null) {
            builder.parameter(NAME, schema.name());
        }
        if (schema.version() != null) {
            builder.parameter(VERSION, schema.version().toString());
        }
        builder.doc(schema.doc());
        return schema.isOptional() ? builder.optional().build() : builder.build();
    }

    /** The schema of the value in an envelope; a string if the parameters were lost on the way. */
    static Schema opened(Schema schema) {
        Map<String, String> parameters = new LinkedHashMap<>(schema.parameters() == null ? Map.of() : schema.parameters());
        String type = parameters.remove(TYPE);
        String name = parameters.remove(NAME);
        String version = parameters.remove(VERSION);
        SchemaBuilder builder;
        try {
            builder = type == null ? SchemaBuilder.string() : SchemaBuilder.type(Schema.Type.valueOf(type));
            if (!builder.type().isPrimitive()) {
                throw new DataException("an encrypted field has a schema parameter " + TYPE + " that is no primitive type");
            }
            builder.name(type == null ? schema.name() : name);
            builder.version(type == null ? schema.version() : version == null ? null : (Integer) Integer.parseInt(version));
        } catch (IllegalArgumentException error) {
            throw new DataException("an encrypted field has damaged schema parameters");
        }
        parameters.forEach((key, value) ->
                builder.parameter(key.startsWith(INNER) ? PREFIX + key.substring(INNER.length()) : key, value));
        builder.doc(schema.doc());
        return schema.isOptional() ? builder.optional().build() : builder.build();
    }

    /** The engine's form of a value with a schema. */
    static Object toEngine(Schema schema, Object value) {
        String name = schema.name() == null ? "" : schema.name();
        return switch (name) {
            case Decimal.LOGICAL_NAME -> ((BigDecimal) value).toPlainString();
            case Date.LOGICAL_NAME -> value instanceof java.util.Date date ? (Object) (long) Date.fromLogical(schema, date) : toEngine(value);
            case Time.LOGICAL_NAME -> value instanceof java.util.Date date ? (Object) (long) Time.fromLogical(schema, date) : toEngine(value);
            case Timestamp.LOGICAL_NAME -> value instanceof java.util.Date date ? (Object) Timestamp.fromLogical(schema, date) : toEngine(value);
            default -> schema.type() == Schema.Type.BYTES ? Base64.getEncoder().encodeToString(bytes(value)) : toEngine(value);
        };
    }

    /** The bytes of an array or buffer, whose position stays. */
    static byte[] bytes(Object value) {
        if (value instanceof byte[] bytes) {
            return bytes;
        }
        ByteBuffer buffer = ((ByteBuffer) value).duplicate();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    /** The engine's form of a value without a schema. */
    static Object toEngine(Object value) {
        if (value instanceof Double || value instanceof Float) {
            double number = ((Number) value).doubleValue();
            // The engine has neither of these as numbers.
            return Double.isFinite(number) && !(number == 0 && 1 / number < 0) ? value : value.toString();
        }
        if (value instanceof String || value instanceof Boolean || value instanceof Long || value instanceof Integer || value instanceof Short
                || value instanceof Byte || (value instanceof BigInteger integer && integer.bitLength() < 64)) {
            return value;
        }
        if (value instanceof BigDecimal decimal) {
            Double number = decimal.doubleValue();
            if (Double.isFinite(number) && new BigDecimal(number.toString()).compareTo(decimal) == 0) {
                return number;
            }
            throw new DataException("a decimal without a schema has more digits than a 64-bit float keeps");
        }
        throw new DataException("a selected field has a type that cannot be encrypted without a schema: " + value.getClass().getName());
    }

    /** The Connect form of what the engine has decrypted. */
    static Object fromEngine(Schema schema, Object value) {
        try {
            return convert(schema, value);
        } catch (RuntimeException error) {
            // Its message may quote the value.
            throw new DataException("a decrypted value does not fit its type " + (schema.name() == null ? schema.type() : schema.name()));
        }
    }

    private static Object convert(Schema schema, Object value) {
        String name = schema.name() == null ? "" : schema.name();
        return switch (name) {
            case Decimal.LOGICAL_NAME -> decimal(schema, value);
            case Date.LOGICAL_NAME -> Date.toLogical(schema, Math.toIntExact(integer(value)));
            case Time.LOGICAL_NAME -> Time.toLogical(schema, Math.toIntExact(integer(value)));
            case Timestamp.LOGICAL_NAME -> Timestamp.toLogical(schema, integer(value));
            default -> switch (schema.type()) {
                case INT8 -> exact(Math.toIntExact(integer(value)), (byte) integer(value));
                case INT16 -> exact(Math.toIntExact(integer(value)), (short) integer(value));
                case INT32 -> Math.toIntExact(integer(value));
                case INT64 -> integer(value);
                case FLOAT32 -> value instanceof Number number ? number.floatValue() : Float.parseFloat((String) value);
                case FLOAT64 -> value instanceof Number number ? number.doubleValue() : Double.parseDouble((String) value);
                case BOOLEAN -> (Boolean) value;
                case BYTES -> Base64.getDecoder().decode((String) value);
                default -> value.toString();
            };
        };
    }

    private static BigDecimal decimal(Schema schema, Object value) {
        BigDecimal decimal = new BigDecimal(value.toString());
        return decimal.setScale(Integer.parseInt(schema.parameters().get(Decimal.SCALE_FIELD)), java.math.RoundingMode.UNNECESSARY);
    }

    private static long integer(Object value) {
        return (Long) value;
    }

    private static Object exact(int wide, Number narrow) {
        if (narrow.intValue() != wide) {
            throw new ArithmeticException();
        }
        return narrow;
    }
}
