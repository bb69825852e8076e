package io.leafseal.jackson;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import io.leafseal.client.DecryptOptions;
import io.leafseal.client.LeafsealClient;
import java.io.IOException;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.UUID;

/** The events of a document, in any format. */
final class Events {
    private Events() {}

    /** A token; with the decrypted value of an envelope. */
    private record Event(String kind, Object value, Object opened) {
        @Override
        public String toString() {
            return opened == null ? kind + " " + (value instanceof byte[] bytes ? Arrays.toString(bytes) : value) : "opened " + opened;
        }
    }

    /** The first difference but encrypted values; null if there is none. */
    static String difference(LeafsealClient client, JsonParser plain, JsonParser sealed) throws IOException {
        List<Event> expected = events(client, plain, false);
        List<Event> actual = events(client, sealed, true);
        for (int index = 0; index < Math.max(expected.size(), actual.size()); index++) {
            if (index >= expected.size() || index >= actual.size() || !isSame(expected.get(index), actual.get(index))) {
                return "token " + index + " of " + expected + " is another in " + actual;
            }
        }
        return null;
    }

    private static boolean isSame(Event expected, Event actual) {
        if (actual.opened == null) {
            return expected.toString().equals(actual.toString());
        }
        if (expected.value instanceof byte[] bytes) {
            String text = actual.opened.toString();
            boolean isUuid = bytes.length == 16 && text.equals(uuid(bytes));
            return isUuid || Arrays.equals(bytes, Base64.getDecoder().decode(text.replace('-', '+').replace('_', '/')));
        }
        if (actual.opened instanceof Number number && expected.value instanceof String text) {
            return new BigDecimal(text).compareTo(new BigDecimal(number.toString())) == 0;
        }
        return String.valueOf(expected.value).equals(actual.opened.toString());
    }

    private static String uuid(byte[] bytes) {
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        return new UUID(buffer.getLong(), buffer.getLong()).toString();
    }

    private static List<Event> events(LeafsealClient client, JsonParser parser, boolean isSealed) throws IOException {
        List<Event> events = new ArrayList<>();
        List<Object> envelopes = new ArrayList<>();
        List<Integer> places = new ArrayList<>();
        for (JsonToken token = parser.nextToken(); token != null; token = parser.nextToken()) {
            if (token == JsonToken.VALUE_STRING && isSealed && parser.getText().startsWith("ev:")) {
                envelopes.add(parser.getText());
                places.add(events.size());
            }
            events.add(event(parser, token));
        }
        List<?> opened = open(client, envelopes);
        for (int index = 0; index < opened.size(); index++) {
            events.set(places.get(index), new Event("opened", null, opened.get(index)));
        }
        return events;
    }

    /** Opens envelopes, also those in which a value is that was encrypted before it was part of an encrypted one. */
    private static List<?> open(LeafsealClient client, List<Object> envelopes) {
        List<Object> values = envelopes;
        while (values.stream().anyMatch(value -> value instanceof String text && text.startsWith("ev:"))) {
            values = client.decryptAll(values);
        }
        return values;
    }

    /** JSON text with its envelopes opened. */
    static String open(LeafsealClient client, String json) {
        String opened = json;
        while (opened.contains("\"ev:")) {
            opened = client.decryptDocument(opened, DecryptOptions.defaults());
        }
        return opened;
    }

    private static Event event(JsonParser parser, JsonToken token) throws IOException {
        if (token == JsonToken.VALUE_EMBEDDED_OBJECT) {
            Object embedded = parser.getEmbeddedObject();
            return new Event("embedded " + (embedded == null ? null : embedded.getClass()), embedded, null);
        }
        String ids = (parser.canReadTypeId() ? " type " + parser.getTypeId() : "")
                + (parser.canReadObjectId() ? " id " + parser.getObjectId() : "");
        return new Event(token + (token.isNumeric() ? " " + parser.getNumberType() : "") + ids, parser.getText(), null);
    }
}
