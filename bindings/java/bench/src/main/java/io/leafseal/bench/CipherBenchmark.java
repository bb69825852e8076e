package io.leafseal.bench;

import java.util.concurrent.TimeUnit;
import javax.crypto.Cipher;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Warmup;

/** Warm throughput: {@code init} under a new nonce and a whole message, in one call or in chunks of 16 KiB. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(value = 1, jvmArgsAppend = {"-Xms4g", "-Xmx4g"})
@Warmup(iterations = 2, time = 1)
@Measurement(iterations = 3, time = 1)
public class CipherBenchmark {
    /** Security provider. */
    @Param({"Leafseal", "SunJCE", "Corretto", "Conscrypt", "BouncyCastle"})
    public String provider;

    /** Cipher. */
    @Param({"AES/GCM/NoPadding", "AES/CTR/NoPadding"})
    public String transformation;

    /** Bytes of the message. */
    @Param({"32", "256", "1024", "16384", "65536", "1048576", "10485760", "104857600"})
    public int size;

    /** Memory of input and output. */
    @Param({"heap", "direct"})
    public String memory;

    /** One call of {@code doFinal}, or chunks. */
    @Param({"entire", "chunked"})
    public String calls;

    /** Direction. */
    @Param({"encrypt", "decrypt"})
    public String direction;

    private Message message;

    /** Makes cipher and buffers. */
    @Setup
    public void prepare() throws Exception {
        Cipher cipher = Cipher.getInstance(transformation, Providers.named(provider));
        message = new Message(cipher, direction.equals("encrypt"), size, memory.equals("direct"), calls.equals("chunked"));
    }

    /** One message. */
    @Benchmark
    public int process() throws Exception {
        return message.process();
    }
}
