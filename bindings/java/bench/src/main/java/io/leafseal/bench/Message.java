package io.leafseal.bench;

import java.nio.ByteBuffer;
import java.security.GeneralSecurityException;
import java.security.spec.AlgorithmParameterSpec;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/** One cipher and the memory that it works on: a message of a size, from one buffer to another. */
final class Message {
    private static final int CHUNK_SIZE = 16 * 1024;
    private static final int TAG_SIZE = 16;
    private static final SecretKeySpec KEY = new SecretKeySpec(new byte[32], "AES");

    private final Cipher cipher;
    private final boolean isGcm;
    private final boolean encrypts;
    private final boolean isChunked;
    private final ByteBuffer input;
    private final ByteBuffer output;
    private final int inputSize;
    private long number;

    Message(Cipher cipher, boolean encrypts, int size, boolean isDirect, boolean isChunked) throws GeneralSecurityException {
        this.cipher = cipher;
        this.isGcm = cipher.getAlgorithm().contains("GCM");
        this.encrypts = encrypts;
        this.isChunked = isChunked;
        byte[] text = new byte[size];
        for (int i = 0; i < size; i++) {
            text[i] = (byte) (i % 251);
        }
        if (!encrypts) {
            Cipher sealing = Cipher.getInstance(cipher.getAlgorithm(), "SunJCE");
            sealing.init(Cipher.ENCRYPT_MODE, KEY, spec(0));
            byte[] sealed = new byte[size + (isGcm ? TAG_SIZE : 0)];
            int written = 0;
            int read = 0;
            for (; size - read > CHUNK_SIZE; read += CHUNK_SIZE) {
                written += sealing.update(text, read, CHUNK_SIZE, sealed, written);
            }
            sealing.doFinal(text, read, size - read, sealed, written);
            text = sealed;
        }
        inputSize = text.length;
        int outputSize = size + TAG_SIZE;
        input = isDirect ? ByteBuffer.allocateDirect(inputSize) : ByteBuffer.allocate(inputSize);
        input.put(0, text);
        output = isDirect ? ByteBuffer.allocateDirect(outputSize) : ByteBuffer.allocate(outputSize);
        // Touched, so that the first call does not pay for the system's pages.
        for (int i = 0; i < outputSize; i += 512) {
            output.put(i, (byte) 1);
        }
    }

    private AlgorithmParameterSpec spec(long nonce) {
        byte[] iv = ByteBuffer.allocate(isGcm ? 12 : 16).putLong(nonce).array();
        return isGcm ? new GCMParameterSpec(8 * TAG_SIZE, iv) : new IvParameterSpec(iv);
    }

    /** Processes the message, under a new nonce if it is encrypted. */
    int process() throws GeneralSecurityException {
        cipher.init(encrypts ? Cipher.ENCRYPT_MODE : Cipher.DECRYPT_MODE, KEY, spec(encrypts ? ++number : 0));
        return input.hasArray() ? arrays() : buffers();
    }

    private int arrays() throws GeneralSecurityException {
        byte[] from = input.array();
        byte[] to = output.array();
        int written = 0;
        int read = 0;
        if (isChunked) {
            for (; inputSize - read > CHUNK_SIZE; read += CHUNK_SIZE) {
                written += cipher.update(from, read, CHUNK_SIZE, to, written);
            }
        }
        return written + cipher.doFinal(from, read, inputSize - read, to, written);
    }

    private int buffers() throws GeneralSecurityException {
        input.clear();
        output.clear();
        int written = 0;
        if (isChunked) {
            while (inputSize - input.position() > CHUNK_SIZE) {
                input.limit(input.position() + CHUNK_SIZE);
                written += cipher.update(input, output);
            }
            input.limit(inputSize);
        }
        return written + cipher.doFinal(input, output);
    }
}
