package io.leafseal.client;

import java.util.List;
import java.util.Optional;

/**
 * The permissions of an API key.
 *
 * @param keyId identifies the key in lists, logs and requests on its behalf; not secret
 * @param app the one app that the key is for
 * @param operations of {@code encrypt}, {@code decrypt}, {@code inspect}, {@code client-side-tokens}; ignore others
 * @param roles the data roles that it may decrypt; every role if absent
 */
public record ApiKey(String keyId, String app, List<String> operations, Optional<List<String>> roles) {}
