package io.leafseal.client;

import org.msgpack.core.MessagePacker;
import org.msgpack.core.MessageUnpacker;
import org.msgpack.core.MessagePack;
import org.msgpack.core.buffer.MessageBufferOutput;

/** Packers and unpackers of the library, which must not use `sun.misc.Unsafe` where the JDK warns of it. */
final class MessagePacks {
    /** The library reads this once: its buffers use array accesses instead. */
    private static final String PORTABLE = "msgpack.universal-buffer";

    static {
        if (Runtime.version().feature() >= 24 && System.getProperty(PORTABLE) == null) {
            System.setProperty(PORTABLE, "true");
        }
    }

    private MessagePacks() {}

    static MessagePacker packer(MessageBufferOutput out) {
        return MessagePack.DEFAULT_PACKER_CONFIG.newPacker(out);
    }

    static MessageUnpacker unpacker(byte[] bytes, int from, int length) {
        return MessagePack.DEFAULT_UNPACKER_CONFIG.newUnpacker(bytes, from, length);
    }
}
