package io.leafseal.jackson;

import com.fasterxml.jackson.core.Version;
import com.fasterxml.jackson.databind.MapperFeature;
import com.fasterxml.jackson.databind.Module;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ser.DefaultSerializerProvider;
import io.leafseal.client.DecryptOptions;
import io.leafseal.client.EncryptOptions;
import io.leafseal.client.LeafsealClient;

/**
 * Encrypts and decrypts properties with {@link Encrypted}.
 *
 * <p>All such properties of a document are encrypted in one call of the engine for each role, and decrypted in one where their types are
 * known before the values are bound: not inside polymorphic values.
 */
public final class LeafsealModule extends Module {
    private final Sealing sealing;

    private LeafsealModule(Sealing sealing) {
        this.sealing = sealing;
    }

    /** Returns a module with the defaults. */
    public static LeafsealModule of(LeafsealClient client) {
        return builder(client).build();
    }

    /** Returns a builder of a module that uses this client. */
    public static Builder builder(LeafsealClient client) {
        return new Builder(client);
    }

    /** Options of a module. */
    public static final class Builder {
        private final LeafsealClient client;
        private EncryptOptions encryption = EncryptOptions.defaults();
        private DecryptOptions decryption = DecryptOptions.defaults();
        private boolean isPlaintextAllowed;

        private Builder(LeafsealClient client) {
            this.client = client;
        }

        /** App, curve, keying, time limit of encryption. The role comes from the annotation. */
        public Builder encryption(EncryptOptions options) {
            encryption = options;
            return this;
        }

        /** App, time limit and API key of decryption. The role comes from the annotation. */
        public Builder decryption(DecryptOptions options) {
            decryption = options;
            return this;
        }

        /**
         * Accepts values that are no envelopes, for data that was stored before. By default they are refused: anyone who can write the
         * document could replace an envelope by a value of his own.
         */
        public Builder plaintextAllowed(boolean isAllowed) {
            isPlaintextAllowed = isAllowed;
            return this;
        }

        /** Returns the module. */
        public LeafsealModule build() {
            return new LeafsealModule(new Sealing(client, encryption, decryption, isPlaintextAllowed));
        }
    }

    @Override
    public String getModuleName() {
        return "leafseal";
    }

    @Override
    public Version version() {
        return Version.unknownVersion();
    }

    /** Another module of this class is refused; by default Jackson would ignore it, with its options. */
    @Override
    public Object getTypeId() {
        return this;
    }

    @Override
    public void setupModule(SetupContext context) {
        ObjectMapper mapper = context.getOwner();
        if (!mapper.isEnabled(MapperFeature.USE_ANNOTATIONS)) {
            throw new IllegalStateException("the mapper ignores annotations, also @Encrypted; enable USE_ANNOTATIONS");
        }
        if (mapper.getSerializerProvider() instanceof SealingProvider) {
            throw new IllegalStateException("the mapper has a Leafseal module");
        }
        if (mapper.getSerializerProvider().getClass() != DefaultSerializerProvider.Impl.class) {
            throw new IllegalStateException("the mapper has a serializer provider of its own, which the Leafseal module would replace");
        }
        mapper.setSerializerProvider(new SealingProvider((DefaultSerializerProvider) mapper.getSerializerProvider(), sealing));
        context.insertAnnotationIntrospector(new EncryptedIntrospector(sealing));
        context.addBeanSerializerModifier(new WriterModifier(sealing));
        context.addBeanDeserializerModifier(new ReaderModifier(sealing));
    }
}
