/** The Leafseal provider of the Java Cryptography Architecture. */
module io.leafseal.jca {
    exports io.leafseal.jca;

    provides java.security.Provider with io.leafseal.jca.LeafsealProvider;
}
