package io.leafseal.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.leafseal.client.Answers.Response;
import io.leafseal.client.FrameReader.Frame;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.msgpack.core.MessageBufferPacker;
import org.msgpack.core.MessagePack;
import org.msgpack.core.MessagePacker;
import org.msgpack.core.MessageUnpacker;
import org.msgpack.value.ImmutableValue;

/** The vectors of docs/protocol.md, and the frame scanner compared with the library's parser. */
class MessagesTest {
    private static final Path PROTOCOL = Path.of("../../../docs/protocol.md");

    /** The bytes of the fenced block `hex NAME` of the protocol's page: two digits each, up to the `|` of a line. */
    private static byte[] vector(String name) throws IOException {
        Matcher block = Pattern.compile("```hex " + name + "\n(.*?)```", Pattern.DOTALL).matcher(Files.readString(PROTOCOL));
        assertTrue(block.find(), name);
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (String line : block.group(1).split("\n")) {
            for (String octet : line.split("\\|")[0].trim().split("\\s+")) {
                out.write(Integer.parseInt(octet, 16));
            }
        }
        return out.toByteArray();
    }

    private static Response response(byte[] bytes) {
        return (Response) Answers.parse(new Frame(bytes, 0, bytes.length));
    }

    @Test
    void aRequestHasTheMeaningOfTheExample() throws IOException {
        Request request = new Request.Encoder("encrypt", 1000, true).text("app", "acme").values(Arrays.asList(42, null));
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        request.writeTo(out, 7, 500);
        assertEquals(request.size, out.size());
        ImmutableValue sent = MessagePack.newDefaultUnpacker(out.toByteArray()).unpackValue();
        assertEquals(MessagePack.newDefaultUnpacker(vector("request")).unpackValue(), sent);
    }

    @Test
    void theAnswersOfTheExampleAreRead() throws IOException {
        Response answer = response(vector("answer"));
        assertEquals(7, answer.id());
        assertNull(answer.error());
        List<String> values = Answers.values(answer, 2, in -> in.nil() ? null : in.text()).values();
        assertTrue(values.get(0).startsWith("ev:Tk9D:number:") && values.get(0).endsWith(":$"));
        assertNull(values.get(1));
        assertEquals("protocol_error", assertThrows(LeafsealException.class, () -> Answers.values(answer, 3, In::scalar)).code());

        LeafsealException error = response(vector("error")).error();
        assertEquals("decrypt_failed", error.code());
        assertEquals("envelope did not open", error.getMessage());
        assertEquals(Retry.NEVER, error.retry());
        assertEquals(3, error.index().orElseThrow());
        assertTrue(error.offset().isEmpty() && error.retryAfter().isEmpty());
    }

    @Test
    void aRequestIsWipedAfterItsLastUser() throws IOException {
        byte[] document = "secret".getBytes();
        Request request = new Request.Encoder("encrypt", 1000, true).values(List.of("secret"));
        Request owned = new Request.Encoder("encrypt_document", 1000, true).bytes("document", document, true);
        Request foreign = new Request.Encoder("encrypt_document", 1000, true).bytes("document", "secret".getBytes(), false);
        for (Request each : List.of(request, owned, foreign)) {
            each.retain();
            each.release();
            assertTrue(written(each).contains("secret"));
            each.release();
        }
        assertTrue(!written(request).contains("secret") && !written(owned).contains("secret"));
        assertTrue(written(foreign).contains("secret"), "the caller's array stays");
        assertArrayEquals(new byte[document.length], document);
    }

    private static String written(Request request) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        request.writeTo(out, 1, 1);
        return out.toString(java.nio.charset.StandardCharsets.ISO_8859_1);
    }

    /** Returns at most `step` bytes at a time. */
    private static InputStream dripping(byte[] bytes, Random random, int stepMax) {
        return new ByteArrayInputStream(bytes) {
            @Override
            public synchronized int read(byte[] into, int from, int length) {
                return super.read(into, from, Math.min(length, 1 + random.nextInt(stepMax)));
            }
        };
    }

    @Test
    void messagesAreCutWhereTheLibrarysParserEndsThem() throws Exception {
        Random random = new Random(42);
        for (int round = 0; round < 2000; round++) {
            List<byte[]> messages = new ArrayList<>();
            ByteArrayOutputStream stream = new ByteArrayOutputStream();
            for (int count = random.nextInt(6); count >= 0; count--) {
                MessageBufferPacker packer = MessagePack.newDefaultBufferPacker();
                pack(packer, random, 5);
                messages.add(packer.toByteArray());
                stream.write(packer.toByteArray());
            }
            int stepMax = List.of(1, 7, 4096, 1 << 17).get(random.nextInt(4));
            FrameReader reader = new FrameReader(dripping(stream.toByteArray(), random, stepMax), 1 << 28);
            for (byte[] message : messages) {
                Frame frame = reader.next();
                assertArrayEquals(message, Arrays.copyOfRange(frame.bytes(), frame.from(), frame.to()));
            }
            assertNull(reader.next());
        }
    }

    private static void pack(MessagePacker packer, Random random, int depth) throws IOException {
        switch (random.nextInt(depth > 0 ? 12 : 9)) {
            case 0 -> packer.packNil();
            case 1 -> packer.packBoolean(random.nextBoolean());
            case 2 -> packer.packLong(random.nextLong() >> random.nextInt(64));
            case 3 -> packer.packDouble(random.nextDouble());
            case 4 -> packer.packFloat(random.nextFloat());
            case 5 -> packer.packString("x".repeat(random.nextInt(300)));
            case 6 -> packer.packString("y".repeat(random.nextInt(1 << random.nextInt(18))));
            case 7, 8 -> {
                byte[] binary = new byte[random.nextInt(1 << random.nextInt(18))];
                packer.packBinaryHeader(binary.length).writePayload(binary);
            }
            case 9, 10 -> {
                int count = random.nextInt(1 << random.nextInt(6));
                packer.packArrayHeader(count);
                for (int index = 0; index < count; index++) {
                    pack(packer, random, depth - 2);
                }
            }
            default -> {
                int count = random.nextInt(20);
                packer.packMapHeader(count);
                for (int index = 0; index < 2 * count; index++) {
                    pack(packer, random, depth - 2);
                }
            }
        }
    }

    @Test
    void randomBytesAreRefusedOrCutAsTheLibraryDoes() throws Exception {
        Random random = new Random(7);
        int valid = 0;
        for (int round = 0; round < 200_000; round++) {
            byte[] bytes = new byte[1 + random.nextInt(12)];
            random.nextBytes(bytes);
            int end;
            try {
                end = new FrameScanner().scan(bytes, 0, bytes.length);
            } catch (FrameScanner.InvalidFrame error) {
                continue;
            }
            int whole = end;
            if (whole >= 0) {
                valid++;
                MessageUnpacker unpacker = MessagePack.newDefaultUnpacker(bytes);
                unpacker.skipValue();
                assertEquals(whole, unpacker.getTotalReadBytes(), () -> Arrays.toString(bytes));
            } else {
                assertThrows(Exception.class, () -> MessagePack.newDefaultUnpacker(bytes).skipValue(), () -> Arrays.toString(bytes));
            }
        }
        assertTrue(valid > 1000);
    }

    @Test
    void depthAndCountsAreBounded() throws Exception {
        byte[] deepest = new byte[FrameScanner.DEPTH_MAX + 1];
        Arrays.fill(deepest, (byte) 0x91);
        deepest[FrameScanner.DEPTH_MAX] = 0;
        assertEquals(deepest.length, new FrameScanner().scan(deepest, 0, deepest.length));
        byte[] deeper = new byte[FrameScanner.DEPTH_MAX + 2];
        Arrays.fill(deeper, (byte) 0x91);
        assertThrows(FrameScanner.InvalidFrame.class, () -> new FrameScanner().scan(deeper, 0, deeper.length));
        byte[] most = {(byte) 0xdd, 1, 0, 0, 0};
        assertEquals(-1, new FrameScanner().scan(most, 0, 5));
        byte[] mostPairs = {(byte) 0xdf, 1, 0, 0, 0};
        assertEquals(-1, new FrameScanner().scan(mostPairs, 0, 5));
        most[4] = 1;
        mostPairs[4] = 1;
        assertThrows(FrameScanner.InvalidFrame.class, () -> new FrameScanner().scan(most, 0, 5));
        assertThrows(FrameScanner.InvalidFrame.class, () -> new FrameScanner().scan(mostPairs, 0, 5));
    }
}
