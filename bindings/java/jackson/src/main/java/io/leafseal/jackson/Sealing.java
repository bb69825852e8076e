package io.leafseal.jackson;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamWriteFeature;
import com.fasterxml.jackson.core.io.JsonStringEncoder;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.util.RawValue;
import com.fasterxml.jackson.databind.util.TokenBuffer;
import io.leafseal.client.DecryptOptions;
import io.leafseal.client.EncryptOptions;
import io.leafseal.client.LeafsealClient;
import io.leafseal.client.LeafsealException;
import io.leafseal.client.Scheme;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The engine's work for a mapper. Values cross as one JSON array for each role, whose scalars the engine encrypts or decrypts, so that
 * numbers keep their exact text.
 */
final class Sealing {
    /** JSON, whatever the mapper's format is. Lengths and depths are limited by the document that the values are part of. */
    private static final JsonFactory JSON = JsonFactory.builder()
            .streamReadConstraints(StreamReadConstraints.builder().maxStringLength(Integer.MAX_VALUE).maxNumberLength(Integer.MAX_VALUE)
                    .maxNestingDepth(Integer.MAX_VALUE).maxNameLength(Integer.MAX_VALUE).build()).build();

    /** The members around a bound value: its context, and the value itself. A value that has the first inside is refused by the engine. */
    private static final String CONTEXT = "leafseal_context";
    private static final String VALUE = "leafseal_value";

    /** Features of the mapper that change numbers, and that encrypted ones follow. */
    private static final int NUMBERS = JsonWriteFeature.WRITE_NUMBERS_AS_STRINGS.mappedFeature().getMask()
            | StreamWriteFeature.WRITE_BIGDECIMAL_AS_PLAIN.mappedFeature().getMask();

    private final LeafsealClient client;
    private final EncryptOptions encryption;
    private final DecryptOptions decryption;
    final boolean isPlaintextAllowed;

    Sealing(LeafsealClient client, EncryptOptions encryption, DecryptOptions decryption, boolean isPlaintextAllowed) {
        this.client = client;
        this.encryption = encryption;
        this.decryption = decryption;
        this.isPlaintextAllowed = isPlaintextAllowed;
    }

    enum Direction { ENCRYPT, DECRYPT }

    /** What a value is bound to. Of a record that is being read it is known at the end. */
    interface BoundContext {
        String text() throws IOException;
    }

    /** The values of a role cross together, those that are bound apart from the others. */
    private record RollKey(String role, boolean isBound) {}

    /** Writes a property or an element as JSON. */
    interface Writing {
        void write(JsonGenerator json) throws Exception;
    }

    /**
     * What the engine returns, or has not returned yet. Token buffers copy raw values as they are, so that a slot stays one in every buffer
     * that a deserializer of Jackson makes.
     */
    static final class Slot extends RawValue {
        private TokenBuffer tokens;

        Slot() {
            super((Object) null, false);
        }

        /** Whether the value needs no engine. */
        boolean isFilled() {
            return tokens != null;
        }

        /** A parser at the value's first token. */
        JsonParser parser(JsonParser outer) throws IOException {
            JsonParser parser = tokens.asParser(outer);
            parser.nextToken();
            return parser;
        }

        /** Writes what {@link Batch#add} captured: a property with its name, or an element. */
        void writeTo(JsonGenerator target) throws IOException {
            try (JsonParser parser = tokens.asParser()) {
                parser.nextToken();
                for (JsonToken token = parser.nextToken(); !token.isStructEnd(); token = parser.nextToken()) {
                    if (token == JsonToken.FIELD_NAME) {
                        target.writeFieldName(parser.currentName());
                    } else {
                        target.copyCurrentStructure(parser);
                    }
                }
            }
        }

        @Override
        public String toString() {
            return "a value of an encrypted property";
        }
    }

    /** Values that cross together. */
    final class Batch {
        private final Direction direction;
        private final Map<RollKey, Roll> rolls = new LinkedHashMap<>();

        Batch(Direction direction) {
            this.direction = direction;
        }

        private Roll roll(String role, BoundContext context) {
            return rolls.computeIfAbsent(new RollKey(role, context != null), key -> new Roll());
        }

        /**
         * Captures what a serializer writes within an object, which is a property, or within an array, which is an element. Its slot is
         * filled by {@link #finish}, or at once if nothing needs encryption. The context is null if the value is bound to nothing.
         */
        Slot add(String role, BoundContext context, JsonGenerator outer, Object parent, boolean isProperty, Writing writing) throws Exception {
            return roll(role, context).capture(context, outer, parent, isProperty, writing);
        }

        /** Adds the value at a parser, and moves the parser to its end. */
        Slot add(String role, BoundContext context, JsonParser parser) throws IOException {
            return roll(role, context).copy(context, parser);
        }

        /** Calls the engine once for each role, at the same time, and fills the slots. */
        void finish() throws IOException {
            rolls.values().removeIf(roll -> roll.slots.isEmpty());
            List<CompletableFuture<byte[]>> calls = new ArrayList<>();
            try {
                for (Map.Entry<RollKey, Roll> roll : rolls.entrySet()) {
                    calls.add(call(roll.getKey(), roll.getValue()));
                }
                int index = 0;
                for (Map.Entry<RollKey, Roll> roll : rolls.entrySet()) {
                    roll.getValue().fill(join(calls.get(index++)), roll.getKey().isBound());
                }
            } finally {
                calls.forEach(call -> call.cancel(true));
                rolls.values().forEach(Roll::wipe);
            }
        }

        /** Forgets what was captured. */
        void wipe() {
            rolls.values().forEach(Roll::wipe);
        }

        private CompletableFuture<byte[]> call(RollKey key, Roll roll) throws IOException {
            byte[] document = key.isBound() ? roll.boundDocument() : roll.document();
            if (direction == Direction.ENCRYPT) {
                EncryptOptions options = key.role().isEmpty() ? encryption : encryption.role(key.role());
                return client.encryptDocumentAsync(document, key.isBound() ? options.scheme(Scheme.SYMMETRIC).contextSelect(CONTEXT)
                        .select("$[*]." + VALUE) : options);
            }
            AtomicLong opened = new AtomicLong();
            DecryptOptions unbound = key.role().isEmpty() ? decryption : decryption.role(key.role());
            DecryptOptions options = (key.isBound() ? unbound.contextSelect(CONTEXT).select("$[*]." + VALUE) : unbound)
                    .onReport(report -> opened.set(report.count()));
            return client.decryptDocumentAsync(document, options).thenApply(bytes -> {
                if (opened.get() != roll.scalars && !isPlaintextAllowed) {
                    throw new CompletionException(new PlaintextFound());
                }
                return bytes;
            });
        }
    }

    /** A value of an encrypted property is no envelope. */
    static final class PlaintextFound extends IOException {
        private static final long serialVersionUID = 1;

        PlaintextFound() {
            super("the value of an encrypted property is no envelope");
        }
    }

    private static byte[] join(CompletableFuture<byte[]> call) throws IOException {
        try {
            return call.get();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted while the engine was called");
        } catch (java.util.concurrent.ExecutionException error) {
            Throwable cause = error.getCause() instanceof CompletionException ? error.getCause().getCause() : error.getCause();
            if (cause instanceof PlaintextFound found) {
                throw found;
            }
            throw cause instanceof LeafsealException known
                    ? new IOException("leafseal: " + known.code() + ": " + known.getMessage(), known) : new IOException(cause);
        }
    }

    /** The values of one role, as a JSON array. */
    private static final class Roll {
        private final Bytes out = new Bytes();
        private final List<Slot> slots = new ArrayList<>();
        /** The contexts of the slots, and where their values are; of bound values alone. */
        private final List<BoundContext> contexts = new ArrayList<>();
        private final List<Integer> starts = new ArrayList<>();
        private Bytes bound;
        /** Scalars other than null. */
        private long scalars;

        Roll() {
            out.write('[');
        }

        byte[] document() {
            out.write(']');
            return out.toByteArray();
        }

        /** The values with their contexts. The copy is wiped with the values. */
        byte[] boundDocument() throws IOException {
            bound = new Bytes();
            for (int index = 0; index < starts.size(); index++) {
                bound.writeBytes((index == 0 ? "[" : "},").getBytes(StandardCharsets.UTF_8));
                bound.writeBytes(("{\"" + CONTEXT + "\":\"").getBytes(StandardCharsets.UTF_8));
                bound.writeBytes(JsonStringEncoder.getInstance().quoteAsUTF8(contexts.get(index).text()));
                bound.writeBytes(("\",\"" + VALUE + "\":").getBytes(StandardCharsets.UTF_8));
                bound.append(out, starts.get(index), index + 1 < starts.size() ? starts.get(index + 1) - 1 : out.size());
            }
            bound.writeBytes("}]".getBytes(StandardCharsets.UTF_8));
            return bound.toByteArray();
        }

        void wipe() {
            out.wipe();
            if (bound != null) {
                bound.wipe();
            }
        }

        Slot capture(BoundContext context, JsonGenerator outer, Object parent, boolean isProperty, Writing writing) throws Exception {
            int start = begin();
            try (JsonGenerator json = JSON.createGenerator(out)) {
                json.setCodec(outer.getCodec());
                json.overrideStdFeatures(outer.getFeatureMask(), NUMBERS);
                if (isProperty) {
                    json.writeStartObject(parent);
                    writing.write(json);
                    json.writeEndObject();
                } else {
                    json.writeStartArray(parent);
                    writing.write(json);
                    json.writeEndArray();
                }
            } catch (Exception error) {
                out.truncate(start);
                throw error;
            }
            return end(start, true, context);
        }

        Slot copy(BoundContext context, JsonParser parser) throws IOException {
            int start = begin();
            try (JsonGenerator json = JSON.createGenerator(out)) {
                int depth = 0;
                while (true) {
                    JsonToken token = parser.currentToken();
                    json.copyCurrentEventExact(parser);
                    depth += token.isStructStart() ? 1 : token.isStructEnd() ? -1 : 0;
                    if (depth == 0 && token != JsonToken.FIELD_NAME) {
                        break;
                    }
                    parser.nextToken();
                }
            } catch (IOException | RuntimeException error) {
                out.truncate(start);
                throw error;
            }
            return end(start, false, context);
        }

        private int begin() {
            int start = out.size();
            if (start > 1) {
                out.write(',');
            }
            return start;
        }

        /**
         * Checks what was written: raw output of a serializer could close the array and shift other values. Values without scalars need no
         * engine.
         */
        private Slot end(int start, boolean isCaptured, BoundContext context) throws IOException {
            Slot slot = new Slot();
            long found = 0;
            int depth = 0;
            int members = 0;
            try (JsonParser parser = out.parser(start > 1 ? start + 1 : start)) {
                for (JsonToken token = parser.nextToken(); token != null; token = parser.nextToken()) {
                    depth -= token.isStructEnd() ? 1 : 0;
                    members += depth == 1 && !token.isStructEnd() && token != JsonToken.FIELD_NAME ? 1 : 0;
                    depth += token.isStructStart() ? 1 : 0;
                    found += token.isScalarValue() && token != JsonToken.VALUE_NULL ? 1 : 0;
                    if (depth == 0 && parser.nextToken() != null) {
                        throw new IOException("a serializer wrote several values");
                    }
                }
                if (isCaptured && members > 1) {
                    throw new IOException("a serializer wrote several values");
                }
                if (found == 0) {
                    slot.tokens = tokens(start);
                    out.truncate(start);
                    return slot;
                }
            } catch (IOException error) {
                // The message may quote the value.
                out.truncate(start);
                throw new IOException("the serializer of an encrypted property wrote something other than one JSON value");
            }
            scalars += found;
            slots.add(slot);
            if (context != null) {
                contexts.add(context);
                starts.add(start > 1 ? start + 1 : start);
            }
            return slot;
        }

        private TokenBuffer tokens(int start) throws IOException {
            try (JsonParser parser = out.parser(start > 1 ? start + 1 : start)) {
                parser.nextToken();
                return copied(parser);
            }
        }

        private static TokenBuffer copied(JsonParser parser) throws IOException {
            TokenBuffer tokens = new TokenBuffer(parser);
            tokens.copyCurrentStructure(parser);
            return tokens;
        }

        void fill(byte[] answer, boolean isBound) throws IOException {
            try (JsonParser parser = JSON.createParser(answer)) {
                parser.nextToken();
                for (Slot slot : slots) {
                    if (parser.nextToken() == JsonToken.END_ARRAY) {
                        throw new IOException("the engine returned another number of values");
                    }
                    if (isBound) {
                        // The beginning of the object, the name and the text of the context, the name of the value.
                        for (int token = 0; token < 4; token++) {
                            parser.nextToken();
                        }
                    }
                    slot.tokens = copied(parser);
                    if (isBound) {
                        parser.nextToken();
                    }
                }
            } finally {
                Arrays.fill(answer, (byte) 0);
            }
        }
    }

    private static final class Bytes extends ByteArrayOutputStream {
        JsonParser parser(int start) throws IOException {
            return parser(start, count);
        }

        JsonParser parser(int start, int end) throws IOException {
            return JSON.createParser(buf, start, end - start);
        }

        void append(Bytes other, int start, int end) {
            write(other.buf, start, end - start);
        }

        void truncate(int size) {
            Arrays.fill(buf, size, count, (byte) 0);
            count = size;
        }

        void wipe() {
            Arrays.fill(buf, (byte) 0);
        }
    }
}
