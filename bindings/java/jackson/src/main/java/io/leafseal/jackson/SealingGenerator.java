package io.leafseal.jackson;

import com.fasterxml.jackson.core.Base64Variant;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonStreamContext;
import com.fasterxml.jackson.core.SerializableString;
import com.fasterxml.jackson.core.TreeNode;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.Reader;
import java.io.StringReader;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;

/**
 * Passes every call on to the generator of the document until the first encrypted property. From there on it keeps the calls themselves,
 * and makes the same calls once the engine has encrypted: what is written between encrypted values cannot depend on this class, whatever
 * the format does with a call.
 */
final class SealingGenerator extends TargetGenerator implements Recording {
    private final Sealing sealing;
    /** Null until the first encrypted property. */
    private Sealing.Batch batch;
    private List<Call> kept;
    private final Deque<Call> undo = new ArrayDeque<>();
    private SealingContext context;

    SealingGenerator(JsonGenerator target, Sealing sealing) {
        super(target);
        this.sealing = sealing;
    }

    @Override
    public Sealing sealing() {
        return sealing;
    }

    @Override
    public Sealing.Batch batch() {
        if (batch == null) {
            batch = sealing.new Batch(Sealing.Direction.ENCRYPT);
        }
        return batch;
    }

    @Override
    public void put(Sealing.Slot slot) throws IOException {
        if (kept == null) {
            kept = new ArrayList<>();
            context = new SealingContext(target.getOutputContext());
        }
        context.written();
        kept.add(slot::writeTo);
    }

    /** Calls the engine, and makes the calls that were kept. */
    @Override
    public void finish() throws IOException {
        if (kept == null) {
            return;
        }
        batch.finish();
        for (Call call : undo) {
            call.on(target);
        }
        List<Call> calls = kept;
        kept = null;
        batch = null;
        for (Call call : calls) {
            call.on(target);
        }
    }

    @Override
    public void abandon() {
        if (batch != null) {
            batch.wipe();
        }
    }

    private void call(Call call) throws IOException {
        if (kept == null) {
            call.on(target);
        } else {
            kept.add(call);
        }
    }

    private void value(Call call) throws IOException {
        if (kept != null) {
            context.written();
        }
        call(call);
    }

    private void start(int type, Object forValue, Call call) throws IOException {
        if (kept != null) {
            context.written();
            context = new SealingContext(context, type);
            context.setCurrentValue(forValue);
            streamWriteConstraints().validateNestingDepth(context.getNestingDepth());
        }
        call(call);
    }

    private void end(Call call) throws IOException {
        if (kept != null && context.getParent() != null) {
            JsonStreamContext parent = context.getParent();
            context = parent instanceof SealingContext own ? own : new SealingContext(parent);
        }
        call(call);
    }

    private void name(String name, Call call) throws IOException {
        if (kept != null) {
            context.name = name;
        }
        call(call);
    }

    @Override
    void settingChanged(Call change, Call restore) {
        if (kept != null) {
            kept.add(change);
            undo.addFirst(restore);
        }
    }

    @Override
    public void writeStartArray() throws IOException {
        start(JsonStreamContext.TYPE_ARRAY, null, JsonGenerator::writeStartArray);
    }

    @Deprecated
    @Override
    public void writeStartArray(int size) throws IOException {
        start(JsonStreamContext.TYPE_ARRAY, null, generator -> generator.writeStartArray(null, size));
    }

    @Override
    public void writeStartArray(Object value) throws IOException {
        start(JsonStreamContext.TYPE_ARRAY, value, generator -> generator.writeStartArray(value));
    }

    @Override
    public void writeStartArray(Object value, int size) throws IOException {
        start(JsonStreamContext.TYPE_ARRAY, value, generator -> generator.writeStartArray(value, size));
    }

    @Override
    public void writeEndArray() throws IOException {
        end(JsonGenerator::writeEndArray);
    }

    @Override
    public void writeStartObject() throws IOException {
        start(JsonStreamContext.TYPE_OBJECT, null, JsonGenerator::writeStartObject);
    }

    @Override
    public void writeStartObject(Object value) throws IOException {
        start(JsonStreamContext.TYPE_OBJECT, value, generator -> generator.writeStartObject(value));
    }

    @Override
    public void writeStartObject(Object value, int size) throws IOException {
        start(JsonStreamContext.TYPE_OBJECT, value, generator -> generator.writeStartObject(value, size));
    }

    @Override
    public void writeEndObject() throws IOException {
        end(JsonGenerator::writeEndObject);
    }

    @Override
    public void writeFieldName(String name) throws IOException {
        name(name, generator -> generator.writeFieldName(name));
    }

    @Override
    public void writeFieldName(SerializableString name) throws IOException {
        name(name.getValue(), generator -> generator.writeFieldName(name));
    }

    @Override
    public void writeFieldId(long id) throws IOException {
        name(Long.toString(id), generator -> generator.writeFieldId(id));
    }

    @Override
    public void writeOmittedField(String name) throws IOException {
        call(generator -> generator.writeOmittedField(name));
    }

    @Override
    public void writeArray(int[] array, int offset, int length) throws IOException {
        int[] copy = Arrays.copyOfRange(array, offset, offset + length);
        value(generator -> generator.writeArray(copy, 0, length));
    }

    @Override
    public void writeArray(long[] array, int offset, int length) throws IOException {
        long[] copy = Arrays.copyOfRange(array, offset, offset + length);
        value(generator -> generator.writeArray(copy, 0, length));
    }

    @Override
    public void writeArray(double[] array, int offset, int length) throws IOException {
        double[] copy = Arrays.copyOfRange(array, offset, offset + length);
        value(generator -> generator.writeArray(copy, 0, length));
    }

    @Override
    public void writeArray(String[] array, int offset, int length) throws IOException {
        String[] copy = Arrays.copyOfRange(array, offset, offset + length);
        value(generator -> generator.writeArray(copy, 0, length));
    }

    @Override
    public void writeString(String text) throws IOException {
        value(generator -> generator.writeString(text));
    }

    @Override
    public void writeString(Reader reader, int length) throws IOException {
        if (kept == null) {
            target.writeString(reader, length);
            return;
        }
        char[] units = new char[4096];
        StringBuilder text = new StringBuilder();
        int left = length < 0 ? Integer.MAX_VALUE : length;
        for (int count = 0; left > 0 && (count = reader.read(units, 0, Math.min(units.length, left))) >= 0; left -= count) {
            text.append(units, 0, count);
        }
        String whole = text.toString();
        value(generator -> generator.writeString(new StringReader(whole), length));
    }

    @Override
    public void writeString(char[] buffer, int offset, int length) throws IOException {
        char[] copy = Arrays.copyOfRange(buffer, offset, offset + length);
        value(generator -> generator.writeString(copy, 0, length));
    }

    @Override
    public void writeString(SerializableString text) throws IOException {
        value(generator -> generator.writeString(text));
    }

    @Override
    public void writeRawUTF8String(byte[] buffer, int offset, int length) throws IOException {
        byte[] copy = Arrays.copyOfRange(buffer, offset, offset + length);
        value(generator -> generator.writeRawUTF8String(copy, 0, length));
    }

    @Override
    public void writeUTF8String(byte[] buffer, int offset, int length) throws IOException {
        byte[] copy = Arrays.copyOfRange(buffer, offset, offset + length);
        value(generator -> generator.writeUTF8String(copy, 0, length));
    }

    @Override
    public void writeRaw(String text) throws IOException {
        call(generator -> generator.writeRaw(text));
    }

    @Override
    public void writeRaw(String text, int offset, int length) throws IOException {
        call(generator -> generator.writeRaw(text, offset, length));
    }

    @Override
    public void writeRaw(char[] text, int offset, int length) throws IOException {
        char[] copy = Arrays.copyOfRange(text, offset, offset + length);
        call(generator -> generator.writeRaw(copy, 0, length));
    }

    @Override
    public void writeRaw(char unit) throws IOException {
        call(generator -> generator.writeRaw(unit));
    }

    @Override
    public void writeRaw(SerializableString text) throws IOException {
        call(generator -> generator.writeRaw(text));
    }

    @Override
    public void writeRawValue(String text) throws IOException {
        value(generator -> generator.writeRawValue(text));
    }

    @Override
    public void writeRawValue(String text, int offset, int length) throws IOException {
        value(generator -> generator.writeRawValue(text, offset, length));
    }

    @Override
    public void writeRawValue(char[] text, int offset, int length) throws IOException {
        char[] copy = Arrays.copyOfRange(text, offset, offset + length);
        value(generator -> generator.writeRawValue(copy, 0, length));
    }

    @Override
    public void writeRawValue(SerializableString text) throws IOException {
        value(generator -> generator.writeRawValue(text));
    }

    @Override
    public void writeBinary(Base64Variant variant, byte[] data, int offset, int length) throws IOException {
        if (kept == null) {
            target.writeBinary(variant, data, offset, length);
            return;
        }
        byte[] copy = Arrays.copyOfRange(data, offset, offset + length);
        value(generator -> generator.writeBinary(variant, copy, 0, length));
    }

    @Override
    public int writeBinary(Base64Variant variant, InputStream data, int length) throws IOException {
        if (kept == null) {
            return target.writeBinary(variant, data, length);
        }
        byte[] bytes = length < 0 ? data.readAllBytes() : data.readNBytes(length);
        value(generator -> generator.writeBinary(variant, new ByteArrayInputStream(bytes), length));
        return bytes.length;
    }

    @Override
    public void writeNumber(short number) throws IOException {
        value(generator -> generator.writeNumber(number));
    }

    @Override
    public void writeNumber(int number) throws IOException {
        value(generator -> generator.writeNumber(number));
    }

    @Override
    public void writeNumber(long number) throws IOException {
        value(generator -> generator.writeNumber(number));
    }

    @Override
    public void writeNumber(BigInteger number) throws IOException {
        value(generator -> generator.writeNumber(number));
    }

    @Override
    public void writeNumber(double number) throws IOException {
        value(generator -> generator.writeNumber(number));
    }

    @Override
    public void writeNumber(float number) throws IOException {
        value(generator -> generator.writeNumber(number));
    }

    @Override
    public void writeNumber(BigDecimal number) throws IOException {
        value(generator -> generator.writeNumber(number));
    }

    @Override
    public void writeNumber(String text) throws IOException {
        value(generator -> generator.writeNumber(text));
    }

    @Override
    public void writeNumber(char[] text, int offset, int length) throws IOException {
        char[] copy = Arrays.copyOfRange(text, offset, offset + length);
        value(generator -> generator.writeNumber(copy, 0, length));
    }

    @Override
    public void writeBoolean(boolean state) throws IOException {
        value(generator -> generator.writeBoolean(state));
    }

    @Override
    public void writeNull() throws IOException {
        value(JsonGenerator::writeNull);
    }

    @Override
    public void writeEmbeddedObject(Object object) throws IOException {
        value(generator -> generator.writeEmbeddedObject(object));
    }

    @Override
    public void writeObjectId(Object id) throws IOException {
        call(generator -> generator.writeObjectId(id));
    }

    @Override
    public void writeObjectRef(Object id) throws IOException {
        value(generator -> generator.writeObjectRef(id));
    }

    @Override
    public void writeTypeId(Object id) throws IOException {
        call(generator -> generator.writeTypeId(id));
    }

    /** The codec comes back to this generator, so that encrypted properties of the object cross with the others. */
    @Override
    public void writeObject(Object object) throws IOException {
        if (object == null) {
            writeNull();
        } else if (getCodec() != null) {
            getCodec().writeValue(this, object);
        } else {
            _writeSimpleObject(object);
        }
    }

    @Override
    public void writeTree(TreeNode tree) throws IOException {
        if (tree == null) {
            writeNull();
        } else if (getCodec() != null) {
            getCodec().writeValue(this, tree);
        } else {
            throw new IllegalStateException("the generator has no codec");
        }
    }

    @Override
    public void flush() throws IOException {
        call(JsonGenerator::flush);
    }

    @Override
    public void close() throws IOException {
        call(JsonGenerator::close);
    }

    @Override
    public JsonStreamContext getOutputContext() {
        return kept == null ? target.getOutputContext() : context;
    }

    @Override
    public Object currentValue() {
        return kept == null ? target.currentValue() : context.getCurrentValue();
    }

    @Override
    public void assignCurrentValue(Object value) {
        if (kept == null) {
            target.assignCurrentValue(value);
        } else {
            context.setCurrentValue(value);
            kept.add(generator -> generator.assignCurrentValue(value));
        }
    }

    @Deprecated
    @Override
    public Object getCurrentValue() {
        return currentValue();
    }

    @Deprecated
    @Override
    public void setCurrentValue(Object value) {
        assignCurrentValue(value);
    }
}
