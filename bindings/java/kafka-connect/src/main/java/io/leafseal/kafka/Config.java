package io.leafseal.kafka;

import io.leafseal.client.Curve;
import io.leafseal.client.DecryptOptions;
import io.leafseal.client.EncryptOptions;
import io.leafseal.client.LeafsealClient;
import io.leafseal.client.LeafsealException;
import io.leafseal.client.Keying;
import io.leafseal.client.OtherCase;
import io.leafseal.client.Scheme;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.common.config.ConfigDef.Validator;
import org.apache.kafka.common.config.ConfigException;

/** The settings of the transforms. */
final class Config extends AbstractConfig {
    private static final String ENGINE = "Engine";
    private static final String SELECTION = "Selection";
    /** The client retries until the time limit: a record is worth more than a quick answer. */
    private static final int RETRIES_MAX = 1000;
    private static final Validator NOT_EMPTY = ConfigDef.LambdaValidator.with((name, value) -> {
        if (value == null || value.toString().isBlank()) {
            throw new ConfigException(name, value, "must not be empty");
        }
    }, () -> "not empty");
    private static final Validator ROLE = ConfigDef.LambdaValidator.with((name, value) -> {
        if (value != null && !value.toString().matches("[a-z0-9-]{0,20}")) {
            throw new ConfigException(name, value, "must have 1 to 20 characters of a-z, 0-9 and -");
        }
    }, () -> "1 to 20 characters of a-z, 0-9, -");

    private static final Validator ACCEPT = ConfigDef.LambdaValidator.with((name, value) -> {
        String kind = "(public-key|symmetric|from-public-key)";
        if (value != null && !value.toString().matches("(" + kind + "(," + kind + ")*)?")) {
            throw new ConfigException(name, value, "must be some of public-key, symmetric and from-public-key, separated by commas");
        }
    }, () -> "public-key, symmetric, from-public-key, separated by commas");

    private static final Validator SELECTORS = ConfigDef.LambdaValidator.with((name, value) -> {
        if (value != null) {
            selectors(value.toString());
        }
    }, () -> "JSONPath selectors");

    static final ConfigDef ENCRYPT = common()
            .define("curve", Type.STRING, "", ConfigDef.ValidString.in("", "r1", "k1"), Importance.LOW,
                    "Curve of the envelopes: r1 (P-256) or k1 (secp256k1). Default: the engine's setting.", SELECTION, 11, ConfigDef.Width.SHORT, "Curve")
            .define("keying", Type.STRING, "", ConfigDef.ValidString.in("", "field", "request", "session"), Importance.LOW,
                    "How often a fresh ephemeral key is created; session is fastest for many records. Default: the engine's setting.",
                    SELECTION, 12, ConfigDef.Width.SHORT, "Keying")
            .define("scheme", Type.STRING, "", ConfigDef.ValidString.in("", "public-key", "symmetric"), Importance.MEDIUM,
                    "How envelopes are sealed: to a public key, or with a symmetric key, which opens faster and can be bound to a context. "
                            + "Default: the engine's setting.", SELECTION, 13, ConfigDef.Width.SHORT, "Scheme");
    static final ConfigDef DECRYPT = common()
            .define("plaintext.allowed", Type.BOOLEAN, false, Importance.MEDIUM,
                    "Passes selected values on that are no envelopes. By default such a record fails.", SELECTION, 11, ConfigDef.Width.SHORT, "Plaintext allowed")
            .define("accept", Type.STRING, "", ACCEPT, Importance.MEDIUM,
                    "The kinds of envelopes that open, separated by commas: public-key, symmetric, from-public-key. Default: all, with a context "
                            + "symmetric alone.", SELECTION, 12, ConfigDef.Width.SHORT, "Accept");

    final Paths fields;
    final List<String> select;
    final boolean failsOnMissing;
    final boolean refusesOtherCase;
    final boolean replacesNull;
    final boolean isBoundToTopic;
    final boolean isBoundToKey;

    Config(ConfigDef definition, Map<?, ?> settings) {
        super(definition, settings, false);
        fields = Paths.parse(getList("fields").stream().filter(path -> !path.isEmpty()).toList());
        select = selectors(getString("select"));
        failsOnMissing = getString("on.missing").equals("fail");
        refusesOtherCase = getString("other.case").equals("refuse");
        replacesNull = getBoolean("replace.null.with.default");
        isBoundToTopic = !getString("context").isEmpty();
        isBoundToKey = getString("context").equals("topic,key");
        if (fields.isEmpty() == select.isEmpty()) {
            throw new ConfigException("set either fields (for structs, maps and plain values) or select (for JSON text)");
        }
    }

    private static ConfigDef common() {
        return new ConfigDef()
                .define("engine.addresses", Type.LIST, ConfigDef.NO_DEFAULT_VALUE, ConfigDef.LambdaValidator.with((name, value) -> {
                    if (((List<?>) value).isEmpty()) {
                        throw new ConfigException(name, value, "must contain at least one HOST:PORT");
                    }
                }, () -> "at least one HOST:PORT"), Importance.HIGH,
                        "HOST:PORT of one or more engines that serve the same apps. The port defaults to 3443.", ENGINE, 1, ConfigDef.Width.LONG, "Engines")
                .define("engine.ca", Type.STRING, ConfigDef.NO_DEFAULT_VALUE, NOT_EMPTY, Importance.HIGH,
                        "PEM file of the authority that signs the engines' certificates.", ENGINE, 2, ConfigDef.Width.LONG, "Authority")
                .define("engine.certificate", Type.STRING, ConfigDef.NO_DEFAULT_VALUE, NOT_EMPTY, Importance.HIGH,
                        "PEM file of the client's certificate. Read again for each connection.", ENGINE, 3, ConfigDef.Width.LONG, "Certificate")
                .define("engine.key", Type.STRING, ConfigDef.NO_DEFAULT_VALUE, NOT_EMPTY, Importance.HIGH,
                        "PEM file of the certificate's key, unencrypted, readable for the worker only.", ENGINE, 4, ConfigDef.Width.LONG, "Key")
                .define("engine.server.name", Type.STRING, "", Importance.LOW,
                        "Name in the engines' certificates. Default: the host of each address.", ENGINE, 5, ConfigDef.Width.MEDIUM, "Server name")
                .define("app", Type.STRING, ConfigDef.NO_DEFAULT_VALUE, NOT_EMPTY, Importance.HIGH,
                        "App whose keys are used.", ENGINE, 6, ConfigDef.Width.MEDIUM, "App")
                .define("timeout.ms", Type.LONG, 30_000L, ConfigDef.Range.between(1L, Integer.MAX_VALUE), Importance.MEDIUM,
                        "Time limit of a record in milliseconds, retries included. After that the record fails with a retriable error.",
                        ENGINE, 7, ConfigDef.Width.SHORT, "Time limit")
                .define("fields", Type.LIST, "", Importance.HIGH,
                        "Fields of structs and maps: paths such as card.number. Arrays are entered. * is every field or key, \\. a dot in a name, . the whole "
                                + "key or value. A container stands for every scalar in it.", SELECTION, 1, ConfigDef.Width.LONG, "Fields")
                .define("select", Type.STRING, "", SELECTORS, Importance.HIGH,
                        "Fields of keys or values that are JSON text (strings or bytes): JSONPath selectors (RFC 9535), separated by commas.",
                        SELECTION, 2, ConfigDef.Width.LONG, "JSONPath selectors")
                .define("role", Type.STRING, "", ROLE, Importance.MEDIUM,
                        "Data role that is written into envelopes, or that envelopes must carry. Default: none, or any.", SELECTION, 3, ConfigDef.Width.SHORT, "Role")
                .define("context", Type.STRING, "", ConfigDef.ValidString.in("", "topic", "topic,key"), Importance.MEDIUM,
                        "What symmetric envelopes are bound to: the topic, or topic and key of the record (TOPIC/KEY; keys are strings, integers, or bytes in "
                                + "UTF-8). They open with the same context alone. Default: nothing.", SELECTION, 7, ConfigDef.Width.SHORT, "Context")
                .define("on.missing", Type.STRING, "fail", ConfigDef.ValidString.in("fail", "ignore"), Importance.MEDIUM,
                        "Whether a record fails that lacks a selected field. A mistyped name would otherwise let plaintext through.",
                        SELECTION, 4, ConfigDef.Width.SHORT, "Missing fields")
                .define("other.case", Type.STRING, "refuse", ConfigDef.ValidString.in("refuse", "other"), Importance.LOW,
                        "Whether a record fails that has a field whose name differs from a selected one only in case, or whether that is another field.",
                        SELECTION, 5, ConfigDef.Width.SHORT, "Other case")
                .define("replace.null.with.default", Type.BOOLEAN, true, Importance.MEDIUM,
                        "Whether null in a selected field whose schema has a default is that default. Otherwise it stays null in optional fields.",
                        SELECTION, 6, ConfigDef.Width.SHORT, "Replace null with default");
    }

    LeafsealClient client() {
        try {
            String name = getString("engine.server.name");
            return LeafsealClient.builder().addresses(getList("engine.addresses")).ca(Path.of(getString("engine.ca")))
                    .certificate(Path.of(getString("engine.certificate"))).key(Path.of(getString("engine.key")))
                    .serverName(name.isEmpty() ? null : name).app(getString("app")).timeout(Duration.ofMillis(getLong("timeout.ms")))
                    .retriesMax(RETRIES_MAX).build();
        } catch (LeafsealException error) {
            throw new ConfigException(error.getMessage());
        }
    }

    /** Options of values. */
    EncryptOptions encryption() {
        EncryptOptions options = EncryptOptions.defaults();
        String role = getString("role");
        String curve = getString("curve");
        String keying = getString("keying");
        String scheme = getString("scheme");
        options = role.isEmpty() ? options : options.role(role);
        options = scheme.isEmpty() ? options : options.scheme(scheme.equals("symmetric") ? Scheme.SYMMETRIC : Scheme.PUBLIC_KEY);
        options = curve.isEmpty() ? options : options.curve(Curve.valueOf(curve.toUpperCase(Locale.ROOT)));
        return keying.isEmpty() ? options : options.keying(Keying.valueOf(keying.toUpperCase(Locale.ROOT)));
    }

    /** Options of values. */
    DecryptOptions decryption() {
        DecryptOptions options = DecryptOptions.defaults();
        String role = getString("role");
        String accept = getString("accept");
        options = role.isEmpty() ? options : options.role(role);
        return accept.isEmpty() ? options : options.accept(accept);
    }

    OtherCase otherCase() {
        return refusesOtherCase ? OtherCase.REFUSE : OtherCase.OTHER;
    }

    /** Splits at commas outside of brackets and quotes, and refuses what no engine accepts: only an engine knows the whole grammar. */
    private static List<String> selectors(String text) {
        List<String> selectors = new ArrayList<>();
        StringBuilder selector = new StringBuilder();
        int depth = 0;
        char quote = 0;
        for (int index = 0; index < text.length(); index++) {
            char unit = text.charAt(index);
            if (quote != 0) {
                if (unit == '\\' && index + 1 < text.length()) {
                    selector.append(unit);
                    unit = text.charAt(++index);
                } else if (unit == quote) {
                    quote = 0;
                }
            } else if (unit == '\'' || unit == '"') {
                quote = unit;
            } else if (unit == '[' || unit == '(') {
                depth++;
            } else if (unit == ']' || unit == ')') {
                depth--;
            } else if (unit == ',' && depth == 0) {
                add(selectors, selector);
                continue;
            }
            selector.append(unit);
        }
        if (quote != 0 || depth != 0) {
            throw new ConfigException("select", text, "a quote or bracket has no counterpart");
        }
        add(selectors, selector);
        return selectors;
    }

    private static void add(List<String> selectors, StringBuilder selector) {
        String text = selector.toString().strip();
        if (!text.isEmpty()) {
            if (!text.startsWith("$")) {
                throw new ConfigException("select", text, "a JSONPath selector begins with $");
            }
            selectors.add(text);
        }
        selector.setLength(0);
    }
}
