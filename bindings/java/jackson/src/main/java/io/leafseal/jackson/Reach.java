package io.leafseal.jackson;

import com.fasterxml.jackson.annotation.JsonTypeInfo;
import com.fasterxml.jackson.core.TreeNode;
import com.fasterxml.jackson.databind.BeanDescription;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.introspect.AnnotatedMember;
import com.fasterxml.jackson.databind.introspect.BeanPropertyDefinition;
import com.fasterxml.jackson.databind.util.LRUMap;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.BaseStream;
import java.util.stream.Stream;

/** Whether values of a type contain encrypted properties, by the types that are declared in it. */
final class Reach {
    /** Types whose answer is kept. */
    private static final int TYPES_MAX = 2000;

    private final LRUMap<JavaType, Answer> answers = new LRUMap<>(64, TYPES_MAX);

    /** In the order of what they hide: a type with parts of several answers has the last of these. */
    enum Answer {
        NO,
        /** A part of the type is declared as an interface, an abstract class or an object. */
        UNKNOWN,
        YES;

        private Answer or(Answer other) {
            return compareTo(other) >= 0 ? this : other;
        }
    }

    Answer of(JavaType type, Function<JavaType, BeanDescription> introspection) {
        Answer answer = answers.get(type);
        if (answer == null) {
            answer = new Search(introspection).find(type);
            answers.put(type, answer);
        }
        return answer;
    }

    private static final class Search {
        private final Function<JavaType, BeanDescription> introspection;
        private final Set<JavaType> seen = new HashSet<>();

        Search(Function<JavaType, BeanDescription> introspection) {
            this.introspection = introspection;
        }

        Answer find(JavaType type) {
            if (type == null || type.isPrimitive() || type.isEnumType() || !seen.add(type)) {
                return Answer.NO;
            }
            if (type.isContainerType() || type.isReferenceType()) {
                return find(type.getContentType());
            }
            Class<?> raw = type.getRawClass();
            if (TreeNode.class.isAssignableFrom(raw)) {
                return Answer.NO;
            }
            if (Stream.of(Iterator.class, Iterable.class, BaseStream.class, Map.Entry.class).anyMatch(open -> open.isAssignableFrom(raw))) {
                return Answer.UNKNOWN;
            }
            if (raw.getName().startsWith("java.")) {
                boolean isOpen = raw.isAssignableFrom(String.class) && raw != String.class && raw != CharSequence.class;
                return isOpen ? Answer.UNKNOWN : Answer.NO;
            }
            try {
                return members(introspection.apply(type));
            } catch (IllegalArgumentException error) {
                // A type that Jackson may never need, and may refuse.
                return Answer.UNKNOWN;
            }
        }

        private Answer members(BeanDescription bean) {
            boolean isOpen = bean.getType().isAbstract() || bean.getClassAnnotations().has(JsonTypeInfo.class)
                    || bean.findAnyGetter() != null || bean.findJsonValueAccessor() != null;
            Answer answer = isOpen ? Answer.UNKNOWN : Answer.NO;
            for (BeanPropertyDefinition property : bean.findProperties()) {
                answer = answer.or(annotation(property) != null ? Answer.YES : find(property.getPrimaryType()));
                if (answer == Answer.YES) {
                    break;
                }
            }
            return answer;
        }
    }

    /** The annotation of a property; null if it has none. Each of its members may have it, and Jackson merges them. */
    static Encrypted annotation(BeanPropertyDefinition property) {
        Stream<AnnotatedMember> members = Arrays.stream(new AnnotatedMember[] {
            property.getField(), property.getSetter(), property.getGetter(), property.getConstructorParameter()
        });
        return members.filter(Objects::nonNull).map(member -> member.getAnnotation(Encrypted.class)).filter(Objects::nonNull)
                .findFirst().orElse(null);
    }
}
