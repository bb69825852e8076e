package io.leafseal.client;

/** Options of decryption. Those of documents are refused for values and files. */
public final class DecryptOptions extends ValueOptions<DecryptOptions> {
    private static final DecryptOptions DEFAULTS = new DecryptOptions();

    OnFailure onFailure;
    String keyId;

    private DecryptOptions() {}

    /** The defaults: the client's app and time limit, any role; an envelope that does not open fails the call. */
    public static DecryptOptions defaults() {
        return DEFAULTS;
    }

    /** The action for an envelope that does not open. Default: the call fails. */
    public DecryptOptions onFailure(OnFailure action) {
        DecryptOptions copy = copy();
        copy.onFailure = action;
        return copy;
    }

    /** The id of an API key on whose behalf the call is made, from {@link LeafsealClient#authenticate}. */
    public DecryptOptions keyId(String id) {
        DecryptOptions copy = copy();
        copy.keyId = id;
        return copy;
    }
}
