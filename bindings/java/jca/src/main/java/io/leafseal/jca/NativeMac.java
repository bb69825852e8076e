package io.leafseal.jca;

import java.nio.ByteBuffer;
import java.security.InvalidAlgorithmParameterException;
import java.security.InvalidKeyException;
import java.security.Key;
import java.security.spec.AlgorithmParameterSpec;
import java.util.Objects;
import javax.crypto.MacSpi;
import javax.crypto.SecretKey;

/** HMAC (RFC 2104). */
final class NativeMac extends MacSpi implements Cloneable {
    private Hasher hasher;

    NativeMac(int algorithm) {
        hasher = new Hasher(algorithm);
    }

    @Override
    protected int engineGetMacLength() {
        return hasher.size();
    }

    @Override
    protected void engineInit(Key key, AlgorithmParameterSpec parameters)
            throws InvalidKeyException, InvalidAlgorithmParameterException {
        if (parameters != null) {
            throw new InvalidAlgorithmParameterException("HMAC does not use parameters");
        }
        if (!(key instanceof SecretKey)) {
            throw new InvalidKeyException("Secret key expected");
        }
        byte[] bytes = key.getEncoded();
        if (bytes == null) {
            throw new InvalidKeyException("Missing key data");
        }
        hasher.setKey(bytes);
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
    protected byte[] engineDoFinal() {
        byte[] code = new byte[hasher.size()];
        hasher.end(code, 0);
        return code;
    }

    @Override
    protected void engineReset() {
        hasher.reset();
    }

    @Override
    public Object clone() throws CloneNotSupportedException {
        NativeMac copy = (NativeMac) super.clone();
        copy.hasher = hasher.clone();
        return copy;
    }
}
