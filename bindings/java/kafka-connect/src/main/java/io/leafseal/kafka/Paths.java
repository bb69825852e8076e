package io.leafseal.kafka;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigException;

/**
 * The selected fields as a tree. A path names fields from the root, separated by dots; `*` stands for all fields or keys, `\.` for a dot in a
 * name. Arrays are entered: a path applies to each element. The path `.` is the whole key or value. Selecting a container selects every
 * scalar in it.
 */
final class Paths {
    private static final String ALL = "*";

    private final Map<String, Paths> children = new LinkedHashMap<>();
    private boolean isSelected;

    private Paths() {}

    /** Everything below is selected. */
    boolean isSelected() {
        return isSelected;
    }

    /** The selected names; not `*`. */
    Iterable<String> names() {
        return children.keySet().stream().filter(name -> !name.equals(ALL))::iterator;
    }

    boolean isEmpty() {
        return !isSelected && children.isEmpty();
    }

    /** The selection below a field; null if there is none. */
    Paths child(String name) {
        if (isSelected) {
            return this;
        }
        Paths own = children.get(name);
        Paths all = children.get(ALL);
        return own == null ? all : all == null ? own : union(own, all);
    }

    static Paths parse(List<String> paths) {
        Paths root = new Paths();
        for (String path : paths) {
            root.add(path.equals(".") ? List.of() : segments(path));
        }
        return root;
    }

    private void add(List<String> segments) {
        Paths node = this;
        for (String segment : segments) {
            node = node.children.computeIfAbsent(segment, name -> new Paths());
        }
        node.isSelected = true;
    }

    private static Paths union(Paths first, Paths second) {
        Paths both = new Paths();
        both.isSelected = first.isSelected || second.isSelected;
        both.children.putAll(first.children);
        second.children.forEach((name, child) -> both.children.merge(name, child, Paths::union));
        return both;
    }

    private static List<String> segments(String path) {
        List<String> segments = new ArrayList<>();
        StringBuilder segment = new StringBuilder();
        for (int index = 0; index <= path.length(); index++) {
            char unit = index < path.length() ? path.charAt(index) : '.';
            if (unit == '\\' && index + 1 < path.length() && (path.charAt(index + 1) == '.' || path.charAt(index + 1) == '\\')) {
                segment.append(path.charAt(++index));
            } else if (unit == '.') {
                if (segment.isEmpty()) {
                    throw new ConfigException("fields", path, "a path is NAME.NAME, with \\. for a dot in a name, or . for the whole value");
                }
                segments.add(segment.toString());
                segment.setLength(0);
            } else {
                segment.append(unit);
            }
        }
        return segments;
    }
}
