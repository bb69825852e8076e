package io.leafseal.jackson;

import com.fasterxml.jackson.core.Version;
import com.fasterxml.jackson.databind.introspect.Annotated;
import com.fasterxml.jackson.databind.introspect.AnnotatedMember;
import com.fasterxml.jackson.databind.introspect.NopAnnotationIntrospector;

/** Gives properties with {@link Encrypted} their serializer and deserializer, wherever Jackson finds the annotation. */
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
    public Object findSerializer(Annotated annotated) {
        Encrypted encrypted = annotation(annotated);
        return encrypted == null ? null : new EncryptedSerializer(sealing, encrypted.role(), null, null);
    }

    @Override
    public Object findDeserializer(Annotated annotated) {
        Encrypted encrypted = annotation(annotated);
        return encrypted == null ? null : new EncryptedDeserializer(sealing, encrypted.role(), null, null);
    }

    private static Encrypted annotation(Annotated annotated) {
        return annotated instanceof AnnotatedMember ? annotated.getAnnotation(Encrypted.class) : null;
    }
}
