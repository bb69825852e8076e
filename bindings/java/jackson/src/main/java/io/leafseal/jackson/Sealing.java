package io.leafseal.jackson;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.databind.util.TokenBuffer;
import io.leafseal.client.DecryptOptions;
import io.leafseal.client.EncryptOptions;
import io.leafseal.client.LeafsealClient;
import io.leafseal.client.LeafsealException;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicLong;

/**
 * What the engine does for a mapper. Values cross as one JSON array for each role, whose scalars the engine encrypts or decrypts, so that
 * numbers keep their exact text.
 */
final class Sealing {
    /** JSON, whatever the mapper's format is. Lengths are limited by the document that the values are part of. */
    private static final JsonFactory JSON = JsonFactory.builder()
            .streamReadConstraints(StreamReadConstraints.builder().maxStringLength(Integer.MAX_VALUE).maxNumberLength(Integer.MAX_VALUE).build()).build();

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

    /** Writes a value as JSON. */
    interface Writing {
        void write(JsonGenerator json) throws IOException;
    }

    /** A value that the engine has not returned yet. */
    static final class Slot {
        private TokenBuffer tokens;

        /** A parser at the value's first token. */
        JsonParser parser(JsonParser outer) throws IOException {
            JsonParser parser = outer == null ? tokens.asParser() : tokens.asParser(outer);
            parser.nextToken();
            return parser;
        }
    }

    /** Values that cross together. */
    final class Batch {
        private final Direction direction;
        private final Map<String, Roll> rolls = new LinkedHashMap<>();

        Batch(Direction direction) {
            this.direction = direction;
        }

        /** Adds a value; its slot is filled by {@link #finish}. */
        Slot add(String role, Writing writing) throws IOException {
            Roll roll = rolls.get(role);
            if (roll == null) {
                roll = new Roll();
                rolls.put(role, roll);
            }
            writing.write(roll.json);
            Slot slot = new Slot();
            roll.slots.add(slot);
            return slot;
        }

        /** Calls the engine once for each role, at the same time, and fills the slots. */
        void finish() throws IOException {
            List<CompletableFuture<byte[]>> calls = new ArrayList<>();
            try {
                for (Map.Entry<String, Roll> roll : rolls.entrySet()) {
                    roll.getValue().json.writeEndArray();
                    roll.getValue().json.close();
                    calls.add(call(roll.getKey(), roll.getValue()));
                }
                int index = 0;
                for (Roll roll : rolls.values()) {
                    roll.fill(join(calls.get(index++)));
                }
            } finally {
                calls.forEach(call -> call.cancel(true));
                rolls.values().forEach(Roll::wipe);
            }
        }

        private CompletableFuture<byte[]> call(String role, Roll roll) {
            if (direction == Direction.ENCRYPT) {
                return client.encryptDocumentAsync(roll.bytes(), role.isEmpty() ? encryption : encryption.role(role));
            }
            AtomicLong opened = new AtomicLong();
            DecryptOptions options = (role.isEmpty() ? decryption : decryption.role(role)).onReport(report -> opened.set(report.count()));
            return client.decryptDocumentAsync(roll.bytes(), options).thenApply(bytes -> {
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
            throw cause instanceof LeafsealException known ? new IOException("leafseal: " + known.code() + ": " + known.getMessage(), known) : new IOException(cause);
        }
    }

    /** The values of one role, as a JSON array. */
    private static final class Roll {
        private final Bytes out = new Bytes();
        private final JsonGenerator json;
        private final List<Slot> slots = new ArrayList<>();
        /** Scalars other than null. */
        private long scalars;

        Roll() throws IOException {
            json = new Counting(JSON.createGenerator(out));
            json.writeStartArray();
        }

        byte[] bytes() {
            return out.toByteArray();
        }

        void wipe() {
            out.wipe();
        }

        void fill(byte[] answer) throws IOException {
            try (JsonParser parser = JSON.createParser(answer)) {
                parser.nextToken();
                for (Slot slot : slots) {
                    if (parser.nextToken() == JsonToken.END_ARRAY) {
                        throw new IOException("the engine returned another number of values");
                    }
                    slot.tokens = new TokenBuffer(parser);
                    slot.tokens.copyCurrentStructure(parser);
                }
            } finally {
                Arrays.fill(answer, (byte) 0);
            }
        }

        /** Counts scalars by what arrives in the end: JSON has only these. */
        private final class Counting extends com.fasterxml.jackson.core.util.JsonGeneratorDelegate {
            Counting(JsonGenerator json) {
                super(json, false);
            }

            @Override
            public void copyCurrentEvent(JsonParser parser) throws IOException {
                if (parser.currentToken().isScalarValue() && parser.currentToken() != JsonToken.VALUE_NULL) {
                    scalars++;
                }
                delegate.copyCurrentEvent(parser);
            }

            @Override
            public void copyCurrentStructure(JsonParser parser) throws IOException {
                int depth = 0;
                while (true) {
                    JsonToken token = parser.currentToken();
                    copyCurrentEvent(parser);
                    depth += token.isStructStart() ? 1 : token.isStructEnd() ? -1 : 0;
                    if (depth == 0 && token != JsonToken.FIELD_NAME) {
                        return;
                    }
                    parser.nextToken();
                }
            }
        }
    }

    private static final class Bytes extends ByteArrayOutputStream {
        void wipe() {
            Arrays.fill(buf, (byte) 0);
        }
    }
}
