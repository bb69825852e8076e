package io.leafseal.jackson;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonTypeInfo;
import com.fasterxml.jackson.databind.BeanDescription;
import com.fasterxml.jackson.databind.DeserializationConfig;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.JsonDeserializer;
import com.fasterxml.jackson.databind.deser.AbstractDeserializer;
import com.fasterxml.jackson.databind.deser.BeanDeserializerBase;
import com.fasterxml.jackson.databind.deser.BeanDeserializerBuilder;
import com.fasterxml.jackson.databind.deser.BeanDeserializerModifier;
import com.fasterxml.jackson.databind.deser.BuilderBasedDeserializer;
import com.fasterxml.jackson.databind.deser.CreatorProperty;
import com.fasterxml.jackson.databind.deser.SettableBeanProperty;
import com.fasterxml.jackson.databind.deser.ValueInstantiator;
import com.fasterxml.jackson.databind.introspect.AnnotatedMember;
import com.fasterxml.jackson.databind.introspect.AnnotatedWithParams;
import com.fasterxml.jackson.databind.introspect.BeanPropertyDefinition;
import com.fasterxml.jackson.databind.jsontype.TypeDeserializer;
import com.fasterxml.jackson.databind.type.ArrayType;
import com.fasterxml.jackson.databind.type.CollectionType;
import com.fasterxml.jackson.databind.type.MapType;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/**
 * Lets the deserializers of types that contain encrypted properties, by their declared types, decrypt all of them together, and refuses
 * classes in which the annotation would have no effect on deserialisation.
 */
final class ReaderModifier extends BeanDeserializerModifier {
    private static final long serialVersionUID = 1;
    private final transient Sealing sealing;
    private final transient Reach reach = new Reach();

    ReaderModifier(Sealing sealing) {
        this.sealing = sealing;
    }

    private static Map<String, Encrypted> annotations(BeanDescription bean) {
        Map<String, Encrypted> annotations = new HashMap<>();
        for (BeanPropertyDefinition property : bean.findProperties()) {
            Encrypted encrypted = Reach.annotation(property);
            if (encrypted != null) {
                annotations.put(property.getName(), encrypted);
            }
        }
        return annotations;
    }

    /** A class with a builder has its annotations itself or on the builder. */
    @Override
    public BeanDeserializerBuilder updateBuilder(DeserializationConfig config, BeanDescription bean, BeanDeserializerBuilder builder) {
        Map<String, Encrypted> annotations = annotations(bean);
        if (builder.getBuildMethod() != null) {
            annotations(config.introspect(builder.getBuildMethod().getType())).forEach(annotations::putIfAbsent);
        }
        checkCreators(config, bean, builder.getValueInstantiator(), annotations);
        List<SettableBeanProperty> properties = new ArrayList<>();
        builder.getProperties().forEachRemaining(properties::add);
        for (SettableBeanProperty property : properties) {
            Encrypted encrypted = annotations.get(property.getName());
            if (encrypted == null) {
                continue;
            }
            AnnotatedMember member = property.getMember();
            if (member != null && config.getAnnotationIntrospector().findUnwrappingNameTransformer(member) != null) {
                throw Refusal.of(bean.getBeanClass(), property.getName(), Refusal.UNWRAPPED);
            }
            TypeDeserializer types = property.getValueTypeDeserializer();
            if (types != null && types.getTypeInclusion() == JsonTypeInfo.As.EXTERNAL_PROPERTY) {
                throw Refusal.of(bean.getBeanClass(), property.getName(), Refusal.EXTERNAL);
            }
            if (!(property.getValueDeserializer() instanceof EncryptedDeserializer)) {
                if (property instanceof CreatorProperty) {
                    throw Refusal.of(bean.getBeanClass(), property.getName(), "with a builder that lacks it; annotate its parameter, too");
                }
                builder.addOrReplaceProperty(property.withValueDeserializer(new EncryptedDeserializer(sealing, encrypted.role())), true);
            }
        }
        bind(config, bean, builder);
        return builder;
    }

    private static void checkCreators(DeserializationConfig config, BeanDescription bean, ValueInstantiator instantiator,
            Map<String, Encrypted> annotations) {
        if (!annotations.isEmpty() && (instantiator.canCreateUsingDelegate() || instantiator.canCreateUsingArrayDelegate())) {
            throw Refusal.of(bean.getBeanClass(), annotations.keySet().iterator().next(),
                    "with a delegating creator, which reads something else than properties");
        }
        for (AnnotatedWithParams creator : Stream.concat(bean.getConstructors().stream(), bean.getFactoryMethods().stream()).toList()) {
            JsonCreator.Mode mode = config.getAnnotationIntrospector().findCreatorAnnotation(config, creator);
            if (mode == null || mode == JsonCreator.Mode.DISABLED || creator.equals(instantiator.getWithArgsCreator())) {
                continue;
            }
            for (int index = 0; index < creator.getParameterCount(); index++) {
                if (creator.getParameter(index).hasAnnotation(Encrypted.class)) {
                    throw Refusal.of(bean.getBeanClass(), "(parameter " + index + " of a creator)",
                            "with a delegating creator; annotate the properties that have this class instead");
                }
            }
        }
    }

    @Override
    public JsonDeserializer<?> modifyDeserializer(DeserializationConfig config, BeanDescription bean, JsonDeserializer<?> deserializer) {
        if (!(deserializer instanceof BeanDeserializerBase known)) {
            if (!(deserializer instanceof AbstractDeserializer)) {
                Refusal.checkMembers(bean.getClassInfo(), "with a deserializer of the class");
            }
            return deserializer;
        }
        Map<String, Encrypted> annotations = annotations(bean);
        JavaType type = bean.getType();
        if (deserializer instanceof BuilderBasedDeserializer) {
            type = known.getValueType();
            annotations.putAll(annotations(config.introspect(type)));
        }
        boolean hasEncrypted = false;
        boolean isBound = false;
        for (Iterator<SettableBeanProperty> properties = known.properties(); properties.hasNext();) {
            SettableBeanProperty property = properties.next();
            if (property.getValueDeserializer() instanceof EncryptedDeserializer encrypted) {
                hasEncrypted = true;
                isBound |= encrypted.binding() != null;
            }
            if (annotations.containsKey(property.getName()) && !(property.getValueDeserializer() instanceof EncryptedDeserializer)) {
                throw Refusal.of(bean.getBeanClass(), property.getName(), "with a module or builder that replaces the property");
            }
        }
        boolean isReached = hasEncrypted || !annotations.isEmpty() || isReached(config, type);
        return isReached ? new BatchDeserializer(deserializer, isBound) : deserializer;
    }

    /** Binds the encrypted properties of a class with {@link Bound}, which a class with a builder has itself or on the builder. */
    private static void bind(DeserializationConfig config, BeanDescription bean, BeanDeserializerBuilder builder) {
        RecordBinding own = RecordBinding.of(bean.getClassAnnotations(), bean.getBeanClass());
        JavaType built = own != null || builder.getBuildMethod() == null ? null : builder.getBuildMethod().getType();
        RecordBinding binding = built == null ? own
                : RecordBinding.of(config.introspectClassAnnotations(built).getClassAnnotations(), built.getRawClass());
        if (binding == null) {
            return;
        }
        boolean hasBound = false;
        boolean hasId = false;
        for (Iterator<SettableBeanProperty> properties = builder.getProperties(); properties.hasNext();) {
            SettableBeanProperty property = properties.next();
            if (property.getValueDeserializer() instanceof EncryptedDeserializer encrypted) {
                binding.check(bean.getBeanClass(), property.getName());
                encrypted.bind(binding);
                hasBound = true;
            }
            hasId |= property.getName().equals(binding.id()) && BatchDeserializer.isRead(property);
        }
        if (hasBound && !hasId) {
            throw new IllegalArgumentException(binding.lacksId(bean.getBeanClass(), "read"));
        }
    }

    @Override
    public JsonDeserializer<?> modifyCollectionDeserializer(
            DeserializationConfig config, CollectionType type, BeanDescription bean, JsonDeserializer<?> deserializer) {
        return isReached(config, type) ? new BatchDeserializer(deserializer, false) : deserializer;
    }

    @Override
    public JsonDeserializer<?> modifyArrayDeserializer(
            DeserializationConfig config, ArrayType type, BeanDescription bean, JsonDeserializer<?> deserializer) {
        return isReached(config, type) ? new BatchDeserializer(deserializer, false) : deserializer;
    }

    @Override
    public JsonDeserializer<?> modifyMapDeserializer(
            DeserializationConfig config, MapType type, BeanDescription bean, JsonDeserializer<?> deserializer) {
        return isReached(config, type) ? new BatchDeserializer(deserializer, false) : deserializer;
    }

    private boolean isReached(DeserializationConfig config, JavaType type) {
        return reach.of(type, config::introspect) == Reach.Answer.YES;
    }
}
