package io.leafseal.jackson;

import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * A class whose properties with {@link Encrypted} are bound to their record: each is encrypted symmetrically in the context
 * {@code MODEL/ID/PROPERTY}, and decrypted in the same one alone. An envelope that someone copies into another record or property does not open
 * there.
 *
 * <p>The id must be set when the value is written, and the document must contain it: Jackson must write and read it. A class whose id has
 * {@code @JsonIgnore} or {@code @JsonProperty(access = READ_ONLY)}, for example, is refused at its first use.
 */
@Inherited
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
public @interface Bound {
    /** The name of the kind of record, such as its table. It belongs to the stored values: do not change it with the class. No slash. */
    String model();

    /** The property with the record's id, by its name in the document: a string or an integer that is not encrypted. */
    String id() default "id";
}
