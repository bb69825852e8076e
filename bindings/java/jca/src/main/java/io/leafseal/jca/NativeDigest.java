package io.leafseal.jca;

import java.nio.ByteBuffer;
import java.security.MessageDigestSpi;
import java.util.Objects;

/** A hash function. */
final class NativeDigest extends MessageDigestSpi implements Cloneable {
    private Hasher hasher;

    NativeDigest(int algorithm) {
        hasher = new Hasher(algorithm);
    }

    @Override
    protected int engineGetDigestLength() {
        return hasher.size();
    }

    @Override
    protected void engineUpdate(byte input) {
        hasher.update(input);
    }

    @Override
    protected void engineUpdate(byte[] input, int offset, int size) {
        Objects.checkFromIndexSize(offset, size, input.length);
        hasher.update(input, offset, size);
    }

    @Override
    protected void engineUpdate(ByteBuffer input) {
        hasher.update(input);
    }

    @Override
    protected byte[] engineDigest() {
        byte[] digest = new byte[hasher.size()];
        hasher.end(digest, 0);
        return digest;
    }

    @Override
    protected void engineReset() {
        hasher.reset();
    }

    @Override
    public Object clone() throws CloneNotSupportedException {
        NativeDigest copy = (NativeDigest) super.clone();
        copy.hasher = hasher.clone();
        return copy;
    }
}
