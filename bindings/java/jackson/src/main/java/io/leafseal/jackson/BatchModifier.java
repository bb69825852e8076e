package io.leafseal.jackson;

import com.fasterxml.jackson.databind.BeanDescription;
import com.fasterxml.jackson.databind.DeserializationConfig;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.JsonDeserializer;
import com.fasterxml.jackson.databind.deser.BeanDeserializerBase;
import com.fasterxml.jackson.databind.deser.BeanDeserializerModifier;
import com.fasterxml.jackson.databind.introspect.AnnotatedMember;
import com.fasterxml.jackson.databind.introspect.BeanPropertyDefinition;
import com.fasterxml.jackson.databind.type.ArrayType;
import com.fasterxml.jackson.databind.type.CollectionType;
import com.fasterxml.jackson.databind.type.MapType;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Stream;

/** Lets the deserializers of types that contain encrypted properties, by their declared types, decrypt all of them together. */
final class BatchModifier extends BeanDeserializerModifier {
    private static final long serialVersionUID = 1;

    @Override
    public JsonDeserializer<?> modifyDeserializer(DeserializationConfig config, BeanDescription bean, JsonDeserializer<?> deserializer) {
        return deserializer instanceof BeanDeserializerBase ? modify(config, bean.getType(), deserializer) : deserializer;
    }

    @Override
    public JsonDeserializer<?> modifyCollectionDeserializer(
            DeserializationConfig config, CollectionType type, BeanDescription bean, JsonDeserializer<?> deserializer) {
        return modify(config, type, deserializer);
    }

    @Override
    public JsonDeserializer<?> modifyArrayDeserializer(
            DeserializationConfig config, ArrayType type, BeanDescription bean, JsonDeserializer<?> deserializer) {
        return modify(config, type, deserializer);
    }

    @Override
    public JsonDeserializer<?> modifyMapDeserializer(
            DeserializationConfig config, MapType type, BeanDescription bean, JsonDeserializer<?> deserializer) {
        return modify(config, type, deserializer);
    }

    private static JsonDeserializer<?> modify(DeserializationConfig config, JavaType type, JsonDeserializer<?> deserializer) {
        return contains(config, type, new HashSet<>()) ? new BatchDeserializer(deserializer) : deserializer;
    }

    private static boolean contains(DeserializationConfig config, JavaType type, Set<JavaType> seen) {
        if (type == null || type.isPrimitive() || type.isEnumType() || !seen.add(type)) {
            return false;
        }
        if (type.isContainerType() || type.isReferenceType()) {
            return contains(config, type.getContentType(), seen);
        }
        if (type.getRawClass().getName().startsWith("java.")) {
            return false;
        }
        for (BeanPropertyDefinition property : config.introspect(type).findProperties()) {
            if (isEncrypted(property) || contains(config, property.getPrimaryType(), seen)) {
                return true;
            }
        }
        return false;
    }

    private static boolean isEncrypted(BeanPropertyDefinition property) {
        Stream<AnnotatedMember> members = Arrays.stream(new AnnotatedMember[] {
            property.getField(), property.getSetter(), property.getGetter(), property.getConstructorParameter()
        });
        return members.filter(Objects::nonNull).anyMatch(member -> member.hasAnnotation(Encrypted.class));
    }
}
