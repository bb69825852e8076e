/** The Fieldseal provider of the Java Cryptography Architecture. */
module io.fieldseal.jca {
    exports io.fieldseal.jca;

    provides java.security.Provider with io.fieldseal.jca.FieldsealProvider;
}
