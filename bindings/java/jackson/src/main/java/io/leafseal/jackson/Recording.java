package io.leafseal.jackson;

import java.io.IOException;

/** A generator that gathers the encrypted properties of a root value. */
interface Recording {
    /** The module that the values are encrypted for. */
    Sealing sealing();

    Sealing.Batch batch();

    /** Takes the place of a property, with its name, or of an element. */
    void put(Sealing.Slot slot) throws IOException;

    /** Has the engine encrypt, and writes everything to the document. */
    void finish() throws IOException;

    /** Forgets the values after a failure. */
    void abandon();
}
