package io.leafseal.jackson;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.util.Annotations;
import java.io.IOException;

/** What the encrypted properties of a class with {@link Bound} are bound to. */
record RecordBinding(String model, String id) {
    /** The binding of a class; null if it has none. */
    static RecordBinding of(Annotations annotations, Class<?> owner) {
        Bound bound = annotations.get(Bound.class);
        if (bound == null) {
            return null;
        }
        if (bound.model().isEmpty() || bound.model().contains("/")) {
            throw new IllegalArgumentException("@Bound on " + owner.getName() + ": the model must be a name without a slash");
        }
        return new RecordBinding(bound.model(), bound.id());
    }

    /** Refuses a property that could not be bound. */
    void check(Class<?> owner, String property) {
        if (property.equals(id)) {
            throw Refusal.of(owner, property, "with @Bound, whose id it is");
        }
        if (property.contains("/")) {
            throw Refusal.of(owner, property, "with @Bound, because its name has a slash");
        }
    }

    /** The error of a class whose id is not, as {@code how} says, written or read by Jackson. */
    String lacksId(Class<?> owner, String how) {
        return "@Bound on " + owner.getName() + " needs its id in the document both ways: it has no property \"" + id + "\" that is " + how
                + ". Let Jackson write and read it, without @JsonIgnore, @JsonIgnoreProperties, READ_ONLY, WRITE_ONLY or a view that hides it";
    }

    /** What a property of the record with this id is bound to: the first and the last slash separate the three. */
    String context(String idText, String property) {
        return model + "/" + idText + "/" + property;
    }

    /** The text of the id at a parser: a string, or an integer as its digits. Null if it is neither. */
    static String idText(JsonParser parser) throws IOException {
        JsonToken token = parser.currentToken();
        boolean isId = token == JsonToken.VALUE_STRING || token == JsonToken.VALUE_NUMBER_INT;
        return isId && !parser.getText().isEmpty() ? parser.getText() : null;
    }

    /** The id of one record, which is known when its object has been read. */
    static final class RecordId {
        private final RecordBinding binding;
        private String text;
        private int found;

        RecordId(RecordBinding binding) {
            this.binding = binding;
        }

        RecordBinding binding() {
            return binding;
        }

        /** The id is read; it may be anything. */
        void found(String idText) {
            text = idText;
            found++;
        }

        /** Whether the id is known. */
        private boolean isKnown() {
            return found == 1 && text != null;
        }

        String context(String property) throws IOException {
            if (!isKnown()) {
                throw new IOException("the value of \"" + property + "\" is bound to \"" + binding.id()
                        + "\", which the document must contain once, as a string or an integer");
            }
            return binding.context(text, property);
        }
    }
}
