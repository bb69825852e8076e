package io.leafseal.bench;

import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.Provider;
import java.security.Signature;
import java.security.spec.ECGenParameterSpec;
import java.security.spec.MGF1ParameterSpec;
import java.security.spec.PSSParameterSpec;
import java.util.concurrent.TimeUnit;
import javax.crypto.KeyAgreement;
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

/** P-256 and RSA-2048, as a TLS server or ECIES uses them: a new object for each operation, the same keys. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(1)
@Warmup(iterations = 2, time = 1)
@Measurement(iterations = 3, time = 1)
public class KeyBenchmark {
    /** Security provider of the operation; SunEC and SunRsaSign are the JDK's. */
    @Param({"Leafseal", "JDK", "Corretto", "Conscrypt", "BouncyCastle"})
    public String provider;

    /** Operation. */
    @Param({"ECDH", "EC key pair", "ECDSA sign", "ECDSA verify", "RSA sign", "RSA verify", "PSS sign", "PSS verify"})
    public String operation;

    private Provider of;
    private KeyPair pair;
    private KeyPair peer;
    private String algorithm;
    private byte[] message = new byte[128];
    private byte[] signature;

    /** Makes keys with the JDK, and what the operation needs. */
    @Setup
    public void prepare() throws Exception {
        boolean isRsa = operation.startsWith("RSA") || operation.startsWith("PSS");
        of = Providers.named(provider.equals("JDK") ? isRsa ? "SunRsaSign" : "SunEC" : provider);
        KeyPairGenerator generator = KeyPairGenerator.getInstance(isRsa ? "RSA" : "EC", isRsa ? "SunRsaSign" : "SunEC");
        if (isRsa) {
            generator.initialize(2048);
        } else {
            generator.initialize(new ECGenParameterSpec("secp256r1"));
        }
        pair = generator.generateKeyPair();
        peer = generator.generateKeyPair();
        algorithm = operation.startsWith("PSS") ? "RSASSA-PSS" : isRsa ? "SHA256withRSA" : "SHA256withECDSA";
        if (operation.contains("verify")) {
            signature = sign();
        }
    }

    /** One operation. */
    @Benchmark
    public Object process() throws Exception {
        switch (operation) {
            case "ECDH":
                KeyAgreement agreement = KeyAgreement.getInstance("ECDH", of);
                agreement.init(pair.getPrivate());
                agreement.doPhase(peer.getPublic(), true);
                return agreement.generateSecret();
            case "EC key pair":
                KeyPairGenerator generator = KeyPairGenerator.getInstance("EC", of);
                generator.initialize(new ECGenParameterSpec("secp256r1"));
                return generator.generateKeyPair();
            default:
                return operation.endsWith("sign") ? sign() : verify();
        }
    }

    private Signature made() throws Exception {
        Signature made = Signature.getInstance(algorithm, of);
        if (operation.startsWith("PSS")) {
            made.setParameter(new PSSParameterSpec("SHA-256", "MGF1", MGF1ParameterSpec.SHA256, 32, 1));
        }
        return made;
    }

    private byte[] sign() throws Exception {
        Signature made = made();
        made.initSign(pair.getPrivate());
        made.update(message);
        return made.sign();
    }

    private boolean verify() throws Exception {
        Signature made = made();
        made.initVerify(pair.getPublic());
        made.update(message);
        if (!made.verify(signature)) {
            throw new AssertionError("the signature does not verify");
        }
        return true;
    }
}
