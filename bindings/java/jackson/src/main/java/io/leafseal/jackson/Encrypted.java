package io.leafseal.jackson;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * A property whose value is encrypted on serialisation and decrypted on deserialisation by {@link LeafsealModule}.
 *
 * <p>The value may have any type: every scalar of its JSON form becomes an envelope, and null stays null. Mappers without the module ignore
 * the annotation.
 */
@Target({ElementType.FIELD, ElementType.METHOD, ElementType.PARAMETER, ElementType.RECORD_COMPONENT})
@Retention(RetentionPolicy.RUNTIME)
public @interface Encrypted {
    /**
     * The data role that is written into the envelopes, and that they must carry on deserialisation: 1 to 20 characters of {@code a-z0-9-}.
     * Default: none is written, and any is accepted.
     */
    String role() default "";
}
