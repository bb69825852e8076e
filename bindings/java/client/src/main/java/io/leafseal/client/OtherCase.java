package io.leafseal.client;

/** The action for a member of a document whose name differs from a selector's only in case. */
public enum OtherCase {
    /** The call fails with {@code ambiguous_name}. */
    REFUSE("refuse"),
    /** The member is selected, too. */
    SAME("same"),
    /** It is another member. */
    OTHER("other");

    final String word;

    OtherCase(String word) {
        this.word = word;
    }
}
