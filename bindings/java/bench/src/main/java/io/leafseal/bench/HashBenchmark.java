package io.leafseal.bench;

import java.security.MessageDigest;
import java.security.Provider;
import java.util.concurrent.TimeUnit;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
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

/** Whole messages by hash functions and HMAC, under one key: where native code overtakes the JDK's. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(1)
@Warmup(iterations = 2, time = 1)
@Measurement(iterations = 3, time = 1)
public class HashBenchmark {
    /** Security provider; SUN and SunJCE are the JDK's. */
    @Param({"Leafseal", "JDK", "Corretto", "Conscrypt", "BouncyCastle"})
    public String provider;

    /** Algorithm. */
    @Param({"SHA-1", "SHA-256", "SHA-512", "HmacSHA1", "HmacSHA256", "HmacSHA512"})
    public String algorithm;

    /** Bytes of the message. */
    @Param({"32", "128", "512", "2048", "16384", "1048576"})
    public int size;

    private MessageDigest digest;
    private Mac mac;
    private byte[] message;

    /** Makes the object and the message. */
    @Setup
    public void prepare() throws Exception {
        boolean isMac = algorithm.startsWith("Hmac");
        Provider of = Providers.named(provider.equals("JDK") ? isMac ? "SunJCE" : "SUN" : provider);
        message = new byte[size];
        if (isMac) {
            mac = Mac.getInstance(algorithm, of);
            mac.init(new SecretKeySpec(new byte[32], algorithm));
        } else {
            digest = MessageDigest.getInstance(algorithm, of);
        }
    }

    /** One message. */
    @Benchmark
    public byte[] process() {
        return mac == null ? digest.digest(message) : mac.doFinal(message);
    }
}
