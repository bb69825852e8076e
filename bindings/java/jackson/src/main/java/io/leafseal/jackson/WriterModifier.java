package io.leafseal.jackson;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.annotation.JsonTypeInfo;
import com.fasterxml.jackson.annotation.ObjectIdGenerators;
import com.fasterxml.jackson.databind.BeanDescription;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.JsonSerializer;
import com.fasterxml.jackson.databind.SerializationConfig;
import com.fasterxml.jackson.databind.introspect.BeanPropertyDefinition;
import com.fasterxml.jackson.databind.introspect.ObjectIdInfo;
import com.fasterxml.jackson.databind.ser.BeanPropertyWriter;
import com.fasterxml.jackson.databind.ser.BeanSerializer;
import com.fasterxml.jackson.databind.ser.BeanSerializerModifier;
import com.fasterxml.jackson.databind.ser.PropertyWriter;
import com.fasterxml.jackson.databind.ser.impl.UnknownSerializer;
import com.fasterxml.jackson.databind.ser.std.BeanSerializerBase;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;

/** Encrypts properties with {@link Encrypted}, and refuses classes in which the annotation would have no effect on serialisation. */
final class WriterModifier extends BeanSerializerModifier {
    private static final long serialVersionUID = 1;
    private final transient Sealing sealing;

    WriterModifier(Sealing sealing) {
        this.sealing = sealing;
    }

    @Override
    public List<BeanPropertyWriter> changeProperties(SerializationConfig config, BeanDescription bean, List<BeanPropertyWriter> writers) {
        List<BeanPropertyWriter> changed = new ArrayList<>(writers.size());
        RecordBinding binding = RecordBinding.of(bean.getClassAnnotations(), bean.getBeanClass());
        BeanPropertyWriter id = null;
        for (BeanPropertyWriter writer : writers) {
            Encrypted encrypted = writer.getAnnotation(Encrypted.class);
            if (encrypted != null) {
                check(bean, writer);
                if (binding != null) {
                    binding.check(bean.getBeanClass(), writer.getName());
                    id = id != null ? id : id(bean, binding, writers);
                }
                changed.add(new EncryptedWriter(sealing, encrypted.role(), writer, binding, id));
            } else {
                changed.add(writer);
            }
        }
        return changed;
    }

    /** What writes the id of a class with {@link Bound}. */
    private static BeanPropertyWriter id(BeanDescription bean, RecordBinding binding, List<BeanPropertyWriter> writers) {
        for (BeanPropertyWriter writer : writers) {
            if (writer.getName().equals(binding.id())) {
                return writer;
            }
        }
        throw new IllegalArgumentException(binding.lacksId(bean.getBeanClass(), "written"));
    }

    /** The properties without those that the class ignores. An id that is declared not to be read is refused before anything is stored. */
    @Override
    public List<BeanPropertyWriter> orderProperties(SerializationConfig config, BeanDescription bean, List<BeanPropertyWriter> writers) {
        RecordBinding binding = RecordBinding.of(bean.getClassAnnotations(), bean.getBeanClass());
        if (binding != null && writers.stream().anyMatch(EncryptedWriter.class::isInstance)) {
            BeanPropertyWriter id = id(bean, binding, writers);
            boolean isReadOnly = config.getAnnotationIntrospector().findPropertyAccess(id.getMember()) == JsonProperty.Access.READ_ONLY;
            JsonIgnoreProperties.Value ignored = config.getDefaultPropertyIgnorals(bean.getBeanClass(), bean.getClassInfo());
            if (isReadOnly || ignored != null && ignored.findIgnoredForDeserialization().contains(binding.id())) {
                throw new IllegalArgumentException(binding.lacksId(bean.getBeanClass(), "read"));
            }
        }
        return writers;
    }

    private static void check(BeanDescription bean, BeanPropertyWriter writer) {
        String name = writer.getName();
        if (writer.isUnwrapping()) {
            throw Refusal.of(bean.getBeanClass(), name, Refusal.UNWRAPPED);
        }
        if (writer.getTypeSerializer() != null && writer.getTypeSerializer().getTypeInclusion() == JsonTypeInfo.As.EXTERNAL_PROPERTY) {
            throw Refusal.of(bean.getBeanClass(), name, Refusal.EXTERNAL);
        }
        ObjectIdInfo id = bean.getObjectIdInfo();
        if (id != null && id.getGeneratorType() == ObjectIdGenerators.PropertyGenerator.class && id.getPropertyName().hasSimpleName(name)) {
            throw Refusal.of(bean.getBeanClass(), name, "with an object id (@JsonIdentityInfo), which references repeat");
        }
        JsonTypeInfo info = bean.getClassAnnotations().get(JsonTypeInfo.class);
        if (info != null && info.use() != JsonTypeInfo.Id.NONE && info.use() != JsonTypeInfo.Id.DEDUCTION) {
            String property = info.property().isEmpty() ? info.use().getDefaultPropertyName() : info.property();
            if (name.equals(property) && (info.include() == JsonTypeInfo.As.EXISTING_PROPERTY
                    || info.include() == JsonTypeInfo.As.PROPERTY)) {
                throw Refusal.of(bean.getBeanClass(), name, "with a type id (@JsonTypeInfo), which is read before the value");
            }
        }
    }

    /** Serializers of other kinds do not know the annotation; other modules may have replaced a property. */
    @Override
    public JsonSerializer<?> modifySerializer(SerializationConfig config, BeanDescription bean, JsonSerializer<?> serializer) {
        if (serializer instanceof UnknownSerializer) {
            // The class has nothing to write.
            return serializer;
        }
        if (!(serializer instanceof BeanSerializerBase)) {
            Refusal.checkMembers(bean.getClassInfo(),
                    "with a serializer or @JsonValue of the class, which writes something other than its properties");
            return serializer;
        }
        checkFields(bean);
        for (Iterator<PropertyWriter> writers = serializer.properties(); writers.hasNext();) {
            PropertyWriter writer = writers.next();
            boolean isJacksons = writer.getClass().getName().startsWith("com.fasterxml.jackson.databind.");
            boolean isOther = !isJacksons && !(writer instanceof EncryptedWriter);
            if (isOther && writer.getAnnotation(Encrypted.class) != null) {
                throw Refusal.of(bean.getBeanClass(), writer.getName(), "with a module that replaces the property ("
                        + writer.getClass().getName() + ")");
            }
        }
        RecordBinding binding = RecordBinding.of(bean.getClassAnnotations(), bean.getBeanClass());
        return binding != null && serializer.getClass() == BeanSerializer.class
                ? new BoundSerializer((BeanSerializer) serializer, binding) : serializer;
    }

    /** A field's annotation must have reached its property: without INFER_PROPERTY_MUTATORS Jackson drops it where a getter exists. */
    private static void checkFields(BeanDescription bean) {
        for (BeanPropertyDefinition property : bean.findProperties()) {
            if (Reach.annotation(property) == null && Refusal.hasField(bean.getClassInfo(), property.getInternalName())) {
                throw Refusal.of(bean.getBeanClass(), property.getName(),
                        "with these settings of the mapper, which ignore the field; annotate the getter");
            }
        }
    }

    @Override
    public JsonSerializer<?> modifyEnumSerializer(SerializationConfig config, JavaType type, BeanDescription bean,
            JsonSerializer<?> serializer) {
        Refusal.checkMembers(bean.getClassInfo(), "in an enum");
        return serializer;
    }
}
