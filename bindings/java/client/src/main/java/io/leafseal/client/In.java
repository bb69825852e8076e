package io.leafseal.client;

import io.leafseal.client.FrameReader.Frame;
import java.io.IOException;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.msgpack.core.MessageFormat;
import org.msgpack.core.MessagePackException;
import org.msgpack.core.MessageUnpacker;

/**
 * Reads parts of a message. Every fault of the message is a `protocol_error` without its content. The scanner has bounded depth and counts;
 * lists grow with what is read, never with a claimed count.
 */
final class In {
    /** Characters of an engine's message that are kept. */
    private static final int MESSAGE_MAX = 1024;

    private final Frame frame;
    private final int from;
    private final MessageUnpacker unpacker;

    private In(Frame frame, int from) {
        this.frame = frame;
        this.from = from;
        this.unpacker = MessagePacks.unpacker(frame.bytes(), from, frame.to() - from);
    }

    /** Something that is read. */
    interface Reading<T> {
        T read(In in) throws IOException;
    }

    /** A member of a map; it must be read or skipped. */
    interface Member {
        void read(String name, In in) throws IOException;
    }

    /** Reads from `at`, an offset in the frame's array. */
    static <T> T read(Frame frame, int at, Reading<T> reading) {
        In in = new In(frame, at);
        try {
            return reading.read(in);
        } catch (IOException | MessagePackException | IndexOutOfBoundsException error) {
            throw unreadable();
        }
    }

    static LeafsealException unreadable() {
        return LeafsealException.protocol("the engine's answer cannot be read");
    }

    /** The offset of what follows. */
    int at() {
        return from + (int) unpacker.getTotalReadBytes();
    }

    void skip() throws IOException {
        unpacker.skipValue();
    }

    boolean nil() throws IOException {
        return unpacker.tryUnpackNil();
    }

    boolean flag() throws IOException {
        return unpacker.unpackBoolean();
    }

    long integer() throws IOException {
        long value = unpacker.unpackLong();
        if (value < 0) {
            throw unreadable();
        }
        return value;
    }

    org.msgpack.value.ValueType type() throws IOException {
        return unpacker.getNextFormat().getValueType();
    }

    int arrayHeader() throws IOException {
        return unpacker.unpackArrayHeader();
    }

    String text() throws IOException {
        int size = unpacker.unpackRawStringHeader();
        int at = at();
        if (size == 0) {
            return "";
        }
        unpacker.readPayloadAsReference(size);
        String text = new String(frame.bytes(), at, size, StandardCharsets.UTF_8);
        // Faulty bytes become this character: a strict decoder finds out whether it was sent as such.
        if (text.indexOf('\ufffd') >= 0) {
            try {
                StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(frame.bytes(), at, size));
            } catch (CharacterCodingException error) {
                throw unreadable();
            }
        }
        return text;
    }

    byte[] bytes() throws IOException {
        int size = unpacker.unpackBinaryHeader();
        return unpacker.readPayload(size);
    }

    Object scalar() throws IOException {
        MessageFormat format = unpacker.getNextFormat();
        return switch (format.getValueType()) {
            case STRING -> text();
            case NIL -> {
                unpacker.unpackNil();
                yield null;
            }
            case BOOLEAN -> unpacker.unpackBoolean();
            case FLOAT -> unpacker.unpackDouble();
            case INTEGER -> format == MessageFormat.UINT64 ? integerOf(unpacker.unpackBigInteger()) : (Object) unpacker.unpackLong();
            default -> throw unreadable();
        };
    }

    private static Object integerOf(BigInteger value) {
        return value.bitLength() < 64 ? (Object) value.longValue() : value;
    }

    <T> List<T> list(Reading<T> element) throws IOException {
        int count = unpacker.unpackArrayHeader();
        List<T> list = new ArrayList<>(Math.min(count, 16));
        for (int index = 0; index < count; index++) {
            list.add(element.read(this));
        }
        return list;
    }

    /** A list that must have as many elements as were sent. */
    <T> List<T> list(int expected, Reading<T> element) throws IOException {
        int count = unpacker.unpackArrayHeader();
        if (count != expected) {
            throw LeafsealException.protocol("the engine returned another number of values");
        }
        List<T> list = new ArrayList<>(count);
        for (int index = 0; index < count; index++) {
            list.add(element.read(this));
        }
        return list;
    }

    void map(Member member) throws IOException {
        int count = unpacker.unpackMapHeader();
        for (int index = 0; index < count; index++) {
            member.read(text(), this);
        }
    }

    /** An error object of the protocol. */
    LeafsealException error(String prefix) throws IOException {
        String[] texts = {"", "", ""};
        long[] numbers = {-1, -1, -1};
        map((name, in) -> {
            switch (name) {
                case "code" -> texts[0] = in.text();
                case "message" -> texts[1] = in.text();
                case "retry" -> texts[2] = in.text();
                case "retry_after_ms" -> numbers[0] = in.optionalInteger();
                case "index" -> numbers[1] = in.optionalInteger();
                case "offset" -> numbers[2] = in.optionalInteger();
                default -> in.skip();
            }
        });
        if (texts[0].isEmpty()) {
            throw unreadable();
        }
        String message = prefix + texts[1].substring(0, Math.min(texts[1].length(), MESSAGE_MAX));
        return LeafsealException.ofEngine(texts[0], message, Retry.of(texts[2]), numbers[0], numbers[1], numbers[2]);
    }

    private long optionalInteger() throws IOException {
        return nil() ? -1 : integer();
    }
}
