package io.leafseal.client;

import io.leafseal.client.Rules.Action;

/** Reads {@link Rules}. */
final class Decisions {
    private Decisions() {}

    /**
     * What is done about a call that failed.
     *
     * @param isSent whether at least a byte of the request was written
     * @param isElsewhere whether its connection is no longer usable, or another engine may serve what this one refused
     */
    static Action action(String event, String code, boolean isSent, boolean isElsewhere) {
        for (Rules.Outcome rule : Rules.OUTCOMES) {
            boolean isEvent = rule.event().equals(event) && isCode(rule.code(), code);
            if (isEvent && fits(rule.sent(), isSent) && fits(rule.elsewhere(), isElsewhere)) {
                return rule.action();
            }
        }
        return Action.FAIL;
    }

    /** The rule by which an engine is avoided after an event, or null. */
    static Rules.Avoid avoid(String event, String code) {
        for (Rules.Avoid rule : Rules.AVOID) {
            if (rule.event().equals(event) && isCode(rule.code(), code)) {
                return rule;
            }
        }
        return null;
    }

    /** Whether a success of a method shows that the engine serves requests. */
    static boolean earns(String method) {
        return !Rules.EARNED_EXCEPT.contains(method);
    }

    private static boolean isCode(String pattern, String code) {
        return pattern == null || pattern.equals("*") || pattern.equals(code);
    }

    private static boolean fits(Boolean condition, boolean is) {
        return condition == null || condition == is;
    }
}
