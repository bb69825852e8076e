package io.leafseal.jackson;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.util.MinimalPrettyPrinter;
import com.fasterxml.jackson.databind.DeserializationContext;
import com.fasterxml.jackson.databind.JsonDeserializer;
import com.fasterxml.jackson.databind.JsonSerializer;
import com.fasterxml.jackson.databind.SerializerProvider;
import com.fasterxml.jackson.databind.annotation.JsonDeserialize;
import com.fasterxml.jackson.databind.annotation.JsonSerialize;
import com.fasterxml.jackson.databind.util.StdConverter;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.StringReader;
import java.util.List;
import java.util.Map;

/** Classes whose serializers use a generator in every way. */
final class Ways {
    private Ways() {}

    /** Writes in every way that a generator has. */
    public static final class Everyway extends JsonSerializer<String> {
        @Override
        public void serialize(String text, JsonGenerator json, SerializerProvider provider) throws IOException {
            json.writeStartArray(text);
            json.writeString(text.toCharArray(), 0, text.length());
            json.writeString(new StringReader(text), text.length());
            json.writeString(new StringReader(text), -1);
            json.writeBinary(new byte[] {1, 2, 3}, 1, 2);
            json.writeBinary(new ByteArrayInputStream(new byte[] {1, 2, 3}), 3);
            json.writeArray(new int[] {1, 2}, 0, 2);
            json.writeArray(new double[] {1.5}, 0, 1);
            json.writeArray(new String[] {"a", "b"}, 1, 1);
            json.writeNumber((short) 5);
            json.writeNumber(1.5f);
            json.writeNumber("12.50".toCharArray(), 0, 5);
            json.writeNumber("7");
            json.writeTree(new com.fasterxml.jackson.databind.ObjectMapper().createObjectNode().put("t", 1));
            json.writeObject(Shapes.ID);
            json.writePOJO(Map.of("k", Shapes.ID));
            json.writeStartObject(text, 2);
            json.writeStringField("context", json.getOutputContext().pathAsPointer() + " " + json.getOutputContext().getCurrentName());
            json.writeObjectField("current", String.valueOf(json.currentValue()));
            json.writeEndObject();
            json.writeEndArray();
        }
    }

    /** Writes raw text and changes settings, which only text formats have. */
    public static final class RawWays extends JsonSerializer<String> {
        @SuppressWarnings("deprecation") // No other feature of a generator shows in the text.
        @Override
        public void serialize(String text, JsonGenerator json, SerializerProvider provider) throws IOException {
            var printer = json.getPrettyPrinter();
            json.setPrettyPrinter(new MinimalPrettyPrinter("\n"));
            json.writeStartArray();
            json.writeRawValue("\"" + text + "\"");
            json.writeRawValue(" {\"x\":1}".toCharArray(), 1, 7);
            json.writeRaw(",");
            json.writeRaw('5');
            json.writeRaw("xx,6yy", 2, 2);
            boolean isText = json.isEnabled(JsonGenerator.Feature.WRITE_NUMBERS_AS_STRINGS);
            json.enable(JsonGenerator.Feature.WRITE_NUMBERS_AS_STRINGS);
            json.writeNumber(json.isEnabled(JsonGenerator.Feature.WRITE_NUMBERS_AS_STRINGS) ? 1 : 0);
            json.configure(JsonGenerator.Feature.WRITE_NUMBERS_AS_STRINGS, isText);
            json.writeNumber(2);
            json.writeEndArray();
            json.setPrettyPrinter(printer);
        }
    }

    /** Takes what the serializers above write as its text. */
    public static final class AsText extends JsonDeserializer<String> {
        @Override
        public String deserialize(JsonParser parser, DeserializationContext context) throws IOException {
            return context.readTree(parser).toString();
        }
    }

    public static class Using<T> {
        @Encrypted
        public T sealed;
        @JsonSerialize(using = Everyway.class)
        @JsonDeserialize(using = AsText.class)
        public String value = "text";
        @JsonSerialize(using = Everyway.class)
        @JsonDeserialize(using = AsText.class)
        @Encrypted
        public String second = "text";
        @JsonSerialize(contentUsing = Everyway.class)
        @JsonDeserialize(contentUsing = AsText.class)
        @Encrypted
        public List<String> third = List.of("text");
    }

    public static class RawUsing<T> {
        @Encrypted
        public T sealed;
        @JsonSerialize(using = RawWays.class)
        public String value = "text";
        public T last;
    }

    public static final class ToMap extends StdConverter<Integer, Map<String, Integer>> {
        @Override
        public Map<String, Integer> convert(Integer value) {
            return Map.of("n", value);
        }
    }

    public static final class FromMap extends StdConverter<Map<String, Integer>, Integer> {
        @Override
        public Integer convert(Map<String, Integer> value) {
            return value.get("n");
        }
    }

    public static class Converting<T> {
        @Encrypted
        public T sealed;
        @JsonSerialize(converter = ToMap.class)
        @JsonDeserialize(converter = FromMap.class)
        @Encrypted
        public Integer second = 5;
        @JsonSerialize(converter = ToMap.class)
        @JsonDeserialize(converter = FromMap.class)
        public Integer value = 6;
    }
}
