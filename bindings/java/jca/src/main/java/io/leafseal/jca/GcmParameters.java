package io.leafseal.jca;

import java.io.IOException;
import java.security.AlgorithmParametersSpi;
import java.security.spec.AlgorithmParameterSpec;
import java.security.spec.InvalidParameterSpecException;
import java.util.Arrays;
import javax.crypto.spec.GCMParameterSpec;

/**
 * Parameters of GCM, encoded as RFC 5084, 3.2 has them: {@code SEQUENCE { OCTET STRING nonce, INTEGER tagSize DEFAULT 12 }}, in DER.
 */
final class GcmParameters extends AlgorithmParametersSpi {
    private static final int OCTET_STRING = 4;
    private static final int INTEGER = 2;
    private static final int TAG_SIZE_DEFAULT = 12;
    private static final int TAG_SIZE_MAX = 16;

    private byte[] iv = Bytes.EMPTY;
    private int tagSize = TAG_SIZE_DEFAULT;

    @Override
    protected void engineInit(AlgorithmParameterSpec spec) throws InvalidParameterSpecException {
        if (!(spec instanceof GCMParameterSpec)) {
            throw new InvalidParameterSpecException("Inappropriate parameter specification");
        }
        GCMParameterSpec gcm = (GCMParameterSpec) spec;
        if (!isTagSize(gcm.getTLen() / 8) || gcm.getTLen() % 8 != 0) {
            throw new InvalidParameterSpecException("GCM parameter parsing error: unsupported tag len: " + gcm.getTLen());
        }
        iv = gcm.getIV();
        tagSize = gcm.getTLen() / 8;
    }

    private static boolean isTagSize(int size) {
        return size >= TAG_SIZE_DEFAULT && size <= TAG_SIZE_MAX;
    }

    @Override
    protected void engineInit(byte[] encoded) throws IOException {
        Der outer = new Der(encoded, 0, encoded.length);
        Der sequence = outer.enter(Der.SEQUENCE);
        outer.end();
        byte[] nonce = sequence.bytes(OCTET_STRING);
        int size = TAG_SIZE_DEFAULT;
        if (sequence.hasMore()) {
            byte[] number = sequence.bytes(INTEGER);
            size = number.length == 1 ? number[0] : -1;
        }
        sequence.end();
        if (!isTagSize(size)) {
            throw new IOException("GCM parameter parsing error: unsupported tag len: " + size);
        }
        iv = nonce;
        tagSize = size;
    }

    @Override
    protected void engineInit(byte[] encoded, String format) throws IOException {
        engineInit(encoded);
    }

    @Override
    protected <T extends AlgorithmParameterSpec> T engineGetParameterSpec(Class<T> type) throws InvalidParameterSpecException {
        if (!type.isAssignableFrom(GCMParameterSpec.class)) {
            throw new InvalidParameterSpecException("Inappropriate parameter specification");
        }
        return type.cast(new GCMParameterSpec(8 * tagSize, iv));
    }

    @Override
    protected byte[] engineGetEncoded() {
        byte[] nonce = Der.encode(OCTET_STRING, iv);
        if (tagSize == TAG_SIZE_DEFAULT) {
            return Der.encode(Der.SEQUENCE, nonce);
        }
        byte[] size = Der.encode(INTEGER, new byte[] {(byte) tagSize});
        byte[] content = Arrays.copyOf(nonce, nonce.length + size.length);
        System.arraycopy(size, 0, content, nonce.length, size.length);
        return Der.encode(Der.SEQUENCE, content);
    }

    @Override
    protected byte[] engineGetEncoded(String format) {
        return engineGetEncoded();
    }

    @Override
    protected String engineToString() {
        StringBuilder text = new StringBuilder("GCM parameters: iv ");
        for (byte it : iv) {
            text.append(Character.forDigit(it >> 4 & 0xf, 16)).append(Character.forDigit(it & 0xf, 16));
        }
        return text.append(", tag of ").append(8 * tagSize).append(" bits").toString();
    }
}
