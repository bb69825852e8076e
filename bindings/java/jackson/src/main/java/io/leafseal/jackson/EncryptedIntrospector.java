package io.leafseal.jackson;

import com.fasterxml.jackson.annotation.JsonAnyGetter;
import com.fasterxml.jackson.annotation.JsonAnySetter;
import com.fasterxml.jackson.annotation.JsonKey;
import com.fasterxml.jackson.annotation.JsonTypeId;
import com.fasterxml.jackson.annotation.JsonValue;
import com.fasterxml.jackson.core.Version;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.JsonDeserializer;
import com.fasterxml.jackson.databind.JsonSerializer;
import com.fasterxml.jackson.databind.SerializationConfig;
import com.fasterxml.jackson.databind.annotation.JsonDeserialize;
import com.fasterxml.jackson.databind.annotation.JsonSerialize;
import com.fasterxml.jackson.databind.cfg.MapperConfig;
import com.fasterxml.jackson.databind.introspect.Annotated;
import com.fasterxml.jackson.databind.introspect.AnnotatedClass;
import com.fasterxml.jackson.databind.introspect.AnnotatedMember;
import com.fasterxml.jackson.databind.introspect.BeanPropertyDefinition;
import com.fasterxml.jackson.databind.introspect.NopAnnotationIntrospector;
import com.fasterxml.jackson.databind.util.Converter;
import java.lang.annotation.Annotation;
import java.util.HashSet;
import java.util.Set;

/**
 * Gives properties with {@link Encrypted} their deserializer, and refuses the annotation beside others with which it could not have its
 * effect.
 */
final class EncryptedIntrospector extends NopAnnotationIntrospector {
    private static final long serialVersionUID = 1;
    private final transient Sealing sealing;

    EncryptedIntrospector(Sealing sealing) {
        this.sealing = sealing;
    }

    @Override
    public Version version() {
        return Version.unknownVersion();
    }

    @Override
    public Object findDeserializer(Annotated annotated) {
        if (annotated instanceof AnnotatedClass type) {
            JsonDeserialize other = type.getAnnotation(JsonDeserialize.class);
            if (other != null && other.using() != JsonDeserializer.None.class) {
                Refusal.checkMembers(type, "with @JsonDeserialize(using) of the class");
            }
            return null;
        }
        Encrypted encrypted = annotated instanceof AnnotatedMember ? annotated.getAnnotation(Encrypted.class) : null;
        return encrypted == null ? null : new EncryptedDeserializer(sealing, encrypted.role());
    }

    @Override
    public Object findSerializer(Annotated annotated) {
        JsonSerialize other = annotated instanceof AnnotatedClass ? annotated.getAnnotation(JsonSerialize.class) : null;
        if (other != null && other.using() != JsonSerializer.None.class) {
            Refusal.checkMembers((AnnotatedClass) annotated, "with @JsonSerialize(using) of the class");
        }
        return null;
    }

    @Override
    public Object findSerializationConverter(Annotated annotated) {
        JsonSerialize other = annotated instanceof AnnotatedClass ? annotated.getAnnotation(JsonSerialize.class) : null;
        if (other != null && other.converter() != Converter.None.class) {
            Refusal.checkMembers((AnnotatedClass) annotated, "with @JsonSerialize(converter) of the class");
        }
        return null;
    }

    @Override
    public Object findDeserializationConverter(Annotated annotated) {
        JsonDeserialize other = annotated instanceof AnnotatedClass ? annotated.getAnnotation(JsonDeserialize.class) : null;
        if (other != null && other.converter() != Converter.None.class) {
            Refusal.checkMembers((AnnotatedClass) annotated, "with @JsonDeserialize(converter) of the class");
        }
        return null;
    }

    @Override
    public JavaType refineSerializationType(MapperConfig<?> config, Annotated annotated, JavaType type) {
        if (config instanceof SerializationConfig serialization) {
            checkRefined(serialization, annotated.getType(), type);
        }
        return type;
    }

    /** `@JsonSerialize(as)` must not name a type in which an encrypted property lacks the annotation. */
    private static void checkRefined(SerializationConfig config, JavaType from, JavaType to) {
        if (from == null || to == null || from.hasRawClass(to.getRawClass()) && from.getContentType() == null) {
            return;
        }
        if (from.getContentType() != null) {
            checkRefined(config, from.getContentType(), to.getContentType());
            return;
        }
        if (to.isContainerType() || from.isPrimitive() || from.getRawClass().getName().startsWith("java.")) {
            return;
        }
        Set<String> encrypted = new HashSet<>();
        for (BeanPropertyDefinition property : config.introspect(from).findProperties()) {
            if (Reach.annotation(property) != null) {
                encrypted.add(property.getName());
            }
        }
        for (BeanPropertyDefinition property : encrypted.isEmpty() ? Set.<BeanPropertyDefinition>of()
                : Set.copyOf(config.introspect(to).findProperties())) {
            if (encrypted.contains(property.getName()) && Reach.annotation(property) == null) {
                throw Refusal.of(from.getRawClass(), property.getName(), "with @JsonSerialize(as), unless " + to.getRawClass().getName()
                        + " has it, too");
            }
        }
    }

    private static void refuse(Annotated annotated, Class<? extends Annotation> other, String advice) {
        if (annotated.hasAnnotation(other)) {
            Refusal.check(annotated, "with @" + other.getSimpleName() + advice);
        }
    }

    @Override
    public Boolean hasAsValue(Annotated annotated) {
        refuse(annotated, JsonValue.class, "; annotate the properties that have this class instead");
        return null;
    }

    @Override
    public Boolean hasAsKey(MapperConfig<?> config, Annotated annotated) {
        refuse(annotated, JsonKey.class, ": keys of maps are not encrypted");
        return null;
    }

    @Override
    public Boolean hasAnyGetter(Annotated annotated) {
        refuse(annotated, JsonAnyGetter.class, "; use a map as a property");
        return null;
    }

    @Override
    public Boolean hasAnySetter(Annotated annotated) {
        refuse(annotated, JsonAnySetter.class, "; use a map as a property");
        return null;
    }

    @Override
    public Boolean isTypeId(AnnotatedMember member) {
        refuse(member, JsonTypeId.class, ", which is read before the value");
        return null;
    }
}
