package io.leafseal.jackson;

import com.fasterxml.jackson.core.FormatSchema;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.ObjectCodec;
import com.fasterxml.jackson.core.PrettyPrinter;
import com.fasterxml.jackson.core.SerializableString;
import com.fasterxml.jackson.core.StreamWriteCapability;
import com.fasterxml.jackson.core.StreamWriteConstraints;
import com.fasterxml.jackson.core.StreamWriteFeature;
import com.fasterxml.jackson.core.Version;
import com.fasterxml.jackson.core.io.CharacterEscapes;
import com.fasterxml.jackson.core.util.JacksonFeatureSet;
import java.io.IOException;
import java.io.UncheckedIOException;

/**
 * A generator whose settings and abilities are those of another.
 *
 * <p>It does not extend {@link com.fasterxml.jackson.core.util.JsonGeneratorDelegate}: methods that a later version of Jackson adds must
 * end in those of the subclass, as the defaults of {@link JsonGenerator} do, and not in the target at once.
 */
abstract class TargetGenerator extends JsonGenerator {
    final JsonGenerator target;

    TargetGenerator(JsonGenerator target) {
        this.target = target;
    }

    /** A call of the target. */
    interface Call {
        void on(JsonGenerator generator) throws IOException;
    }

    /** A setting has changed, which has its effect on queries at once. */
    abstract void settingChanged(Call change, Call restore);

    private JsonGenerator setting(Call change, Call restore) {
        try {
            change.on(target);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        settingChanged(change, restore);
        return this;
    }

    @Override
    public boolean isClosed() {
        return target.isClosed();
    }

    @Override
    public JsonGenerator setCodec(ObjectCodec codec) {
        ObjectCodec old = target.getCodec();
        return setting(generator -> generator.setCodec(codec), generator -> generator.setCodec(old));
    }

    @Override
    public JsonGenerator enable(Feature feature) {
        return set(feature, true);
    }

    @Override
    public JsonGenerator disable(Feature feature) {
        return set(feature, false);
    }

    private JsonGenerator set(Feature feature, boolean state) {
        boolean old = target.isEnabled(feature);
        return setting(generator -> generator.configure(feature, state), generator -> generator.configure(feature, old));
    }

    @Deprecated
    @Override
    public JsonGenerator setFeatureMask(int values) {
        return overrideStdFeatures(values, -1);
    }

    @Override
    public JsonGenerator overrideStdFeatures(int values, int mask) {
        int old = target.getFeatureMask();
        return setting(generator -> generator.overrideStdFeatures(values, mask), generator -> generator.overrideStdFeatures(old, mask));
    }

    @Override
    public JsonGenerator overrideFormatFeatures(int values, int mask) {
        int old = target.getFormatFeatures();
        return setting(generator -> generator.overrideFormatFeatures(values, mask),
                generator -> generator.overrideFormatFeatures(old, mask));
    }

    @Override
    public void setSchema(FormatSchema schema) {
        FormatSchema old = target.getSchema();
        setting(generator -> generator.setSchema(schema), old == null ? generator -> { } : generator -> generator.setSchema(old));
    }

    @Override
    public JsonGenerator setPrettyPrinter(PrettyPrinter printer) {
        PrettyPrinter old = target.getPrettyPrinter();
        return setting(generator -> generator.setPrettyPrinter(printer), generator -> generator.setPrettyPrinter(old));
    }

    @Override
    public JsonGenerator useDefaultPrettyPrinter() {
        PrettyPrinter old = target.getPrettyPrinter();
        return setting(JsonGenerator::useDefaultPrettyPrinter, generator -> generator.setPrettyPrinter(old));
    }

    @Override
    public JsonGenerator setHighestNonEscapedChar(int code) {
        int old = target.getHighestEscapedChar();
        return setting(generator -> generator.setHighestNonEscapedChar(code), generator -> generator.setHighestNonEscapedChar(old));
    }

    @Override
    public JsonGenerator setCharacterEscapes(CharacterEscapes escapes) {
        CharacterEscapes old = target.getCharacterEscapes();
        return setting(generator -> generator.setCharacterEscapes(escapes), generator -> generator.setCharacterEscapes(old));
    }

    @Override
    public JsonGenerator setRootValueSeparator(SerializableString separator) {
        return setting(generator -> generator.setRootValueSeparator(separator), generator -> { });
    }

    @Override
    public ObjectCodec getCodec() {
        return target.getCodec();
    }

    @Override
    public Version version() {
        return target.version();
    }

    @Override
    public boolean isEnabled(Feature feature) {
        return target.isEnabled(feature);
    }

    @Override
    public boolean isEnabled(StreamWriteFeature feature) {
        return target.isEnabled(feature);
    }

    @Override
    public int getFeatureMask() {
        return target.getFeatureMask();
    }

    @Override
    public int getFormatFeatures() {
        return target.getFormatFeatures();
    }

    @Override
    public FormatSchema getSchema() {
        return target.getSchema();
    }

    @Override
    public PrettyPrinter getPrettyPrinter() {
        return target.getPrettyPrinter();
    }

    @Override
    public int getHighestEscapedChar() {
        return target.getHighestEscapedChar();
    }

    @Override
    public CharacterEscapes getCharacterEscapes() {
        return target.getCharacterEscapes();
    }

    @Override
    public StreamWriteConstraints streamWriteConstraints() {
        return target.streamWriteConstraints();
    }

    @Override
    public Object getOutputTarget() {
        return target.getOutputTarget();
    }

    @Override
    public int getOutputBuffered() {
        return target.getOutputBuffered();
    }

    @Override
    public boolean canUseSchema(FormatSchema schema) {
        return target.canUseSchema(schema);
    }

    @Override
    public boolean canWriteObjectId() {
        return target.canWriteObjectId();
    }

    @Override
    public boolean canWriteTypeId() {
        return target.canWriteTypeId();
    }

    @Override
    public boolean canWriteBinaryNatively() {
        return target.canWriteBinaryNatively();
    }

    @Override
    public boolean canOmitFields() {
        return target.canOmitFields();
    }

    @Override
    public boolean canWriteFormattedNumbers() {
        return target.canWriteFormattedNumbers();
    }

    @Override
    public JacksonFeatureSet<StreamWriteCapability> getWriteCapabilities() {
        return target.getWriteCapabilities();
    }
}
