package io.leafseal.client;

import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.function.Function;
import org.msgpack.core.MessagePacker;
import org.msgpack.core.buffer.MessageBuffer;
import org.msgpack.core.buffer.MessageBufferOutput;

/**
 * A request, encoded once. What differs between attempts, the id and the time that is left, is written around it.
 *
 * <p>The bytes are wiped once the call has ended and no connection is writing them. Arrays of the caller are not copied, but are no longer
 * read once the call has ended: a connection that is still writing the request completes it with zeros, and sends `cancel`.
 */
final class Request {
    private static final long CHUNK_SIZE_MIN = 256;
    private static final long CHUNK_SIZE_MAX = 1 << 16;
    private static final int ID_SIZE = 7;
    /** How much of a caller's array is copied at a time. */
    private static final int PIECE_SIZE = 1 << 14;
    private static final byte[] DEADLINE = {
        (byte) 0xab, 'd', 'e', 'a', 'd', 'l', 'i', 'n', 'e', '_', 'm', 's', (byte) 0xce
    };

    final String method;
    /** Bytes of the message. */
    final long size;
    private final boolean hasDeadline;
    private final List<Part> head;
    private final List<Part> tail;
    private int users = 1;
    private boolean hasEnded;

    private record Part(byte[] bytes, int from, int to, boolean isOwned) {}

    private Request(String method, boolean hasDeadline, List<Part> head, List<Part> tail) {
        this.method = method;
        this.hasDeadline = hasDeadline;
        this.head = head;
        this.tail = tail;
        long sum = ID_SIZE + (hasDeadline ? DEADLINE.length + 4 : 0);
        for (List<Part> parts : List.of(head, tail)) {
            for (Part part : parts) {
                sum += part.to - part.from;
            }
        }
        this.size = sum;
    }

    /** Writes the message. `deadlineMs` is from 1 to 4294967295. */
    void writeTo(OutputStream out, int id, long deadlineMs) throws IOException {
        out.write(new byte[] {(byte) 0x94, 0, (byte) 0xce, (byte) (id >> 24), (byte) (id >> 16), (byte) (id >> 8), (byte) id});
        write(out, head);
        if (hasDeadline) {
            out.write(DEADLINE);
            int left = (int) deadlineMs;
            out.write(new byte[] {(byte) (left >> 24), (byte) (left >> 16), (byte) (left >> 8), (byte) left});
        }
        write(out, tail);
    }

    private void write(OutputStream out, List<Part> parts) throws IOException {
        for (Part part : parts) {
            if (part.isOwned) {
                out.write(part.bytes, part.from, part.to - part.from);
            } else {
                writeBorrowed(out, part);
            }
        }
    }

    private void writeBorrowed(OutputStream out, Part part) throws IOException {
        byte[] piece = new byte[Math.min(PIECE_SIZE, part.to - part.from)];
        try {
            for (int at = part.from; at < part.to; at += piece.length) {
                int size = Math.min(piece.length, part.to - at);
                copy(part.bytes, at, piece, size);
                out.write(piece, 0, size);
            }
        } finally {
            Pem.wipe(piece);
        }
    }

    private synchronized void copy(byte[] bytes, int at, byte[] piece, int size) {
        if (hasEnded) {
            Arrays.fill(piece, (byte) 0);
        } else {
            System.arraycopy(bytes, at, piece, 0, size);
        }
    }

    /** The call ends: from here on, the caller may change its arrays. Waits for the copy of a piece at most. */
    synchronized void end() {
        hasEnded = true;
    }

    /** Keeps the bytes until {@link #release} is called once more. */
    synchronized void retain() {
        users++;
    }

    synchronized void release() {
        users--;
        if (users == 0) {
            wipe(head);
            wipe(tail);
        }
    }

    private static void wipe(List<Part> parts) {
        for (Part part : parts) {
            if (part.isOwned) {
                Pem.wipe(part.bytes);
            }
        }
    }

    /** Encodes one request: the fields in any order, the longest last. */
    static final class Encoder {
        private final String method;
        private final long sizeMax;
        private final boolean hasDeadline;
        private final Chunks chunks = new Chunks();
        private final MessagePacker packer;
        private final List<Runnable> fields = new ArrayList<>();
        private List<Part> head;
        private List<Part> tail = new ArrayList<>();

        Encoder(String method, long sizeMax, boolean hasDeadline) {
            this.method = method;
            this.sizeMax = sizeMax;
            this.hasDeadline = hasDeadline;
            this.packer = MessagePacks.packer(chunks);
        }

        /** A field that is omitted if `value` is null. */
        Encoder text(String name, String value) {
            if (value != null) {
                byte[] utf8 = utf8(value, name);
                fields.add(() -> packed(() -> pack(name).packRawStringHeader(utf8.length).addPayload(utf8)));
            }
            return this;
        }

        /** A field that must be given. `argument` is its name for the caller. */
        Encoder required(String name, String value, String argument) {
            if (value == null) {
                throw LeafsealException.invalidArgument(argument + ": null");
            }
            return text(name, value);
        }

        /** A field that is omitted if it is false. */
        Encoder flag(String name, boolean value) {
            if (value) {
                fields.add(() -> packed(() -> pack(name).packBoolean(true)));
            }
            return this;
        }

        Encoder texts(String name, Collection<String> values) {
            if (values != null) {
                fields.add(() -> packed(() -> {
                    pack(name).packArrayHeader(values.size());
                    int index = 0;
                    for (String value : values) {
                        packText(value, index++, name);
                    }
                }));
            }
            return this;
        }

        /** Without a long field. */
        Request done() {
            writeHead(0);
            return finish();
        }

        /** With the longest field: a list of scalars. */
        Request values(Collection<?> values) {
            writeHead(1);
            try {
                packed(() -> {
                    pack("values").packArrayHeader(values.size());
                    int index = 0;
                    for (Object value : values) {
                        packValue(value, index++);
                    }
                });
                return finish();
            } catch (LeafsealException error) {
                chunks.wipe();
                throw error;
            }
        }

        /** With the longest field: bytes, which are not copied if `isOwned` is false, or wiped after the call otherwise. */
        Request bytes(String name, byte[] value, boolean isOwned) {
            writeHead(1);
            checkSize(chunks.size + (long) value.length);
            packed(() -> pack(name).packBinaryHeader(value.length).flush());
            tail.addAll(chunks.take());
            tail.add(new Part(value, 0, value.length, isOwned));
            return finish();
        }

        private void writeHead(int more) {
            int count = fields.size() + more + (hasDeadline ? 1 : 0);
            packed(() -> pack(method).packArrayHeader(1).packMapHeader(count));
            fields.forEach(Runnable::run);
            packed(packer::flush);
            head = chunks.take();
        }

        private Request finish() {
            packed(packer::flush);
            tail.addAll(chunks.take());
            Request request = new Request(method, hasDeadline, head, tail);
            try {
                checkSize(request.size);
            } catch (LeafsealException error) {
                request.release();
                throw error;
            }
            return request;
        }

        private void checkSize(long size) {
            if (size > sizeMax) {
                throw new LeafsealException(ErrorCode.TOO_LARGE, "the request exceeds requestSizeMax (" + sizeMax + " bytes)");
            }
        }

        private MessagePacker pack(String name) throws IOException {
            return packer.packString(name);
        }

        private void packValue(Object value, int index) throws IOException {
            if (value == null) {
                packer.packNil();
            } else if (value instanceof String text) {
                packText(text, index, "values");
            } else if (value instanceof Boolean flag) {
                packer.packBoolean(flag);
            } else if (value instanceof Long || value instanceof Integer || value instanceof Short || value instanceof Byte) {
                packer.packLong(((Number) value).longValue());
            } else if (value instanceof Double number && Double.isFinite(number)) {
                packer.packDouble(number);
            } else if (value instanceof Float number && Float.isFinite(number)) {
                packer.packFloat(number);
            } else if (value instanceof BigInteger number && (number.bitLength() < 64 || (number.bitLength() == 64 && number.signum() > 0))) {
                packer.packBigInteger(number);
            } else {
                String type = value instanceof Number ? "the number is not finite or too large" : "expected a string, number, boolean or null";
                throw LeafsealException.invalidElement("values", index, type + " (" + value.getClass().getName() + ")");
            }
        }

        private void packText(String text, int index, String name) throws IOException {
            if (text == null) {
                throw LeafsealException.invalidElement(name, index, "null");
            }
            byte[] utf8 = utf8(text, fault -> LeafsealException.invalidElement(name, index, fault));
            checkSize(chunks.size + (long) utf8.length);
            packer.packRawStringHeader(utf8.length).writePayload(utf8);
            Pem.wipe(utf8);
        }

        static byte[] utf8(String text, String name) {
            return utf8(text, fault -> LeafsealException.invalidArgument(name + ": " + fault));
        }

        private static byte[] utf8(String text, Function<String, LeafsealException> refused) {
            // `getBytes` replaces half a surrogate pair by a question mark, which would change the value.
            for (int index = 0; index < text.length(); index++) {
                char unit = text.charAt(index);
                if (Character.isSurrogate(unit)) {
                    boolean isPair = Character.isHighSurrogate(unit) && index + 1 < text.length() && Character.isLowSurrogate(text.charAt(index + 1));
                    if (!isPair) {
                        throw refused.apply("the string is not Unicode text");
                    }
                    index++;
                }
            }
            return text.getBytes(StandardCharsets.UTF_8);
        }

        private interface Packing {
            void run() throws IOException;
        }

        private static void packed(Packing packing) {
            try {
                packing.run();
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
    }

    /** Collects what is packed. The library's own output keeps a buffer that cannot be wiped. */
    private static final class Chunks implements MessageBufferOutput {
        private List<Part> parts = new ArrayList<>();
        private byte[] current;
        long size;

        @Override
        public MessageBuffer next(int minimumSize) {
            // As large as all before it, so that short requests stay small and long ones have few chunks.
            current = new byte[(int) Math.max(minimumSize, Math.min(Math.max(size, CHUNK_SIZE_MIN), CHUNK_SIZE_MAX))];
            return MessageBuffer.wrap(current);
        }

        @Override
        public void writeBuffer(int length) {
            parts.add(new Part(current, 0, length, true));
            size += length;
        }

        @Override
        public void write(byte[] buffer, int offset, int length) {
            add(Arrays.copyOfRange(buffer, offset, offset + length), 0, length);
        }

        @Override
        public void add(byte[] buffer, int offset, int length) {
            parts.add(new Part(buffer, offset, offset + length, true));
            size += length;
        }

        List<Part> take() {
            List<Part> taken = parts;
            parts = new ArrayList<>();
            return taken;
        }

        void wipe() {
            Request.wipe(parts);
            Pem.wipe(current);
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
    }
}
