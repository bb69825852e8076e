package io.leafseal.jackson;

import com.fasterxml.jackson.databind.introspect.Annotated;
import com.fasterxml.jackson.databind.introspect.AnnotatedClass;
import com.fasterxml.jackson.databind.introspect.AnnotatedField;
import com.fasterxml.jackson.databind.introspect.AnnotatedMember;
import com.fasterxml.jackson.databind.introspect.AnnotatedMethod;
import java.lang.reflect.Modifier;

/** Errors for annotations that could not have their effect. Jackson reports them as invalid definitions. */
final class Refusal {
    static final String UNWRAPPED = "with @JsonUnwrapped; annotate the properties of its type instead";
    static final String EXTERNAL = "with EXTERNAL_PROPERTY, whose type id is outside of the value; use another inclusion";

    private Refusal() {}

    static IllegalArgumentException of(Class<?> owner, String name, String other) {
        return new IllegalArgumentException("@Encrypted on " + owner.getName() + "." + name + " cannot be combined " + other);
    }

    static IllegalArgumentException of(AnnotatedMember member, String other) {
        return of(member.getDeclaringClass(), member.getName(), other);
    }

    static void check(Annotated annotated, String other) {
        if (annotated instanceof AnnotatedMember member && member.hasAnnotation(Encrypted.class)) {
            throw of(member, other);
        }
    }

    /** Refuses a class with annotated members. */
    static void checkMembers(AnnotatedClass type, String other) {
        AnnotatedMember member = member(type);
        if (member != null) {
            throw of(member, other);
        }
    }

    /** Whether a class has an annotated field of this name. */
    static boolean hasField(AnnotatedClass type, String name) {
        for (AnnotatedField field : type.fields()) {
            if (field.getName().equals(name) && field.hasAnnotation(Encrypted.class)) {
                return true;
            }
        }
        return false;
    }

    private static AnnotatedMember member(AnnotatedClass type) {
        if (type == null || type.getRawType().getName().startsWith("java.")) {
            return null;
        }
        for (AnnotatedField field : type.fields()) {
            if (field.hasAnnotation(Encrypted.class) && !Modifier.isStatic(field.getAnnotated().getModifiers())) {
                return field;
            }
        }
        for (AnnotatedMethod method : type.memberMethods()) {
            if (method.hasAnnotation(Encrypted.class)) {
                return method;
            }
        }
        return null;
    }
}
