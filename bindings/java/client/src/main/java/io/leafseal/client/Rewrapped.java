package io.leafseal.client;

import java.util.List;

/**
 * Envelopes under the app's newest key version.
 *
 * @param envelopes as many as were passed, in the same order
 * @param count how many of them are new
 */
public record Rewrapped(List<String> envelopes, long count) {}
