package io.leafseal.jca;

import io.leafseal.jca.RsaSignature.RsaMessage;
import java.nio.ByteBuffer;
import java.security.AlgorithmParameters;
import java.security.GeneralSecurityException;
import java.security.InvalidAlgorithmParameterException;
import java.security.InvalidKeyException;
import java.security.PrivateKey;
import java.security.ProviderException;
import java.security.PublicKey;
import java.security.SecureRandom;
import java.security.Signature;
import java.security.SignatureException;
import java.security.spec.AlgorithmParameterSpec;
import java.security.spec.MGF1ParameterSpec;
import java.security.spec.PSSParameterSpec;
import java.util.List;

/**
 * RSASSA-PSS (RFC 8017, 8.1) with the parameters of TLS: MGF1 with the hash function of the message, a salt as long as the hash. The JDK's
 * implementation serves other parameters, and decides which are valid.
 */
final class RsaPssSignature extends NativeSignature {
    private static final String NAME = "RSASSA-PSS";
    private static final List<String> HASHES = List.of("SHA-256", "SHA-384", "SHA-512");
    private static final int[] SALT_SIZES = {32, 48, 64};

    private PSSParameterSpec parameters;
    private PrivateKey privateKey;
    private PublicKey publicKey;
    private SecureRandom random;
    private boolean isBegun;
    /** The message in native code, or else in the JDK's; both null until key and parameters are known. */
    private RsaMessage message;
    private Signature jdk;

    @Override
    protected void engineInitSign(PrivateKey key) throws InvalidKeyException {
        engineInitSign(key, null);
    }

    @Override
    protected void engineInitSign(PrivateKey key, SecureRandom generator) throws InvalidKeyException {
        RsaKeys.slot(key, true);
        privateKey = key;
        publicKey = null;
        random = generator;
        choose();
    }

    @Override
    protected void engineInitVerify(PublicKey key) throws InvalidKeyException {
        RsaKeys.numbers(key, true);
        publicKey = key;
        privateKey = null;
        choose();
    }

    @Override
    protected void engineSetParameter(AlgorithmParameterSpec spec) throws InvalidAlgorithmParameterException {
        try {
            keyed().setParameter(spec);
        } catch (InvalidKeyException error) {
            throw new InvalidAlgorithmParameterException("the key does not suit the JDK", error);
        }
        if (isBegun) {
            throw new ProviderException("Cannot set parameters during operations");
        }
        parameters = (PSSParameterSpec) spec;
        try {
            choose();
        } catch (InvalidKeyException error) {
            throw new InvalidAlgorithmParameterException("the parameters do not fit the key", error);
        }
    }

    private static Signature jdk() {
        try {
            return Signature.getInstance(NAME, "SunRsaSign");
        } catch (GeneralSecurityException error) {
            throw new ProviderException("RSASSA-PSS needs the JDK's provider SunRsaSign", error);
        }
    }

    /** The number of the hash function; -1 for parameters that native code does not have. */
    private static int hash(PSSParameterSpec spec) {
        int hash = HASHES.indexOf(spec.getDigestAlgorithm());
        AlgorithmParameterSpec mask = spec.getMGFParameters();
        boolean isUsual = hash >= 0 && spec.getMGFAlgorithm().equals("MGF1") && mask instanceof MGF1ParameterSpec
                && ((MGF1ParameterSpec) mask).getDigestAlgorithm().equals(spec.getDigestAlgorithm())
                && spec.getSaltLength() == SALT_SIZES[hash] && spec.getTrailerField() == PSSParameterSpec.TRAILER_FIELD_BC;
        return isUsual ? hash : -1;
    }

    /** Begins a message if key and parameters are known. */
    private void choose() throws InvalidKeyException {
        isBegun = false;
        message = null;
        jdk = null;
        if (parameters == null || privateKey == null && publicKey == null) {
            return;
        }
        int hash = hash(parameters);
        if (hash >= 0) {
            message = new RsaMessage(RsaMessage.PSS + hash);
            if (privateKey != null) {
                message.initSign(privateKey);
            } else {
                message.initVerify(publicKey);
            }
        } else {
            useJdk();
        }
    }

    private void useJdk() throws InvalidKeyException {
        Signature signature = keyed();
        try {
            signature.setParameter(parameters);
        } catch (InvalidAlgorithmParameterException error) {
            throw new InvalidKeyException("the key does not fit the parameters", error);
        }
        jdk = signature;
    }

    /** The JDK's implementation with the key, if there is one yet. */
    private Signature keyed() throws InvalidKeyException {
        Signature signature = jdk();
        if (publicKey != null) {
            signature.initVerify(publicKey);
        } else if (privateKey != null && random == null) {
            signature.initSign(privateKey);
        } else if (privateKey != null) {
            signature.initSign(privateKey, random);
        }
        return signature;
    }

    private void begin() throws SignatureException {
        if (parameters == null) {
            throw new SignatureException("Parameters required for RSASSA-PSS signatures");
        }
        isBegun = true;
    }

    @Override
    protected void engineUpdate(byte input) throws SignatureException {
        begin();
        if (message != null) {
            message.hasher.update(input);
        } else {
            jdk.update(input);
        }
    }

    @Override
    protected void engineUpdate(byte[] input, int offset, int size) throws SignatureException {
        begin();
        if (message != null) {
            message.hasher.update(input, offset, size);
        } else {
            jdk.update(input, offset, size);
        }
    }

    @Override
    protected void engineUpdate(ByteBuffer input) {
        try {
            begin();
            if (message != null) {
                message.hasher.update(input);
            } else {
                jdk.update(input);
            }
        } catch (SignatureException error) {
            // The method has no checked exception.
            throw new ProviderException(error.getMessage(), error);
        }
    }

    @Override
    protected byte[] engineSign() throws SignatureException {
        begin();
        isBegun = false;
        return message != null ? message.sign() : jdk.sign();
    }

    @Override
    protected boolean engineVerify(byte[] signature) throws SignatureException {
        begin();
        isBegun = false;
        return message != null ? message.verify(signature) : jdk.verify(signature);
    }

    @Override
    protected AlgorithmParameters engineGetParameters() {
        if (parameters == null) {
            return null;
        }
        try {
            AlgorithmParameters result = AlgorithmParameters.getInstance(NAME);
            result.init(parameters);
            return result;
        } catch (GeneralSecurityException error) {
            throw new ProviderException(error);
        }
    }
}
