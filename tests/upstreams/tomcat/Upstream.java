import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.core.json.JsonReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.MapperFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.flipkart.zjsonpatch.JsonPatch;
import jakarta.servlet.MultipartConfigElement;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import jakarta.servlet.http.Part;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.catalina.Context;
import org.apache.catalina.Wrapper;
import org.apache.catalina.startup.Tomcat;

/**
 * The upstreams tomcat-params and tomcat-body: what servlets on Tomcat read under the selected names, by parameters and parts or by Jackson,
 * also with the lenient features that applications enable for it.
 *
 * <p>Prints one line, the ports by name, and serves until it is terminated.
 */
public final class Upstream {
    private static final List<String> ROUTES = List.of(System.getenv("ROUTES").split(" "));
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final ObjectMapper ANY_CASE =
            JsonMapper.builder()
                    .enable(MapperFeature.ACCEPT_CASE_INSENSITIVE_PROPERTIES)
                    .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
                    .build();
    private static final ObjectMapper LENIENT = lenient().build();
    private static final ObjectMapper UNWRAPPING = lenient().enable(DeserializationFeature.UNWRAP_ROOT_VALUE).build();

    private static JsonMapper.Builder lenient() {
        return JsonMapper.builder()
                .enable(MapperFeature.ACCEPT_CASE_INSENSITIVE_PROPERTIES)
                .enable(DeserializationFeature.ACCEPT_SINGLE_VALUE_AS_ARRAY, DeserializationFeature.UNWRAP_SINGLE_VALUE_ARRAYS)
                .enable(JsonReadFeature.ALLOW_JAVA_COMMENTS, JsonReadFeature.ALLOW_SINGLE_QUOTES, JsonReadFeature.ALLOW_UNQUOTED_FIELD_NAMES)
                .enable(JsonReadFeature.ALLOW_TRAILING_COMMA, JsonReadFeature.ALLOW_YAML_COMMENTS, JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS)
                .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES);
    }

    /** A list of cards. */
    public static final class Wallet {
        public List<Card> cards = List.of();
    }

    /** The object that a service binds a request to. */
    public static final class Payment {
        @JsonProperty("card_number")
        public Object cardNumber;

        public Card card = new Card();

        @JsonProperty("secret_key")
        public Object secretKey;
    }

    /** The nested object. */
    public static final class Card {
        public Object number;
    }

    private abstract static class Reporter extends HttpServlet {
        abstract String name();

        abstract void read(HttpServletRequest request, Map<String, Object> read);

        @Override
        protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
            Map<String, Object> read = new LinkedHashMap<>();
            read.put("header getHeaders", Collections.list(request.getHeaders("X-Card-Number")));
            read(request, read);
            response.setContentType("application/json");
            response.setHeader("X-Upstream", name());
            JSON.writeValue(response.getOutputStream(), Map.of("route", request.getServletPath(), "read", read));
        }
    }

    private static final class Parameters extends Reporter {
        @Override
        String name() {
            return "tomcat-params";
        }

        @Override
        void read(HttpServletRequest request, Map<String, Object> read) {
            read.put("form getParts", parts(request, "card_number"));
            for (String content : parts(request, "payload")) {
                attempt(() -> read.put("json part", Body.tree(JSON.readTree(content))));
            }
            String[] values = request.getParameterValues("card_number");
            // With a query the parameters are a mixture of query and form.
            String kind = request.getQueryString() == null ? "form" : "params";
            read.put(kind + " getParameterValues", values == null ? List.of() : Arrays.asList(values));
        }

        private static List<String> parts(HttpServletRequest request, String name) {
            List<String> found = new ArrayList<>();
            try {
                for (Part part : request.getParts()) {
                    if (name.equals(part.getName())) {
                        found.add(new String(part.getInputStream().readAllBytes(), StandardCharsets.ISO_8859_1));
                    }
                }
            } catch (Exception refused) {
                // A body that is no multipart form has no parts.
            }
            return found;
        }
    }

    private static final class Body extends Reporter {
        @Override
        String name() {
            return "tomcat-body";
        }

        @Override
        void read(HttpServletRequest request, Map<String, Object> read) {
            try {
                byte[] body = request.getInputStream().readAllBytes();
                attempt(() -> read.put("json Jackson(tree)", tree(JSON.readTree(body))));
                attempt(() -> read.put("json Jackson(any case)", bound(ANY_CASE.readValue(body, Payment.class))));
                attempt(() -> read.put("shape Jackson(lenient)", bound(LENIENT.readValue(body, Payment.class))));
                attempt(() -> read.put("shape Jackson(unwrapping)", bound(UNWRAPPING.readValue(body, Payment.class))));
                attempt(() -> read.put("list Jackson(lenient)", numbers(LENIENT.readValue(body, Wallet.class))));
                attempt(() -> read.put("json zjsonpatch", tree(JsonPatch.apply(JSON.readTree(body), JSON.valueToTree(new Payment())))));
            } catch (IOException broken) {
                // Nothing was read.
            }
        }

        private static List<Object> tree(JsonNode document) {
            return Arrays.asList(value(document.path("card_number")), value(document.path("card").path("number")), value(document.path("secret_key")));
        }

        private static Object value(JsonNode node) {
            return node.isMissingNode() ? null : node;
        }

        private static List<Object> numbers(Wallet wallet) {
            List<Object> numbers = new ArrayList<>();
            wallet.cards.forEach(card -> numbers.add(card.number));
            return numbers;
        }

        private static List<Object> bound(Payment payment) {
            return Arrays.asList(payment.cardNumber, payment.card == null ? null : payment.card.number, payment.secretKey);
        }
    }

    private interface Step {
        void run() throws IOException;
    }

    private static void attempt(Step step) {
        try {
            step.run();
        } catch (IOException | RuntimeException refused) {
            // Nothing was read.
        }
    }

    private static int start(Reporter servlet) throws Exception {
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(Files.createTempDirectory("upstream").toString());
        tomcat.setPort(0);
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        tomcat.getConnector().setParseBodyMethods("POST,PUT,PATCH,DELETE");
        Context context = tomcat.addContext("", null);
        context.setAllowCasualMultipartParsing(true);
        Wrapper wrapper = Tomcat.addServlet(context, "report", servlet);
        wrapper.setMultipartConfigElement(new MultipartConfigElement(""));
        for (String route : ROUTES) {
            wrapper.addMapping(route);
        }
        tomcat.start();
        return tomcat.getConnector().getLocalPort();
    }

    public static void main(String[] arguments) throws Exception {
        java.util.logging.LogManager.getLogManager().reset();
        Map<String, Integer> ports = new LinkedHashMap<>();
        for (Reporter servlet : List.of(new Parameters(), new Body())) {
            ports.put(servlet.name(), start(servlet));
        }
        System.out.println(JSON.writeValueAsString(ports));
        System.out.flush();
        Thread.currentThread().join();
    }

    private Upstream() {}
}
