package io.leafseal.client;

/** Options of encryption. Those of documents are refused for values and files. */
public final class EncryptOptions extends ValueOptions<EncryptOptions> {
    private static final EncryptOptions DEFAULTS = new EncryptOptions();

    Curve curve;
    Keying keying;
    boolean skipSealed;

    private EncryptOptions() {}

    /** The defaults: the client's app and time limit, no role, the engine's curve and keying. */
    public static EncryptOptions defaults() {
        return DEFAULTS;
    }

    /** The curve of the envelopes. Default: the engine's setting. */
    public EncryptOptions curve(Curve which) {
        EncryptOptions copy = copy();
        copy.curve = which;
        return copy;
    }

    /** How often a fresh ephemeral key is created. Default: the engine's setting. */
    public EncryptOptions keying(Keying which) {
        EncryptOptions copy = copy();
        copy.keying = which;
        return copy;
    }

    /**
     * Leaves exactly those envelopes unchanged that {@code decrypt} would open for this client. Default: everything is encrypted, envelopes
     * too, so that no text can pass as already protected.
     */
    public EncryptOptions skipSealed(boolean isSkipped) {
        EncryptOptions copy = copy();
        copy.skipSealed = isSkipped;
        return copy;
    }
}
